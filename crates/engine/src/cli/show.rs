//! `sweep show`.

use std::{collections::BTreeMap, path::Path};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use sweep_job::{Failure, Task, TaskSpec as _, tasks::Command};

use super::{
    answer::{self, FormatArgs, answer},
    note, print,
    runs::{self, Unfinished},
};
use crate::{
    analysis::about,
    error::{Error, Exit},
    format::{clean, count, duration, measured},
    host,
    plan::command,
    progress::{describe, span},
    record::{ReadSet, Record},
    render::page::tail,
    run::RunEvent,
    store::{Notes, Origin, Store},
    variant,
};

/// Maximum number of observed files that a list has.
const LISTED_FILES: usize = 20;

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The job: its step and point, or a prefix of its key.
    job: String,
    #[command(flatten)]
    format: FormatArgs,
}

pub(super) fn show(results: &Path, args: &ShowArgs) -> Result<Exit, Error> {
    let store = Store::open(results)?;
    let result = runs::find_record(&store, &args.job);
    // A record with another key belongs to an earlier version of the job, and does not show the outcome of the present one.
    let is_key = result.is_ok() && runs::is_key_prefix(&args.job);
    let unfinished_job = if is_key { None } else { runs::find_unfinished(results, &store, &args.job) };
    let unfinished_job = unfinished_job.filter(|unfinished_job| {
        result.as_ref().is_ok_and(|record| record.provenance.started < unfinished_job.snapshot.manifest.at)
            || result.is_err()
    });
    if let Some(unfinished_job) = unfinished_job {
        if args.format.is_json() {
            answer(&without_record_json(&unfinished_job), after_failure(results, &unfinished_job))?;
        } else {
            print(&without_record(&unfinished_job))?;
        }
        return Ok(Exit::Done);
    }
    let record = result?;
    let origin = store.origin(record.key);
    let notes = store.notes(record.key).map_err(Error::io("cannot read the notes"))?;
    let observed = store.listed_manifests().read_by(record.read.as_deref(), &record.identity, record.key);
    if args.format.is_json() {
        let log = runs::find_job(results, None, &record.key.to_string()).ok();
        let log = log.map(|_| answer::line(results, ["logs", &record.key.short()]));
        let notes = Some(&notes).filter(|notes| !notes.is_empty());
        let observed = observed.as_deref().map(|observed| json!({ "files": observed.files, "own": observed.own }));
        answer(&Shown { record: &record, origin: origin.as_ref(), notes, observed }, log.into_iter().collect())?;
    } else {
        let decisions = store.all_decisions().map_err(Error::io("cannot read the decisions"))?;
        let mut decisions: Vec<String> =
            decisions.iter().filter_map(|(_, decision)| about(decision, record.key)).collect();
        decisions.sort();
        let is_observed = record.read.is_some() || observed.is_some();
        let mut text = text(&record, is_observed, origin.as_ref(), &store.folder(record.key), decisions);
        text.push_str(&observed.map_or_else(String::new, |observed| observed_files(&observed)));
        let notes: String = note::lines(&notes).into_iter().map(|line| line + "\n").collect();
        print(&(text + &notes))?;
    }
    Ok(Exit::Done)
}

/// The commands that show the output of a job without a record, and that run it again.
fn after_failure(results: &Path, unfinished_job: &Unfinished) -> Vec<String> {
    let Unfinished { folder, snapshot, index } = unfinished_job;
    let job = &snapshot.manifest.jobs[*index];
    answer::log(results, folder, job).into_iter().chain(answer::rerun(results, snapshot, job)).collect()
}

/// The attempts at a job that failed, by their numbers.
fn attempts(unfinished_job: &Unfinished) -> Vec<(u32, Failure)> {
    let key = unfinished_job.snapshot.manifest.jobs[unfinished_job.index].key;
    let (mut attempt, mut failures) = (0, Vec::new());
    for line in unfinished_job.folder.events().unwrap_or_default().into_iter().filter(|line| line.key == Some(key)) {
        match line.event {
            RunEvent::Started { attempt: number, .. } => attempt = number,
            RunEvent::Retrying { attempt, failure, .. } => failures.push((attempt, failure)),
            RunEvent::Failed { failure, .. } => failures.push((attempt, failure)),
            _ => {}
        }
    }
    failures
}

fn without_record(unfinished_job: &Unfinished) -> String {
    let Unfinished { folder, snapshot, index } = unfinished_job;
    let (job, now) = (&snapshot.manifest.jobs[*index], host::clock::now());
    let (word, description) = describe(snapshot, *index, now);
    let mut lines = vec![
        format!("{} · no record, its key is {}", job.label, job.key.short()),
        format!("  {word} {description}").trim_end().to_owned(),
        format!("  in run {}, which began {} ago", folder.name(), span(now, snapshot.manifest.at)),
    ];
    let failures = attempts(unfinished_job);
    section(&mut lines, "attempts", failures.iter().map(|(attempt, failure)| format!("{attempt}: {failure}")));
    if !snapshot.manifest.typed.is_empty() {
        let command = command(&snapshot.manifest.typed, &job.label);
        section(&mut lines, "run it again with", std::iter::once(command));
    }
    let log = tail(&folder.log(job.key));
    if let Some(log) = &log {
        lines.push(format!("{} {}", if log.whole { "log" } else { "the end of the log" }, log.path));
    }
    let lines: Vec<String> = lines.iter().map(|line| clean(line).into_owned()).collect();
    let mut text = lines.join("\n") + "\n";
    for line in log.iter().flat_map(|log| log.text.lines()) {
        text.extend(["  ", line, "\n"]);
    }
    text
}

fn without_record_json(unfinished_job: &Unfinished) -> serde_json::Value {
    let Unfinished { folder, snapshot, index } = unfinished_job;
    let job = &snapshot.manifest.jobs[*index];
    let (word, description) = describe(snapshot, *index, host::clock::now());
    let attempts = attempts(unfinished_job)
        .into_iter()
        .map(|(attempt, failure)| json!({ "attempt": attempt, "failure": failure }));
    let log = folder.log(job.key);
    json!({
        "job": job.label,
        "key": job.key,
        "run": folder.name(),
        "state": word,
        "says": description,
        "attempts": attempts.collect::<Vec<_>>(),
        "log": log.is_file().then_some(log),
        "command": (!snapshot.manifest.typed.is_empty()).then(|| command(&snapshot.manifest.typed, &job.label)),
    })
}

/// A record, and beside it where it came from.
#[derive(Serialize)]
struct Shown<'r> {
    #[serde(flatten)]
    record: &'r Record,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'r Origin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<&'r Notes>,
    /// The files that the job was observed to read, and those that it changed itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<serde_json::Value>,
}

/// The files that a job was observed to read, with their digests, and those of them that it changed itself.
fn observed_files(observed: &ReadSet) -> String {
    let mut lines = Vec::new();
    let listed = |mut entries: Vec<String>| {
        let remainder = entries.len().saturating_sub(LISTED_FILES);
        entries.truncate(LISTED_FILES);
        entries.extend((remainder > 0).then(|| format!("… and {}", count(remainder, "other file"))));
        entries
    };
    let files = observed.files.iter().map(|(name, file)| format!("{name}: {}", file.digest));
    section(&mut lines, "files read", listed(files.collect()).into_iter());
    let own = observed.own.left.iter().map(|(name, state)| format!("{name}: {state}"));
    section(&mut lines, "files read and written", listed(own.collect()).into_iter());
    lines.iter().map(|line| clean(line).into_owned() + "\n").collect()
}

fn text(record: &Record, is_observed: bool, origin: Option<&Origin>, folder: &Path, decisions: Vec<String>) -> String {
    let provenance = &record.provenance;
    let device = provenance.device.as_ref().map_or_else(String::new, |device| format!(", {}", device.name));
    let (started, seconds) = (provenance.started.strftime("%Y-%m-%d %H:%M UTC"), duration(provenance.seconds));
    let made = match record.imported() {
        Some(source) => format!("imported from {source}; `sweep` did not run it. Began {started}, took {seconds}"),
        None => format!(
            "made {started} on {}{device} by sweep {}, in {seconds} with {}",
            provenance.host,
            provenance.sweep,
            count(provenance.threads, "thread"),
        ),
    };
    let mut lines = vec![
        format!("{} · record {}", record.label, record.key.short()),
        format!("  {made}"),
        format!("  in {}", folder.display()),
    ];
    lines.extend(provenance.sources().into_iter().map(|sentence| format!("  {sentence}")));
    // The lines above describe the machine of origin.
    lines.extend(origin.map(|origin| format!("  from {origin}")));
    if record.identity.task == Command::NAME && !is_observed {
        lines.push(
            "  not observed: the files that the program reads; only `inputs` decide when it runs again".to_owned(),
        );
    }
    lines.push(format!("task {}", record.identity.task));
    let task = Task::info(&record.identity.task);
    for (name, value) in &record.params {
        let default = task.and_then(|task| task.param(name)).is_some_and(|param| (param.default)() == *value);
        if !default {
            lines.push(format!("  {name}: {value}"));
        }
    }
    let changes = variant::changes(&record.params).unwrap_or_default();
    section(&mut lines, "changes of the code", changes.lines().map(str::to_owned));
    let outcome = &record.outcome;
    section(
        &mut lines,
        "metrics",
        outcome.metrics.iter().map(|(name, metric)| format!("{name}: {}", measured(name, *metric))),
    );
    // A metric that could not be measured has its reason as a fact; many have the same one.
    let mut absent_metrics: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut facts = Vec::new();
    for (name, fact) in &outcome.facts {
        match name.strip_prefix("absent.") {
            Some(metric) => absent_metrics.entry(fact.clone()).or_default().push(metric),
            None => facts.push(format!("{name}: {fact}")),
        }
    }
    section(&mut lines, "facts", facts.into_iter());
    let absent_metrics =
        absent_metrics.into_iter().map(|(reason, metrics)| format!("{}: {reason}", metrics.join(", ")));
    section(&mut lines, "not measured", absent_metrics);
    section(&mut lines, "notices", provenance.notices.iter().cloned());
    let conditions = provenance.conditions.iter().flat_map(|conditions| conditions.facts());
    section(&mut lines, "conditions", conditions.map(|(name, value)| format!("{name}: {value}")));
    section(
        &mut lines,
        "curves",
        outcome.curves.iter().map(|(name, curve)| format!("{name}: {}", count(curve.values.len(), "value"))),
    );
    section(&mut lines, "artifacts", outcome.artifacts.iter().map(|(name, path)| format!("{name}: files/{path}")));
    section(&mut lines, "decisions", decisions.into_iter());
    section(&mut lines, "files", record.files.iter().map(|(name, digest)| format!("{name}: {digest}")));
    let lines: Vec<String> = lines.iter().map(|line| clean(line).into_owned()).collect();
    lines.join("\n") + "\n"
}

fn section(lines: &mut Vec<String>, title: &str, entries: impl Iterator<Item = String>) {
    let mut entries = entries.peekable();
    if entries.peek().is_some() {
        lines.push(title.to_owned());
        lines.extend(entries.map(|entry| format!("  {entry}")));
    }
}

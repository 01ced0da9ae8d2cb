//! `sweep diff`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use clap::Args;
use sweep_job::{Unit, Values};

use super::{
    ChangeArgs, Prepared,
    answer::{FormatArgs, answer},
    print, runs,
};
use crate::{
    analysis::{State, Verdict, judge},
    error::{Error, Exit},
    format::{clean, count},
    plan::Plan,
    query::{
        changed::{Change, Lines},
        diff::{Difference, MetricChange, Shown, Side},
    },
    record::ReadFile,
    store::{Measured, Store},
};

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// A recipe or a sweep file, a run's name, a folder of results, or the beginning of a record's key.
    first: String,
    /// The other side, in the same forms.
    second: String,
    #[command(flatten)]
    changes: ChangeArgs,
    /// Recipe whose claims are evaluated on the records of both sides.
    #[arg(long, value_name = "RECIPE")]
    claims: Option<PathBuf>,
    /// Show every metric that differs, not only the headline metrics and significant differences, every part of the
    /// environment that differs, and more changed lines of each file.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// Largest number of differences between environments in the output without `--all`; JSON has all of them.
const MAX_PARTS: usize = 20;
/// Largest number of names of a kind in the output; JSON has all of them.
const MAX_NAMES: usize = 10;
/// Most lines of a file's difference in the output without `--all`.
const MAX_LINES: usize = 40;

pub(super) fn diff(results: &Path, args: &DiffArgs) -> Result<Exit, Error> {
    let claims = match &args.claims {
        Some(path) => Some(args.changes.prepare(results, std::slice::from_ref(path), &[], false)?.plan),
        None => None,
    };
    let sides = [&args.first, &args.second].map(|name| side(results, name, &args.changes, claims.as_deref()));
    let [first, second] = sides;
    let (first, mut second) = (first?, second?);
    second.pair_with(&first);
    let difference = Difference::new(&first, &second);
    if args.format.is_json() {
        answer(&difference, Vec::new())?;
    } else {
        print(&text(&difference, args.all))?;
    }
    Ok(Exit::Done)
}

/// Resolves a name that the user gave.
fn side(results: &Path, name: &str, changes: &ChangeArgs, claims: Option<&Plan>) -> Result<Side, Error> {
    let path = Path::new(name);
    let read_error = || Error::io("cannot read the store");
    if path.is_file() {
        let Prepared { plan, .. } = changes.prepare(results, &[path.to_owned()], &[], false)?;
        let store = Store::open(results)?;
        let mut side = Side::new(name.to_owned());
        for (_, job) in plan.jobs() {
            let record = store.get(job.key)?;
            let planned = (Some(job.identity.clone()), job.values.clone());
            let label = job.label.to_string();
            side.add(label.clone(), job.key, planned, record, &store);
            let files = job.code.iter().flat_map(|code| &code.files);
            let files = files.map(|file| (file.path.clone(), ReadFile { digest: file.digest.clone(), by: None }));
            side.add_code(&label, files.collect());
        }
        side.times = times(&plan);
        side.verdicts = verdicts(claims.unwrap_or(&plan), &side);
        return Ok(side);
    }
    let mut side = Side::new(name.to_owned());
    if path.join("store").is_dir() {
        let store = Store::open(path)?;
        let mut entries = store.index().map_err(read_error())?;
        // If several records have the same name, the latest counts.
        entries.sort_by_key(|entry| entry.started);
        for entry in entries {
            let record = store.get(entry.key)?;
            side.add(entry.label, entry.key, (Some(entry.identity), Values::new()), record, &store);
        }
    } else {
        let store = Store::open(results)?;
        let run = match runs::find(results, Some(name)) {
            Err(_)
                if runs::is_key_prefix(name)
                    && let Ok(record) = runs::find_record(&store, name) =>
            {
                return Ok(Side::of_record(name.to_owned(), record, &store));
            }
            run => run?,
        };
        let manifest = run.manifest().map_err(Error::io("cannot read the run's plan"))?;
        side = Side::of_run(name.to_owned(), manifest, &store)?;
    }
    if let Some(plan) = claims {
        side.times = times(plan);
        side.verdicts = verdicts(plan, &side);
    }
    Ok(side)
}

/// The metrics that a plan's recipes declare as times or rates.
fn times(plan: &Plan) -> BTreeSet<String> {
    let rules = plan.studies.iter().flat_map(|study| &study.recipe.rules);
    rules.filter(|rule| rule.unit.is_some_and(Unit::is_timing)).map(|rule| rule.name.value.clone()).collect()
}

/// The verdicts on a plan's claims by a side's records, which are found by their names.
fn verdicts(plan: &Plan, side: &Side) -> Vec<Verdict> {
    let jobs = plan.jobs().filter_map(|(id, job)| Some((id, side.jobs.get(&job.label.to_string())?)));
    let records = jobs.filter_map(|(id, job)| Some((id, Measured::from(job.record.as_ref()?)))).collect();
    plan.studies.iter().flat_map(|study| judge(study, &records)).collect()
}

fn text(difference: &Difference, shows_all: bool) -> String {
    let Difference { sides, shared, same, only, params, metrics, claims, environment } = difference;
    let mut lines = vec![format!("A  {}", clean(&sides[0])), format!("B  {}", clean(&sides[1]))];
    lines.push(format!("jobs: {shared} in both, of which {same} the same"));
    for (names, side) in only.iter().zip(["A", "B"]).filter(|(names, _)| !names.is_empty()) {
        lines.push(format!("  only in {side}: {}", list(names)));
    }
    if difference.is_empty() {
        lines.push("nothing differs".to_owned());
    }
    if !params.is_empty() {
        lines.push("parameters and code".to_owned());
        lines.extend(params.iter().flat_map(|change| changed(change, shows_all)));
    }
    let is_shown = |change: &&MetricChange| shows_all || change.headline || change.significant == Some(true);
    section(&mut lines, "metrics, B − A", metrics.iter().filter(is_shown).map(metric));
    let reasons = MetricChange::unlike(metrics.iter().filter(is_shown)).into_iter();
    lines.extend(reasons.map(|reason| format!("  not judged: {}", clean(reason))));
    let hidden_count = metrics.iter().filter(|change| !is_shown(change)).count();
    if hidden_count > 0 {
        lines.push(format!(
            "  {} more, not significant or not judged; --all shows them",
            count(hidden_count, "difference")
        ));
    }
    section(
        &mut lines,
        "claims",
        claims.iter().map(|change| {
            let state = |state: Option<State>| state.map_or("not claimed", State::word);
            let reason = change.because.iter().rev().find(|reason| !reason.is_empty()).cloned().unwrap_or_default();
            format!("{}: {} → {}: {reason}", change.claim, state(change.states[0]), state(change.states[1]))
        }),
    );
    section(
        &mut lines,
        "environment",
        environment
            .iter()
            .take(if shows_all { usize::MAX } else { MAX_PARTS })
            .map(|(name, [before, after])| format!("{name}: {} → {}", before.join(", "), after.join(", "))),
    );
    if !shows_all && environment.len() > MAX_PARTS {
        lines.push(format!("  {} more; --all shows them", count(environment.len() - MAX_PARTS, "difference")));
    }
    lines.join("\n") + "\n"
}

/// A change in the words of `sweep explain`, and the lines of a file that differ.
fn changed(change: &Change, shows_all: bool) -> Vec<String> {
    let Change { what, values: [before, after], jobs, lines } = change;
    let (what, jobs) = (clean(what), list(jobs));
    let head = if change.is_content() {
        format!("  {what} changed in {}", clean(&jobs))
    } else {
        format!("  {what}: {} → {} in {}", clean(before), clean(after), clean(&jobs))
    };
    let mut text = vec![head];
    if let Some(Lines { shown, left_out, unknown }) = lines {
        let number = if shows_all { shown.len() } else { shown.len().min(MAX_LINES) };
        text.extend(shown[..number].iter().map(|line| format!("    {line}").trim_end().to_owned()));
        let hidden = shown.len() - number + left_out;
        if hidden > 0 {
            let remedy = if number < shown.len() { "; --all shows more" } else { "" };
            text.push(format!("    {} more{remedy}", count(hidden, "line")));
        }
        text.extend(unknown.iter().map(|reason| format!("    its lines are not known: {reason}")));
    }
    text
}

fn metric(change: &MetricChange) -> String {
    let Shown { means: [before, after], unit, difference, chance } = change.shown();
    let noise = if change.is_noise() { "≈ " } else { "" };
    format!("{}  {}: {before} → {after}{unit}, {noise}{difference} ({chance})", change.group, change.metric)
}

fn list(names: &[String]) -> String {
    let mut parts: Vec<String> = names.iter().take(MAX_NAMES).cloned().collect();
    if names.len() > MAX_NAMES {
        parts.push(format!("and {} more", names.len() - MAX_NAMES));
    }
    parts.join("; ")
}

fn section(lines: &mut Vec<String>, title: &str, entries: impl Iterator<Item = String>) {
    let mut entries = entries.peekable();
    if entries.peek().is_some() {
        lines.push(title.to_owned());
        lines.extend(entries.map(|entry| format!("  {}", clean(&entry))));
    }
}

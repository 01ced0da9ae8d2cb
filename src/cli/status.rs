//! `sweep status`.

use std::path::Path;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::json;

use super::{print, runs};
use crate::{
    error::{Error, Exit},
    fault,
    run::watch::{Snapshot, State},
    text::{clean, count},
    ui::duration,
};

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// A run, by its folder's name; the latest if left out.
    run: Option<String>,
    /// List every job, the cached and the finished ones too.
    #[arg(long)]
    all: bool,
    /// How to print it.
    #[arg(long, value_enum, default_value = "text")]
    format: StatusFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatusFormat {
    Text,
    Json,
}

/// So many waiting jobs are listed; the others are counted.
const SHOWN: usize = 20;

pub(super) fn status(results: &Path, args: &StatusArgs) -> Result<Exit, Error> {
    let folder = runs::find(results, args.run.as_deref())?;
    let snapshot = Snapshot::read(&folder).map_err(Error::io("cannot read the run"))?;
    let text = match args.format {
        StatusFormat::Text => text(&folder.name(), &snapshot, args.all),
        StatusFormat::Json => json(&folder.name(), &snapshot),
    };
    print(&text)?;
    Ok(Exit::Done)
}

fn text(name: &str, snapshot: &Snapshot, all: bool) -> String {
    let now = fault::now();
    let begun = span(now, snapshot.manifest.at);
    let how = match (&snapshot.summary, snapshot.live) {
        (_, true) if snapshot.stopping => format!("live, stopping, since {begun}"),
        (_, true) => format!("live since {begun}"),
        (Some(summary), false) => {
            let end = if summary.interrupted.is_some() { "interrupted" } else { "ended" };
            format!("{end} {} ago after {}", span(now, snapshot.last), duration(summary.seconds))
        }
        (None, false) if snapshot.elsewhere => {
            format!("in Slurm since {begun}; nobody waits for it here, the same command does so again")
        }
        (None, false) => {
            format!("its engine was killed, {} ago; run the recipe again to go on", span(now, snapshot.last))
        }
    };
    let mut lines = vec![format!("{} · run {name} · {how}", clean(&snapshot.manifest.recipe)), counts(snapshot)];
    let mut hidden = 0;
    let mut waiting = 0;
    for (job, state) in snapshot.manifest.jobs.iter().zip(&snapshot.jobs) {
        let quiet = matches!(state, State::NotSelected | State::Cached | State::Done { .. });
        waiting += usize::from(is_idle(state));
        if !all && (quiet || (waiting > SHOWN && is_idle(state))) {
            hidden += usize::from(!quiet);
            continue;
        }
        let (word, rest) = describe(snapshot, state, now);
        let line = format!("  {word:<8} {}  {rest}", clean(&job.label));
        lines.push(line.trim_end().to_owned());
    }
    if hidden > 0 {
        lines.push(format!("  … and {}; --all lists them", count(hidden, "other job")));
    }
    lines.join("\n") + "\n"
}

fn is_idle(state: &State) -> bool {
    matches!(state, State::Waiting(_) | State::Queued { .. } | State::Skipped(_) | State::Lost)
}

fn counts(snapshot: &Snapshot) -> String {
    let count_of = |word: &str| snapshot.jobs.iter().filter(|state| state.word() == word).count();
    let words = ["cached", "done", "running", "retrying", "waiting", "failed", "skipped", "lost"];
    let parts = words.iter().map(|word| (count_of(word), word)).filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, word)| format!("{number} {word}")).collect();
    let selected = snapshot.jobs.iter().filter(|state| **state != State::NotSelected).count();
    format!("{}: {}", count(selected, "job"), parts.join(", "))
}

/// A job's state as a word, and what there is to say of it.
fn describe(snapshot: &Snapshot, state: &State, now: Timestamp) -> (&'static str, String) {
    let label = |job: &usize| snapshot.manifest.jobs.get(*job).map_or("", |job| job.label.as_str());
    let rest = match state {
        State::NotSelected | State::Cached => String::new(),
        State::Waiting(reason) => clean(reason).into_owned(),
        State::Queued { id, reason } if reason.is_empty() => format!("job {id} in Slurm"),
        State::Queued { id, reason } => format!("job {id} in Slurm: {}", clean(reason)),
        State::Running { since, attempt, gpus, progress } => {
            let mut parts = vec![span(now, *since)];
            if *attempt > 1 {
                parts.push(format!("attempt {attempt}"));
            }
            if !gpus.is_empty() {
                let gpus: Vec<String> = gpus.iter().map(ToString::to_string).collect();
                parts.push(format!("GPU {}", gpus.join(", ")));
            }
            if let Some(progress) = progress {
                parts.push(format!("{}/{}", progress.done, progress.total));
                parts.extend(progress.loss.map(|loss| format!("loss {loss:.2}")));
            }
            parts.join("  ")
        }
        State::Storing => "its result is being stored".to_owned(),
        State::Elsewhere => "another sweep runs it".to_owned(),
        State::Retrying { failure, at } => {
            format!("again in {}: {}", span(*at, now), clean(&failure.message))
        }
        State::Done { seconds } => seconds.map_or_else(|| "by another sweep".to_owned(), duration),
        State::Failed { seconds, failure, tolerated } => {
            let allowed = if *tolerated { " (allowed)" } else { "" };
            format!("after {}{allowed}: {}", duration(*seconds), clean(&failure.message))
        }
        State::Skipped(Some(job)) => format!("needs {}", clean(label(job))),
        State::Skipped(None) => "the run was stopped".to_owned(),
        State::Lost => "the engine was killed before it was done".to_owned(),
    };
    (state.word(), rest)
}

/// The time from one moment to a later one; nothing if a clock was set back meanwhile.
fn span(later: Timestamp, earlier: Timestamp) -> String {
    duration(later.duration_since(earlier).as_secs_f64().max(0.0))
}

fn json(name: &str, snapshot: &Snapshot) -> String {
    let now = fault::now();
    let jobs = snapshot.manifest.jobs.iter().zip(&snapshot.jobs);
    let jobs = jobs.filter(|(_, state)| **state != State::NotSelected).map(|(job, state)| {
        let (word, rest) = describe(snapshot, state, now);
        json!({ "job": job.label, "key": job.key, "state": word, "says": rest })
    });
    let value = json!({
        "run": name,
        "recipe": snapshot.manifest.recipe,
        "begun": snapshot.manifest.at,
        "live": snapshot.live,
        "in_slurm": snapshot.elsewhere,
        "stopping": snapshot.stopping,
        "summary": snapshot.summary,
        "jobs": jobs.collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

//! `sweep status`.

use std::path::Path;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::{print, runs};
use crate::{
    error::{Error, Exit},
    format::{clean, count, duration},
    host,
    progress::{counts, describe, span},
    run::watch::{Snapshot, State},
};

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// A run, by its folder's name. Default: the latest run.
    run: Option<String>,
    /// List every job, including cached and finished ones.
    #[arg(long)]
    all: bool,
    /// Output format.
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
    let now = host::clock::now();
    let begun = span(now, snapshot.manifest.at);
    let how = match (&snapshot.summary, snapshot.live) {
        (_, true) if snapshot.stopping => format!("live, stopping, since {begun}"),
        (_, true) => format!("live since {begun}"),
        (Some(summary), false) => {
            let end = if summary.interrupted.is_some() { "interrupted" } else { "ended" };
            format!("{end} {} ago after {}", span(now, snapshot.last), duration(summary.seconds))
        }
        (None, false) if snapshot.elsewhere => {
            format!("in the queue since {begun}; run the same command again to wait for it")
        }
        (None, false) => {
            format!("its engine was killed, {} ago; run the recipe again to continue", span(now, snapshot.last))
        }
    };
    let mut lines = vec![format!("{} · run {name} · {how}", clean(&snapshot.manifest.recipe)), counts(snapshot)];
    let mut hidden = 0;
    let mut waiting = 0;
    for (job, state) in snapshot.manifest.jobs.iter().zip(&snapshot.jobs) {
        let quiet = !state.is_selected() || matches!(state, State::Cached | State::Done { .. });
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

fn json(name: &str, snapshot: &Snapshot) -> String {
    let now = host::clock::now();
    let jobs = snapshot.manifest.jobs.iter().zip(&snapshot.jobs);
    let jobs = jobs.filter(|(_, state)| state.is_selected()).map(|(job, state)| {
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

//! `sweep status`.

use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use sweep_job::Live;

use super::{
    answer::{FormatArgs, after_run, answer},
    print, runs,
};
use crate::{
    error::{Error, Exit},
    format::{clean, count, duration},
    host,
    progress::{counts, describe, span},
    run::{
        Manifest,
        watch::{Snapshot, State},
    },
};

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// A run, by its folder's name. Default: the latest run.
    run: Option<String>,
    /// List every job, including cached and finished ones.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// Maximum number of waiting jobs that are listed; the others are counted.
const SHOWN: usize = 20;

pub(super) fn status(results: &Path, args: &StatusArgs) -> Result<Exit, Error> {
    let folder = runs::find(results, args.run.as_deref())?;
    let snapshot = Snapshot::read(&folder).map_err(Error::io("cannot read the run"))?;
    if args.format.is_json() {
        answer(&json(&folder.name(), &snapshot), after_run(results, &folder, &snapshot))?;
    } else {
        print(&text(&folder.name(), &snapshot, args.all))?;
    }
    Ok(Exit::Done)
}

fn text(name: &str, snapshot: &Snapshot, shows_all: bool) -> String {
    let now = host::clock::now();
    let age = span(now, snapshot.manifest.at);
    let state_text = match (&snapshot.summary, snapshot.live) {
        (_, true) if snapshot.stopping => format!("live, stopping, since {age}"),
        (_, true) => {
            let remaining = snapshot
                .left(now)
                .map_or_else(String::new, |remaining| format!(", about {} left", duration(remaining)));
            format!("live since {age}{remaining}")
        }
        (Some(summary), false) => {
            let verb = if summary.interrupted.is_some() { "interrupted" } else { "ended" };
            format!("{verb} {} ago after {}", span(now, snapshot.last), duration(summary.seconds))
        }
        (None, false) if snapshot.elsewhere => {
            format!("in the queue since {age}; run the same command again to wait for it")
        }
        (None, false) => {
            format!("its engine was killed, {} ago; run the recipe again to continue", span(now, snapshot.last))
        }
    };
    let mut lines = vec![format!("{} · run {name} · {state_text}", clean(&snapshot.manifest.recipe)), counts(snapshot)];
    let mut hidden_count = 0;
    let mut waiting_count = 0;
    for (index, (job, state)) in snapshot.manifest.jobs.iter().zip(&snapshot.jobs).enumerate() {
        let is_quiet = !state.is_selected() || matches!(state, State::Cached | State::Done { .. });
        waiting_count += usize::from(is_idle(state));
        if !shows_all && (is_quiet || (waiting_count > SHOWN && is_idle(state))) {
            hidden_count += usize::from(!is_quiet);
            continue;
        }
        let (word, description) = describe(snapshot, index, now);
        let line = format!("  {word:<8} {}  {description}", clean(&job.label));
        lines.push(line.trim_end().to_owned());
    }
    if hidden_count > 0 {
        lines.push(format!("  … and {}; --all lists them", count(hidden_count, "other job")));
    }
    lines.join("\n") + "\n"
}

fn is_idle(state: &State) -> bool {
    matches!(state, State::Waiting(_) | State::Queued { .. } | State::Skipped(_) | State::Lost)
}

/// Details of a job's state, as fields: times in seconds.
fn details(state: &State, manifest: &Manifest, now: Timestamp) -> Value {
    let seconds = |later: Timestamp, earlier: Timestamp| later.duration_since(earlier).as_secs_f64().max(0.0);
    let label = |job: &usize| manifest.jobs.get(*job).map(|job| job.label.as_str());
    match state {
        State::NotSelected | State::Reserve | State::Cached | State::Storing | State::Lost => json!({}),
        State::Waiting(reason) => json!({ "reason": reason }),
        State::Queued { id, reason } => json!({ "batch_job": id, "reason": reason }),
        State::Running { since, attempt, gpus, part, host, progress } => json!({
            "since": since,
            "seconds": seconds(now, *since),
            "attempt": attempt,
            "gpus": gpus,
            "gpu_part": part.as_ref().map(ToString::to_string),
            "host": host,
            "steps_done": progress.as_ref().map(|progress| progress.done),
            "steps_total": progress.as_ref().map(|progress| progress.total).filter(|total| *total > 0),
            "latest": progress.as_ref().map(|progress| {
                let entry_of = |live: &Live| (live.name.clone(), json!({ "step": live.step, "value": live.value }));
                progress.live().iter().map(entry_of).collect::<serde_json::Map<_, _>>()
            }),
        }),
        State::Elsewhere { arriving } => json!({ "reason": if *arriving { "remote" } else { "another sweep" } }),
        State::HeldUp => json!({ "reason": "machine" }),
        State::Retrying { failure, at } => json!({ "failure": failure, "again_at": at, "again_in": seconds(*at, now) }),
        State::Done { seconds } => json!({ "seconds": seconds }),
        State::Failed { seconds, failure, tolerated } => {
            json!({ "seconds": seconds, "failure": failure, "tolerated": tolerated })
        }
        State::Stopped { seconds, how } => json!({ "seconds": seconds, "reason": how }),
        State::Skipped(needed) => json!({ "needs": needed.as_ref().and_then(label) }),
    }
}

fn json(name: &str, snapshot: &Snapshot) -> Value {
    let now = host::clock::now();
    let jobs = snapshot.manifest.jobs.iter().zip(&snapshot.jobs).enumerate();
    let jobs = jobs.filter(|(_, (_, state))| state.is_selected()).map(|(index, (job, state))| {
        let mut value = details(state, &snapshot.manifest, now);
        value["job"] = json!(job.label);
        value["key"] = json!(job.key);
        value["state"] = json!(state.word());
        // For people, and for readers of earlier versions.
        value["says"] = json!(describe(snapshot, index, now).1);
        value
    });
    json!({
        "run": name,
        "recipe": snapshot.manifest.recipe,
        "begun": snapshot.manifest.at,
        "live": snapshot.live,
        "seconds_left": snapshot.left(now),
        "in_slurm": snapshot.elsewhere,
        "stopping": snapshot.stopping,
        "summary": snapshot.summary,
        "jobs": jobs.collect::<Vec<_>>(),
    })
}

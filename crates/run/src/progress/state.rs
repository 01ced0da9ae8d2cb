//! States of jobs in words.

use jiff::Timestamp;

use crate::{
    format::{clean, count, duration, latest, steps},
    run::watch::{Snapshot, State},
};

/// Reason of a job that waits for the machine.
pub(super) const MACHINE: &str = "another sweep uses this machine, and one of the two must run alone";

/// Numbers of jobs by state: `5 jobs: 1 done, 4 waiting`.
pub fn counts(snapshot: &Snapshot) -> String {
    let count_of = |word: &str| snapshot.jobs.iter().filter(|state| state.word() == word).count();
    let words = ["cached", "done", "running", "retrying", "waiting", "failed", "stopped", "skipped", "lost"];
    let parts = words.iter().map(|word| (count_of(word), word)).filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, word)| format!("{number} {word}")).collect();
    let selected = snapshot.jobs.iter().filter(|state| state.is_selected()).count();
    let reserve = match count_of("reserve") {
        0 => String::new(),
        reserve => format!("; {} in reserve, for undecided results", count(reserve, "job")),
    };
    format!("{}: {}{reserve}", count(selected, "job"), parts.join(", "))
}

/// Details of a job whose end was requested, until it has ended.
pub const REQUESTED: &str = "its end is requested";

/// The state of the job with this index as a word, with its details.
pub fn describe(snapshot: &Snapshot, job: usize, now: Timestamp) -> (&'static str, String) {
    let state = &snapshot.jobs[job];
    let details = details(snapshot, state, now);
    let requested = snapshot.requested.contains(&job).then(|| REQUESTED.to_owned());
    let parts = requested.into_iter().chain([details]).filter(|part| !part.is_empty());
    (state.word(), parts.collect::<Vec<_>>().join("; "))
}

fn details(snapshot: &Snapshot, state: &State, now: Timestamp) -> String {
    let label = |job: &usize| snapshot.manifest.jobs.get(*job).map_or("", |job| job.label.as_str());
    match state {
        State::NotSelected | State::Cached => String::new(),
        State::Reserve => "it runs if results require it".to_owned(),
        State::Waiting(reason) => clean(reason).into_owned(),
        State::Queued { id, reason } if reason.is_empty() => format!("job {id} in the queue"),
        State::Queued { id, reason } => format!("job {id} in the queue: {}", clean(reason)),
        State::Running { since, attempt, gpus, part, host, progress } => {
            let mut parts = vec![span(now, *since)];
            parts.extend(host.as_ref().map(|host| format!("on {}", clean(host))));
            if *attempt > 1 {
                parts.push(format!("attempt {attempt}"));
            }
            if !gpus.is_empty() {
                let gpus: Vec<String> = gpus.iter().map(ToString::to_string).collect();
                let part = part.as_ref().map(|part| format!(" ({part})")).unwrap_or_default();
                parts.push(format!("GPU {}{part}", gpus.join(", ")));
            }
            if let Some(progress) = progress {
                parts.push(steps(progress));
                parts.extend(progress.live().first().map(latest));
                parts.retain(|part| !part.is_empty());
            }
            parts.join("  ")
        }
        State::Storing => "its result is being stored".to_owned(),
        State::Elsewhere { arriving: true } => "its record may come from the remote".to_owned(),
        State::Elsewhere { arriving: false } => "another sweep runs it".to_owned(),
        State::HeldUp => MACHINE.to_owned(),
        State::Retrying { failure, at } => {
            format!("again in {}: {}", span(*at, now), clean(&failure.message))
        }
        State::Done { seconds } => seconds.map_or_else(|| "by another sweep".to_owned(), duration),
        State::Failed { seconds, failure, tolerated } => {
            let allowed = if *tolerated { " (allowed)" } else { "" };
            format!("after {}{allowed}: {}", duration(*seconds), clean(&failure.message))
        }
        State::Stopped { seconds, how } => format!("after {}: {}", duration(*seconds), clean(how)),
        State::Skipped(Some(job)) => format!("needs {}", clean(label(job))),
        State::Skipped(None) => "the run was stopped".to_owned(),
        State::Lost => "the engine was killed before it was done".to_owned(),
    }
}

/// The time from one moment to a later one; nothing if a clock was set back meanwhile.
pub fn span(later: Timestamp, earlier: Timestamp) -> String {
    duration(later.duration_since(earlier).as_secs_f64().max(0.0))
}

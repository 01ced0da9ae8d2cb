//! Requests to a live run to stop a job: each is a file in the run's folder, named by the job's key.
//!
//! The engine reads the folder regularly. Unlike a signal or a socket, a file also reaches an engine on another machine
//! that shares the file system.

use std::{collections::BTreeSet, io, path::Path};

use fs_err as fs;

use super::{
    RunFolder,
    watch::{Snapshot, State},
};

/// Name of the folder of requests in a run's folder.
const FOLDER: &str = "stop";

/// Reason why a job is not stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The run has ended.
    #[error("the run {0} is not live, so no job of it runs; `sweep status` shows the latest run")]
    NotLive(String),
    /// The job has ended, or is not part of the run.
    #[error("{job} is {state}: only jobs that run, are retried or wait can be stopped")]
    NotOpen {
        /// The job.
        job: String,
        /// The job's state in a word or a phrase.
        state: &'static str,
    },
    /// The job's result is being stored.
    #[error("{0} has ended, and its result is being stored")]
    Storing(String),
    /// Another process computes the job's record.
    #[error("this run waits for the record of {0}, which another process makes: stop the job in the run that does it")]
    Elsewhere(String),
    /// The job runs on another machine.
    #[error(
        "{job} runs on the host {host}, where it cannot be stopped alone: Ctrl-C in the terminal of the run stops all of its jobs"
    )]
    OnHost {
        /// The job.
        job: String,
        /// The host.
        host: String,
    },
    /// The job is in a batch system.
    #[error("the run is in {system}, whose jobs are stopped there: `sweep status` has their numbers")]
    InBatchSystem {
        /// The batch system's name in recipes.
        system: String,
    },
    /// The request cannot be written.
    #[error("the request cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// Requests the end of the job at `index` in a run's plan. The engine asks the job's program to stop, as after Ctrl-C;
/// a job that has not begun does not start. The run continues with its other jobs.
///
/// # Errors
/// The job cannot be stopped, or the request cannot be written.
pub fn request_stop(folder: &RunFolder, snapshot: &Snapshot, index: usize) -> Result<(), StopError> {
    let (Some(job), Some(state)) = (snapshot.manifest.jobs.get(index), snapshot.jobs.get(index)) else {
        return Err(StopError::NotOpen { job: format!("job {index}"), state: "not in the run" });
    };
    if let Some((system, _)) = snapshot.manifest.through.batch() {
        return Err(StopError::InBatchSystem { system: system.to_owned() });
    }
    if !snapshot.live {
        return Err(StopError::NotLive(folder.name()));
    }
    let label = || job.label.clone();
    match state {
        State::Running { host: Some(host), .. } => {
            return Err(StopError::OnHost { job: label(), host: host.clone() });
        }
        State::Storing => return Err(StopError::Storing(label())),
        State::Elsewhere { .. } => return Err(StopError::Elsewhere(label())),
        state if is_open(state) => {}
        _ => return Err(StopError::NotOpen { job: label(), state: state.word() }),
    }
    let requests = folder.path().join(FOLDER);
    fs::create_dir_all(&requests)?;
    fs::write(requests.join(job.key.to_string()), "")?;
    Ok(())
}

/// True for a job of a local run that can be stopped.
fn is_open(state: &State) -> bool {
    matches!(state, State::Running { .. } | State::Retrying { .. } | State::Waiting(_) | State::HeldUp)
}

/// Names of the requests in a run's folder: keys of jobs. Callers compare them with keys, so other names have no
/// effect.
pub(super) fn stops(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(folder.join(FOLDER)) else { return BTreeSet::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// The unfinished jobs of a run whose end was requested, by their indices in its plan.
pub(super) fn requested_stops(folder: &RunFolder, snapshot: &Snapshot) -> BTreeSet<usize> {
    let keys = stops(folder.path());
    if keys.is_empty() {
        return BTreeSet::new();
    }
    let jobs = snapshot.manifest.jobs.iter().zip(&snapshot.jobs).enumerate();
    let stopping = jobs.filter(|(_, (job, state))| is_open(state) && keys.contains(&job.key.to_string()));
    stopping.map(|(index, _)| index).collect()
}

//! Events for observers of a run; the journal keeps them in this form.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sweep_job::{Failure, Outcome, Progress};

use super::cluster::BatchId;
use crate::{plan::Plan, record::Key};

/// Events for observers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEvent {
    /// The run begins.
    Begun {
        /// Jobs in all.
        jobs: usize,
        /// Jobs of these that are done already.
        cached: usize,
    },
    /// A job that was held in reserve is to run after all.
    Added {
        /// The job.
        job: usize,
        /// The result that the job is to decide.
        because: String,
    },
    /// A search has decided which jobs run.
    Decided {
        /// The decision's key in the store.
        decision: Key,
        /// A sentence about it.
        text: String,
    },
    /// A job is in a batch system and waits for its turn there.
    Submitted {
        /// The job.
        job: usize,
        /// The batch job's name there.
        id: BatchId,
        /// The number of the submission, from 1.
        #[serde(default = "first", skip_serializing_if = "is_first")]
        submission: u32,
    },
    /// A job's process was started.
    Started {
        /// The job.
        job: usize,
        /// The cores it has.
        cpus: usize,
        /// The indices of the GPUs it has.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        gpus: Vec<usize>,
        /// The number of the attempt, from 1.
        #[serde(default = "first", skip_serializing_if = "is_first")]
        attempt: u32,
        /// The job's host, if it runs on another one than the sweep.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// A job waits: for its record, because another process runs the same job or a remote has it, or for the machine.
    Waiting {
        /// The job.
        job: usize,
        /// True if the record may arrive from a remote.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        arriving: bool,
        /// True if the job waits for the machine: this job or one of another sweep must be alone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        machine: bool,
    },
    /// A job reported its progress.
    Progress {
        /// The job.
        job: usize,
        /// The progress.
        progress: Progress,
    },
    /// A note about a job.
    Note {
        /// The job.
        job: usize,
        /// The text.
        text: String,
    },
    /// A job's process has ended with a result, which is being stored.
    Storing {
        /// The job.
        job: usize,
    },
    /// A job has a result.
    Done {
        /// The job.
        job: usize,
        /// Time from its start, in seconds; `None` if another process did it.
        seconds: Option<f64>,
        /// The result; the journal leaves it to the record.
        #[serde(skip)]
        outcome: Outcome,
    },
    /// A job has failed and will be started again.
    Retrying {
        /// The job.
        job: usize,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// Number of attempts.
        attempts: u32,
        /// Delay before the next attempt, in seconds.
        wait: f64,
        /// The failure.
        failure: Failure,
        /// True if it ran out of memory on a shared GPU and runs again on a whole one, a run that does not count as an attempt.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        alone: bool,
    },
    /// A job has no result.
    Failed {
        /// The job.
        job: usize,
        /// Time from its start, in seconds.
        seconds: f64,
        /// The failure.
        failure: Failure,
        /// Output of the worker, if there was one.
        log: Option<PathBuf>,
        /// True if the recipe allows the failure.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tolerated: bool,
    },
    /// A job was asked to stop and has no result yet: the next run continues it.
    Stopped {
        /// The job.
        job: usize,
        /// Time from its start, in seconds.
        seconds: f64,
        /// The job's end, and the kept part of its work.
        how: String,
    },
    /// A job will not run, or was ended because the user ended the run.
    Skipped {
        /// The job.
        job: usize,
        /// The needed job without a result; `None` if the run was stopped.
        because: Option<usize>,
    },
    /// Something that the user should read and that is about no single job.
    Notice {
        /// The text.
        text: String,
        /// True for a warning.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        warning: bool,
    },
    /// No job will be started anymore.
    Stopping {
        /// True if the running jobs are ended too.
        ending: bool,
        /// Number of running jobs.
        running: usize,
        /// Seconds until the running jobs are ended, if there is a deadline.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<f64>,
    },
    /// The run is over.
    Ended(Summary),
}

fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_first(attempt: &u32) -> bool {
    *attempt == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

/// Result of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Jobs that were done before.
    pub cached: usize,
    /// Jobs that got a result.
    pub done: usize,
    /// Jobs that failed.
    pub failed: usize,
    /// Failed jobs that the recipe tolerates.
    #[serde(default)]
    pub tolerated: usize,
    /// Jobs that were asked to stop and that the next run continues.
    #[serde(default, skip_serializing_if = "is_none")]
    pub stopped: usize,
    /// Jobs that could not run.
    pub skipped: usize,
    /// Skipped jobs that needed a failed job, unless their own step tolerates failures.
    #[serde(default, skip_serializing_if = "is_none")]
    pub blocked: usize,
    /// Duration, in seconds.
    pub seconds: f64,
    /// The signal that stopped it.
    pub interrupted: Option<i32>,
    /// True if jobs were left to Slurm, which continues them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
    /// Reason why the store could no longer be written, which stopped the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

impl Summary {
    /// Counts the end of a job. `is_tolerated` has the jobs whose failures the recipe allows.
    pub(super) fn count(&mut self, event: &RunEvent, is_tolerated: impl Fn(usize) -> bool) {
        match event {
            RunEvent::Done { .. } => self.done += 1,
            RunEvent::Failed { tolerated: true, .. } => self.tolerated += 1,
            RunEvent::Failed { .. } => self.failed += 1,
            RunEvent::Stopped { .. } => self.stopped += 1,
            RunEvent::Skipped { job, because } => {
                self.skipped += 1;
                self.blocked += usize::from(because.is_some() && !is_tolerated(*job));
            }
            _ => {}
        }
    }
}

/// Receiver of events.
pub trait Observer {
    /// Something happened.
    fn on(&mut self, plan: &Plan, event: &RunEvent);
    /// Time has passed: about ten times a second, for deferred work.
    fn tick(&mut self, _plan: &Plan) {}
}

impl RunEvent {
    /// The job that an event is about.
    pub fn job(&self) -> Option<usize> {
        match self {
            Self::Added { job, .. }
            | Self::Submitted { job, .. }
            | Self::Started { job, .. }
            | Self::Waiting { job, .. }
            | Self::Progress { job, .. }
            | Self::Note { job, .. }
            | Self::Storing { job }
            | Self::Done { job, .. }
            | Self::Retrying { job, .. }
            | Self::Failed { job, .. }
            | Self::Stopped { job, .. }
            | Self::Skipped { job, .. } => Some(*job),
            Self::Begun { .. }
            | Self::Decided { .. }
            | Self::Notice { .. }
            | Self::Stopping { .. }
            | Self::Ended(_) => None,
        }
    }

    /// Returns this event for the job `index`: in the events of a single job's process, the job is the only one.
    #[must_use]
    pub fn about(mut self, index: usize) -> Self {
        if let Self::Submitted { job, .. }
        | Self::Started { job, .. }
        | Self::Waiting { job, .. }
        | Self::Progress { job, .. }
        | Self::Note { job, .. }
        | Self::Storing { job }
        | Self::Done { job, .. }
        | Self::Retrying { job, .. }
        | Self::Failed { job, .. }
        | Self::Stopped { job, .. }
        | Self::Skipped { job, .. } = &mut self
        {
            *job = index;
        }
        self
    }
}

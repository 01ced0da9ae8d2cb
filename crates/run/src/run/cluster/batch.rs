//! The interface to batch systems. A new one implements [`Cluster`]; `slurm` is the example.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{host::finding::Finding, record::Key};

/// A batch system. After a failure or a timeout, the state of a job is unknown, never ended.
pub trait Cluster: fmt::Debug {
    /// The system's name, for messages.
    fn system(&self) -> &str;

    /// True if this process itself starts the jobs, so that waiting jobs end with it, and no other machine opens the results folder.
    fn starts_jobs_itself(&self) -> bool {
        false
    }

    /// Announces that this process will wait for the jobs of a run. Until this call, the process only reads the queue.
    ///
    /// # Errors
    /// The errors of the results folder.
    fn attend(&self) -> io::Result<()> {
        Ok(())
    }

    /// Sentences for the user since the last call.
    fn news(&self) -> Vec<String> {
        Vec::new()
    }

    /// Reason why this machine cannot use the system, with the remedy; `None` if it can.
    fn unavailable(&self) -> Option<&str>;

    /// True if a batch job can have several nodes, and start processes on all of them by `srun`.
    fn gives_nodes(&self) -> bool {
        false
    }

    /// Resources of the allocation that this process runs in; `None` outside of this system's allocations.
    fn allocated(&self) -> Option<Allocated>;

    /// The name that all batch jobs of a store have in the system.
    fn jobs_name(&self) -> &str;

    /// Returns the command with which a person ends all jobs.
    fn cancel_command(&self) -> String;

    /// True if the system starts a job only after the jobs in [`BatchJob::after`]. Else a job is submitted when they
    /// are done, and `after` is always empty.
    fn keeps_dependencies(&self) -> bool {
        true
    }

    /// Timeout for the first response of the system in a run, which ends otherwise. `None` waits without a limit.
    fn first_answer_within(&self) -> Option<Duration> {
        None
    }

    /// True if a batch job can have several members, each with its number.
    fn has_members(&self) -> bool {
        false
    }

    /// Submits a batch job.
    ///
    /// # Errors
    /// A [`Refusal`] shows if the job may be in the queue all the same.
    fn submit(&self, job: &BatchJob<'_>) -> Result<BatchId, Refusal>;

    /// Returns every batch job of the store that the system still lists, ended ones included.
    ///
    /// # Errors
    /// The last line of the system's stderr, if it does not respond.
    fn poll(&self) -> Result<Vec<QueuedJob>, String>;

    /// Cancels or interrupts batch jobs. Jobs that have ended meanwhile are skipped.
    ///
    /// # Errors
    /// The last line of the system's stderr, if it does not respond.
    fn cancel(&self, ids: &[BatchId], scope: CancelScope) -> Result<(), String>;

    /// Reason why a job stays in the queue for good, if this reason for waiting is permanent.
    fn why_pending(&self, reason: &str) -> Option<&str>;

    /// End of a batch job that the queue shows with `word`.
    fn ending(&self, id: &BatchId, word: &str) -> Ending;

    /// The state of a batch job that the queue has forgotten, where the system has an accounting.
    fn remembered(&self, id: &BatchId) -> Option<QueuedState>;

    /// Checks the requirements of only this system, for `sweep doctor` and jobs with `gpus` GPUs. The availability and
    /// the response are checked for all systems.
    fn examine(&self, _gpus: usize) -> Vec<Finding> {
        Vec::new()
    }

    /// True if the system's machines share the results folder with this one. Else jobs and results go through an
    /// [`Exchange`](crate::run::Exchange), unless this process carries them.
    fn has_shared_folder(&self) -> bool {
        true
    }

    /// True if jobs and results go through a remote store.
    fn needs_exchange(&self) -> bool {
        !self.has_shared_folder() && !self.starts_jobs_itself()
    }
}

/// The name of a batch job in its system, usually a number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Written", from = "Written")]
pub struct BatchId(String);

/// A name in JSON, written as a number if it is numeric.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
}

/// A batch job to submit.
#[derive(Debug)]
pub struct BatchJob<'a> {
    /// The text that identifies the batch job in the queue.
    pub tag: String,
    /// The file that its output is appended to.
    pub output: PathBuf,
    /// The folder that the batch job starts in.
    pub folder: &'a Path,
    /// A script for `/bin/sh`, for systems whose machines share the results folder.
    pub script: String,
    /// The work of the script.
    pub work: Work<'a>,
    /// The resources of the batch job.
    pub request: Request,
    /// The step of the batch job's only job, if there is only one; the executor's settings may differ by step.
    pub step: Option<&'a str>,
    /// Batch jobs that must have succeeded before this one starts. If one of them fails, this one must not start.
    pub after: &'a [BatchId],
}

/// The resources of a batch job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Number of nodes; the other resources are per node.
    pub nodes: usize,
    /// Processes on each node that a launcher starts.
    pub processes: usize,
    /// Cores.
    pub cpus: usize,
    /// Main memory in bytes.
    pub memory: Option<u64>,
    /// Number of GPUs. A shared GPU counts as a whole one.
    pub gpus: usize,
    /// Thousandths of its GPU that the job uses, for systems that assign parts; `None` for whole ones.
    pub gpu_share: Option<u16>,
    /// True if nothing else may run on its node.
    pub exclusive: bool,
    /// The time after which the system may end it.
    pub time: Option<Duration>,
}

/// Resources of an allocation, as far as the system states them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allocated {
    /// Cores.
    pub cpus: Option<usize>,
    /// Main memory in bytes.
    pub memory: Option<u64>,
}

/// A batch job in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedJob {
    /// The job's name in the system.
    pub id: BatchId,
    /// The job's state.
    pub state: QueuedState,
    /// Reason why it waits, or its end, in the system's word.
    pub reason: String,
    /// [`BatchJob::tag`]; an unrelated job of the same name may have any.
    pub tag: String,
    /// True if the job will never start, because a job that it depends on has failed.
    pub orphaned: bool,
}

/// The state of a batch job, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueuedState {
    /// The job waits.
    Pending,
    /// The job runs, or is on its way in or out.
    Running,
    /// The job's program has ended well.
    Completed,
    /// The job was canceled.
    Canceled,
    /// The program has failed.
    Failed(String),
    /// The job was ended in another way; the value is the system's word for it.
    Ended(String),
}

/// Batch jobs to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelScope {
    /// The jobs that have not begun.
    Pending,
    /// All jobs.
    All,
    /// No job: the programs get SIGINT, but not the processes that they have started.
    Interrupt,
}

/// End of a batch job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The reason.
    pub cause: EndCause,
    /// The job's node; empty if that is not known.
    pub node: String,
    /// The system's reason; empty if it has none.
    pub reason: String,
}

/// Reason why a batch job was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndCause {
    /// The job's time limit was reached.
    TimeLimit,
    /// The job ran out of memory.
    OutOfMemory,
    /// The system has ended the job in favor of another one.
    Preempted,
    /// The job was never started, and is to be submitted again.
    NotStarted,
    /// The system has lost the job, with its node or otherwise; the value is the system's word for it.
    Lost(String),
    /// The job's script has ended with this code.
    Exit(i32),
    /// This signal has ended it.
    Signal(i32),
    /// The job can never be started; the value is the reason.
    Impossible(String),
    /// The job ended for another reason; the value is the system's word for it.
    Other(String),
}

/// Reason for rejecting a batch job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The system does not respond. It may have accepted the job.
    Unreachable(String),
    /// There is a limit on jobs in the queue, which is reached.
    Full(String),
    /// The job will not be taken as it is.
    No(String),
}

/// The work of a batch job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work<'a> {
    /// A job of a run.
    Job {
        /// The job.
        key: Key,
        /// The name of the run.
        run: &'a str,
        /// Offset of its specification in the run's folder, in bytes.
        at: u64,
    },
    /// An engine that shares the jobs of a run with others.
    Pilot {
        /// The name of the run.
        run: &'a str,
        /// The pilot's number, from 1; the first number if several are submitted.
        number: usize,
        /// Number of engines that are submitted as the members of one batch job. Each finds its place among them, from 0, in
        /// `SWEEP_MEMBER`.
        members: usize,
    },
}

impl Work<'_> {
    /// The arguments with which `sweep` does it.
    pub fn arguments(&self) -> String {
        match self {
            Self::Job { key, run, at } => format!("exec-job {run} --at {at} --key {key}"),
            Self::Pilot { run, number, members: 0 | 1 } => format!("exec-pilot {run} --number {number}"),
            Self::Pilot { run, number, .. } => {
                format!("exec-pilot {run} --number $(({number} + ${{SWEEP_MEMBER:-0}}))")
            }
        }
    }
}

impl BatchId {
    /// The name, as the system's commands take it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<u64> for BatchId {
    fn from(number: u64) -> Self {
        Self(number.to_string())
    }
}

impl From<String> for BatchId {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl From<Written> for BatchId {
    fn from(written: Written) -> Self {
        match written {
            Written::Number(number) => number.into(),
            Written::Text(name) => name.into(),
        }
    }
}

impl From<BatchId> for Written {
    fn from(id: BatchId) -> Self {
        match id.0.parse::<u64>() {
            Ok(number) if number.to_string() == id.0 => Self::Number(number),
            _ => Self::Text(id.0),
        }
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl QueuedState {
    /// True if the job has not ended.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

//! The protocol between the engine and a worker process: one JSON value a line, the job on standard input, messages
//! on standard output.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Agreement, Backend, Observed, Outcome, Trial, Unit, Values};

/// Version of the protocol. Engine and worker are the same binary, so a mismatch means that the binary was replaced
/// during a run.
pub const PROTOCOL: u32 = 3;

/// A job as a worker receives it: resolved, so that the worker never plans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The task's name.
    pub task: String,
    /// Every parameter that the task declares.
    pub params: Values,
    /// Backend to compute on; `None` for a task that needs no device.
    pub backend: Option<Backend>,
    /// Threads to use on the CPU.
    pub threads: usize,
    /// The folder for artifacts; exists and is empty.
    pub dir: PathBuf,
    /// A folder of the job that outlives a failed or ended attempt, for checkpoints; exists. It is removed when the job
    /// has a result, and its content must not change the result.
    pub scratch: PathBuf,
    /// Interval of heartbeats in seconds, in the absence of other messages; `None` for no heartbeats.
    pub heartbeat: Option<f64>,
    /// Folder of the project, below which the files that a program reads are observed; `None` to observe nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Folder of the layer of files that replace files of the project for a program, if it is not the layer of a variant of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<PathBuf>,
    /// Number of nodes over which the processes of a program are spread.
    #[serde(default = "one")]
    pub nodes: usize,
    /// The file for output, if the worker may stay for another job after this one; with `None`, the worker ends with the
    /// job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
    /// Names of metrics and curves that recipes use: a task that cannot keep all keeps these.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub used: BTreeSet<String>,
    /// Request to compare its first steps with an earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Box<Trial>>,
}

fn one() -> usize {
    1
}

/// A message from a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// Progress of the job.
    Progress(Progress),
    /// A notice for the user that is not a failure.
    Note(String),
    /// A heartbeat, sent while the job computes and sends no other message.
    Alive,
    /// Files that the job has read, before the end.
    Observed(Observed),
    /// The first steps agree with an earlier run, whose result is valid; the end follows, with an empty result.
    Agreed(Agreement),
    /// The end, with a result.
    Done(Outcome),
    /// The end, without one.
    Failed(Failure),
    /// Nothing of the job is left, and the worker waits for another one.
    Idle,
}

/// The progress of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Iterations done.
    pub done: u64,
    /// Iterations in all; 0 if that is unknown.
    pub total: u64,
    /// The latest loss in nats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Tokens per second since the last message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
    /// Sequences per second, for tasks that count sequences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences_per_s: Option<Speeds>,
    /// The latest values of the series that a program reports, at most [`LIVE_SERIES`], oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Live>,
}

impl Progress {
    /// The latest values that are shown while a job runs: the loss of a training, and the series of a program.
    pub fn live(&self) -> Vec<Live> {
        let loss = self.loss.filter(|loss| loss.is_finite());
        let loss = loss.map(|value| Live { name: "loss".to_owned(), step: self.done, value, unit: Unit::Nats });
        loss.into_iter().chain(self.series.iter().cloned()).collect()
    }
}

/// Maximum number of series in [`Progress::series`].
pub const LIVE_SERIES: usize = 8;

/// The latest value of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// Its name.
    pub name: String,
    /// The step of the value.
    pub step: u64,
    /// The value; finite.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
}

/// A rate per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speeds {
    /// Since the last message.
    pub recent: f64,
    /// Since the start.
    pub mean: f64,
}

/// The failure of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Kind of failure.
    pub kind: FailureKind,
    /// Description, as a phrase: "loss is NaN at iteration 41".
    pub message: String,
}

/// Kinds of failure that the engine distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The backend could not be started.
    Backend,
    /// An input file is missing or invalid.
    Input,
    /// An input has changed since the job was planned.
    Changed,
    /// A check failed, or the training diverged.
    Experiment,
    /// Reading or writing a file failed.
    Io,
    /// The worker panicked, was killed or broke the protocol.
    Crash,
    /// Main or device memory was insufficient.
    Memory,
    /// The job was ended because it exceeded its time limit.
    Timeout,
    /// The job was ended because it sent no heartbeat.
    Stalled,
    /// A program ended early because it was asked to.
    Stopped,
}

impl Failure {
    /// Returns this failure, with kind [`FailureKind::Memory`] if its message comes from an allocator: drivers and libraries report it only
    /// as text.
    #[must_use]
    pub fn recognized(mut self) -> Self {
        const WORDS: &[&str] = &[
            "out of memory",
            "out_of_memory",
            "outofmemory",
            "memory allocation of",
            "not enough memory",
            "not enough device memory",
            "cannot allocate memory",
        ];
        let message = self.message.to_lowercase();
        if WORDS.iter().any(|words| message.contains(words)) {
            self.kind = FailureKind::Memory;
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Receiver of a task's reports while it runs.
pub trait Report {
    /// Reports progress.
    fn progress(&mut self, progress: Progress);
    /// Reports a notice for the user.
    fn note(&mut self, text: &str);
    /// Sends a heartbeat, for tasks without other messages for a long time.
    fn alive(&mut self) {}
    /// Reports the files that the task has read, for tasks that run a program.
    fn observed(&mut self, _observed: Observed) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_are_understood() {
        let kind = |message: &str| Failure { kind: FailureKind::Crash, message: message.to_owned() }.recognized().kind;
        assert_eq!(kind("CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\""), FailureKind::Memory);
        assert_eq!(kind("Not enough memory left"), FailureKind::Memory);
        assert_eq!(kind("memory allocation of 8589934592 bytes failed"), FailureKind::Memory);
        assert_eq!(kind("loss is NaN at iteration 41"), FailureKind::Crash);
    }
}

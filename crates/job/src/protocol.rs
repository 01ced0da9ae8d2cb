//! The protocol between the engine and a worker process: one JSON value per line, the job on standard input, messages
//! on standard output.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Backend, Outcome, Value};

/// Version of the protocol. Engine and worker are the same binary, so a mismatch means that the binary was replaced
/// while a sweep was running.
pub const PROTOCOL: u32 = 2;

/// A job as a worker gets it: frozen, so that the worker never plans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The task's name.
    pub task: String,
    /// Every parameter that the task declares.
    pub params: BTreeMap<String, Value>,
    /// Backend to compute on; `None` for a task that needs no device.
    pub backend: Option<Backend>,
    /// Threads to use on the CPU.
    pub threads: usize,
    /// The folder for artifacts; exists and is empty.
    pub dir: PathBuf,
    /// A folder of the job's own that outlives a failed or ended attempt, for checkpoints to go on from; exists. It is
    /// removed when the job has a result, and nothing in it may change what the result is.
    pub scratch: PathBuf,
    /// Interval of heartbeats in seconds, if no other message is sent; `None` for no heartbeats.
    pub beat: Option<f64>,
}

/// Message from a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// Progress of the job.
    Progress(Progress),
    /// Something that the user should read, although it is no failure.
    Note(String),
    /// It is at work; said while the job computes and has nothing else to say.
    Alive,
    /// The end, with a result.
    Done(Outcome),
    /// The end, without one.
    Failed(Failure),
}

/// Progress of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Iterations done.
    pub done: u64,
    /// Iterations in all.
    pub total: u64,
    /// The latest loss in nats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Tokens a second, since the last message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
    /// Sequences a second, for what counts in sequences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences_per_s: Option<Speeds>,
}

/// Rates of a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speeds {
    /// Since the last message.
    pub recent: f64,
    /// Since the start.
    pub mean: f64,
}

/// Failure of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Description, as a phrase: "loss is NaN at iteration 41".
    pub message: String,
}

/// Kinds of failure that the engine treats or counts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The backend could not be started.
    Backend,
    /// An input file is missing or is not what it should be.
    Input,
    /// The job's inputs have changed since the plan.
    Changed,
    /// A check found the network wrong, or the training diverged.
    Experiment,
    /// The disk.
    Io,
    /// The worker panicked, was killed or broke the protocol.
    Crash,
    /// Main or device memory was not enough.
    Memory,
    /// It was ended because it took too long.
    Timeout,
    /// It was ended because it gave no sign of life.
    Stalled,
}

impl Failure {
    /// The same failure, of kind [`FailureKind::Memory`] if its message is that of an allocator: drivers and libraries say
    /// so in words only.
    #[must_use]
    pub fn recognised(mut self) -> Self {
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

/// Receiver of a task's progress.
pub trait Report {
    /// Says how far it is.
    fn progress(&mut self, progress: Progress);
    /// Says something that the user should read.
    fn note(&mut self, text: &str);
    /// Says that it is at work, for tasks that have nothing else to say for long.
    fn alive(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_are_understood() {
        let kind = |message: &str| Failure { kind: FailureKind::Crash, message: message.to_owned() }.recognised().kind;
        assert_eq!(kind("CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\""), FailureKind::Memory);
        assert_eq!(kind("Not enough memory left"), FailureKind::Memory);
        assert_eq!(kind("memory allocation of 8589934592 bytes failed"), FailureKind::Memory);
        assert_eq!(kind("loss is NaN at iteration 41"), FailureKind::Crash);
    }
}

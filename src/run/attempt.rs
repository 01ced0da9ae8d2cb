//! One attempt at a job: its process, its messages, and its end.

use std::{
    io::{Read as _, Seek as _, SeekFrom},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use sweep_job::{Failure, FailureKind, Observed, Outcome, Unit, Values};

use super::{local::Worker, reads::Reads, slots::Lease};
use crate::{
    format::{count, duration, quantity},
    host::{
        machine::{OutOfMemory, peak_memory},
        system::Load,
    },
    recipe::Policy,
    store::Pending,
};

/// A job with a process.
pub(super) struct Attempt {
    pub(super) worker: Worker,
    /// The parameters that it was given.
    pub(super) values: Values,
    pub(super) pending: Pending,
    /// Its inputs.
    pub(super) reads: Arc<Reads>,
    pub(super) lease: Lease,
    pub(super) log: PathBuf,
    pub(super) started: Timestamp,
    pub(super) begun: Instant,
    /// Its last message.
    pub(super) outcome: Option<Result<Outcome, Failure>>,
    /// Files that its program has read.
    pub(super) observed: Option<Observed>,
    /// Reason why it is being ended, and the time at which that will be enforced.
    pub(super) ending: Option<(Ending, Instant)>,
    /// Bytes of main memory that it has been seen to have.
    pub(super) peak: u64,
    /// The kernel's counters when it began.
    pub(super) memory: OutOfMemory,
    /// The machine's load when it began.
    pub(super) load: Load,
    /// Largest number of other jobs of this engine at the same time so far.
    pub(super) neighbors: usize,
    /// Its number, from 1.
    pub(super) number: u32,
}

/// Reason for ending a job early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The user wants the end.
    Stopped,
    /// It takes too long.
    Timeout,
    /// It gives no sign of life.
    Stalled,
}

/// Time for a worker to end after it was asked to.
pub(super) const GRACE: Duration = Duration::from_secs(5);

impl Attempt {
    /// Asks the worker to end; if it does not, it is ended after a while.
    pub(super) fn end(&mut self, why: Ending) {
        if self.ending.is_none() {
            self.worker.terminate();
            self.ending = Some((why, Instant::now() + GRACE));
        } else if why == Ending::Stopped {
            self.ending = self.ending.map(|(_, at)| (why, at));
        }
    }

    /// Checks the time: a job that exceeds its time limit or its heartbeat is ended.
    pub(super) fn watch(&mut self, policy: &Policy) {
        self.peak = self.peak.max(peak_memory(self.worker.id()).unwrap_or(0));
        match self.ending {
            Some((_, at)) if at <= Instant::now() => self.worker.kill(),
            None if policy.timeout.is_some_and(|timeout| self.begun.elapsed() >= timeout) => {
                self.end(Ending::Timeout);
            }
            None if policy.heartbeat.is_some_and(|heartbeat| self.worker.silence() >= heartbeat) => {
                self.end(Ending::Stalled);
            }
            _ => {}
        }
    }

    /// Failure of an attempt that has ended; `None` if the user wanted its end.
    pub(super) fn failure(&mut self, status: ExitStatus, strays: usize, policy: &Policy) -> Option<Failure> {
        let span = |limit: Option<Duration>| duration(limit.unwrap_or_default().as_secs_f64());
        let failure = |kind, message| Some(Failure { kind, message });
        match (self.ending, self.outcome.take()) {
            (Some((Ending::Stopped, _)), _) => None,
            (Some((Ending::Timeout, _)), _) => {
                failure(FailureKind::Timeout, format!("it took longer than its timeout of {}", span(policy.timeout)))
            }
            (Some((Ending::Stalled, _)), _) => {
                let silence = span(policy.heartbeat);
                failure(FailureKind::Stalled, format!("it stalled: no sign of life for {silence}, its heartbeat"))
            }
            (None, Some(Err(failure))) => Some(self.with_memory(failure.recognized())),
            (None, _) => Some(self.with_memory(self.silent_end(status, strays))),
        }
    }

    /// Says how much memory a job had that had too little.
    fn with_memory(&self, mut failure: Failure) -> Failure {
        if failure.kind == FailureKind::Memory && self.peak > 0 {
            let peak = quantity(self.peak as f64, Unit::Bytes);
            failure.message = format!("{} (main memory at its peak: {peak})", failure.message);
        }
        failure
    }

    /// The worker has ended without saying why.
    fn silent_end(&self, status: ExitStatus, strays: usize) -> Failure {
        let (kind, mut message) = match status.signal() {
            Some(9) => killed("the worker", OutOfMemory::now().since(self.memory)),
            Some(6) => match last_line(&self.log, "memory allocation of") {
                Some(line) => (FailureKind::Memory, format!("out of memory: {line}")),
                None => (FailureKind::Crash, describe_exit(status)),
            },
            _ => (FailureKind::Crash, describe_exit(status)),
        };
        if strays > 0 {
            message = format!("{message}; it wrote {} where only messages should go", count(strays, "line"));
        }
        Failure { kind, message }
    }
}

/// The sender of SIGKILL to a process, as far as the kernel's counters show.
pub(crate) fn killed(who: &str, out_of_memory: Option<bool>) -> (FailureKind, String) {
    match out_of_memory {
        Some(true) => (FailureKind::Memory, format!("out of memory: the kernel has killed {who}")),
        Some(false) => {
            (FailureKind::Crash, format!("{who} was killed (SIGKILL), but not by the kernel because memory ran out"))
        }
        None => {
            let message = format!("{who} was killed (SIGKILL), by a user or by the kernel because memory ran out");
            (FailureKind::Crash, message)
        }
    }
}

fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(101), _) => "the worker panicked".into(),
        (Some(0), _) => "the worker ended without a result".into(),
        (Some(code), _) => format!("the worker ended with exit code {code} and without a result"),
        (None, Some(signal)) => {
            let name =
                signal_hook::low_level::signal_name(signal).map_or_else(String::new, |name| format!(" ({name})"));
            format!("the worker was ended by signal {signal}{name}")
        }
        (None, None) => "the worker ended in an unknown way".into(),
    }
}

/// The last line of a log that begins with these words.
fn last_line(log: &Path, words: &str) -> Option<String> {
    let mut file = std::fs::File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(4096))).ok()?;
    let mut text = Vec::new();
    file.take(4096).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().rev().find(|line| line.starts_with(words)).map(str::to_owned)
}

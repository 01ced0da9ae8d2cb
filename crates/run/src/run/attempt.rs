//! An attempt at a job: its process, its messages, and its end.

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
use tracing::warn;

use super::{engine::Comparing, local::Worker, reads::Reads, scratch::Scratch, slots::Lease, writes::Writing};
use crate::{
    format::{count, duration, quantity},
    host::{
        log,
        machine::{OutOfMemory, peak_memory},
        system::Load,
    },
    recipe::Policy,
    record::Milestones,
    store::Pending,
};

/// A job with a process.
pub(super) struct Attempt {
    pub(super) worker: Worker,
    /// The parameters that the job was started with.
    pub(super) values: Values,
    /// The paths that the job writes; other jobs know them before any of them is removed.
    pub(super) writing: Writing,
    pub(super) pending: Pending,
    /// The attempt's inputs.
    pub(super) reads: Arc<Reads>,
    pub(super) lease: Lease,
    pub(super) log: PathBuf,
    /// Size of the log in bytes when the attempt began.
    pub(super) log_from: u64,
    pub(super) started: Timestamp,
    pub(super) begun: Instant,
    /// Time since `begun` during which this process did not run; it does not count toward the time limit.
    pub(super) forgiven: Duration,
    /// The attempt's last message.
    pub(super) outcome: Option<Result<Outcome, Failure>>,
    /// Files that its program has read.
    pub(super) observed: Option<Observed>,
    /// The earlier run that its program is compared with.
    pub(super) comparing: Option<Box<Comparing>>,
    /// The attempt's notices.
    pub(super) notices: Vec<String>,
    /// `sweep`'s part of its scratch folder.
    pub(super) scratch: Scratch,
    /// True if the job is to stop as soon as it can.
    pub(super) unwanted: bool,
    /// Time of the request to stop, for programs that know the contract.
    pub(super) asked: Option<Instant>,
    /// State of its termination, once that has begun.
    pub(super) ending: Option<End>,
    /// Largest main memory in bytes that the job was measured to use.
    pub(super) peak: u64,
    /// Largest use of memory on one of its GPUs that was sampled, in bytes.
    pub(super) gpu_peak: Option<u64>,
    /// Bytes that were reserved for an earlier attempt that ran out of memory on a shared GPU.
    pub(super) exhausted: Option<u64>,
    /// The kernel's counters when the attempt began.
    pub(super) memory: OutOfMemory,
    /// The machine's load when the attempt began.
    pub(super) load: Load,
    /// Times at which the job had done numbers of steps.
    pub(super) milestones: Milestones,
    /// Largest number of other jobs of this engine at the same time so far.
    pub(super) neighbors: usize,
    /// The attempt's number, from 1.
    pub(super) number: u32,
}

/// The end of a job that is ended early.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) why: Ending,
    /// The next step towards it, and its time.
    next: (Force, Instant),
}

/// Means to end a job, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Force {
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// End of an attempt without a result.
#[derive(Debug)]
pub(super) enum Unfinished {
    /// The job has failed.
    Failed(Failure),
    /// The job was asked to stop, and the next attempt continues; how it ended.
    Stopped(String),
    /// The user ended the run, and nothing of the attempt is kept.
    GivenUp,
}

/// Reason for ending a job early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The user stopped the run.
    Stopped,
    /// The user stopped this job; the run continues.
    Requested,
    /// The job exceeds its time limit.
    Timeout,
    /// The job shows no activity.
    Stalled,
}

/// Time for a worker to end after SIGTERM.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Time between the request to stop and SIGTERM, unless the recipe sets another one.
const GRACE_OF_PROGRAMS: Duration = Duration::from_secs(30);

impl Attempt {
    /// Asks the program to stop as soon as it can. Only a program that knows the contract is asked: another program may
    /// end without reporting that its result is incomplete.
    pub(super) fn ask(&mut self) {
        self.unwanted = true;
        if self.asked.is_none() && self.scratch.has_reported() {
            self.show_request();
        }
    }

    /// Ends the attempt: by a request, by SIGTERM after the grace period, and finally by SIGKILL. A program that does
    /// not know the contract, or hangs, gets SIGTERM together with the request.
    pub(super) fn end(&mut self, why: Ending, policy: &Policy) {
        if let Some(end) = &mut self.ending {
            if why == Ending::Stopped {
                end.why = why;
            }
            return;
        }
        let now = Instant::now();
        let listens = why != Ending::Stalled && self.scratch.has_reported();
        if self.asked.is_none() {
            self.show_request();
        }
        let grace = policy.grace.unwrap_or(GRACE_OF_PROGRAMS);
        let at = if listens { self.asked.unwrap_or(now) + grace } else { now };
        self.ending = Some(End { why, next: (Force::Terminate, at) });
        self.enforce();
    }

    /// Ends it without grace.
    pub(super) fn end_at_once(&mut self, policy: &Policy) {
        self.end(Ending::Stopped, policy);
        if let Some(End { next: (Force::Terminate, at), .. }) = &mut self.ending {
            *at = Instant::now();
        }
        self.enforce();
    }

    /// Makes the file appear for which a program looks.
    fn show_request(&mut self) {
        // If the request cannot be written, SIGTERM still follows.
        if let Err(error) = self.scratch.ask_to_stop() {
            warn!(target: log::SPAWN, %error, "the program cannot be asked to stop");
        }
        self.asked = Some(Instant::now());
    }

    /// Makes the next step towards its end, if that is due.
    fn enforce(&mut self) {
        let now = Instant::now();
        match &mut self.ending {
            Some(End { next: next @ (Force::Terminate, _), .. }) if next.1 <= now => {
                self.worker.terminate();
                *next = (Force::Kill, now + GRACE);
            }
            Some(End { next: (Force::Kill, at), .. }) if *at <= now => self.worker.kill(),
            _ => {}
        }
    }

    /// Excludes `time`, during which the engine did not read the worker's messages, from the limits of the attempt.
    pub(super) fn forgive(&mut self, time: Duration) {
        self.worker.forgive(time);
        self.forgiven += time.min(self.begun.elapsed());
        if let Some(End { next: (_, at), .. }) = &mut self.ending {
            *at += time;
        }
    }

    /// Checks the time: a job that exceeds its time limit or its heartbeat is ended.
    pub(super) fn watch(&mut self, policy: &Policy) {
        self.peak = self.peak.max(peak_memory(self.worker.id()).unwrap_or(0));
        if self.unwanted {
            self.ask();
        }
        if self.ending.is_some() {
            self.enforce();
        } else if policy.timeout.is_some_and(|timeout| self.begun.elapsed() >= timeout + self.forgiven) {
            self.end(Ending::Timeout, policy);
        } else if policy.heartbeat.is_some_and(|heartbeat| self.worker.silence() >= heartbeat) {
            self.end(Ending::Stalled, policy);
        }
    }

    /// The remains of an attempt without a result for the next one, as a phrase: "its checkpoint of step 20 is kept".
    pub(super) fn kept(&self) -> Option<String> {
        let newest = self.scratch.newest(&self.scratch.attempts())?;
        Some(match newest.step {
            Some(step) => format!("its checkpoint of step {step} is kept"),
            None => "its checkpoint is kept".into(),
        })
    }

    /// The kind of end of an attempt without a result.
    pub(super) fn unfinished(&mut self, status: ExitStatus, stray_lines: usize, policy: &Policy) -> Unfinished {
        let note = self.kept();
        let with_kept = |message: String| match &note {
            Some(note) => format!("{message}; {note}"),
            None => message,
        };
        let job_failure = self.outcome.take().and_then(Result::err);
        let span = |limit: Option<Duration>| duration(limit.unwrap_or_default().as_secs_f64());
        let mut failure = match (self.ending.map(|end| end.why), job_failure) {
            (Some(Ending::Timeout), _) => {
                let message = format!("it took longer than its timeout of {}", span(policy.timeout));
                Failure { kind: FailureKind::Timeout, message }
            }
            (Some(Ending::Stalled), _) => {
                let silence = span(policy.heartbeat);
                let message = format!("it stalled: no activity for {silence}, its heartbeat");
                Failure { kind: FailureKind::Stalled, message }
            }
            (_, Some(job_failure)) if job_failure.kind == FailureKind::Stopped && self.asked.is_some() => {
                return Unfinished::Stopped(with_kept(job_failure.message));
            }
            (Some(Ending::Stopped), _) if note.is_some() => {
                return Unfinished::Stopped(with_kept("it was ended".into()));
            }
            (Some(Ending::Requested), _) => return Unfinished::Stopped(with_kept("its end was requested".into())),
            (Some(Ending::Stopped), _) => return Unfinished::GivenUp,
            (None, Some(job_failure)) => self.with_memory(job_failure.recognized()),
            (None, None) => self.with_memory(self.silent_end(status, stray_lines)),
        };
        failure.message = with_kept(failure.message);
        Unfinished::Failed(failure)
    }

    /// Adds the available memory to the failure of a job that ran out of memory.
    fn with_memory(&self, mut failure: Failure) -> Failure {
        if failure.kind == FailureKind::Memory && self.peak > 0 {
            let peak = quantity(self.peak as f64, Unit::Bytes);
            failure.message = format!("{} (main memory at its peak: {peak})", failure.message);
        }
        failure
    }

    /// Returns the failure of a worker that ended without a message.
    fn silent_end(&self, status: ExitStatus, stray_lines: usize) -> Failure {
        let (kind, mut message) = match status.signal() {
            Some(9) => killed("the worker", OutOfMemory::now().since(self.memory)),
            Some(6) => match last_line(&self.log, "memory allocation of") {
                Some(line) => (FailureKind::Memory, format!("out of memory: {line}")),
                None => (FailureKind::Crash, describe_exit(status)),
            },
            _ => (FailureKind::Crash, describe_exit(status)),
        };
        if stray_lines > 0 {
            message = format!("{message}; it wrote {} where only messages should go", count(stray_lines, "line"));
        }
        Failure { kind, message }
    }
}

/// The sender of SIGKILL to a process, as far as the kernel's counters show.
pub fn killed(who: &str, out_of_memory: Option<bool>) -> (FailureKind, String) {
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
        (None, None) => "the worker ended for an unknown reason".into(),
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

//! State that both ways through a batch system share: observers, the queue's poll interval, stopping and detaching.

use std::{
    collections::BTreeSet,
    io,
    path::PathBuf,
    sync::mpsc::RecvTimeoutError,
    time::{Duration, Instant},
};

use fs_err as fs;
use signal_hook::consts::{SIGHUP, SIGINT};
use sweep_job::Failure;
use tracing::{field, info_span, warn};

use super::{BatchId, BatchJob, CancelScope, Cluster, Options, QueuedJob, Refusal};
use crate::{
    format::quoted_path,
    host::log,
    run::{self, RunEvent, local::Input, state::RunState},
};

/// Longest interval between polls of the queue.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum pause after a poll without a response.
const MAX_BACKOFF: Duration = Duration::from_mins(1);

/// The program that batch jobs start, and its folders.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    /// The folder in which the sweep was started: relative paths start there.
    pub(super) folder: PathBuf,
    /// The results folder.
    pub(super) results: PathBuf,
    /// The folder with the outputs of batch jobs, below the run's.
    pub(super) outputs: PathBuf,
}

impl Launch {
    /// The script that runs this program with `arguments`. It contains no user input except quoted paths.
    pub(super) fn script(&self, arguments: &str) -> String {
        let [program, folder, results] = [&self.program, &self.folder, &self.results].map(|path| quoted_path(path));
        // If the folder is missing, a batch system may run the job in another one, which would go unnoticed.
        format!("#!/bin/sh\ncd {folder} || exit 78\nexec {program} --results {results} {arguments}\n")
    }

    /// The script for a machine that shares no folder with this one. The image of that machine has the program and the project.
    pub(super) fn script_afar(arguments: &str) -> String {
        format!(
            "#!/bin/sh\nexec \"${{SWEEP_PROGRAM:-sweep}}\" --results \"${{SWEEP_RESULTS:-/tmp/sweep}}\" {arguments}\n"
        )
    }

    /// The file with the output of a batch job.
    pub(super) fn output(&self, name: &str) -> PathBuf {
        self.outputs.join(name)
    }
}

/// The name of the folder for a batch system's outputs.
fn folder_name(system: &str) -> String {
    system.to_lowercase().chars().map(|char| if char.is_alphanumeric() { char } else { '-' }).collect()
}

/// The state that both ways through a batch system share.
#[expect(clippy::struct_excessive_bools, reason = "independent states of a run")]
pub(super) struct ClusterSession<'a, 'o> {
    pub(super) state: RunState<'a, 'o>,
    pub(super) options: &'a Options,
    pub(super) cluster: &'a dyn Cluster,
    pub(super) launch: Launch,
    pub(super) begun: Instant,
    /// Jobs of the reserve that were added to the run.
    added: BTreeSet<usize>,
    /// True if the system has responded in this run.
    answered: bool,
    /// Number of consecutive polls without a response.
    pub(super) troubles: u32,
    signals: usize,
    /// True if no more jobs are submitted, and pending ones are canceled.
    pub(super) stopping: bool,
    /// True if running jobs are canceled, too.
    pub(super) ending: bool,
    /// Time at which running jobs will be canceled.
    deadline: Option<Instant>,
    /// This process leaves, and the jobs stay.
    pub(super) leaving: bool,
    pub(super) next_poll: Instant,
}

impl<'a, 'o> ClusterSession<'a, 'o> {
    pub(super) fn new(state: RunState<'a, 'o>, cluster: &'a dyn Cluster, options: &'a Options) -> io::Result<Self> {
        let run = std::path::absolute(options.folder.path())?;
        // A batch system may not create folders, and a job without the folder for its output fails without a message.
        let outputs = run.join(folder_name(cluster.system()));
        fs::create_dir_all(&outputs)?;
        let launch = Launch {
            program: std::env::current_exe()?,
            folder: std::env::current_dir()?,
            results: std::path::absolute(&options.results)?,
            outputs,
        };
        let now = Instant::now();
        Ok(Self {
            state,
            options,
            cluster,
            launch,
            begun: now,
            added: BTreeSet::new(),
            answered: false,
            troubles: 0,
            signals: 0,
            stopping: false,
            ending: false,
            deadline: None,
            leaving: false,
            next_poll: now,
        })
    }

    /// Keeps the jobs of the reserve that were added to the run, for processes that read its folder.
    pub(super) fn release(&mut self, jobs: &[usize]) -> io::Result<()> {
        self.added.extend(jobs);
        self.next_poll = Instant::now();
        self.options.folder.keep_added(&self.added)
    }

    /// True if this process stops waiting, given that `open` jobs have not ended. These jobs continue in the batch system.
    pub(super) fn is_over(&mut self, open: usize) -> bool {
        self.state.summary.detached = self.leaving && self.state.summary.broken.is_none() && open > 0;
        self.leaving || open == 0
    }

    /// A job has a record.
    pub(super) fn done(&mut self, job: usize) -> bool {
        let Ok(Some(record)) = self.state.store.get(self.state.key(job)) else { return false };
        let seconds = Some(record.provenance.seconds);
        self.state.tell(&RunEvent::Done { job, seconds, outcome: record.outcome });
        true
    }

    /// Reports a job that has failed; nothing more is submitted if the run ends at the first failure.
    pub(super) fn failed(&mut self, job: usize, seconds: f64, failure: Failure, log: Option<PathBuf>) {
        self.state.fail(job, seconds, failure, log);
        self.stopping |= self.options.fail_fast && !self.state.policy(job).tolerated;
    }

    /// Polls the queue; `None` without a response, which is reported once.
    pub(super) fn queue(&mut self) -> Option<Vec<QueuedJob>> {
        let start = Instant::now();
        let polling = info_span!(target: log::CLUSTER, "poll", jobs = field::Empty).entered();
        let answer = self.cluster.poll();
        polling.record("jobs", answer.as_ref().ok().map(Vec::len));
        drop(polling);
        for sentence in self.cluster.news() {
            self.state.notice(sentence);
        }
        // Polls take a twentieth of the controller's time at most, and less while the queue does not change.
        let pause =
            (start.elapsed() * 20).max(self.state.changed.elapsed() / 10).min(MAX_POLL_INTERVAL).max(self.options.poll);
        self.next_poll = Instant::now() + pause;
        match answer {
            Ok(queue) => {
                if self.troubles > 0 {
                    self.state.notice(format!("{} answers again", self.cluster.system()));
                }
                self.troubles = 0;
                self.answered = true;
                Some(queue)
            }
            Err(error) => {
                self.trouble(&error);
                None
            }
        }
    }

    /// Submits a batch job.
    pub(super) fn submit(&self, job: &BatchJob<'_>) -> Result<BatchId, Refusal> {
        let span = info_span!(target: log::CLUSTER, "submit", tag = job.tag, id = field::Empty);
        let _submitting = span.enter();
        let answer = self.cluster.submit(job);
        match &answer {
            Ok(id) => drop(span.record("id", id.as_str())),
            Err(refusal) => warn!(target: log::CLUSTER, ?refusal, "not submitted"),
        }
        answer
    }

    /// Cancels or interrupts batch jobs.
    pub(super) fn cancel(&self, ids: &[BatchId], scope: CancelScope) -> Result<(), String> {
        let _canceling = (!ids.is_empty()).then(|| info_span!(target: log::CLUSTER, "cancel", ?ids, ?scope).entered());
        self.cluster.cancel(ids, scope)
    }

    /// Handles a batch system that does not respond: the states of its jobs are unknown, and no job is lost.
    pub(super) fn trouble(&mut self, error: &str) {
        if self.troubles == 0 {
            let system = self.cluster.system();
            self.state.notice(format!("{system} does not respond; requests are repeated until it does: {error}"));
        }
        let pause = self.options.poll.saturating_mul(1 << self.troubles.min(10)).min(MAX_BACKOFF);
        self.troubles += 1;
        self.next_poll = Instant::now() + pause;
        let limit = self.cluster.first_answer_within().filter(|_| !self.answered);
        let Some(limit) = limit else { return };
        if self.begun.elapsed() < limit {
            self.next_poll = self.next_poll.min(self.begun + limit);
            return;
        }
        let (system, limit) = (self.cluster.system(), crate::format::duration(limit.as_secs_f64()));
        let broken = format!(
            "{system} has not responded within {limit}: {error}; correct its address or start it. Nothing was \
             submitted, jobs of earlier runs continue there, and the same command takes them over"
        );
        self.state.summary.broken = Some(broken);
        self.leaving = true;
    }

    /// The first signal cancels pending jobs, the second running ones; a third leaves at once. SIGTERM gives running
    /// jobs a deadline. When the terminal disappears, the jobs continue and can be taken over.
    pub(super) fn signal(&mut self, signal: i32, running: usize) {
        self.signals += 1;
        self.state.summary.interrupted.get_or_insert(signal);
        self.next_poll = Instant::now();
        if signal == SIGHUP {
            self.leaving = true;
            let system = self.cluster.system();
            self.state.notice(format!(
                "the terminal was closed; the jobs stay in {system}, and the same command takes them over"
            ));
            return;
        }
        if self.signals > 2 {
            self.leaving = true;
            let (system, command) = (self.cluster.system(), self.cluster.cancel_command());
            self.state.notice(format!("left; `{command}` cancels the jobs that remain in {system}"));
            return;
        }
        self.stopping = true;
        self.ending = self.signals > 1;
        let deadline = (signal != SIGINT && !self.ending).then_some(run::DEADLINE);
        self.deadline = deadline.map(|deadline| Instant::now() + deadline);
        let deadline = deadline.map(|deadline| deadline.as_secs_f64());
        self.state.tell(&RunEvent::Stopping { ending: self.ending, running, deadline });
    }

    /// Waits until the next query of the queue is due, or for a signal.
    pub(super) fn wait(&mut self, running: usize) {
        let until = self.deadline.map_or(self.next_poll, |deadline| deadline.min(self.next_poll));
        match self.state.receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Input::Signal(signal)) => self.signal(signal, running),
            Ok(_) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            self.deadline = None;
            self.ending = true;
            self.next_poll = Instant::now();
            self.state.tell(&RunEvent::Stopping { ending: true, running, deadline: None });
        }
    }
}

//! Runs jobs in worker processes of this machine.

mod absence;
mod beside;
mod gpus;
mod requests;
mod sharing;
mod start;
mod trial;
mod twins;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, OnceLock, mpsc::RecvTimeoutError},
    time::{Duration, Instant, SystemTime},
};

use signal_hook::consts::SIGINT;
use sweep_job::{Failure, FailureKind, Message, Outcome};
use tracing::info;

use self::{beside::Prepared, gpus::Gpus, requests::Requests, sharing::HeldUp, twins::Twins};
pub(super) use self::{
    beside::{NotStored, Stored},
    gpus::Sample,
    trial::Comparing,
};

use super::{
    Disposition, EarlierResults, History, Notice, Options, RunEvent, RunFolder,
    attempt::{Attempt, Ending, GRACE, Unfinished},
    conditions::Surroundings,
    earlier_results,
    executor::Executor,
    failures::with_remedy,
    local::{IdleWorkers, Input},
    scheduler::{Action, Event, Reason, Scheduler},
    specs,
    state::RunState,
    writes::Writes,
};
use crate::{
    format::shortened,
    host::{
        log,
        settings::Settings,
        sharing::{Sharing, SharingError},
        system::Load,
    },
    plan::{Digests, JobId},
    store::StoreError,
};

/// Interval at which the loop polls: other processes' locks, and overdue workers.
const TICK: Duration = Duration::from_millis(100);
/// Delay before a failed job's second attempt; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest such wait.
const MAX_WAIT: Duration = Duration::from_mins(1);
/// Most notices of a job that its record keeps, and the longest, in characters.
const MAX_NOTICES: usize = 50;
const MAX_NOTICE_LENGTH: usize = 500;

/// Runs jobs in worker processes of this machine.
pub(super) struct LocalExecutor<'a, 'o> {
    state: RunState<'a, 'o>,
    options: &'a Options,
    scheduler: Scheduler,
    /// The lock that the sweeps on this machine share.
    sharing: Sharing,
    /// True from the moment a job did not get the machine until the next attempt.
    refused: bool,
    held_up: Option<HeldUp>,
    /// Reason why other sweeps may run beside exclusive jobs, which was reported.
    unprotected: Option<SharingError>,
    /// Jobs that have slots, and whose input files are being checked.
    preparing: BTreeMap<usize, Prepared>,
    running: BTreeMap<usize, Attempt>,
    /// Workers that have done their jobs and wait for others.
    idle: IdleWorkers,
    /// Jobs whose results are being stored beside the loop.
    storing: BTreeSet<usize>,
    /// Deadline for results: results that are not in the store by then are abandoned.
    patience: Option<Instant>,
    /// Digests of files that jobs read.
    digests: Arc<Mutex<Digests>>,
    /// Paths that jobs have written.
    writes: Arc<Writes>,
    /// Jobs that another process is at.
    waiting: BTreeSet<usize>,
    /// Jobs that failed and wait for another attempt.
    retrying: BTreeMap<usize, Retry>,
    /// Number of attempts of each job that has had any.
    attempts: BTreeMap<usize, u32>,
    /// True if a program has started that may write to projects without being observed.
    has_unseen_writer: bool,
    /// Jobs that ran again because a file was edited while they ran; such a run does not count as an attempt.
    repeated: BTreeSet<usize>,
    /// Jobs whose earlier result was removed while it was to be adopted.
    unadoptable: BTreeSet<usize>,
    /// Jobs that differ in the variant of their code only.
    twins: Twins,
    /// State of the GPUs that jobs share.
    gpus: Gpus,
    /// Results of earlier jobs, which may hold for jobs whose needed jobs have run again.
    earlier: Option<Box<dyn EarlierResults + 'a>>,
    /// Conditions that all jobs have in common, once one has started.
    surroundings: OnceLock<Arc<Surroundings>>,
    signals: usize,
    /// Time at which the running jobs will be ended.
    deadline: Option<Instant>,
    ticked: Instant,
    /// Time at which the loop waited last.
    waited: Instant,
    /// Time at which the run was planned.
    planned: Option<SystemTime>,
    /// Settings of this process when the run began, which workers inherit.
    settings: Settings,
    /// Time of the last poll of other processes' jobs.
    polled: Instant,
    /// Jobs whose end another process has requested.
    requests: Requests,
}

/// A job that failed and waits for another attempt.
struct Retry {
    /// Earliest start; `None` once that has passed.
    at: Option<Instant>,
    seconds: f64,
    failure: Failure,
}

impl<'a, 'o> Executor<'a, 'o> for LocalExecutor<'a, 'o> {
    fn state(&mut self) -> &mut RunState<'a, 'o> {
        &mut self.state
    }

    fn start(&mut self) -> io::Result<bool> {
        Ok(self.step(Event::Begin))
    }

    fn release(&mut self, jobs: &[usize]) -> io::Result<bool> {
        let mut over = false;
        for job in jobs {
            over = self.step(Event::Release(*job)) || over;
        }
        Ok(self.step(Event::Begin) || over)
    }

    fn advance(&mut self) -> io::Result<bool> {
        self.leave_if_idle();
        let input = self.state.receiver.recv_timeout(TICK);
        self.forgive_absence();
        let over = match input {
            Ok(Input::Message(job, message)) => {
                self.message(job, message);
                false
            }
            Ok(Input::Closed(job, stray_lines)) => self.closed(job, stray_lines)?,
            Ok(Input::Checked(job, check)) => {
                let events = self.prepared(job, check);
                self.steps(events)
            }
            Ok(Input::Stored(job, start, stored)) => {
                let events = self.stored(job, start, stored);
                self.steps(events)
            }
            Ok(Input::Sampled(sample)) => {
                self.sampled(sample);
                false
            }
            Ok(Input::Signal(signal)) => self.signal(signal),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
        };
        Ok(self.tick() || over)
    }

    fn stop(&mut self) -> bool {
        self.step(Event::Stop)
    }

    fn is_stopping(&self) -> bool {
        self.scheduler.is_stopping()
    }
}

impl Drop for LocalExecutor<'_, '_> {
    /// Keeps the digests for later runs. Remaining checks of files are for jobs that were given up.
    fn drop(&mut self) {
        if let Ok(mut digests) = self.digests.try_lock() {
            digests.keep();
        }
    }
}

impl<'a, 'o> LocalExecutor<'a, 'o> {
    pub(super) fn new(state: RunState<'a, 'o>, options: &'a Options, history: &History) -> Self {
        let (plan, store) = (state.plan, state.store);
        let (specs, lists) = specs(plan, &state.wanted, &options.limits, history);
        let mut executor = Self {
            state,
            options,
            scheduler: Scheduler::new(&specs, &lists, &options.limits, options.fail_fast),
            sharing: Sharing::open(),
            refused: false,
            held_up: None,
            unprotected: None,
            preparing: BTreeMap::new(),
            running: BTreeMap::new(),
            idle: IdleWorkers::default(),
            storing: BTreeSet::new(),
            patience: None,
            writes: Arc::default(),
            digests: Arc::new(Mutex::new(Digests::open(store.digests()).with_manifests(store.manifests()))),
            waiting: BTreeSet::new(),
            retrying: BTreeMap::new(),
            attempts: BTreeMap::new(),
            has_unseen_writer: false,
            repeated: BTreeSet::new(),
            unadoptable: BTreeSet::new(),
            twins: Twins::of(plan),
            gpus: Gpus::new(plan, &history.gpus),
            earlier: earlier_results(store),
            surroundings: OnceLock::new(),
            signals: 0,
            deadline: None,
            ticked: Instant::now(),
            waited: Instant::now(),
            planned: RunFolder::planned(&options.folder),
            settings: Settings::now(),
            polled: Instant::now(),
            requests: Requests::default(),
        };
        executor.keep_files();
        executor
    }

    /// Passes an event to the scheduler and carries out its actions; `true` when the run is over.
    fn step(&mut self, event: Event) -> bool {
        let mut events = vec![event];
        let mut over = false;
        while let Some(event) = events.pop() {
            for action in self.scheduler.on(event) {
                match action {
                    Action::Start { job, lease } => events.extend(self.start(job, lease)),
                    Action::Skip { job, because } => self.skip(job, because),
                    Action::Finish => over = true,
                }
            }
        }
        over
    }

    fn steps(&mut self, events: Vec<Event>) -> bool {
        let mut over = false;
        for event in events {
            over = self.step(event) || over;
        }
        over
    }

    fn skip(&mut self, job: usize, because: Reason) {
        self.waiting.remove(&job);
        // The job was waiting for a retry, so its last failure is reported.
        if let Some(Retry { seconds, failure, .. }) = self.retrying.remove(&job) {
            self.report_failure(job, seconds, failure);
            return;
        }
        let because = match because {
            Reason::Needs(need) => Some(need),
            Reason::Stopped => None,
        };
        self.state.tell(&RunEvent::Skipped { job, because });
    }

    /// Keeps the files of the jobs' projects, so that an edit during the run changes no job of it.
    fn keep_files(&mut self) {
        let runs = |id: JobId| matches!(self.state.wanted[id.index()], Disposition::Yes | Disposition::Reserve);
        if let Err(error) = self.state.plan.begin_moments(self.state.store.results(), runs) {
            let text = format!(
                "the code of the project cannot be copied, so a file that is edited during the run is read by some jobs before, by \
                 others after it: {error}"
            );
            self.state.warn(text);
        }
    }

    fn message(&mut self, job: usize, message: Message) {
        let Some(attempt) = self.running.get_mut(&job) else { return };
        match message {
            Message::Progress(progress) => {
                if progress.done > 0 || progress.total > 0 {
                    attempt.milestones.reach(progress.done, attempt.begun.elapsed().as_secs_f64());
                }
                self.state.tell(&RunEvent::Progress { job, progress });
            }
            Message::Note(text) => {
                if attempt.notices.len() < MAX_NOTICES {
                    attempt.notices.push(shortened(&text, MAX_NOTICE_LENGTH));
                }
                self.state.tell(&RunEvent::Note { job, text });
            }
            Message::Alive | Message::Idle => {}
            Message::Observed(observed) => attempt.observed = Some(observed),
            Message::Agreed(agreement) => {
                if let Some(comparing) = &mut attempt.comparing {
                    comparing.agree(agreement);
                }
            }
            Message::Done(outcome) => attempt.outcome = Some(Ok(outcome)),
            Message::Failed(failure) => attempt.outcome = Some(Err(failure)),
        }
    }

    /// A worker has closed its output: it has ended or is about to.
    fn closed(&mut self, job: usize, stray_lines: usize) -> io::Result<bool> {
        let Some(mut attempt) = self.running.remove(&job) else { return Ok(false) };
        let status = attempt.worker.wait(GRACE)?;
        let after = Load::lately();
        let seconds = attempt.begun.elapsed().as_secs_f64();
        info!(target: log::SPAWN, pid = attempt.worker.id(), %status, seconds, "worker ended");
        let events = match attempt.outcome.take() {
            Some(Ok(outcome)) => self.commit(job, attempt, outcome, (seconds, after)),
            outcome => {
                attempt.outcome = outcome;
                let end = attempt.unfinished(status, stray_lines, &self.state.policy(job));
                attempt.scratch.clear();
                match end {
                    Unfinished::Failed(failure) => {
                        let again = self.again_alone(job, seconds, &attempt.lease, &failure);
                        let ends = |executor: &mut Self| {
                            if executor.finds_earlier_files(job, attempt.reads.layer()) {
                                return executor.repeat(job, seconds, failure);
                            }
                            executor.failed(job, seconds, failure)
                        };
                        vec![again.unwrap_or_else(|| ends(self))]
                    }
                    Unfinished::Stopped(how) => {
                        self.state.tell(&RunEvent::Stopped { job, seconds, how });
                        vec![Event::Stopped(job)]
                    }
                    Unfinished::GivenUp => {
                        self.state.tell(&RunEvent::Skipped { job, because: None });
                        vec![Event::Failed(job)]
                    }
                }
            }
        };
        Ok(self.steps(events))
    }

    /// Another process did it.
    fn adopt(&mut self, job: usize, outcome: Outcome) -> Event {
        self.waiting.remove(&job);
        self.retrying.remove(&job);
        self.state.tell(&RunEvent::Done { job, seconds: None, outcome });
        Event::Done(job)
    }

    /// Handles a system with too many processes. The job waits for the end of other jobs of this run; without other jobs, waiting does not
    /// help.
    fn crowded(&mut self, job: usize, failure: Failure) -> Vec<Event> {
        if !self.running.is_empty() {
            self.retrying.insert(job, Retry { at: Some(Instant::now() + FIRST_WAIT), seconds: 0.0, failure });
            return vec![Event::Later(job)];
        }
        self.state.summary.broken.get_or_insert_with(|| failure.message.clone());
        self.report_failure(job, 0.0, failure);
        // Carried out from the end.
        vec![Event::Stop, Event::Failed(job)]
    }

    /// The store cannot be used. If that is so for every job, nothing more is started.
    fn store_failed(&mut self, job: usize, error: &StoreError, seconds: f64, failure: Failure) -> Vec<Event> {
        self.waiting.remove(&job);
        self.retrying.remove(&job);
        self.report_failure(job, seconds, failure);
        if !error.is_lasting() {
            return vec![Event::Failed(job)];
        }
        self.state.summary.broken.get_or_insert_with(|| format!("the store cannot be written: {error}"));
        // Carried out from the end.
        vec![Event::Stop, Event::Failed(job)]
    }

    /// Handles a failed job: it is tried again if it has attempts left.
    fn failed(&mut self, job: usize, seconds: f64, failure: Failure) -> Event {
        let (attempts, retries) = (self.attempts.get(&job).copied().unwrap_or(1), self.state.policy(job).retries);
        let attempts = attempts - u32::from(self.repeated.contains(&job) && attempts > 1);
        let attempt = attempts - u32::from(self.gpus.exhausted(job).is_some() && attempts > 1);
        if attempt > retries || self.scheduler.is_stopping() {
            self.report_failure(job, seconds, failure);
            return Event::Failed(job);
        }
        let wait = wait_before(attempt);
        self.state.tell(&RunEvent::Retrying {
            job,
            attempt,
            attempts: retries + 1,
            wait: wait.as_secs_f64(),
            failure: failure.clone(),
            alone: false,
        });
        self.retrying.insert(job, Retry { at: Some(Instant::now() + wait), seconds, failure });
        Event::Later(job)
    }

    fn report_failure(&mut self, job: usize, seconds: f64, failure: Failure) {
        let failure = with_remedy(self.state.plan, JobId::new(job), failure);
        let key = self.state.key(job);
        let log = self.options.folder.join("logs").join(format!("{}.log", key.short()));
        let log = self.attempts.contains_key(&job).then_some(log);
        if let Some(failures) = self.options.failures.as_ref().filter(|_| log.is_some()) {
            // If the failure cannot be written, other processes run the job and see it fail themselves.
            let _ = failures.add(key, &failure);
        }
        self.state.fail(job, seconds, failure, log);
    }

    /// The first signal requests the running jobs to stop if they can continue later, and lets the others end; the
    /// second ends all of them. After SIGTERM or SIGHUP, a deadline takes the place of the second signal.
    fn signal(&mut self, signal: i32) -> bool {
        self.signals += 1;
        self.state.summary.interrupted.get_or_insert(signal);
        let ending = self.signals > 1;
        let deadline = (signal != SIGINT && !ending).then_some(self.options.deadline);
        if let Some(deadline) = deadline {
            self.deadline = Some(Instant::now() + deadline);
            self.limit_storing(deadline);
        }
        let deadline = deadline.map(|deadline| deadline.as_secs_f64());
        self.state.tell(&RunEvent::Stopping { ending, running: self.running.len(), deadline });
        if ending {
            self.end_running_at_once();
        } else {
            self.running.values_mut().for_each(Attempt::ask);
        }
        let given_up = self.give_up_preparing();
        let over = self.step(Event::Stop);
        self.steps(given_up) || over
    }

    fn end_running(&mut self) {
        self.deadline = None;
        self.limit_storing(GRACE);
        for (job, attempt) in &mut self.running {
            attempt.end(Ending::Stopped, &self.state.plan.job(JobId::new(*job)).policy);
        }
    }

    fn end_running_at_once(&mut self) {
        self.end_running();
        for (job, attempt) in &mut self.running {
            attempt.end_at_once(&self.state.plan.job(JobId::new(*job)).policy);
        }
    }

    fn tick(&mut self) -> bool {
        let mut over = false;
        if self.ticked.elapsed() < TICK {
            return over;
        }
        self.ticked = Instant::now();
        for Notice { text, warning } in self.options.arriving.notices() {
            self.state.tell(&RunEvent::Notice { text, warning });
        }
        self.state.tick();
        // A check of another machine's lock is a request to the file server.
        let pause = if self.state.store.is_shared() && !self.waiting.is_empty() { 3 * TICK } else { TICK };
        let waiting = if self.polled.elapsed() >= pause { self.waiting.clone() } else { BTreeSet::new() };
        if !waiting.is_empty() {
            self.polled = Instant::now();
        }
        for job in waiting {
            let key = self.state.plan.job(JobId::new(job)).key;
            if !self.options.arriving.has(key) && self.state.store.is_free(key) {
                over = self.step(Event::Free(job)) || over;
            }
        }
        let now = self.ticked;
        let retries = self.retrying.iter_mut().filter(|(_, retry)| retry.at.is_some_and(|at| at <= now));
        let jobs: Vec<usize> = retries.map(|(job, retry)| (*job, retry.at.take()).0).collect();
        for job in jobs {
            self.refresh(job);
            over = self.step(Event::Free(job)) || over;
        }
        over = self.try_the_machine_again() || over;
        self.sample_gpus();
        self.follow_requests();
        for (job, attempt) in &mut self.running {
            attempt.watch(&self.state.plan.job(JobId::new(*job)).policy);
        }
        if self.deadline.is_some_and(|deadline| deadline <= self.ticked) {
            self.state.tell(&RunEvent::Stopping { ending: true, running: self.running.len(), deadline: None });
            self.end_running();
        }
        let given_up = self.give_up_storing();
        self.steps(given_up) || over
    }
}

/// Delay after the failure of the attempt with this number, from 1.
pub(super) fn wait_before(attempt: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << (attempt - 1).min(16)).min(MAX_WAIT)
}

fn io_failure(message: String) -> Failure {
    Failure { kind: FailureKind::Io, message }
}

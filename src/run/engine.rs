//! The loop that owns the state of a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use fs_err as fs;
use signal_hook::consts::SIGINT;
use sweep_job::{Failure, FailureKind, Message, Outcome, PROTOCOL, Values};

use super::{
    Addition, Control, History, Observer, Options, Rounds, RunEvent, Summary, Wanted,
    attempt::{Attempt, Ending, GRACE},
    local::{Input, Start, Worker},
    scheduler::{Action, Event, Reason, Scheduler},
    slots::Lease,
    specs,
};
use crate::{
    fault,
    machine::OutOfMemory,
    plan::{JobId, Plan, Unsettled, settle},
    recipe::Policy,
    remote::Notice,
    store::{Claim, Pending, Provenance, RECORD_FORMAT, Record, Store, StoreError},
};

/// How often the loop looks at what does not announce itself: other processes' locks, and overdue workers.
const TICK: Duration = Duration::from_millis(100);
/// How long a job that failed waits before its second attempt; twice as long before each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest such wait.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// So many results are stored beside the loop; of more than that each is waited for, so that they do not pile up.
const MOST_STORING: usize = 16;

/// The loop's state.
pub(super) struct Run<'a, 'o> {
    plan: &'a Plan,
    store: &'a Store,
    options: &'a Options,
    observers: &'a mut [&'o mut dyn Observer],
    history: &'a History,
    wanted: Vec<Wanted>,
    /// Jobs that failed or were skipped.
    lost: BTreeSet<usize>,
    scheduler: Scheduler,
    running: BTreeMap<usize, Attempt>,
    /// How many results are being stored beside the loop.
    storing: usize,
    /// Jobs that another process is at.
    waiting: BTreeSet<usize>,
    /// Jobs that failed and wait for another attempt.
    retrying: BTreeMap<usize, Retry>,
    /// How many attempts each job has had that has had any.
    attempts: BTreeMap<usize, u32>,
    signals: usize,
    /// When the running jobs will be ended.
    deadline: Option<Instant>,
    /// Jobs that were selected.
    jobs: usize,
    ticked: Instant,
    /// When it was last looked what other processes are at.
    looked: Instant,
    summary: Summary,
    sender: Sender<Input>,
    receiver: Receiver<Input>,
}

/// A job that failed and waits for another attempt.
struct Retry {
    /// When it may start; `None` once that has passed.
    at: Option<Instant>,
    seconds: f64,
    failure: Failure,
}

impl<'a, 'o> Run<'a, 'o> {
    pub(super) fn new(
        plan: &'a Plan,
        store: &'a Store,
        wanted: &[Wanted],
        options: &'a Options,
        history: &'a History,
        observers: &'a mut [&'o mut dyn Observer],
    ) -> Self {
        let specs = specs(plan, wanted, options.limits, history);
        let (sender, receiver) = channel();
        let count = |state: Wanted| wanted.iter().filter(|other| **other == state).count();
        Self {
            plan,
            store,
            options,
            observers,
            history,
            wanted: wanted.to_vec(),
            lost: BTreeSet::new(),
            scheduler: Scheduler::new(&specs, options.limits, options.fail_fast),
            running: BTreeMap::new(),
            storing: 0,
            waiting: BTreeSet::new(),
            retrying: BTreeMap::new(),
            attempts: BTreeMap::new(),
            signals: 0,
            deadline: None,
            jobs: wanted.len() - count(Wanted::No) - count(Wanted::Reserve),
            ticked: Instant::now(),
            looked: Instant::now(),
            summary: Summary { cached: count(Wanted::Cached), ..Summary::default() },
            sender,
            receiver,
        }
    }

    /// Runs to the end.
    pub(super) fn drive(mut self, control: Control<'_>) -> io::Result<Summary> {
        let Control { signals, mut rounds } = control;
        if let Some(signals) = signals {
            signals.forward(self.sender.clone());
        }
        let begun = Instant::now();
        self.tell(&RunEvent::Begun { jobs: self.jobs, cached: self.summary.cached });
        let mut over = self.step(Event::Begin) && !self.goes_on(&mut rounds)?;
        while !over {
            over = match self.receiver.recv_timeout(TICK) {
                Ok(Input::Message(job, message)) => {
                    self.message(job, message);
                    false
                }
                Ok(Input::Closed(job, strays)) => self.closed(job, strays)?,
                Ok(Input::Stored(job, seconds, stored)) => {
                    self.storing -= 1;
                    let events = self.stored(job, seconds, stored);
                    self.steps(events)
                }
                Ok(Input::Signal(signal)) => self.signal(signal),
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            over = (self.tick() || over) && !self.goes_on(&mut rounds)?;
        }
        self.summary.seconds = begun.elapsed().as_secs_f64();
        let summary = self.summary.clone();
        self.tell(&RunEvent::Ended(summary.clone()));
        Ok(summary)
    }

    /// Everything has ended: begins another round, if there is one.
    fn goes_on(&mut self, rounds: &mut Option<&mut dyn Rounds>) -> io::Result<bool> {
        let Some(rounds) = rounds else { return Ok(false) };
        loop {
            if self.scheduler.is_stopping() || self.summary.interrupted.is_some() || self.summary.broken.is_some() {
                return Ok(false);
            }
            let added = rounds.next(&self.lost)?;
            if added.is_empty() {
                return Ok(false);
            }
            for state in self.wanted.iter_mut().filter(|state| **state == Wanted::Yes) {
                *state = Wanted::Cached;
            }
            for Addition { job, because } in added {
                let job = job.index();
                self.wanted[job] = Wanted::Yes;
                self.jobs += 1;
                self.tell(&RunEvent::Added { job, because });
            }
            let specs = specs(self.plan, &self.wanted, self.options.limits, self.history);
            self.scheduler = Scheduler::new(&specs, self.options.limits, self.options.fail_fast);
            if !self.step(Event::Begin) {
                return Ok(true);
            }
        }
    }

    fn tell(&mut self, event: &RunEvent) {
        for observer in self.observers.iter_mut() {
            observer.on(self.plan, event);
        }
    }

    fn policy(&self, job: usize) -> Policy {
        self.plan.job(JobId::new(job)).policy
    }

    /// Tells the scheduler what happened and does what follows; `true` when the run is over.
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
        // Its last word was a failure, and there will be no other.
        if let Some(Retry { seconds, failure, .. }) = self.retrying.remove(&job) {
            self.report_failure(job, seconds, failure);
            return;
        }
        self.summary.skipped += 1;
        self.lost.insert(job);
        let because = match because {
            Reason::Needs(need) => Some(need),
            Reason::Stopped => None,
        };
        self.tell(&RunEvent::Skipped { job, because });
    }

    /// Starts a job, or finds that there is no need or no way to; then answers what to tell the scheduler.
    fn start(&mut self, job: usize, lease: Lease) -> Vec<Event> {
        let key = self.plan.job(JobId::new(job)).key;
        if let Some(failure) = self.options.failures.as_ref().and_then(|failures| failures.of(key)) {
            self.waiting.remove(&job);
            self.report_failure(job, 0.0, failure);
            return vec![Event::Failed(job)];
        }
        if self.options.arriving.has(key) {
            return self.wait(job, true);
        }
        match self.store.claim(key) {
            Ok(Claim::Hit(record)) => vec![self.adopt(job, record.outcome)],
            Ok(Claim::Busy) => self.wait(job, false),
            Ok(Claim::Miss(pending)) => {
                self.waiting.remove(&job);
                let values = match self.settled(job) {
                    Ok(values) => values,
                    Err(error) => {
                        let failure = Failure { kind: FailureKind::Input, message: error.to_string() };
                        self.report_failure(job, 0.0, failure);
                        return vec![Event::Failed(job)];
                    }
                };
                let (cpus, gpus) = (lease.cpus, lease.gpus.clone());
                match self.spawn(job, lease, values, pending) {
                    Ok(attempt) => {
                        self.retrying.remove(&job);
                        self.tell(&RunEvent::Started { job, cpus, gpus, attempt });
                        Vec::new()
                    }
                    Err(error) => {
                        let failure = io_failure(format!("the worker could not be started: {error}"));
                        self.store_failed(job, &StoreError::from(error), 0.0, failure)
                    }
                }
            }
            Err(error) => {
                let failure = io_failure(error.to_string());
                self.store_failed(job, &error, 0.0, failure)
            }
        }
    }

    /// Lets a job wait for its record, which another process makes, or which is on its way from a remote.
    fn wait(&mut self, job: usize, arriving: bool) -> Vec<Event> {
        if self.waiting.insert(job) {
            self.tell(&RunEvent::Waiting { job, arriving });
        }
        vec![Event::Later(job)]
    }

    /// The parameters of a job, with what the jobs that it needs have left.
    fn settled(&self, job: usize) -> Result<Values, Unsettled> {
        let planned = self.plan.job(JobId::new(job));
        let look_up = &mut |key| {
            let record = self.store.get(key).ok().flatten()?;
            Some((record, self.store.files(key)))
        };
        settle(planned.task, &planned.values, look_up)
    }

    fn spawn(&mut self, job: usize, lease: Lease, values: Values, pending: Pending) -> io::Result<u32> {
        let planned = self.plan.job(JobId::new(job));
        let logs = self.options.folder.join("logs");
        fs::create_dir_all(&logs)?;
        let log = logs.join(format!("{}.log", planned.key.short()));
        let attempt = self.attempts.get(&job).copied().unwrap_or(0) + 1;
        let order = sweep_job::Job {
            protocol: PROTOCOL,
            task: planned.task.name.to_owned(),
            params: values.clone(),
            backend: planned.identity.backend,
            threads: lease.cpus,
            dir: std::path::absolute(pending.dir())?,
            scratch: std::path::absolute(pending.scratch())?,
            // Often enough that a late one is not taken for none.
            beat: planned.policy.heartbeat.map(|heartbeat| (heartbeat.as_secs_f64() / 4.0).min(5.0)),
        };
        let names: Vec<&str> =
            lease.gpus.iter().filter_map(|gpu| self.options.gpus.get(*gpu)).map(String::as_str).collect();
        let gpus = (!names.is_empty()).then(|| names.join(","));
        let (started, begun, memory) = (fault::now(), Instant::now(), OutOfMemory::now());
        fault::point("run: before a worker")?;
        let worker = Worker::spawn(&Start { id: job, job: &order, log: &log, gpus }, self.sender.clone())?;
        self.attempts.insert(job, attempt);
        let (outcome, ending, peak) = (None, None, 0);
        let attempt_at = Attempt { worker, values, pending, lease, log, started, begun, outcome, ending, peak, memory };
        self.running.insert(job, attempt_at);
        Ok(attempt)
    }

    fn message(&mut self, job: usize, message: Message) {
        let Some(running) = self.running.get_mut(&job) else { return };
        match message {
            Message::Progress(progress) => self.tell(&RunEvent::Progress { job, progress }),
            Message::Note(text) => self.tell(&RunEvent::Note { job, text }),
            Message::Alive => {}
            Message::Done(outcome) => running.outcome = Some(Ok(outcome)),
            Message::Failed(failure) => running.outcome = Some(Err(failure)),
        }
    }

    /// A worker has closed its output: it has ended or is about to.
    fn closed(&mut self, job: usize, strays: usize) -> io::Result<bool> {
        let Some(mut attempt) = self.running.remove(&job) else { return Ok(false) };
        let status = attempt.worker.wait(GRACE)?;
        let seconds = attempt.begun.elapsed().as_secs_f64();
        let events = match attempt.outcome.take() {
            Some(Ok(outcome)) => self.commit(job, attempt, outcome, seconds),
            outcome => {
                attempt.outcome = outcome;
                match attempt.failure(status, strays, &self.policy(job)) {
                    Some(failure) => vec![self.failed(job, seconds, failure)],
                    None => {
                        self.summary.skipped += 1;
                        self.tell(&RunEvent::Skipped { job, because: None });
                        vec![Event::Failed(job)]
                    }
                }
            }
        };
        Ok(self.steps(events))
    }

    fn commit(&mut self, job: usize, attempt: Attempt, outcome: Outcome, seconds: f64) -> Vec<Event> {
        let planned = self.plan.job(JobId::new(job));
        let record = Record {
            format: RECORD_FORMAT,
            key: planned.key,
            identity: planned.identity.clone(),
            label: planned.label.to_string(),
            params: attempt.values,
            outcome,
            files: BTreeMap::new(),
            provenance: Provenance {
                sweep: env!("CARGO_PKG_VERSION").to_owned(),
                started: attempt.started,
                seconds,
                device: self.options.device.clone().filter(|_| planned.task.on_device),
                threads: attempt.lease.cpus,
                host: host(),
            },
        };
        let pending = attempt.pending;
        if self.storing >= MOST_STORING {
            let stored = pending.commit(record).map(Box::new);
            return self.stored(job, seconds, stored);
        }
        self.tell(&RunEvent::Storing { job });
        // The disk takes longer than all the rest; the job's slots are free meanwhile.
        let sender = self.sender.clone();
        let store = move || {
            let stored = catch_unwind(AssertUnwindSafe(|| pending.commit(record).map(Box::new)));
            let stored = stored.unwrap_or_else(|_| Err(io::Error::other("storing it panicked").into()));
            let _ = sender.send(Input::Stored(job, seconds, stored));
        };
        match thread::Builder::new().name(format!("store {job}")).spawn(store) {
            Ok(_) => {
                self.storing += 1;
                vec![Event::Storing(job)]
            }
            Err(error) => {
                let failure = io_failure(format!("the result could not be stored: {error}"));
                self.store_failed(job, &StoreError::from(error), seconds, failure)
            }
        }
    }

    /// A result is in the store, or cannot be.
    fn stored(&mut self, job: usize, seconds: f64, stored: Result<Box<Record>, StoreError>) -> Vec<Event> {
        match stored {
            Ok(record) => {
                self.summary.done += 1;
                self.tell(&RunEvent::Done { job, seconds: Some(seconds), outcome: record.outcome });
                vec![Event::Done(job)]
            }
            Err(error) => {
                let failure = io_failure(format!("the result could not be stored: {error}"));
                self.store_failed(job, &error, seconds, failure)
            }
        }
    }

    /// Another process did it.
    fn adopt(&mut self, job: usize, outcome: Outcome) -> Event {
        self.waiting.remove(&job);
        self.retrying.remove(&job);
        self.summary.done += 1;
        self.tell(&RunEvent::Done { job, seconds: None, outcome });
        Event::Done(job)
    }

    /// The store cannot be used. If that is so for every job, nothing more is started.
    fn store_failed(&mut self, job: usize, error: &StoreError, seconds: f64, failure: Failure) -> Vec<Event> {
        self.waiting.remove(&job);
        self.retrying.remove(&job);
        self.report_failure(job, seconds, failure);
        if !error.is_lasting() {
            return vec![Event::Failed(job)];
        }
        self.summary.broken.get_or_insert_with(|| error.to_string());
        // Carried out from the end.
        vec![Event::Stop, Event::Failed(job)]
    }

    /// A job has failed: it is tried again if it has attempts left.
    fn failed(&mut self, job: usize, seconds: f64, failure: Failure) -> Event {
        let (attempt, retries) = (self.attempts.get(&job).copied().unwrap_or(1), self.policy(job).retries);
        if attempt > retries || self.scheduler.is_stopping() {
            self.report_failure(job, seconds, failure);
            return Event::Failed(job);
        }
        let wait = wait_before(attempt);
        self.tell(&RunEvent::Retrying {
            job,
            attempt,
            attempts: retries + 1,
            wait: wait.as_secs_f64(),
            failure: failure.clone(),
        });
        self.retrying.insert(job, Retry { at: Some(Instant::now() + wait), seconds, failure });
        Event::Later(job)
    }

    fn report_failure(&mut self, job: usize, seconds: f64, failure: Failure) {
        let planned = self.plan.job(JobId::new(job));
        let tolerated = planned.policy.tolerated;
        self.lost.insert(job);
        let log = self.options.folder.join("logs").join(format!("{}.log", planned.key.short()));
        let log = self.attempts.contains_key(&job).then_some(log);
        if let Some(failures) = self.options.failures.as_ref().filter(|_| log.is_some()) {
            // Where it cannot be said, others find out for themselves.
            let _ = failures.add(planned.key, &failure);
        }
        *if tolerated { &mut self.summary.tolerated } else { &mut self.summary.failed } += 1;
        self.tell(&RunEvent::Failed { job, seconds, failure, log, tolerated });
    }

    /// The first signal lets the running jobs end, the second ends them. After SIGTERM or SIGHUP there is no time for a
    /// second.
    fn signal(&mut self, signal: i32) -> bool {
        self.signals += 1;
        self.summary.interrupted.get_or_insert(signal);
        let ending = self.signals > 1;
        let deadline = (signal != SIGINT && !ending).then_some(self.options.deadline);
        if let Some(deadline) = deadline {
            self.deadline = Some(Instant::now() + deadline);
        }
        let deadline = deadline.map(|deadline| deadline.as_secs_f64());
        self.tell(&RunEvent::Stopping { ending, running: self.running.len(), deadline });
        if ending {
            self.end_running();
        }
        self.step(Event::Stop)
    }

    fn end_running(&mut self) {
        self.deadline = None;
        for attempt in self.running.values_mut() {
            attempt.end(Ending::Stopped);
        }
    }

    fn tick(&mut self) -> bool {
        let mut over = false;
        if self.ticked.elapsed() < TICK {
            return over;
        }
        self.ticked = Instant::now();
        for Notice { text, warning } in self.options.arriving.notices() {
            self.tell(&RunEvent::Notice { text, warning });
        }
        // A look at another machine's lock asks the server.
        let pause = if self.store.is_shared() && !self.waiting.is_empty() { 3 * TICK } else { TICK };
        let waiting = if self.looked.elapsed() >= pause { self.waiting.clone() } else { BTreeSet::new() };
        if !waiting.is_empty() {
            self.looked = Instant::now();
        }
        for job in waiting {
            let key = self.plan.job(JobId::new(job)).key;
            if !self.options.arriving.has(key) && self.store.is_free(key) {
                over = self.step(Event::Free(job)) || over;
            }
        }
        let now = self.ticked;
        let due = self.retrying.iter_mut().filter(|(_, retry)| retry.at.is_some_and(|at| at <= now));
        let due: Vec<usize> = due.map(|(job, retry)| (*job, retry.at.take()).0).collect();
        for job in due {
            over = self.step(Event::Free(job)) || over;
        }
        for (job, attempt) in &mut self.running {
            attempt.watch(&self.plan.job(JobId::new(*job)).policy);
        }
        if self.deadline.is_some_and(|deadline| deadline <= self.ticked) {
            self.tell(&RunEvent::Stopping { ending: true, running: self.running.len(), deadline: None });
            self.end_running();
        }
        over
    }
}

/// How long a job waits whose attempt of this number has failed, from 1.
pub(super) fn wait_before(attempt: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << (attempt - 1).min(16)).min(LONGEST_WAIT)
}

fn io_failure(message: String) -> Failure {
    Failure { kind: FailureKind::Io, message }
}

pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

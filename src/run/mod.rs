//! Brings the jobs that are not done yet to worker processes, and their results to the store.
//!
//! One loop owns the state of a run. It turns what workers, signals and time say into [`scheduler::Event`]s and carries
//! out the [`scheduler::Action`]s that follow; whoever shows or records the run only observes [`RunEvent`]s.

mod journal;
mod local;
pub mod scheduler;
mod signals;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::{Duration, Instant},
};

use fs_err as fs;
use jiff::Timestamp;
use serde::Serialize;
use sweep_job::{Device, Failure, FailureKind, Message, Outcome, PROTOCOL, Progress, Values};

pub(crate) use self::local::program;
pub use self::{journal::Journal, signals::Signals};
use self::{
    local::{Input, Worker},
    scheduler::{Action, Event, JobSpec, Limits, Reason, Scheduler},
};
use crate::{
    plan::{JobId, Plan, Unsettled, settle},
    store::{Claim, Pending, Provenance, RECORD_FORMAT, Record, Store},
};

/// How to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Cores to share among the jobs.
    pub cpus: usize,
    /// Jobs at once, at most.
    pub jobs: usize,
    /// Whether the first failure stops the run.
    pub fail_fast: bool,
    /// Where the jobs compute that need a device.
    pub device: Option<Device>,
    /// The folder of this run: its journal and the logs of its workers.
    pub folder: PathBuf,
}

/// What observers are told.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEvent {
    /// The run begins.
    Begun {
        /// Jobs in all.
        jobs: usize,
        /// Of which are done already.
        cached: usize,
    },
    /// A job's process was started.
    Started {
        /// The job.
        job: usize,
        /// The cores it has.
        cpus: usize,
    },
    /// A job waits for another process, which is at the same job.
    Waiting {
        /// The job.
        job: usize,
    },
    /// A job said how far it is.
    Progress {
        /// The job.
        job: usize,
        /// How far.
        progress: Progress,
    },
    /// A job said something.
    Note {
        /// The job.
        job: usize,
        /// What.
        text: String,
    },
    /// A job has a result.
    Done {
        /// The job.
        job: usize,
        /// Time from its start, in seconds; `None` if another process did it.
        seconds: Option<f64>,
        /// The result.
        outcome: Outcome,
    },
    /// A job has no result.
    Failed {
        /// The job.
        job: usize,
        /// Time from its start, in seconds.
        seconds: f64,
        /// Why.
        failure: Failure,
        /// What the worker wrote, if there was one.
        log: Option<PathBuf>,
    },
    /// A job will not run, or was ended because the user wanted the end.
    Skipped {
        /// The job.
        job: usize,
        /// The job that it needed; `None` if the run was stopped.
        because: Option<usize>,
    },
    /// The user asked for the end: no job will be started any more.
    Stopping {
        /// Whether the running jobs are ended too.
        ending: bool,
        /// How many are running.
        running: usize,
    },
    /// The run is over.
    Ended(Summary),
}

/// How a run went.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Jobs that were done before.
    pub cached: usize,
    /// Jobs that got a result.
    pub done: usize,
    /// Jobs that failed.
    pub failed: usize,
    /// Jobs that could not run.
    pub skipped: usize,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The signal that stopped it.
    pub interrupted: Option<i32>,
}

/// Whoever wants to know.
pub trait Observer {
    /// Something happened.
    fn on(&mut self, plan: &Plan, event: &RunEvent);
}

/// How long a worker may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);
/// How often the loop looks at what does not announce itself: other processes' locks, and overdue workers.
const TICK: Duration = Duration::from_millis(100);

/// What a run has to do with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// To run it.
    Yes,
    /// Nothing: it is done.
    Cached,
    /// Nothing: it was not selected, and nothing that was selected needs it.
    No,
}

/// Runs what is wanted. `wanted` speaks of every job, in the plan's order.
pub fn run(
    plan: &Plan,
    store: &Store,
    wanted: &[Wanted],
    options: &Options,
    signals: Option<Signals>,
    observers: &mut [&mut dyn Observer],
) -> io::Result<Summary> {
    let specs: Vec<JobSpec> = plan
        .jobs()
        .map(|(id, job)| JobSpec {
            needs: plan.needs(id).map(JobId::index).collect(),
            cpus: job.resources.cpus.unwrap_or(options.cpus),
            cached: wanted[id.index()] != Wanted::Yes,
        })
        .collect();
    let limits = Limits { cpus: options.cpus, jobs: options.jobs, fail_fast: options.fail_fast };
    let (sender, receiver) = channel();
    if let Some(signals) = signals {
        signals.forward(sender.clone());
    }
    let done = wanted.iter().filter(|state| **state == Wanted::Cached).count();
    let jobs = wanted.iter().filter(|state| **state != Wanted::No).count();
    let run = Run {
        plan,
        store,
        options,
        observers,
        scheduler: Scheduler::new(&specs, limits),
        sender,
        running: BTreeMap::new(),
        waiting: BTreeSet::new(),
        signals: 0,
        jobs,
        ticked: Instant::now(),
        summary: Summary { cached: done, ..Summary::default() },
    };
    run.drive(&receiver)
}

/// The loop's state.
struct Run<'a, 'o> {
    plan: &'a Plan,
    store: &'a Store,
    options: &'a Options,
    observers: &'a mut [&'o mut dyn Observer],
    scheduler: Scheduler,
    sender: Sender<Input>,
    running: BTreeMap<usize, Running>,
    /// Jobs that another process is at.
    waiting: BTreeSet<usize>,
    signals: usize,
    /// Jobs that were selected.
    jobs: usize,
    ticked: Instant,
    summary: Summary,
}

/// A job with a process.
struct Running {
    worker: Worker,
    /// The parameters that it was given.
    values: Values,
    pending: Pending,
    outcome: Option<Result<Outcome, Failure>>,
    begun: Instant,
    started: Timestamp,
    cpus: usize,
    log: PathBuf,
    kill_at: Option<Instant>,
}

impl Run<'_, '_> {
    fn drive(mut self, receiver: &Receiver<Input>) -> io::Result<Summary> {
        let begun = Instant::now();
        self.tell(&RunEvent::Begun { jobs: self.jobs, cached: self.summary.cached });
        let mut over = self.step(Event::Begin);
        while !over {
            over = match receiver.recv_timeout(TICK) {
                Ok(Input::Message(job, message)) => {
                    self.message(job, message);
                    false
                }
                Ok(Input::Closed(job)) => self.closed(job)?,
                Ok(Input::Signal(signal)) => self.signal(signal),
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            over = self.tick() || over;
        }
        self.summary.seconds = begun.elapsed().as_secs_f64();
        let summary = self.summary.clone();
        self.tell(&RunEvent::Ended(summary.clone()));
        Ok(summary)
    }

    fn tell(&mut self, event: &RunEvent) {
        for observer in self.observers.iter_mut() {
            observer.on(self.plan, event);
        }
    }

    /// Tells the scheduler what happened and does what follows; `true` when the run is over.
    fn step(&mut self, event: Event) -> bool {
        let mut events = vec![event];
        let mut over = false;
        while let Some(event) = events.pop() {
            for action in self.scheduler.on(event) {
                match action {
                    Action::Start { job, cpus } => events.extend(self.start(job, cpus)),
                    Action::Skip { job, because } => {
                        self.summary.skipped += 1;
                        let because = match because {
                            Reason::Needs(need) => Some(need),
                            Reason::Stopped => None,
                        };
                        self.tell(&RunEvent::Skipped { job, because });
                    }
                    Action::Finish => over = true,
                }
            }
        }
        over
    }

    /// Starts a job, or finds that there is no need or no way to; then answers what to tell the scheduler.
    fn start(&mut self, job: usize, cpus: usize) -> Option<Event> {
        let key = self.plan.job(JobId::new(job)).key;
        match self.store.claim(key) {
            Ok(Claim::Hit(record)) => Some(self.adopt(job, record.outcome)),
            Ok(Claim::Busy) => {
                if self.waiting.insert(job) {
                    self.tell(&RunEvent::Waiting { job });
                }
                Some(Event::Busy(job))
            }
            Ok(Claim::Miss(pending)) => match self.settled(job) {
                Ok(values) => self.begin(job, cpus, values, pending),
                Err(error) => {
                    let failure = Failure { kind: FailureKind::Input, message: error.to_string() };
                    Some(self.fail(job, 0.0, failure, None))
                }
            },
            Err(error) => {
                let failure = Failure { kind: FailureKind::Io, message: error.to_string() };
                Some(self.fail(job, 0.0, failure, None))
            }
        }
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

    fn begin(&mut self, job: usize, cpus: usize, values: Values, pending: Pending) -> Option<Event> {
        match self.spawn(job, cpus, values, pending) {
            Ok(()) => {
                self.waiting.remove(&job);
                self.tell(&RunEvent::Started { job, cpus });
                None
            }
            Err(error) => {
                let message = format!("the worker could not be started: {error}");
                Some(self.fail(job, 0.0, Failure { kind: FailureKind::Io, message }, None))
            }
        }
    }

    fn spawn(&mut self, job: usize, cpus: usize, values: Values, pending: Pending) -> io::Result<()> {
        let planned = self.plan.job(JobId::new(job));
        let logs = self.options.folder.join("logs");
        fs::create_dir_all(&logs)?;
        let log = logs.join(format!("{}.log", planned.key.short()));
        let order = sweep_job::Job {
            protocol: PROTOCOL,
            task: planned.task.name.to_owned(),
            params: values.clone(),
            backend: planned.identity.backend,
            threads: cpus,
            dir: std::path::absolute(pending.dir())?,
        };
        let started = Timestamp::now();
        let begun = Instant::now();
        let worker = Worker::spawn(job, &order, &log, self.sender.clone())?;
        let running = Running { worker, values, pending, outcome: None, begun, started, cpus, log, kill_at: None };
        self.running.insert(job, running);
        Ok(())
    }

    fn message(&mut self, job: usize, message: Message) {
        let Some(running) = self.running.get_mut(&job) else { return };
        match message {
            Message::Progress(progress) => self.tell(&RunEvent::Progress { job, progress }),
            Message::Note(text) => self.tell(&RunEvent::Note { job, text }),
            Message::Done(outcome) => running.outcome = Some(Ok(outcome)),
            Message::Failed(failure) => running.outcome = Some(Err(failure)),
        }
    }

    /// A worker has closed its output: it has ended or is about to.
    fn closed(&mut self, job: usize) -> io::Result<bool> {
        let Some(mut running) = self.running.remove(&job) else { return Ok(false) };
        let status = running.worker.wait(GRACE)?;
        let seconds = running.begun.elapsed().as_secs_f64();
        let event = match running.outcome.take() {
            Some(Ok(outcome)) => self.commit(job, running, outcome, seconds),
            // What was ended because the user wanted the end did not fail.
            _ if self.signals > 1 => {
                self.summary.skipped += 1;
                self.tell(&RunEvent::Skipped { job, because: None });
                Event::Failed(job)
            }
            Some(Err(failure)) => self.fail(job, seconds, failure, Some(running.log)),
            None => {
                let failure = Failure { kind: FailureKind::Crash, message: describe_exit(status) };
                self.fail(job, seconds, failure, Some(running.log))
            }
        };
        Ok(self.step(event))
    }

    fn commit(&mut self, job: usize, running: Running, outcome: Outcome, seconds: f64) -> Event {
        let planned = self.plan.job(JobId::new(job));
        let record = Record {
            format: RECORD_FORMAT,
            key: planned.key,
            identity: planned.identity.clone(),
            label: planned.label.to_string(),
            params: running.values,
            outcome,
            provenance: Provenance {
                sweep: env!("CARGO_PKG_VERSION").to_owned(),
                started: running.started,
                seconds,
                device: self.options.device.clone().filter(|_| planned.task.on_device),
                threads: running.cpus,
                host: host(),
            },
        };
        match running.pending.commit(&record) {
            Ok(()) => {
                self.summary.done += 1;
                self.tell(&RunEvent::Done { job, seconds: Some(seconds), outcome: record.outcome });
                Event::Done(job)
            }
            Err(error) => {
                let message = format!("the result could not be stored: {error}");
                self.fail(job, seconds, Failure { kind: FailureKind::Io, message }, Some(running.log))
            }
        }
    }

    /// Another process did it.
    fn adopt(&mut self, job: usize, outcome: Outcome) -> Event {
        self.waiting.remove(&job);
        self.summary.done += 1;
        self.tell(&RunEvent::Done { job, seconds: None, outcome });
        Event::Done(job)
    }

    fn fail(&mut self, job: usize, seconds: f64, failure: Failure, log: Option<PathBuf>) -> Event {
        self.waiting.remove(&job);
        self.summary.failed += 1;
        self.tell(&RunEvent::Failed { job, seconds, failure, log });
        Event::Failed(job)
    }

    /// The first signal lets the running jobs end, the second ends them.
    fn signal(&mut self, signal: i32) -> bool {
        self.signals += 1;
        self.summary.interrupted.get_or_insert(signal);
        let ending = self.signals > 1;
        self.tell(&RunEvent::Stopping { ending, running: self.running.len() });
        if ending {
            for running in self.running.values_mut() {
                running.worker.terminate();
                running.kill_at = Some(Instant::now() + GRACE);
            }
        }
        self.step(Event::Stop)
    }

    fn tick(&mut self) -> bool {
        let mut over = false;
        if self.ticked.elapsed() < TICK {
            return over;
        }
        self.ticked = Instant::now();
        for job in self.waiting.clone() {
            if self.store.is_free(self.plan.job(JobId::new(job)).key) {
                over = self.step(Event::Free(job)) || over;
            }
        }
        for running in self.running.values_mut() {
            if running.kill_at.is_some_and(|at| at <= Instant::now()) {
                running.worker.kill();
            }
        }
        over
    }
}

fn describe_exit(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(101), _) => "the worker panicked".into(),
        (Some(0), _) => "the worker ended without a result".into(),
        (Some(code), _) => format!("the worker ended with exit code {code} and without a result"),
        (None, Some(9)) => "the worker was killed (SIGKILL): by somebody, or by the kernel for want of memory".into(),
        (None, Some(signal)) => format!("the worker was ended by signal {signal}{}", signal_name(signal)),
        (None, None) => "the worker ended in an unknown way".into(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        11 => " (SIGSEGV)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

/// The folder of a new run, named by the time and this process; not created yet.
pub fn new_folder(results: &Path) -> PathBuf {
    let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    results.join("runs").join(format!("{now}-{}", std::process::id()))
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

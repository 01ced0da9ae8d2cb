//! A run through Slurm: one batch job for each job, all of them submitted at once, with Slurm's dependencies between them.
//!
//! Slurm is a way to get processes, and no more. What is done is in the store, and what has failed is in the files that the
//! jobs' own processes write into the run's folder ([`super::exec`]); the queue only says which jobs are still to come. So
//! nothing is lost when this process dies: the next one reads the store and the queue, takes over the jobs that are there,
//! and submits the others.

mod ask;
pub(crate) mod client;
mod jobs;
pub(crate) mod mark;
mod pilots;

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use fs_err as fs;
use signal_hook::consts::{SIGHUP, SIGINT};
use sweep_job::{Failure, FailureKind};

use self::{
    ask::Place,
    client::{Client, Refusal, Seen, State},
    jobs::{Jobs, Sent, Stage},
    mark::Mark,
};
use super::{Failures, Observer, RunEvent, RunFolder, Signals, Summary, Wanted, exec, journal, local::Input, orders};
use crate::{
    plan::{JobId, Key, Plan},
    recipe,
    store::Store,
};

/// How to run through Slurm.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is asked of Slurm beyond the jobs' resources.
    pub asked: recipe::Slurm,
    /// The name that all jobs of this store have in Slurm.
    pub name: String,
    /// The results folder.
    pub results: PathBuf,
    /// This run's folder.
    pub folder: RunFolder,
    /// How often the queue is looked at while much happens; less often while nothing does.
    pub poll: Duration,
    /// Whether to leave as soon as everything is submitted.
    pub detach: bool,
    /// How many allocations run an engine each, instead of one batch job for each job.
    pub pilots: Option<usize>,
    /// How many jobs may be in the queue at once.
    pub most: Option<usize>,
    /// Whether the first failure stops the run.
    pub fail_fast: bool,
}

/// The queue is looked at no less often.
const LAZIEST: Duration = Duration::from_secs(15);
/// The longest pause after Slurm did not answer.
const LONGEST_SULK: Duration = Duration::from_mins(1);
/// Submitting goes on for no longer before the queue and the signals are looked at again.
const STRETCH: Duration = Duration::from_secs(2);
/// A job that waits for more jobs than this is submitted when fewer of them are open: one option can only hold so many.
const MOST_NEEDS: usize = 1000;
/// How long a file that a job's process has written may be out of sight on another machine (NFS caches attributes for up to a
/// minute).
const LAG: Duration = Duration::from_mins(1);
/// How long to wait for a failed job's own words before Slurm's are taken.
const SETTLE: Duration = Duration::from_secs(3);
/// How long a job may be missing from the queue before it counts as forgotten.
const MISSING: Duration = Duration::from_secs(10);
/// How often a job is submitted again that Slurm has lost: with its node, or altogether.
const LOSSES: u32 = 3;

/// Whether there is a Slurm on this machine.
pub fn is_here() -> bool {
    client::is_here()
}

/// Runs what is wanted through Slurm.
pub fn run(
    plan: &Plan,
    store: &Store,
    wanted: &[Wanted],
    options: &Options,
    signals: Option<Signals>,
    observers: &mut [&mut dyn Observer],
) -> io::Result<Summary> {
    if let Some(pilots) = options.pilots {
        return Ok(pilots::Run::new(plan, store, wanted, options, observers)?.drive(pilots, signals));
    }
    Run::new(plan, store, wanted, options, observers)?.drive(signals)
}

/// What both ways through Slurm have in common: whom to tell, and whom to ask.
struct Desk<'a, 'o> {
    plan: &'a Plan,
    store: &'a Store,
    options: &'a Options,
    observers: &'a mut [&'o mut dyn Observer],
    client: Client,
    place: Place,
    begun: Instant,
    summary: Summary,
    /// How often in a row Slurm has not answered.
    troubles: u32,
    signals: usize,
    /// Nothing more is submitted, and what has not begun is cancelled.
    stopping: bool,
    /// What runs is cancelled, too.
    ending: bool,
    /// When what runs will be cancelled.
    deadline: Option<Instant>,
    /// This process leaves, and the jobs stay.
    leaving: bool,
    /// When something last happened.
    changed: Instant,
    next_poll: Instant,
}

/// The state of a run with one batch job for each job.
struct Run<'a, 'o> {
    desk: Desk<'a, 'o>,
    /// Where each job's order begins.
    orders: Vec<u64>,
    jobs: Jobs,
    by_key: HashMap<Key, usize>,
    /// Batch jobs that nobody needs any more.
    doomed: Vec<u64>,
    adopted: usize,
    submitted: usize,
    announced: bool,
    /// A limit on submissions that was reached, which is said once.
    full: Option<String>,
}

impl<'a, 'o> Desk<'a, 'o> {
    fn new(
        plan: &'a Plan,
        store: &'a Store,
        wanted: &[Wanted],
        options: &'a Options,
        observers: &'a mut [&'o mut dyn Observer],
    ) -> io::Result<Self> {
        let run = std::path::absolute(options.folder.path())?;
        // Slurm does not make folders, and a job whose output has none fails without a word.
        fs::create_dir_all(run.join("slurm"))?;
        let place = Place {
            program: std::env::current_exe()?,
            folder: std::env::current_dir()?,
            results: std::path::absolute(&options.results)?,
            run,
        };
        let cached = wanted.iter().filter(|wanted| **wanted == Wanted::Cached).count();
        let now = Instant::now();
        Ok(Self {
            plan,
            store,
            options,
            observers,
            client: Client { name: options.name.clone() },
            place,
            begun: now,
            summary: Summary { cached, ..Summary::default() },
            troubles: 0,
            signals: 0,
            stopping: false,
            ending: false,
            deadline: None,
            leaving: false,
            changed: now,
            next_poll: now,
        })
    }

    fn tell(&mut self, event: &RunEvent) {
        if !matches!(event, RunEvent::Progress { .. }) {
            self.changed = Instant::now();
        }
        for observer in self.observers.iter_mut() {
            observer.on(self.plan, event);
        }
    }

    fn notice(&mut self, text: impl Into<String>) {
        self.tell(&RunEvent::Notice { text: text.into() });
    }

    fn key(&self, job: usize) -> Key {
        self.plan.job(JobId::new(job)).key
    }

    /// A job has a record.
    fn done(&mut self, job: usize) -> bool {
        let Ok(Some(record)) = self.store.get(self.key(job)) else { return false };
        self.summary.done += 1;
        self.tell(&RunEvent::Done { job, seconds: Some(record.provenance.seconds), outcome: record.outcome });
        true
    }

    fn failed(&mut self, job: usize, seconds: f64, failure: Failure, log: Option<PathBuf>) {
        let tolerated = self.plan.job(JobId::new(job)).policy.tolerated;
        *if tolerated { &mut self.summary.tolerated } else { &mut self.summary.failed } += 1;
        self.tell(&RunEvent::Failed { job, seconds, failure, log, tolerated });
    }

    fn skipped(&mut self, job: usize, because: Option<usize>) {
        self.summary.skipped += 1;
        self.tell(&RunEvent::Skipped { job, because });
    }

    /// Asks for the queue; `None` if there is no answer, which is said once.
    fn queue(&mut self) -> Option<Vec<Seen>> {
        let asked = Instant::now();
        let answer = self.client.queue();
        // So that asking costs the controller a twentieth of its time at most, and less while nothing happens.
        let pause = (asked.elapsed() * 20).max(self.changed.elapsed() / 10).min(LAZIEST).max(self.options.poll);
        self.next_poll = Instant::now() + pause;
        match answer {
            Ok(queue) => {
                if self.troubles > 0 {
                    self.notice("Slurm answers again");
                }
                self.troubles = 0;
                Some(queue)
            }
            Err(error) => {
                self.trouble(&error);
                None
            }
        }
    }

    /// Slurm does not answer: nothing is known, and nothing is lost.
    fn trouble(&mut self, error: &str) {
        if self.troubles == 0 {
            self.notice(format!("Slurm does not answer, and is asked again until it does: {error}"));
        }
        let pause = self.options.poll.saturating_mul(1 << self.troubles.min(10)).min(LONGEST_SULK);
        self.troubles += 1;
        self.next_poll = Instant::now() + pause;
    }

    /// The first signal cancels what has not begun, the second what runs; a third leaves at once. SIGTERM gives what runs a
    /// deadline. When the terminal goes away, the jobs do not: they can be taken over.
    fn signal(&mut self, signal: i32, running: usize) {
        self.signals += 1;
        self.summary.interrupted.get_or_insert(signal);
        self.next_poll = Instant::now();
        if signal == SIGHUP {
            self.leaving = true;
            self.notice("the terminal is gone; the jobs stay in Slurm, and the same command takes them over");
            return;
        }
        if self.signals > 2 {
            self.leaving = true;
            let name = self.client.name.clone();
            self.notice(format!("left; `scancel --me --name {name}` ends what is still in Slurm"));
            return;
        }
        self.stopping = true;
        self.ending = self.signals > 1;
        let deadline = (signal != SIGINT && !self.ending).then_some(super::DEADLINE);
        self.deadline = deadline.map(|deadline| Instant::now() + deadline);
        let deadline = deadline.map(|deadline| deadline.as_secs_f64());
        self.tell(&RunEvent::Stopping { ending: self.ending, running, deadline });
    }

    /// Waits until the next look at the queue is due, or for a signal.
    fn wait(&mut self, receiver: &Receiver<Input>, running: usize) {
        let until = self.deadline.map_or(self.next_poll, |deadline| deadline.min(self.next_poll));
        match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Input::Signal(signal)) => self.signal(signal, running),
            Ok(_) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            self.deadline = None;
            self.ending = true;
            self.next_poll = Instant::now();
            self.tell(&RunEvent::Stopping { ending: true, running, deadline: None });
        }
    }

    fn end(mut self) -> Summary {
        self.summary.seconds = self.begun.elapsed().as_secs_f64();
        let summary = self.summary.clone();
        // A run whose jobs go on has not ended.
        if !summary.detached {
            self.tell(&RunEvent::Ended(summary.clone()));
        }
        summary
    }
}

impl<'a, 'o> Run<'a, 'o> {
    fn new(
        plan: &'a Plan,
        store: &'a Store,
        wanted: &[Wanted],
        options: &'a Options,
        observers: &'a mut [&'o mut dyn Observer],
    ) -> io::Result<Self> {
        let desk = Desk::new(plan, store, wanted, options, observers)?;
        let orders = orders::write(plan, options.folder.path())?;
        let jobs = Jobs::new(plan, wanted);
        let by_key = plan.jobs().map(|(id, job)| (job.key, id.index())).collect();
        Ok(Self {
            desk,
            orders,
            jobs,
            by_key,
            doomed: Vec::new(),
            adopted: 0,
            submitted: 0,
            announced: false,
            full: None,
        })
    }

    fn drive(mut self, signals: Option<Signals>) -> io::Result<Summary> {
        let (sender, receiver) = channel();
        if let Some(signals) = signals {
            signals.forward(sender.clone());
        }
        let jobs = self.jobs.open + self.desk.summary.cached;
        self.desk.tell(&RunEvent::Begun { jobs, cached: self.desk.summary.cached });
        while self.jobs.open > 0 && !self.desk.leaving {
            if Instant::now() >= self.desk.next_poll {
                self.look()?;
            }
            if self.desk.options.detach && !self.desk.stopping && self.jobs.nothing_to_submit() && self.announced {
                self.desk.leaving = true;
            }
            if self.jobs.open > 0 && !self.desk.leaving {
                self.desk.wait(&receiver, self.jobs.running());
                if self.desk.stopping {
                    self.stop();
                }
            }
        }
        self.desk.summary.detached = self.desk.leaving && self.jobs.open > 0;
        Ok(self.desk.end())
    }

    /// Looks at the queue, and does what follows from it.
    fn look(&mut self) -> io::Result<()> {
        let to_submit = !self.desk.stopping && !self.jobs.nothing_to_submit();
        // Held from the look at the queue to the last submission, so that no two sweeps submit the same job.
        let lock = if to_submit { self.desk.store.lock("submit")? } else { None };
        let Some(queue) = self.desk.queue() else { return Ok(()) };
        self.heed(&queue);
        if lock.is_some() && !self.desk.stopping {
            self.adopt(&queue);
            self.submit();
        }
        drop(lock);
        self.cancel();
        Ok(())
    }

    /// Compares the queue with what is known.
    fn heed(&mut self, queue: &[Seen]) {
        let by_id: HashMap<u64, &Seen> = queue.iter().map(|seen| (seen.id, seen)).collect();
        for job in 0..self.jobs.len() {
            let Stage::Sent(sent) = &self.jobs[job].stage else { continue };
            let key = self.desk.key(job);
            // A number alone proves nothing: after a crash Slurm gives it out again.
            let seen = by_id.get(&sent.id).filter(|seen| seen.mark.as_ref().is_some_and(|mark| mark.key == key));
            match seen.map(|seen| &seen.state) {
                Some(State::Pending) => self.pending(job, &seen.map(|seen| seen.reason.clone()).unwrap_or_default()),
                Some(State::Running) => {
                    if let Stage::Sent(sent) = &mut self.jobs[job].stage {
                        (sent.running, sent.gone) = (true, None);
                    }
                    self.listen(job);
                }
                state => self.gone(job, state, seen.map_or("", |seen| &seen.reason)),
            }
        }
    }

    /// A job waits in Slurm. Some reasons for that will not pass by themselves.
    fn pending(&mut self, job: usize, reason: &str) {
        let Stage::Sent(sent) = &mut self.jobs[job].stage else { return };
        (sent.running, sent.gone) = (false, None);
        if sent.reason == reason {
            return;
        }
        reason.clone_into(&mut sent.reason);
        if let Some(why) = never(reason) {
            let text = format!("Slurm may never start it ({reason}): {why}");
            self.desk.tell(&RunEvent::Note { job, text });
        }
    }

    /// Passes on what a job's process has said.
    fn listen(&mut self, job: usize) {
        let Stage::Sent(sent) = &self.jobs[job].stage else { return };
        let folder = RunFolder::named(&self.desk.options.results, &sent.run);
        let key = self.desk.key(job);
        let part = folder.part(key);
        for line in journal::more(&part, &mut self.jobs[job].read) {
            match line.event.about(job) {
                event @ RunEvent::Started { .. } => {
                    self.jobs[job].last = None;
                    self.jobs[job].log = Some(folder.log(key));
                    self.desk.tell(&event);
                }
                RunEvent::Failed { seconds, failure, .. } => self.jobs[job].last = Some((seconds, failure)),
                RunEvent::Ended(Summary { interrupted: Some(_), .. }) => self.jobs[job].last = None,
                event @ (RunEvent::Progress { .. }
                | RunEvent::Note { .. }
                | RunEvent::Storing { .. }
                | RunEvent::Waiting { .. }
                | RunEvent::Retrying { .. }) => self.desk.tell(&event),
                _ => {}
            }
        }
    }

    /// A job has ended in Slurm, or is not there any more: what has become of it is in the store, or else in its own words,
    /// or else in Slurm's.
    fn gone(&mut self, job: usize, state: Option<&State>, reason: &str) {
        self.listen(job);
        if self.desk.done(job) {
            self.jobs.close(job, false);
            return;
        }
        if self.desk.stopping && matches!(state, Some(State::Cancelled) | None) {
            self.jobs.close(job, false);
            self.desk.skipped(job, None);
            return;
        }
        // A job that Slurm has ended says that it was ended, which says less than Slurm does.
        let its_own = match state {
            Some(State::Ended(word)) => word == "FAILED",
            Some(State::Cancelled) => false,
            _ => true,
        };
        if let Some((seconds, failure)) = self.jobs[job].last.take().filter(|_| its_own) {
            self.fail(job, seconds, failure);
            return;
        }
        let now = Instant::now();
        let Stage::Sent(sent) = &mut self.jobs[job].stage else { return };
        let (id, since) = (sent.id, now - *sent.gone.get_or_insert(now));
        let patience = match state {
            Some(State::Cancelled) if reason == "DependencyNeverSatisfied" => Duration::ZERO,
            Some(State::Completed) => LAG,
            None => MISSING,
            Some(_) => SETTLE,
        };
        if since < patience {
            // It is about to be known.
            self.desk.next_poll = self.desk.next_poll.min(now + self.desk.options.poll);
            return;
        }
        let crash = |message: String| Failure { kind: FailureKind::Crash, message };
        match state {
            // What it needs is submitted again, and then so is this; or that has failed, and this will be skipped.
            Some(State::Cancelled) if reason == "DependencyNeverSatisfied" => self.jobs[job].stage = Stage::Held,
            Some(State::Cancelled) => self.fail(job, 0.0, crash(format!("job {id} was cancelled in Slurm"))),
            Some(State::Completed) => {
                self.lose(job, crash(format!("job {id} has ended well in Slurm, but there is no record of it")), true);
            }
            None => match self.desk.client.remembered(id).filter(|state| !state.is_live()) {
                Some(State::Ended(word)) => self.ended_badly(job, id, &word),
                Some(State::Cancelled) => self.fail(job, 0.0, crash(format!("job {id} was cancelled in Slurm"))),
                _ => {
                    let message = format!("Slurm does not know job {id} any more, and it has left no result");
                    self.lose(job, crash(message), true);
                }
            },
            Some(State::Ended(word)) => self.ended_badly(job, id, word),
            Some(State::Pending | State::Running) => {}
        }
    }

    /// A job has ended in Slurm without a word of its own.
    fn ended_badly(&mut self, job: usize, id: u64, word: &str) {
        let end = self.desk.client.end(id).unwrap_or_default();
        let node = if end.nodes.is_empty() { String::new() } else { format!(" on {}", end.nodes) };
        let output = self.desk.place.run.join("slurm").join(format!("{}.txt", self.desk.key(job).short()));
        let (kind, message, loss) = match (word, end.code, end.signal) {
            ("TIMEOUT" | "DEADLINE", ..) => {
                (FailureKind::Timeout, format!("Slurm has ended job {id}{node}: its time limit was reached"), false)
            }
            ("OUT_OF_MEMORY", ..) => {
                (FailureKind::Memory, format!("out of memory: Slurm has ended job {id}{node}"), false)
            }
            ("NODE_FAIL" | "BOOT_FAIL" | "PREEMPTED" | "REVOKED", ..) => {
                (FailureKind::Crash, format!("Slurm has lost job {id}{node}: {word}"), true)
            }
            (_, Some(exec::BLOCKED), _) => {
                (FailureKind::Crash, format!("job {id}{node} did not find the records that it needs"), true)
            }
            (_, Some(code @ (78 | 126 | 127)), _) => {
                let what = if code == 78 { &self.desk.place.folder } else { &self.desk.place.program };
                let message = format!("job {id}{node} did not find {}: is it on a shared disk?", what.display());
                (FailureKind::Io, message, false)
            }
            (_, code, signal) => {
                let how = match (code, signal) {
                    (Some(code), _) => format!("exit code {code}"),
                    (None, Some(signal)) => format!("signal {signal}"),
                    (None, None) => word.to_owned(),
                };
                let reason = if end.reason.is_empty() { String::new() } else { format!(" ({})", end.reason) };
                let message = format!("job {id}{node} has ended with {how}{reason}; see {}", output.display());
                (FailureKind::Crash, message, false)
            }
        };
        self.lose(job, Failure { kind, message }, loss);
    }

    /// A job has ended without a result and without a word: it is submitted again if it has attempts left. What Slurm has lost
    /// is not the job's fault.
    fn lose(&mut self, job: usize, failure: Failure, loss: bool) {
        let retries = self.desk.plan.job(JobId::new(job)).policy.retries;
        let more = if loss { retries.max(LOSSES) } else { retries };
        let submissions = self.jobs[job].submissions.max(1);
        if submissions > more || self.desk.stopping {
            self.fail(job, 0.0, failure);
            return;
        }
        self.jobs[job].stage = Stage::Held;
        self.jobs[job].submissions = submissions;
        self.desk.tell(&RunEvent::Retrying { job, attempt: submissions, attempts: more + 1, wait: 0.0, failure });
    }

    /// A job has failed for good, and what needs it will not run.
    fn fail(&mut self, job: usize, seconds: f64, failure: Failure) {
        let log = self.jobs[job].log.clone();
        self.jobs.close(job, true);
        self.desk.failed(job, seconds, failure, log);
        for (dependent, because) in self.jobs.dependents(job) {
            if let Stage::Sent(sent) = &self.jobs[dependent].stage {
                self.doomed.push(sent.id);
            }
            self.jobs.close(dependent, true);
            self.desk.skipped(dependent, Some(because));
        }
        let tolerated = self.desk.plan.job(JobId::new(job)).policy.tolerated;
        if self.desk.options.fail_fast && !tolerated {
            self.desk.stopping = true;
            self.stop();
        }
    }

    /// Nothing more is submitted; what has not begun is not to begin.
    fn stop(&mut self) {
        for job in 0..self.jobs.len() {
            let given_up = match &self.jobs[job].stage {
                Stage::Held => true,
                // Somebody else waits for it, too.
                Stage::Sent(sent) => !self.is_ours(&sent.run),
                Stage::Over => false,
            };
            if given_up {
                self.jobs.close(job, false);
                self.desk.skipped(job, None);
            }
        }
    }

    /// Whether nobody but this process waits for the jobs of a run.
    fn is_ours(&self, run: &str) -> bool {
        *run == self.desk.options.folder.name() || !RunFolder::named(&self.desk.options.results, run).is_live()
    }

    /// Cancels what nobody needs any more; first what has not begun, so that nothing begins meanwhile.
    fn cancel(&mut self) {
        let mut pending = std::mem::take(&mut self.doomed);
        let mut running = Vec::new();
        if self.desk.stopping {
            for sent in self.jobs.sent() {
                if sent.running { &mut running } else { &mut pending }.push(sent.id);
            }
        }
        let mut cancelled = self.desk.client.cancel(&pending, true);
        if self.desk.ending {
            cancelled = cancelled.and_then(|()| self.desk.client.cancel(&pending, false));
            cancelled = cancelled.and_then(|()| self.desk.client.cancel(&running, false));
        }
        match cancelled {
            Err(error) => {
                self.doomed.extend(pending);
                self.desk.trouble(&error);
            }
            Ok(()) if self.desk.stopping => {
                self.desk.next_poll = self.desk.next_poll.min(Instant::now() + self.desk.options.poll);
            }
            Ok(()) => {}
        }
    }

    /// Takes over jobs that are in the queue already: an earlier sweep has submitted them and is gone, or another one waits for
    /// them, too.
    fn adopt(&mut self, queue: &[Seen]) {
        let mut known: HashMap<usize, &Seen> = HashMap::new();
        for seen in queue.iter().filter(|seen| seen.state.is_live() && seen.reason != "DependencyNeverSatisfied") {
            let job = seen.mark.as_ref().and_then(|mark| self.by_key.get(&mark.key));
            if let Some(job) = job.filter(|job| self.jobs[**job].stage.is_held()) {
                let newest = known.entry(*job).or_insert(seen);
                if newest.id < seen.id {
                    *newest = seen;
                }
            }
        }
        for (job, seen) in known {
            let Some(mark) = &seen.mark else { continue };
            self.adopted += 1;
            self.jobs[job].submissions = mark.submission;
            self.sent(job, seen.id, mark.run.clone());
        }
    }

    fn sent(&mut self, job: usize, id: u64, run: String) {
        let submission = self.jobs[job].submissions;
        self.jobs[job].stage = Stage::Sent(Sent { id, run, running: false, reason: String::new(), gone: None });
        self.desk.tell(&RunEvent::Submitted { job, id, submission });
    }

    /// Submits what can be, for a while.
    fn submit(&mut self) {
        let until = Instant::now() + STRETCH;
        let mut in_queue = self.jobs.sent().count();
        for job in 0..self.jobs.len() {
            if !self.jobs[job].stage.is_held() {
                continue;
            }
            // Another sweep may have done it meanwhile.
            if self.desk.done(job) {
                self.jobs.close(job, false);
                continue;
            }
            let Some(needs) = self.jobs.needs_of(job) else { continue };
            if needs.len() > MOST_NEEDS {
                continue;
            }
            if Instant::now() >= until {
                self.desk.next_poll = Instant::now();
                return;
            }
            if self.desk.options.most.is_some_and(|most| in_queue >= most) {
                break;
            }
            match self.submit_one(job, &needs) {
                Ok(id) => {
                    in_queue += 1;
                    self.submitted += 1;
                    let run = self.desk.options.folder.name();
                    self.sent(job, id, run);
                }
                Err(Refusal::Unreachable(error)) => {
                    // It may be in the queue all the same; the next look says so.
                    self.jobs[job].submissions -= 1;
                    self.desk.trouble(&error);
                    return;
                }
                Err(Refusal::Full(error)) if in_queue > 0 => {
                    self.jobs[job].submissions -= 1;
                    if self.full.is_none() {
                        let text = format!("Slurm takes no more jobs for now, the rest follows: {error}");
                        self.desk.notice(text);
                    }
                    self.full = Some(error);
                    break;
                }
                Err(Refusal::Full(error) | Refusal::No(error)) => {
                    let message = format!("Slurm refuses it: {error}");
                    self.fail(job, 0.0, Failure { kind: FailureKind::Input, message });
                }
            }
        }
        if !self.announced {
            self.announced = true;
            self.announce();
        }
    }

    fn announce(&mut self) {
        let mut parts = Vec::new();
        for (number, word) in [(self.submitted, "submitted"), (self.adopted, "already in the queue")] {
            if number > 0 {
                parts.push(format!("{} {word}", crate::text::count(number, "job")));
            }
        }
        if !parts.is_empty() {
            let name = self.desk.client.name.clone();
            self.desk.notice(format!("Slurm: {}, as {name}", parts.join(", ")));
        }
        let held = self.jobs.held();
        if self.desk.options.detach && held > 0 {
            let jobs = crate::text::count(held, "job");
            self.desk.notice(format!("{jobs} could not be submitted yet; the same command does that later"));
        }
    }

    fn submit_one(&mut self, job: usize, needs: &[u64]) -> Result<u64, Refusal> {
        let desk = &self.desk;
        let planned = desk.plan.job(JobId::new(job));
        self.jobs[job].submissions += 1;
        let run = desk.options.folder.name();
        let mark = Mark { run: run.clone(), key: planned.key, submission: self.jobs[job].submissions };
        let mut arguments = desk.place.arguments(&mark.to_string(), &format!("{}.txt", planned.key.short()));
        if !needs.is_empty() {
            let ids: Vec<String> = needs.iter().map(u64::to_string).collect();
            arguments.push(format!("--dependency=afterok:{}", ids.join(":")));
            arguments.push("--kill-on-invalid-dep=yes".to_owned());
        }
        arguments.extend(ask::resources(planned, &desk.options.asked.of_step(&planned.label.step)));
        let script = desk.place.script(&format!("exec-job {run} --at {} --key {}", self.orders[job], planned.key));
        desk.client.submit(&arguments, &script)
    }
}

/// What can be done about a job that waits for this reason; `None` for reasons that pass by themselves.
pub(crate) fn never(reason: &str) -> Option<&'static str> {
    let reason = reason.split([',', ' ']).next().unwrap_or_default();
    Some(match reason {
        "PartitionConfig" | "PartitionNodeLimit" | "BadConstraints" | "ReqNodeNotAvail" | "NodeDown" => {
            "no node of its partition has what it asks for"
        }
        "PartitionTimeLimit" => "it asks for more time than its partition allows",
        "PartitionDown" | "PartitionInactive" => "its partition takes no jobs",
        "InvalidAccount" => "its account is not valid",
        "InvalidQOS" => "its QOS is not valid",
        "JobHeldUser" | "JobHeldAdmin" => "it is held; `scontrol release` frees it",
        "AssocMaxCpuPerJobLimit"
        | "AssocMaxNodePerJobLimit"
        | "AssocMaxWallDurationPerJobLimit"
        | "AssocMaxGRESPerJob"
        | "AssocMaxMemPerJob"
        | "QOSMaxCpuPerJobLimit"
        | "QOSMaxNodePerJobLimit"
        | "QOSMaxWallDurationPerJobLimit"
        | "QOSMaxGRESPerJob"
        | "QOSMaxMemoryPerJob"
        | "AssocMaxJobsLimit"
        | "AssocGrpGRES"
        | "QOSMinCpuNotSatisfied"
        | "QOSMinGRES" => "it asks for more than its account or QOS allows",
        "launch_failed_requeued_held" | "launch" => "it could not be started on its node and is held",
        _ => return None,
    })
}

/// What the queue says of the jobs of a store.
#[derive(Debug, Default)]
pub(crate) struct InQueue {
    /// By key: the job's number, whether it runs, and why not.
    pub(crate) jobs: HashMap<Key, (u64, bool, String)>,
    /// How many engines there are in allocations of their own.
    pub(crate) pilots: usize,
}

/// Asks the queue; `None` if there is no answer.
pub(crate) fn in_queue(name: &str) -> Option<InQueue> {
    let mut found = InQueue::default();
    for seen in (Client { name: name.to_owned() }).queue().ok()?.into_iter().filter(|seen| seen.state.is_live()) {
        match seen.mark {
            Some(mark) => {
                found.jobs.insert(mark.key, (seen.id, seen.state == State::Running, seen.reason));
            }
            None => found.pilots += 1,
        }
    }
    Some(found)
}

//! One batch job for each job, all of them submitted at once, with Slurm's dependencies between them.

use std::{
    collections::HashMap,
    io,
    time::{Duration, Instant},
};

use sweep_job::{Failure, FailureKind};

use super::{
    LAG, LOSSES, MISSING, Options,
    client::{Refusal, Seen, State},
    job_tag::JobTag,
    jobs::{Jobs, Sent, Stage},
    never, sbatch_args,
    session::ClusterSession,
};
use crate::{
    plan::{JobId, Plan},
    record::Key,
    run::{Disposition, Observer, RunEvent, RunFolder, Signals, Summary, allocation, job_specs, journal},
    store::Store,
};

/// Submitting goes on for no longer before the queue and the signals are looked at again.
const STRETCH: Duration = Duration::from_secs(2);
/// A job that waits for more jobs than this is submitted when fewer of them are open: one option can only hold so many.
const MOST_NEEDS: usize = 1000;
/// How long to wait for a failed job's own words before Slurm's are taken.
const SETTLE: Duration = Duration::from_secs(3);

/// The state of a run with one batch job for each job.
pub(super) struct Run<'a, 'o> {
    session: ClusterSession<'a, 'o>,
    /// Where each job's order begins.
    orders: Vec<u64>,
    jobs: Jobs,
    by_key: HashMap<Key, usize>,
    /// Batch jobs that nobody needs any more.
    to_cancel: Vec<u64>,
    adopted: usize,
    submitted: usize,
    announced: bool,
    /// A limit on submissions that was reached, which is said once.
    full: Option<String>,
}

impl<'a, 'o> Run<'a, 'o> {
    pub(super) fn new(
        plan: &'a Plan,
        store: &'a Store,
        wanted: &[Disposition],
        options: &'a Options,
        observers: &'a mut [&'o mut dyn Observer],
    ) -> io::Result<Self> {
        let session = ClusterSession::new(plan, store, wanted, options, observers)?;
        let orders = job_specs::write(plan, options.folder.path())?;
        let jobs = Jobs::new(plan, wanted);
        let by_key = plan.jobs().map(|(id, job)| (job.key, id.index())).collect();
        Ok(Self {
            session,
            orders,
            jobs,
            by_key,
            to_cancel: Vec::new(),
            adopted: 0,
            submitted: 0,
            announced: false,
            full: None,
        })
    }

    pub(super) fn drive(mut self, signals: Option<Signals>) -> io::Result<Summary> {
        let receiver = self.session.begin(signals, self.jobs.open)?;
        while self.jobs.open > 0 && !self.session.leaving {
            if Instant::now() >= self.session.next_poll {
                self.look()?;
            }
            if self.session.options.detach && !self.session.stopping && self.jobs.nothing_to_submit() && self.announced
            {
                self.session.leaving = true;
            }
            if self.jobs.open > 0 && !self.session.leaving {
                self.session.wait(&receiver, self.jobs.running());
                if self.session.stopping {
                    self.stop();
                }
            }
        }
        self.session.summary.detached = self.session.leaving && self.jobs.open > 0;
        Ok(self.session.end())
    }

    /// Looks at the queue, and does what follows from it.
    fn look(&mut self) -> io::Result<()> {
        let to_submit = !self.session.stopping && !self.jobs.nothing_to_submit();
        // Held from the look at the queue to the last submission, so that no two sweeps submit the same job.
        let lock = if to_submit { self.session.store.lock("submit")? } else { None };
        let Some(queue) = self.session.queue() else { return Ok(()) };
        self.reconcile(&queue);
        if lock.is_some() && !self.session.stopping {
            self.adopt(&queue);
            self.submit();
        }
        drop(lock);
        self.cancel();
        Ok(())
    }

    /// Compares the queue with what is known.
    fn reconcile(&mut self, queue: &[Seen]) {
        let by_id: HashMap<u64, &Seen> = queue.iter().map(|seen| (seen.id, seen)).collect();
        for job in 0..self.jobs.len() {
            let Stage::Sent(sent) = &self.jobs[job].stage else { continue };
            let key = self.session.key(job);
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
            self.session.tell(&RunEvent::Note { job, text });
        }
    }

    /// Passes on what a job's process has said.
    fn listen(&mut self, job: usize) {
        let Stage::Sent(sent) = &self.jobs[job].stage else { return };
        let folder = RunFolder::named(&self.session.options.results, &sent.run);
        let key = self.session.key(job);
        let part = folder.part(key);
        for line in journal::more(&part, &mut self.jobs[job].read) {
            match line.event.about(job) {
                event @ RunEvent::Started { .. } => {
                    self.jobs[job].last = None;
                    self.jobs[job].log = Some(folder.log(key));
                    self.session.tell(&event);
                }
                RunEvent::Failed { seconds, failure, .. } => self.jobs[job].last = Some((seconds, failure)),
                RunEvent::Ended(Summary { interrupted: Some(_), .. }) => self.jobs[job].last = None,
                event @ (RunEvent::Progress { .. }
                | RunEvent::Note { .. }
                | RunEvent::Storing { .. }
                | RunEvent::Waiting { .. }
                | RunEvent::Retrying { .. }) => self.session.tell(&event),
                _ => {}
            }
        }
    }

    /// A job has ended in Slurm, or is not there any more: what has become of it is in the store, or else in its own words,
    /// or else in Slurm's.
    fn gone(&mut self, job: usize, state: Option<&State>, reason: &str) {
        self.listen(job);
        if self.session.done(job) {
            self.jobs.close(job, false);
            return;
        }
        if self.session.stopping && matches!(state, Some(State::Cancelled) | None) {
            self.jobs.close(job, false);
            self.session.skipped(job, None);
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
            self.session.next_poll = self.session.next_poll.min(now + self.session.options.poll);
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
            None => match self.session.client.remembered(id).filter(|state| !state.is_live()) {
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
        let end = self.session.client.end(id).unwrap_or_default();
        let node = if end.nodes.is_empty() { String::new() } else { format!(" on {}", end.nodes) };
        let output = self.session.place.run.join("slurm").join(format!("{}.txt", self.session.key(job).short()));
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
            (_, Some(allocation::BLOCKED), _) => {
                (FailureKind::Crash, format!("job {id}{node} did not find the records that it needs"), true)
            }
            (_, Some(code @ (78 | 126 | 127)), _) => {
                let what = if code == 78 { &self.session.place.folder } else { &self.session.place.program };
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
        let retries = self.session.plan.job(JobId::new(job)).policy.retries;
        let more = if loss { retries.max(LOSSES) } else { retries };
        let submissions = self.jobs[job].submissions.max(1);
        if submissions > more || self.session.stopping {
            self.fail(job, 0.0, failure);
            return;
        }
        self.jobs[job].stage = Stage::Held;
        self.jobs[job].submissions = submissions;
        self.session.tell(&RunEvent::Retrying { job, attempt: submissions, attempts: more + 1, wait: 0.0, failure });
    }

    /// A job has failed for good, and what needs it will not run.
    fn fail(&mut self, job: usize, seconds: f64, failure: Failure) {
        let log = self.jobs[job].log.clone();
        self.jobs.close(job, true);
        self.session.failed(job, seconds, failure, log);
        for (dependent, because) in self.jobs.dependents(job) {
            if let Stage::Sent(sent) = &self.jobs[dependent].stage {
                self.to_cancel.push(sent.id);
            }
            self.jobs.close(dependent, true);
            self.session.skipped(dependent, Some(because));
        }
        let tolerated = self.session.plan.job(JobId::new(job)).policy.tolerated;
        if self.session.options.fail_fast && !tolerated {
            self.session.stopping = true;
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
                self.session.skipped(job, None);
            }
        }
    }

    /// Whether nobody but this process waits for the jobs of a run.
    fn is_ours(&self, run: &str) -> bool {
        *run == self.session.options.folder.name() || !RunFolder::named(&self.session.options.results, run).is_live()
    }

    /// Cancels what nobody needs any more; first what has not begun, so that nothing begins meanwhile.
    fn cancel(&mut self) {
        let mut pending = std::mem::take(&mut self.to_cancel);
        let mut running = Vec::new();
        if self.session.stopping {
            for sent in self.jobs.sent() {
                if sent.running { &mut running } else { &mut pending }.push(sent.id);
            }
        }
        let mut cancelled = self.session.client.cancel(&pending, true);
        if self.session.ending {
            cancelled = cancelled.and_then(|()| self.session.client.cancel(&pending, false));
            cancelled = cancelled.and_then(|()| self.session.client.cancel(&running, false));
        }
        match cancelled {
            Err(error) => {
                self.to_cancel.extend(pending);
                self.session.trouble(&error);
            }
            Ok(()) if self.session.stopping => {
                self.session.next_poll = self.session.next_poll.min(Instant::now() + self.session.options.poll);
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
        self.session.tell(&RunEvent::Submitted { job, id, submission });
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
            if self.session.done(job) {
                self.jobs.close(job, false);
                continue;
            }
            let Some(needs) = self.jobs.needs_of(job, MOST_NEEDS) else { continue };
            if Instant::now() >= until {
                self.session.next_poll = Instant::now();
                return;
            }
            if self.session.options.most.is_some_and(|most| in_queue >= most) {
                break;
            }
            match self.submit_one(job, &needs) {
                Ok(id) => {
                    in_queue += 1;
                    self.submitted += 1;
                    let run = self.session.options.folder.name();
                    self.sent(job, id, run);
                }
                Err(Refusal::Unreachable(error)) => {
                    // It may be in the queue all the same; the next look says so.
                    self.jobs[job].submissions -= 1;
                    self.session.trouble(&error);
                    return;
                }
                Err(Refusal::Full(error)) if in_queue > 0 => {
                    self.jobs[job].submissions -= 1;
                    if self.full.is_none() {
                        let text = format!("Slurm takes no more jobs for now, the rest follows: {error}");
                        self.session.notice(text);
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
                parts.push(format!("{} {word}", crate::format::count(number, "job")));
            }
        }
        if !parts.is_empty() {
            let name = self.session.client.name.clone();
            self.session.notice(format!("Slurm: {}, as {name}", parts.join(", ")));
        }
        let held = self.jobs.held();
        if self.session.options.detach && held > 0 {
            let jobs = crate::format::count(held, "job");
            self.session.notice(format!("{jobs} could not be submitted yet; the same command does that later"));
        }
    }

    fn submit_one(&mut self, job: usize, needs: &[u64]) -> Result<u64, Refusal> {
        let session = &self.session;
        let planned = session.plan.job(JobId::new(job));
        self.jobs[job].submissions += 1;
        let run = session.options.folder.name();
        let mark = JobTag { run: run.clone(), key: planned.key, submission: self.jobs[job].submissions };
        let mut arguments = session.place.arguments(&mark.to_string(), &format!("{}.txt", planned.key.short()));
        if !needs.is_empty() {
            let ids: Vec<String> = needs.iter().map(u64::to_string).collect();
            arguments.push(format!("--dependency=afterok:{}", ids.join(":")));
            arguments.push("--kill-on-invalid-dep=yes".to_owned());
        }
        arguments.extend(sbatch_args::resources(planned, &session.options.asked.of_step(&planned.label.step)));
        let script = session.place.script(&format!("exec-job {run} --at {} --key {}", self.orders[job], planned.key));
        session.client.submit(&arguments, &script)
    }
}

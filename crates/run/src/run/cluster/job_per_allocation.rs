//! Submits a batch job for each job, all at once, with the batch system's dependencies between them.

mod afar;
mod ends;

use std::{
    collections::HashMap,
    io,
    time::{Duration, Instant},
};

use sweep_job::{Failure, FailureKind};

use self::afar::Afar;
use super::{
    BatchId, BatchJob, CancelScope, LAG, MISSING, QueuedJob, QueuedState, Refusal, Work,
    job_tag::JobTag,
    jobs::{self, Jobs, Sent, Stage},
    session::{ClusterSession, Launch},
};
use crate::{
    plan::JobId,
    record::Key,
    run::{RunEvent, RunFolder, Summary, executor::Executor, journal, state::RunState},
};

/// Time limit of a batch of submissions before the queue and the signals are checked again.
const STRETCH: Duration = Duration::from_secs(2);
/// A job that waits for more jobs than this is submitted when fewer of them are open: one option can only hold a limited number.
const MAX_NEEDS: usize = 1000;
/// Time to wait for a failed job's own message before the batch system's is used.
const SETTLE: Duration = Duration::from_secs(3);

/// Runs each job as a batch job.
pub(super) struct JobExecutor<'a, 'o> {
    session: ClusterSession<'a, 'o>,
    /// Offset of each job's specification.
    job_specs: Vec<u64>,
    jobs: Jobs,
    /// The order of submissions: the batch system starts the first submitted jobs first, if it can.
    order: Vec<usize>,
    by_key: HashMap<Key, usize>,
    /// Batch jobs that are no longer needed.
    to_cancel: Vec<BatchId>,
    adopted: usize,
    submitted: usize,
    announced: bool,
    /// A submission limit that was reached, which is reported once.
    full: Option<String>,
    /// The exchange with machines that share no folder with this one.
    afar: Option<Afar>,
}

impl<'a, 'o> Executor<'a, 'o> for JobExecutor<'a, 'o> {
    fn state(&mut self) -> &mut RunState<'a, 'o> {
        &mut self.session.state
    }

    fn start(&mut self) -> io::Result<bool> {
        Ok(self.session.is_over(self.jobs.open))
    }

    fn release(&mut self, jobs: &[usize]) -> io::Result<bool> {
        self.session.release(jobs)?;
        for job in jobs {
            self.jobs.open(*job);
        }
        for job in jobs {
            let (state, id) = (&self.session.state, JobId::new(*job));
            if let Some(because) = state.plan.needs(id).map(JobId::index).find(|need| state.lost.contains(need)) {
                self.skip(*job, because);
            }
        }
        Ok(self.session.is_over(self.jobs.open))
    }

    fn advance(&mut self) -> io::Result<bool> {
        if Instant::now() >= self.session.next_poll {
            self.look()?;
        }
        // Without open jobs the run is over, and decisions may add others.
        let is_submitted = self.jobs.open > 0 && self.jobs.nothing_to_submit() && self.announced;
        if self.session.options.detach && !self.session.stopping && is_submitted {
            self.session.leaving = true;
        }
        if self.jobs.open > 0 && !self.session.leaving {
            self.session.wait(self.jobs.running());
            if self.session.stopping {
                self.give_up_held();
            }
        }
        Ok(self.session.is_over(self.jobs.open))
    }

    fn stop(&mut self) -> bool {
        self.session.stopping = true;
        self.give_up_held();
        self.session.is_over(self.jobs.open)
    }

    fn is_stopping(&self) -> bool {
        self.session.stopping || self.session.leaving
    }
}

impl<'a, 'o> JobExecutor<'a, 'o> {
    /// `job_specs` has the place of each job's specification.
    pub(super) fn new(session: ClusterSession<'a, 'o>, job_specs: Vec<u64>) -> Self {
        let plan = session.state.plan;
        let jobs = Jobs::new(plan, &session.state.wanted);
        let order = plan.in_turn().into_iter().map(JobId::index).collect();
        let by_key = plan.jobs().map(|(id, job)| (job.key, id.index())).collect();
        let afar = session.options.exchange.clone().map(Afar::new);
        Self {
            session,
            job_specs,
            jobs,
            order,
            by_key,
            to_cancel: Vec::new(),
            adopted: 0,
            submitted: 0,
            announced: false,
            full: None,
            afar,
        }
    }

    /// Polls the queue, and acts on the result.
    fn look(&mut self) -> io::Result<()> {
        let to_submit = !self.session.stopping && !self.jobs.nothing_to_submit();
        // Held from the query of the queue to the last submission, so that no two sweeps submit the same job.
        let lock = if to_submit { self.session.state.store.lock("submit")? } else { None };
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

    /// Compares the queue with the known states of the jobs.
    fn reconcile(&mut self, queue: &[QueuedJob]) {
        let by_id: HashMap<&BatchId, &QueuedJob> = queue.iter().map(|queued| (&queued.id, queued)).collect();
        for job in 0..self.jobs.len() {
            let Stage::Sent(sent) = &self.jobs[job].stage else { continue };
            let key = self.session.state.key(job);
            // A number alone proves nothing: after a crash a batch system may give it out again.
            let seen = by_id.get(&sent.id).filter(|seen| tag_of(seen).is_some_and(|tag| tag.key == key));
            match seen.map(|seen| &seen.state) {
                Some(QueuedState::Pending) => {
                    self.pending(job, &seen.map(|seen| seen.reason.clone()).unwrap_or_default());
                }
                Some(QueuedState::Running) => {
                    if let Stage::Sent(sent) = &mut self.jobs[job].stage {
                        (sent.running, sent.gone) = (true, None);
                    }
                    self.listen(job);
                }
                state => self.gone(job, state, seen.is_some_and(|seen| seen.orphaned)),
            }
        }
    }

    /// A job waits in the queue. Some reasons for that will not pass by themselves.
    fn pending(&mut self, job: usize, reason: &str) {
        let Stage::Sent(sent) = &mut self.jobs[job].stage else { return };
        (sent.running, sent.gone) = (false, None);
        if sent.reason == reason {
            return;
        }
        reason.clone_into(&mut sent.reason);
        if let Some(why) = self.session.cluster.why_pending(reason) {
            let text = format!("{} may never start it ({reason}): {why}", self.session.cluster.system());
            self.session.state.tell(&RunEvent::Note { job, text });
        }
    }

    /// Passes on the events of a job's process.
    fn listen(&mut self, job: usize) {
        let Stage::Sent(sent) = &self.jobs[job].stage else { return };
        let folder = RunFolder::named(&self.session.options.results, &sent.run);
        let key = self.session.state.key(job);
        let part = folder.part(key);
        for line in journal::more(&part, &mut self.jobs[job].read) {
            match line.event.about(job) {
                event @ RunEvent::Started { .. } => {
                    (self.jobs[job].last, self.jobs[job].stopped) = (None, None);
                    self.jobs[job].interrupted = false;
                    self.jobs[job].log = Some(folder.log(key));
                    self.session.state.tell(&event);
                }
                RunEvent::Failed { seconds, failure, .. } => self.jobs[job].last = Some((seconds, failure)),
                RunEvent::Stopped { seconds, how, .. } => self.jobs[job].stopped = Some((seconds, how)),
                RunEvent::Ended(Summary { interrupted: Some(_), .. }) => {
                    self.jobs[job].last = None;
                    self.jobs[job].interrupted = true;
                }
                event @ (RunEvent::Progress { .. }
                | RunEvent::Note { .. }
                | RunEvent::Storing { .. }
                | RunEvent::Waiting { .. }
                | RunEvent::Retrying { .. }) => self.session.state.tell(&event),
                _ => {}
            }
        }
    }

    /// Handles a job that has ended in the queue, or is no longer listed: its outcome comes from the store, else from its journal, else
    /// from the batch system's state.
    fn gone(&mut self, job: usize, state: Option<&QueuedState>, orphaned: bool) {
        self.receive(job);
        self.listen(job);
        if self.session.done(job) {
            self.jobs.close(job);
            return;
        }
        let interrupted = self.jobs[job].interrupted && matches!(state, Some(QueuedState::Failed(_)));
        if self.session.stopping && (interrupted || matches!(state, Some(QueuedState::Canceled) | None)) {
            self.jobs.close(job);
            match self.jobs[job].stopped.take() {
                Some((seconds, how)) => self.session.state.tell(&RunEvent::Stopped { job, seconds, how }),
                None => self.session.state.tell(&RunEvent::Skipped { job, because: None }),
            }
            return;
        }
        if interrupted {
            self.submit_again(job);
            return;
        }
        // The journal of a job that the batch system ended only has the signal; the system knows the reason.
        let its_own = !matches!(state, Some(QueuedState::Ended(_) | QueuedState::Canceled));
        if let Some((seconds, failure)) = self.jobs[job].last.take().filter(|_| its_own) {
            self.fail(job, seconds, failure);
            return;
        }
        let now = Instant::now();
        let Stage::Sent(sent) = &mut self.jobs[job].stage else { return };
        let (id, since) = (sent.id.clone(), now - *sent.gone.get_or_insert(now));
        let patience = match state {
            Some(QueuedState::Canceled) if orphaned => Duration::ZERO,
            Some(QueuedState::Completed) => LAG,
            None => MISSING,
            Some(_) => SETTLE,
        };
        if since < patience {
            // The outcome is expected soon, so the next poll is early.
            self.session.next_poll = self.session.next_poll.min(now + self.session.options.poll);
            return;
        }
        let system = self.session.cluster.system();
        let crash = |message: String| Failure { kind: FailureKind::Crash, message };
        match state {
            // The dependency is resubmitted, with this job after it; or it has failed, and this job is skipped.
            Some(QueuedState::Canceled) if orphaned => self.jobs[job].stage = Stage::Held,
            Some(QueuedState::Canceled) => self.fail(job, 0.0, crash(format!("job {id} was canceled in {system}"))),
            Some(QueuedState::Completed) => {
                self.lose(job, crash(format!("job {id} has completed in {system}, but has no record")), true);
            }
            None => match self.session.cluster.remembered(&id).filter(|state| !state.is_live()) {
                Some(QueuedState::Failed(word) | QueuedState::Ended(word)) => self.ended_badly(job, &id, &word),
                Some(QueuedState::Canceled) => {
                    self.fail(job, 0.0, crash(format!("job {id} was canceled in {system}")));
                }
                _ => {
                    let message = format!("{system} no longer lists job {id}, and the job has no result");
                    self.lose(job, crash(message), true);
                }
            },
            Some(QueuedState::Failed(word) | QueuedState::Ended(word)) => self.ended_badly(job, &id, word),
            Some(QueuedState::Pending | QueuedState::Running) => {}
        }
    }

    /// Handles a job that has finally failed; the jobs that need it will not run.
    fn fail(&mut self, job: usize, seconds: f64, failure: Failure) {
        let log = self.jobs[job].log.clone();
        self.jobs.close(job);
        self.session.failed(job, seconds, failure, log);
        for (dependent, because) in self.jobs.dependents(job) {
            self.skip(dependent, because);
        }
        if self.session.stopping {
            self.give_up_held();
        }
    }

    /// Gives up a job whose needed job has no result.
    fn skip(&mut self, job: usize, because: usize) {
        if let Stage::Sent(sent) = &self.jobs[job].stage {
            self.to_cancel.push(sent.id.clone());
        }
        self.jobs.close(job);
        self.session.state.tell(&RunEvent::Skipped { job, because: Some(because) });
    }

    /// Gives up the jobs that are not submitted, including jobs for which another process waits.
    fn give_up_held(&mut self) {
        for job in 0..self.jobs.len() {
            let given_up = match &self.jobs[job].stage {
                Stage::Held => true,
                // Another process waits for the job, too.
                Stage::Sent(sent) => !self.is_ours(&sent.run),
                Stage::Over => false,
            };
            if given_up {
                self.jobs.close(job);
                self.session.state.tell(&RunEvent::Skipped { job, because: None });
            }
        }
    }

    /// True if only this process waits for the jobs of a run.
    fn is_ours(&self, run: &str) -> bool {
        *run == self.session.options.folder.name() || !RunFolder::named(&self.session.options.results, run).is_live()
    }

    /// Cancels batch jobs that are no longer needed; pending ones first, so that none of them starts meanwhile.
    fn cancel(&mut self) {
        let mut pending_ids = std::mem::take(&mut self.to_cancel);
        let mut running_ids = Vec::new();
        if self.session.stopping {
            for sent in self.jobs.sent() {
                if sent.running { &mut running_ids } else { &mut pending_ids }.push(sent.id.clone());
            }
        }
        let mut canceled = self.session.cancel(&pending_ids, CancelScope::Pending);
        if self.session.ending {
            canceled = canceled.and_then(|()| self.session.cancel(&pending_ids, CancelScope::All));
            canceled = canceled.and_then(|()| self.session.cancel(&running_ids, CancelScope::All));
        }
        match canceled {
            Err(error) => {
                self.to_cancel.extend(pending_ids);
                self.session.trouble(&error);
            }
            Ok(()) if self.session.stopping => {
                self.session.next_poll = self.session.next_poll.min(Instant::now() + self.session.options.poll);
            }
            Ok(()) => {}
        }
    }

    /// Takes over jobs that are in the queue already: an earlier sweep that has ended submitted them, or another one
    /// waits for them, too.
    fn adopt(&mut self, queue: &[QueuedJob]) {
        let mut known: HashMap<usize, &QueuedJob> = HashMap::new();
        for seen in queue.iter().filter(|seen| seen.state.is_live() && !seen.orphaned) {
            let job = tag_of(seen).and_then(|tag| self.by_key.get(&tag.key));
            if let Some(job) = job.filter(|job| self.jobs[**job].stage.is_held()) {
                let newest = known.entry(*job).or_insert(seen);
                if submitted(newest) < submitted(seen) {
                    *newest = seen;
                }
            }
        }
        for (job, seen) in known {
            let Some(tag) = tag_of(seen) else { continue };
            self.adopted += 1;
            self.jobs[job].submissions = tag.submission;
            self.sent(job, seen.id.clone(), tag.run);
        }
    }

    fn sent(&mut self, job: usize, id: BatchId, run: String) {
        let submission = self.jobs[job].submissions;
        self.jobs[job].stage =
            Stage::Sent(Sent { id: id.clone(), run, running: false, reason: String::new(), gone: None });
        self.session.state.tell(&RunEvent::Submitted { job, id, submission });
    }

    /// Submits the jobs that can be submitted, for a limited time.
    fn submit(&mut self) {
        let until = Instant::now() + STRETCH;
        let mut in_queue = self.jobs.sent().count();
        for place in 0..self.order.len() {
            let job = self.order[place];
            if !self.jobs[job].stage.is_held() {
                continue;
            }
            // Another sweep, or the machine of an earlier submission, may have finished the job meanwhile.
            self.bring(job);
            if self.session.done(job) {
                self.jobs.close(job);
                continue;
            }
            // Only this process would submit the job once the state exists. If the process detaches, the job is submitted now,
            // without the state.
            if self.jobs.is_early(job) && !self.session.options.detach {
                continue;
            }
            // Without dependencies in the system, a job waits in this process for all jobs that it needs.
            let max_needs = if self.session.cluster.keeps_dependencies() { MAX_NEEDS } else { 0 };
            let Some(needs) = self.jobs.needs_of(job, max_needs) else { continue };
            if Instant::now() >= until {
                self.session.next_poll = Instant::now();
                return;
            }
            if self.session.options.most.is_some_and(|max_jobs| in_queue >= max_jobs) {
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
                    // The job may be in the queue nevertheless; the next poll shows it.
                    self.jobs[job].submissions -= 1;
                    self.session.trouble(&error);
                    return;
                }
                // A system's limit may count jobs that have just ended, and jobs of other users.
                Err(Refusal::Full(error)) if in_queue > 0 || self.session.state.changed.elapsed() < LAG => {
                    self.jobs[job].submissions -= 1;
                    if self.full.is_none() {
                        let text = format!(
                            "{} accepts no more jobs for now, the rest are submitted later: {error}",
                            self.session.cluster.system()
                        );
                        self.session.state.notice(text);
                    }
                    self.full = Some(error);
                    break;
                }
                Err(Refusal::Full(error) | Refusal::No(error)) => {
                    let message = format!("{} refuses it: {error}", self.session.cluster.system());
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
            let (system, name) = (self.session.cluster.system(), self.session.cluster.jobs_name());
            self.session.state.notice(format!("{system}: {}, as {name}", parts.join(", ")));
        }
        let held_jobs = self.jobs.held();
        if self.session.options.detach && held_jobs > 0 {
            let jobs = crate::format::count(held_jobs, "job");
            self.session.state.notice(format!("{jobs} could not be submitted yet; run the same command again later"));
        }
    }

    fn submit_one(&mut self, job: usize, needs: &[BatchId]) -> Result<BatchId, Refusal> {
        self.jobs[job].submissions += 1;
        let afar = self.hand_over(job).map_err(Refusal::Unreachable)?;
        let session = &self.session;
        let planned_job = session.state.plan.job(JobId::new(job));
        let run = session.options.folder.name();
        let tag = JobTag { run: run.clone(), key: planned_job.key, submission: self.jobs[job].submissions };
        let work = Work::Job { key: planned_job.key, run: &run, at: self.job_specs[job] };
        session.submit(&BatchJob {
            tag: tag.to_string(),
            output: session.launch.output(&format!("{}.txt", planned_job.key.short())),
            folder: &session.launch.folder,
            script: match afar {
                Some(arguments) => Launch::script_afar(&arguments),
                None => session.launch.script(&work.arguments()),
            },
            work,
            request: jobs::request(planned_job),
            step: Some(&planned_job.label.step),
            after: needs,
        })
    }
}

/// The run and the submission of a batch job; names of runs are in the order of their times.
fn submitted(queued: &QueuedJob) -> Option<(String, u32)> {
    tag_of(queued).map(|tag| (tag.run, tag.submission))
}

/// The tag of a batch job, if it belongs to this program.
fn tag_of(queued: &QueuedJob) -> Option<JobTag> {
    queued.tag.parse().ok()
}

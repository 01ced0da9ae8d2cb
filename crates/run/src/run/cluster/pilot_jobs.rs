//! Allocations with an engine in each, for jobs so short that a batch system would take longer to start them than they
//! run. The engines share the jobs as sweeps on one machine do; the events in their files are merged here.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::Instant,
};

use sweep_job::{Failure, FailureKind};

use super::{
    BatchId, BatchJob, CancelScope, EndCause, LAG, LOSSES, MISSING, Options, QueuedState, Refusal, Request, Work,
    job_tag::JobTag, session::ClusterSession,
};
use crate::{
    plan::JobId,
    recipe::ResourceCount,
    run::{Disposition, Failures, RunEvent, allocation, executor::Executor, journal, state::RunState},
};

/// Runs the jobs in pilots.
pub(super) struct PilotExecutor<'a, 'o> {
    session: ClusterSession<'a, 'o>,
    failures: Failures,
    /// Jobs without an end.
    open: BTreeSet<usize>,
    /// Number of pilots at once.
    most: usize,
    /// Jobs that run in a pilot, according to the pilots' journals.
    running: BTreeSet<usize>,
    /// The pilots, by their numbers.
    pilots: BTreeMap<usize, Pilot>,
    /// Number submitted so far.
    submitted: usize,
    /// True if all pilots for the open jobs have been submitted once, which was reported.
    is_announced: bool,
    /// Number of pilots that have ended since a pilot last did work, except pilots that ended in favor of another one.
    fruitless: usize,
    /// True if the pilots have been interrupted, so that they start no more jobs.
    interrupted: bool,
}

struct Pilot {
    /// The pilot's number in the queue.
    id: BatchId,
    /// Length of its messages that have been read.
    read: u64,
    running: bool,
    /// Time since which the pilot has ended, or is not in the queue.
    gone: Option<Instant>,
    over: bool,
}

impl<'a, 'o> Executor<'a, 'o> for PilotExecutor<'a, 'o> {
    fn state(&mut self) -> &mut RunState<'a, 'o> {
        &mut self.session.state
    }

    fn start(&mut self) -> io::Result<bool> {
        Ok(self.session.is_over(self.open.len()))
    }

    fn release(&mut self, jobs: &[usize]) -> io::Result<bool> {
        self.session.release(jobs)?;
        self.open.extend(jobs);
        // Pilots that have started do not know the new jobs, and end by themselves.
        self.pilots.clear();
        self.running.clear();
        self.fruitless = 0;
        self.session.begun = Instant::now();
        self.is_announced = false;
        self.most = most_pilots(self.session.options, &self.open);
        Ok(self.session.is_over(self.open.len()))
    }

    fn advance(&mut self) -> io::Result<bool> {
        if Instant::now() >= self.session.next_poll {
            self.submit();
            self.look();
        }
        if !self.open.is_empty() {
            if self.session.options.detach && self.is_announced {
                self.session.leaving = true;
            } else if !self.session.leaving {
                self.session.wait(self.running.len());
            }
            self.listen();
        }
        Ok(self.session.is_over(self.open.len()))
    }

    fn stop(&mut self) -> bool {
        self.session.stopping = true;
        self.session.next_poll = Instant::now();
        self.session.is_over(self.open.len())
    }

    fn is_stopping(&self) -> bool {
        self.session.stopping || self.session.leaving
    }

    fn takes_jobs(&self) -> bool {
        false
    }
}

impl<'a, 'o> PilotExecutor<'a, 'o> {
    pub(super) fn new(session: ClusterSession<'a, 'o>) -> Self {
        let folder = session.options.folder.path();
        let dispositions = session.state.wanted.iter().enumerate();
        let open: BTreeSet<usize> =
            dispositions.filter(|(_, disposition)| **disposition == Disposition::Yes).map(|(job, _)| job).collect();
        let most = most_pilots(session.options, &open);
        let failures = Failures::of_run(folder);
        Self {
            session,
            failures,
            most,
            open,
            running: BTreeSet::new(),
            pilots: BTreeMap::new(),
            submitted: 0,
            is_announced: false,
            fruitless: 0,
            interrupted: false,
        }
    }

    /// Submits the missing pilots.
    fn submit(&mut self) {
        let live_pilots = self.pilots.values().filter(|pilot| !pilot.over).count();
        let mut missing_pilots = self.most.saturating_sub(live_pilots);
        while missing_pilots > 0 {
            if self.session.stopping || self.open.is_empty() || self.fruitless >= self.patience() {
                return;
            }
            let first = self.submitted + 1;
            let members = if self.session.cluster.has_members() { missing_pilots } else { 1 };
            match self.submit_some(first, members) {
                Ok(id) => {
                    missing_pilots -= members;
                    self.submitted += members;
                    for number in first..first + members {
                        let pilot = Pilot { id: id.clone(), read: 0, running: false, gone: None, over: false };
                        self.pilots.insert(number, pilot);
                    }
                }
                Err(Refusal::Unreachable(error) | Refusal::Full(error)) => {
                    self.session.trouble(&error);
                    return;
                }
                Err(Refusal::No(error)) => {
                    self.give_up(&format!("{} refuses a pilot: {error}", self.session.cluster.system()));
                    return;
                }
            }
        }
        if !std::mem::replace(&mut self.is_announced, true) {
            let (system, name) = (self.session.cluster.system(), self.session.cluster.jobs_name());
            let pilots = crate::format::count(self.most, "pilot");
            self.session.state.notice(format!("{system}: {pilots} submitted, as {name}"));
        }
    }

    /// Submits one pilot, or several as the members of one batch job.
    fn submit_some(&self, number: usize, members: usize) -> Result<BatchId, Refusal> {
        let session = &self.session;
        let run = session.options.folder.name();
        // Pilots are never adopted, so the key of the first job represents all of them.
        let key = session.state.key(0);
        let tag = JobTag { run: run.clone(), key, submission: u32::try_from(number).unwrap_or(u32::MAX) };
        let work = Work::Pilot { run: &run, number, members };
        session.submit(&BatchJob {
            tag: format!("pilot:{tag}"),
            output: session.launch.output(&format!("pilot-{number}.txt")),
            folder: &session.launch.folder,
            script: session.launch.script(&work.arguments()),
            work,
            request: self.request(),
            step: None,
            after: &[],
        })
    }

    /// True if no more pilots are submitted because too many ended without doing anything.
    fn patience(&self) -> usize {
        most_pilots(self.session.options, &self.open) * (LOSSES as usize + 1)
    }

    /// A pilot is as large as the largest job that is still to run.
    fn request(&self) -> Request {
        let jobs = || self.open.iter().map(|job| self.session.state.plan.job(JobId::new(*job)));
        Request {
            nodes: 1,
            processes: 1,
            cpus: jobs().map(|job| job.resources.cpus.map_or(1, ResourceCount::count)).max().unwrap_or(1),
            memory: jobs().filter_map(|job| job.resources.memory).max().filter(|memory| *memory > 0),
            gpus: jobs().map(crate::run::gpus).max().unwrap_or(0),
            gpu_share: None,
            exclusive: false,
            time: None,
        }
    }

    /// Passes on the events of the pilots.
    fn listen(&mut self) {
        let folder = self.session.options.folder.clone();
        let numbers: Vec<usize> =
            self.pilots.iter().filter(|(_, pilot)| !pilot.over).map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(pilot) = self.pilots.get_mut(&number) else { continue };
            for line in journal::more(&folder.pilot(number), &mut pilot.read) {
                let Some(job) = line.event.job().filter(|job| self.open.contains(job)) else { continue };
                match line.event {
                    // On a network file system, the record may become visible later than the event.
                    RunEvent::Done { .. } if self.session.done(job) => self.close(job),
                    RunEvent::Failed { seconds, failure, .. } => {
                        let log = folder.log(self.session.state.key(job));
                        self.close(job);
                        self.session.failed(job, seconds, failure, Some(log).filter(|log| log.is_file()));
                    }
                    RunEvent::Skipped { because: Some(because), .. } => {
                        self.close(job);
                        self.session.state.tell(&RunEvent::Skipped { job, because: Some(because) });
                    }
                    RunEvent::Stopped { seconds, how, .. } if self.session.stopping => {
                        self.close(job);
                        self.session.state.tell(&RunEvent::Stopped { job, seconds, how });
                    }
                    RunEvent::Stopped { how, .. } => {
                        self.fruitless = 0;
                        self.running.remove(&job);
                        let system = self.session.cluster.system();
                        let text = format!("its pilot was interrupted in {system} ({how}); another one continues it");
                        self.session.state.tell(&RunEvent::Note { job, text });
                    }
                    event @ RunEvent::Started { .. } => {
                        self.running.insert(job);
                        self.session.state.tell(&event);
                    }
                    event @ (RunEvent::Progress { .. }
                    | RunEvent::Note { .. }
                    | RunEvent::Storing { .. }
                    | RunEvent::Retrying { .. }) => self.session.state.tell(&event),
                    _ => {}
                }
            }
        }
    }

    fn close(&mut self, job: usize) {
        self.fruitless = 0;
        self.open.remove(&job);
        self.running.remove(&job);
    }

    /// Checks which pilot jobs are still there.
    fn look(&mut self) {
        let Some(queue) = self.session.queue() else { return };
        self.listen();
        let now = Instant::now();
        let mut ended_pilots = Vec::new();
        for pilot in self.pilots.values_mut().filter(|pilot| !pilot.over) {
            let seen = queue.iter().find(|seen| seen.id == pilot.id);
            pilot.running = seen.is_some_and(|seen| seen.state == QueuedState::Running);
            if seen.is_some_and(|seen| seen.state.is_live()) {
                pilot.gone = None;
                continue;
            }
            let since = now - *pilot.gone.get_or_insert(now);
            pilot.over = seen.is_some() || since >= MISSING || self.session.stopping;
            if pilot.over {
                ended_pilots.push((pilot.id.clone(), seen.map(|seen| seen.state.clone())));
            }
        }
        for (id, state) in ended_pilots {
            let preempted = matches!(state, Some(QueuedState::Ended(word))
                if self.session.cluster.ending(&id, &word).cause == EndCause::Preempted);
            self.fruitless += usize::from(!preempted);
        }
        if self.session.stopping {
            let (running, pending): (Vec<&Pilot>, Vec<&Pilot>) =
                self.pilots.values().filter(|pilot| !pilot.over).partition(|pilot| pilot.running);
            // Several may be one batch job.
            let ids = |pilots: &[&Pilot]| {
                let mut ids: Vec<BatchId> = pilots.iter().map(|pilot| pilot.id.clone()).collect();
                ids.dedup();
                ids
            };
            let (running, pending) = (ids(&running), ids(&pending));
            let mut canceled = self.session.cancel(&pending, CancelScope::All);
            if self.session.ending {
                canceled = canceled.and_then(|()| self.session.cancel(&running, CancelScope::All));
            } else if !std::mem::replace(&mut self.interrupted, true) {
                // The interrupt has the effect of Ctrl-C on a pilot's engine: it starts no more jobs, and lets the
                // running ones end. Pilots that miss the interrupt are canceled later.
                let _ = self.session.cancel(&running, CancelScope::Interrupt);
            }
            if let Err(error) = canceled {
                self.session.trouble(&error);
            }
            self.session.next_poll = self.session.next_poll.min(now + self.session.options.poll);
        }
        if self.pilots.values().all(|pilot| pilot.over) {
            self.nobody_left();
        }
    }

    /// Handles the end of the last pilot: existing records count, and the remaining jobs need another pilot.
    fn nobody_left(&mut self) {
        self.listen();
        for job in
            allocation::recorded(self.session.state.plan, self.session.state.store, self.open.clone().into_iter())
        {
            if self.session.done(job) {
                self.close(job);
            }
        }
        for job in self.open.clone() {
            if let Some(failure) = self.failures.of(self.session.state.key(job)) {
                self.close(job);
                self.session.failed(job, 0.0, failure, None);
            }
        }
        if self.session.stopping {
            for job in std::mem::take(&mut self.open) {
                self.session.state.tell(&RunEvent::Skipped { job, because: None });
            }
        }
        if self.fruitless >= self.patience() && self.session.begun.elapsed() > LAG.min(MISSING) {
            let folder = self.session.launch.outputs.display();
            self.give_up(&format!("every pilot job has ended, and none has run it; see {folder}"));
        }
    }

    fn give_up(&mut self, why: &str) {
        for job in std::mem::take(&mut self.open) {
            let failure = Failure { kind: FailureKind::Crash, message: why.to_owned() };
            self.session.failed(job, 0.0, failure, None);
        }
    }
}

/// Number of pilots for `open` jobs: more engines than jobs would have nothing to do.
fn most_pilots(options: &Options, open: &BTreeSet<usize>) -> usize {
    options.pilots.unwrap_or(1).min(open.len().max(1))
}

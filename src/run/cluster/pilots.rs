//! Allocations with an engine in each, for jobs so short that Slurm would take longer to start them than they run. The engines
//! share the jobs as sweeps on one machine do; what they say in their files is put together here.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::Instant,
};

use sweep_job::{Failure, FailureKind};

use super::{
    LAG, LOSSES, MISSING, Options, ask,
    client::{Refusal, State},
    desk::Desk,
    mark::Mark,
};
use crate::{
    plan::{JobId, Plan},
    run::{Failures, Observer, RunEvent, Signals, Summary, Wanted, exec, journal, orders},
    store::Store,
};

/// The state of a run with pilots.
pub(super) struct Run<'a, 'o> {
    desk: Desk<'a, 'o>,
    failures: Failures,
    /// Jobs without an end.
    open: BTreeSet<usize>,
    /// Jobs that run in a pilot, by what has been said.
    running: BTreeSet<usize>,
    /// The pilots, by their numbers.
    pilots: BTreeMap<usize, Pilot>,
    /// How many have been submitted so far.
    submitted: usize,
    /// The pilots have been told to start nothing more.
    interrupted: bool,
}

struct Pilot {
    /// What Slurm calls it.
    id: u64,
    /// How far its words have been read.
    read: u64,
    running: bool,
    /// Since when it has ended, or is not in the queue.
    gone: Option<Instant>,
    over: bool,
}

impl<'a, 'o> Run<'a, 'o> {
    pub(super) fn new(
        plan: &'a Plan,
        store: &'a Store,
        wanted: &[Wanted],
        options: &'a Options,
        observers: &'a mut [&'o mut dyn Observer],
    ) -> io::Result<Self> {
        orders::write(plan, options.folder.path())?;
        let open = (0..wanted.len()).filter(|job| wanted[*job] == Wanted::Yes).collect();
        let failures = Failures::of_run(options.folder.path());
        let desk = Desk::new(plan, store, wanted, options, observers)?;
        Ok(Self {
            desk,
            failures,
            open,
            running: BTreeSet::new(),
            pilots: BTreeMap::new(),
            submitted: 0,
            interrupted: false,
        })
    }

    pub(super) fn drive(mut self, pilots: usize, signals: Option<Signals>) -> io::Result<Summary> {
        let receiver = self.desk.begin(signals, self.open.len())?;
        // More engines than jobs would have nothing to do.
        let pilots = pilots.min(self.open.len());
        while !self.desk.leaving && (!self.open.is_empty() || self.pilots.values().any(|pilot| !pilot.over)) {
            if Instant::now() >= self.desk.next_poll {
                self.submit(pilots);
                self.look();
            }
            if self.open.is_empty() {
                // What is left of the pilots ends by itself.
                break;
            }
            if self.desk.options.detach && self.submitted >= pilots {
                self.desk.leaving = true;
            } else if !self.desk.leaving {
                self.desk.wait(&receiver, self.running.len());
            }
            self.listen();
        }
        self.desk.summary.detached = self.desk.leaving && !self.open.is_empty();
        Ok(self.desk.end())
    }

    /// Submits as many pilots as are missing.
    fn submit(&mut self, pilots: usize) {
        let live = self.pilots.values().filter(|pilot| !pilot.over).count();
        let most = pilots * (LOSSES as usize + 1);
        for _ in live..pilots {
            if self.desk.stopping || self.open.is_empty() || self.submitted >= most {
                return;
            }
            let number = self.submitted + 1;
            match self.submit_one(number) {
                Ok(id) => {
                    self.submitted = number;
                    let pilot = Pilot { id, read: 0, running: false, gone: None, over: false };
                    self.pilots.insert(number, pilot);
                }
                Err(Refusal::Unreachable(error) | Refusal::Full(error)) => {
                    self.desk.trouble(&error);
                    return;
                }
                Err(Refusal::No(error)) => {
                    self.submitted = most;
                    self.give_up(&format!("Slurm refuses a pilot: {error}"));
                    return;
                }
            }
        }
        if self.submitted == pilots && live < pilots {
            let (what, name) = (crate::format::count(pilots, "pilot"), self.desk.client.name.clone());
            self.desk.notice(format!("Slurm: {what} submitted, as {name}"));
        }
    }

    fn submit_one(&self, number: usize) -> Result<u64, Refusal> {
        let run = self.desk.options.folder.name();
        // Nothing to adopt later: the key of the first job stands for all of them.
        let key = self.desk.key(0);
        let mark = Mark { run: run.clone(), key, submission: u32::try_from(number).unwrap_or(u32::MAX) };
        let mut arguments = self.desk.place.arguments(&format!("pilot:{mark}"), &format!("pilot-{number}.txt"));
        arguments.extend(self.resources());
        let script = self.desk.place.script(&format!("exec-pilot {run} --number {number}"));
        self.desk.client.submit(&arguments, &script)
    }

    /// A pilot is as large as the largest job that is still to run.
    fn resources(&self) -> Vec<String> {
        let jobs = || self.open.iter().map(|job| self.desk.plan.job(JobId::new(*job)));
        let asked = &self.desk.options.asked.all;
        let most = |what: &dyn Fn(&crate::plan::Job) -> u64| jobs().map(what).max().unwrap_or(0);
        let mut arguments = vec![format!("--cpus-per-task={}", most(&|job| job.resources.cpus.unwrap_or(1) as u64))];
        let memory = most(&|job| job.resources.memory.unwrap_or(0));
        if memory > 0 {
            arguments.push(format!("--mem={}M", memory.div_ceil(1 << 20)));
        }
        let gpus = most(&|job| crate::run::gpus(job) as u64);
        match &asked.gres {
            Some(gres) => arguments.push(format!("--gres={gres}")),
            None if gpus > 0 => arguments.push(format!("--gres=gpu:{gpus}")),
            None => {}
        }
        if let Some(time) = asked.time {
            arguments.push(format!("--time={}", time.as_secs().div_ceil(60).max(1)));
        }
        arguments.extend(ask::whose(asked));
        arguments
    }

    /// Passes on what the pilots have said.
    fn listen(&mut self) {
        let folder = self.desk.options.folder.clone();
        let numbers: Vec<usize> =
            self.pilots.iter().filter(|(_, pilot)| !pilot.over).map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(pilot) = self.pilots.get_mut(&number) else { continue };
            for line in journal::more(&folder.pilot(number), &mut pilot.read) {
                let Some(job) = line.event.job().filter(|job| self.open.contains(job)) else { continue };
                match line.event {
                    // On a network file system the record may be seen later than the word of it.
                    RunEvent::Done { .. } if self.desk.done(job) => self.close(job),
                    RunEvent::Failed { seconds, failure, .. } => {
                        let log = folder.log(self.desk.key(job));
                        self.close(job);
                        self.desk.failed(job, seconds, failure, Some(log).filter(|log| log.is_file()));
                        if self.desk.options.fail_fast {
                            self.desk.stopping = true;
                        }
                    }
                    RunEvent::Skipped { because: Some(because), .. } => {
                        self.close(job);
                        self.desk.skipped(job, Some(because));
                    }
                    event @ RunEvent::Started { .. } => {
                        self.running.insert(job);
                        self.desk.tell(&event);
                    }
                    event @ (RunEvent::Progress { .. }
                    | RunEvent::Note { .. }
                    | RunEvent::Storing { .. }
                    | RunEvent::Retrying { .. }) => self.desk.tell(&event),
                    _ => {}
                }
            }
        }
    }

    fn close(&mut self, job: usize) {
        self.open.remove(&job);
        self.running.remove(&job);
    }

    /// Looks which pilots are still there.
    fn look(&mut self) {
        let Some(queue) = self.desk.queue() else { return };
        self.listen();
        let now = Instant::now();
        for pilot in self.pilots.values_mut().filter(|pilot| !pilot.over) {
            let seen = queue.iter().find(|seen| seen.id == pilot.id);
            pilot.running = seen.is_some_and(|seen| seen.state == State::Running);
            if seen.is_some_and(|seen| seen.state.is_live()) {
                pilot.gone = None;
                continue;
            }
            let since = now - *pilot.gone.get_or_insert(now);
            pilot.over = seen.is_some() || since >= MISSING || self.desk.stopping;
        }
        if self.desk.stopping {
            let (running, pending): (Vec<&Pilot>, Vec<&Pilot>) =
                self.pilots.values().filter(|pilot| !pilot.over).partition(|pilot| pilot.running);
            let ids = |pilots: &[&Pilot]| pilots.iter().map(|pilot| pilot.id).collect::<Vec<u64>>();
            let (running, pending) = (ids(&running), ids(&pending));
            let mut cancelled = self.desk.client.cancel(&pending, false);
            if self.desk.ending {
                cancelled = cancelled.and_then(|()| self.desk.client.cancel(&running, false));
            } else if !std::mem::replace(&mut self.interrupted, true) {
                // As Ctrl-C does to any engine: it starts nothing more, and lets its jobs end.
                self.desk.client.interrupt(&running);
            }
            if let Err(error) = cancelled {
                self.desk.trouble(&error);
            }
            self.desk.next_poll = self.desk.next_poll.min(now + self.desk.options.poll);
        }
        if self.pilots.values().all(|pilot| pilot.over) {
            self.nobody_left();
        }
    }

    /// No pilot is at work: what is there is there, and the rest needs another one.
    fn nobody_left(&mut self) {
        self.listen();
        for job in exec::recorded(self.desk.plan, self.desk.store, self.open.clone().into_iter()) {
            if self.desk.done(job) {
                self.close(job);
            }
        }
        for job in self.open.clone() {
            if let Some(failure) = self.failures.of(self.desk.key(job)) {
                self.close(job);
                self.desk.failed(job, 0.0, failure, None);
            }
        }
        if self.desk.stopping {
            for job in std::mem::take(&mut self.open) {
                self.desk.skipped(job, None);
            }
        }
        let most = self.desk.options.pilots.unwrap_or(1) * (LOSSES as usize + 1);
        if self.submitted >= most && self.desk.begun.elapsed() > LAG.min(MISSING) {
            self.give_up("every pilot has ended, and none has run it; see the folder `slurm` of the run");
        }
    }

    fn give_up(&mut self, why: &str) {
        for job in std::mem::take(&mut self.open) {
            let failure = Failure { kind: FailureKind::Crash, message: why.to_owned() };
            self.desk.failed(job, 0.0, failure, None);
        }
    }
}

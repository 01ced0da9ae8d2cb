//! The state of a run that all executors share. Results, failures and decisions are counted from its events alone.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::mpsc::{Receiver, Sender, channel},
    time::Instant,
};

use sweep_job::Failure;

use super::{Disposition, Observer, RunEvent, Summary, local::Input};
use crate::{
    plan::{JobId, Plan},
    recipe::Policy,
    record::Key,
    store::Store,
};

/// A run: its plan, its observers, and the jobs that have ended.
pub(super) struct RunState<'a, 'o> {
    pub(super) plan: &'a Plan,
    pub(super) store: &'a Store,
    observers: &'a mut [&'o mut dyn Observer],
    /// Disposition of each job, in the plan's order.
    pub(super) wanted: Vec<Disposition>,
    /// Jobs that failed, were stopped or were skipped.
    pub(super) lost: BTreeSet<usize>,
    /// Jobs that have ended since the last call of the planner of further jobs, each with whether it has a result.
    ended: Vec<(JobId, bool)>,
    pub(super) summary: Summary,
    /// Time of the last event other than progress.
    pub(super) changed: Instant,
    /// Inputs of the loop.
    pub(super) sender: Sender<Input>,
    pub(super) receiver: Receiver<Input>,
}

impl<'a, 'o> RunState<'a, 'o> {
    /// Begins a run, and notifies its observers.
    pub(super) fn begin(
        plan: &'a Plan,
        store: &'a Store,
        wanted: &[Disposition],
        observers: &'a mut [&'o mut dyn Observer],
    ) -> Self {
        let count = |state: Disposition| wanted.iter().filter(|other| **other == state).count();
        let (cached, open) = (count(Disposition::Cached), count(Disposition::Yes));
        let (sender, receiver) = channel();
        let mut state = Self {
            plan,
            store,
            observers,
            wanted: wanted.to_vec(),
            lost: BTreeSet::new(),
            ended: Vec::new(),
            summary: Summary { cached, ..Summary::default() },
            changed: Instant::now(),
            sender,
            receiver,
        };
        state.tell(&RunEvent::Begun { jobs: open + cached, cached });
        state
    }

    /// Counts an event, and passes it to the observers.
    pub(super) fn tell(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Done { job, .. } => self.end(*job, true),
            RunEvent::Failed { job, .. } | RunEvent::Stopped { job, .. } | RunEvent::Skipped { job, .. } => {
                self.end(*job, false);
            }
            RunEvent::Added { job, .. } => self.wanted[*job] = Disposition::Yes,
            _ => {}
        }
        let plan = self.plan;
        let is_tolerated = |job: usize| plan.job(JobId::new(job)).policy.tolerated;
        self.summary.count(event, is_tolerated);
        if !matches!(event, RunEvent::Progress { .. }) {
            self.changed = Instant::now();
        }
        for observer in self.observers.iter_mut() {
            observer.on(self.plan, event);
        }
    }

    fn end(&mut self, job: usize, has_result: bool) {
        if !has_result {
            self.lost.insert(job);
        }
        self.ended.push((JobId::new(job), has_result));
    }

    /// Lets the observers do deferred work.
    pub(super) fn tick(&mut self) {
        for observer in self.observers.iter_mut() {
            observer.tick(self.plan);
        }
    }

    /// Reports something that is about no single job.
    pub(super) fn notice(&mut self, text: impl Into<String>) {
        self.tell(&RunEvent::Notice { text: text.into(), warning: false });
    }

    /// Reports a text as a warning.
    pub(super) fn warn(&mut self, text: impl Into<String>) {
        self.tell(&RunEvent::Notice { text: text.into(), warning: true });
    }

    /// Reports a job without a result.
    pub(super) fn fail(&mut self, job: usize, seconds: f64, failure: Failure, log: Option<PathBuf>) {
        let tolerated = self.policy(job).tolerated;
        self.tell(&RunEvent::Failed { job, seconds, failure, log, tolerated });
    }

    /// Returns the jobs that have ended since the last call.
    pub(super) fn take_ended(&mut self) -> Vec<(JobId, bool)> {
        std::mem::take(&mut self.ended)
    }

    /// True if jobs have ended since the last call of [`Self::take_ended`].
    pub(super) fn has_ended_jobs(&self) -> bool {
        !self.ended.is_empty()
    }

    pub(super) fn policy(&self, job: usize) -> Policy {
        self.plan.job(JobId::new(job)).policy
    }

    pub(super) fn key(&self, job: usize) -> Key {
        self.plan.job(JobId::new(job)).key
    }
}

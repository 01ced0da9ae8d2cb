//! Jobs that are released or added once the jobs so far have ended.

use std::{collections::BTreeSet, io};

use super::Options;
use crate::{
    plan::{JobId, Plan},
    run::{Addition, Disposition, Observer, Released, RoundPlanner, RunEvent},
    store::Store,
};

/// The jobs of a run through a batch system, round by round.
pub(super) struct Rounds<'a, 'p> {
    plan: &'a Plan,
    store: &'a Store,
    planner: Option<&'p mut dyn RoundPlanner>,
    wanted: Vec<Disposition>,
    /// Jobs that have no result and will not get one in this run.
    lost: BTreeSet<usize>,
    /// Jobs that have been added so far.
    added: BTreeSet<usize>,
    goes_on: bool,
}

impl<'a, 'p> Rounds<'a, 'p> {
    pub(super) fn new(
        plan: &'a Plan,
        store: &'a Store,
        wanted: &[Disposition],
        planner: Option<&'p mut dyn RoundPlanner>,
    ) -> Self {
        let (lost, added) = (BTreeSet::new(), BTreeSet::new());
        Self { plan, store, planner, wanted: wanted.to_vec(), lost, added, goes_on: false }
    }

    /// Disposition of each job in the present round.
    pub(super) fn wanted(&self) -> &[Disposition] {
        &self.wanted
    }

    /// True if the first round has ended.
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Adds what decisions release from the results that are there already.
    pub(super) fn release(&mut self, options: &Options, observers: &mut [&mut dyn Observer]) -> io::Result<()> {
        let Some(planner) = &mut self.planner else { return Ok(()) };
        let released = planner.ended(&[], &self.lost)?;
        self.add(released, options, observers)?;
        Ok(())
    }

    /// All jobs of a round have ended: begins the next one, if there is one.
    pub(super) fn go_on(&mut self, options: &Options, observers: &mut [&mut dyn Observer]) -> io::Result<bool> {
        let Some(planner) = &mut self.planner else { return Ok(false) };
        self.goes_on = true;
        let mut ended = Vec::new();
        for (job, state) in self.wanted.iter_mut().enumerate().filter(|(_, state)| **state == Disposition::Yes) {
            *state = Disposition::Cached;
            let id = JobId::new(job);
            let done = self.store.contains(self.plan.job(id).key);
            if !done {
                self.lost.insert(job);
            }
            ended.push((id, done));
        }
        let mut released = if ended.is_empty() { Released::default() } else { planner.ended(&ended, &self.lost)? };
        if released.added.is_empty() {
            released.added = planner.next(&self.lost)?;
        }
        self.add(released, options, observers)
    }

    /// Answers whether there are jobs to run.
    fn add(&mut self, released: Released, options: &Options, observers: &mut [&mut dyn Observer]) -> io::Result<bool> {
        let mut tell = |event: RunEvent| observers.iter_mut().for_each(|observer| observer.on(self.plan, &event));
        for (decision, text) in released.decided {
            tell(RunEvent::Decided { decision, text });
        }
        let any = !released.added.is_empty();
        for Addition { job, because } in released.added {
            let job = job.index();
            self.wanted[job] = Disposition::Yes;
            self.added.insert(job);
            // The number of jobs at the beginning has those that are released before it.
            if self.goes_on {
                tell(RunEvent::Added { job, because });
            }
        }
        if any {
            options.folder.keep_added(&self.added)?;
        }
        Ok(any)
    }
}

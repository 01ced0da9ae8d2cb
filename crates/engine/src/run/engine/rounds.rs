//! Jobs that are released or added during a run.

use std::io;

use super::Run;
use crate::run::{Addition, Disposition, RoundPlanner, RunEvent, scheduler::Event};

/// The source of further jobs, if there is one.
type Rounds<'r, 'p> = &'r mut Option<&'p mut dyn RoundPlanner>;

impl Run<'_, '_> {
    /// True if the run is over: `over` is true if the jobs so far are, and no other jobs follow.
    pub(super) fn is_over(&mut self, rounds: Rounds<'_, '_>, mut over: bool) -> io::Result<bool> {
        loop {
            if !self.ended.is_empty() {
                over = self.decide(rounds, over);
            }
            if !over {
                return Ok(false);
            }
            if !self.goes_on(rounds)? {
                return Ok(true);
            }
            over = false;
        }
    }

    /// Everything has ended: begins another round, if there is one.
    fn goes_on(&mut self, rounds: Rounds<'_, '_>) -> io::Result<bool> {
        let Some(rounds) = rounds else { return Ok(false) };
        while !self.is_ending() {
            let added = rounds.next(&self.lost)?;
            if added.is_empty() {
                return Ok(false);
            }
            if !self.add(added) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Carries out the decisions that follow from the jobs that have ended; returns whether the run is over then.
    pub(super) fn decide(&mut self, rounds: Rounds<'_, '_>, mut over: bool) -> bool {
        let Some(rounds) = rounds else {
            self.ended.clear();
            return over;
        };
        loop {
            let ended = std::mem::take(&mut self.ended);
            if self.is_ending() {
                return over;
            }
            match rounds.ended(&ended, &self.lost) {
                Ok(released) => {
                    for (decision, text) in released.decided {
                        self.tell(&RunEvent::Decided { decision, text });
                    }
                    if !released.added.is_empty() {
                        over = self.add(released.added);
                    }
                }
                Err(error) => {
                    self.summary.broken = Some(format!("a decision cannot be made: {error}"));
                    return self.step(Event::Stop) || over;
                }
            }
            if self.ended.is_empty() {
                return over;
            }
        }
    }

    /// True if nothing further is wanted.
    fn is_ending(&self) -> bool {
        self.scheduler.is_stopping() || self.summary.interrupted.is_some() || self.summary.broken.is_some()
    }

    /// Adds jobs of the reserve to the run; returns whether the run is over nevertheless.
    fn add(&mut self, added: Vec<Addition>) -> bool {
        let jobs: Vec<usize> = added.iter().map(|addition| addition.job.index()).collect();
        for Addition { job, because } in added {
            let job = job.index();
            self.wanted[job] = Disposition::Yes;
            self.jobs += 1;
            self.tell(&RunEvent::Added { job, because });
        }
        let mut over = false;
        for job in jobs {
            over = self.step(Event::Release(job)) || over;
        }
        self.step(Event::Begin) || over
    }
}

//! The engine among the other sweeps on this machine: its jobs wait for their exclusive ones, and they for its own.

use super::LocalExecutor;
use crate::{
    plan::JobId,
    run::{RunEvent, scheduler::Event},
};

/// Number of attempts to take the machine after which a wait is reported, one per tick: two engines may get in each other's way
/// for a moment.
const REPORTED: u32 = 5;

/// A job that waits for the machine, and with it all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeldUp {
    job: usize,
    attempts: u32,
}

/// Result of an attempt to take the machine.
pub(super) enum Entry {
    /// The job may run; true if it is alone on this machine.
    Admitted(bool),
    /// The job must wait.
    Refused,
}

impl LocalExecutor<'_, '_> {
    /// Takes the machine for a job.
    pub(super) fn enter(&mut self, job: usize) -> Entry {
        let exclusive = self.state.plan.job(JobId::new(job)).resources.exclusive;
        // Jobs behind the first refused job must not overtake it.
        if self.refused {
            return Entry::Refused;
        }
        self.leave_if_idle();
        match self.sharing.enter(exclusive) {
            Ok(true) => {
                self.held_up = None;
                Entry::Admitted(exclusive)
            }
            Ok(false) => {
                self.refused = true;
                self.wait_for_the_machine(job);
                Entry::Refused
            }
            Err(error) => {
                if exclusive && self.unprotected.as_ref() != Some(&error) {
                    let text = format!(
                        "exclusive jobs are alone in this sweep only, and other sweeps on this machine may disturb them: {error}"
                    );
                    self.unprotected = Some(error);
                    self.state.warn(text);
                }
                Entry::Admitted(false)
            }
        }
    }

    fn wait_for_the_machine(&mut self, job: usize) {
        let before = self.held_up.filter(|held| held.job == job).map_or(0, |held| held.attempts);
        let attempts = before.saturating_add(1);
        self.held_up = Some(HeldUp { job, attempts });
        if attempts == REPORTED {
            self.state.tell(&RunEvent::Waiting { job, arriving: false, machine: true });
        }
    }

    /// Gives the machine back when no job needs it anymore. A result that is being stored would disturb a job that must
    /// be alone, but does not have to be alone itself.
    pub(super) fn leave_if_idle(&mut self) {
        let idle = self.preparing.is_empty() && self.running.is_empty();
        if idle && (self.sharing.is_alone() || self.storing.is_empty()) {
            self.sharing.leave();
        }
        if self.scheduler.is_stopping() {
            self.sharing.withdraw();
        }
    }

    /// Tries again to start jobs that wait for the machine; returns true when the run is over.
    pub(super) fn try_the_machine_again(&mut self) -> bool {
        if !std::mem::take(&mut self.refused) {
            return false;
        }
        let over = self.step(Event::Retry);
        if !self.refused {
            self.sharing.withdraw();
        }
        over
    }
}

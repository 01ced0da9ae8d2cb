//! The queue of jobs that could start, by their resources.

use super::{Node, Scheduler, State};
use crate::run::slots::Demand;

impl Scheduler {
    /// Adds a job that could start.
    pub(super) fn queue(&mut self, job: usize) {
        let Node { demand, place, .. } = self.jobs[job];
        self.ready.entry(demand).or_default().insert(place);
    }

    /// Removes a job, if the queue has it.
    pub(super) fn unqueue(&mut self, job: usize) {
        let Node { demand, place, .. } = self.jobs[job];
        if let Some(queue) = self.ready.get_mut(&demand) {
            queue.remove(&place);
            if queue.is_empty() {
                self.ready.remove(&demand);
            }
        }
    }

    /// Changes the resources of a job that does not run.
    pub fn change(&mut self, job: usize, demand: Demand) {
        let Node { demand: before, place, state, .. } = self.jobs[job];
        if state == State::Running || before == demand {
            return;
        }
        let queued = self.ready.get(&before).is_some_and(|queue| queue.contains(&place));
        if queued {
            self.unqueue(job);
        }
        self.jobs[job].demand = demand;
        if queued {
            self.queue(job);
        }
    }
}

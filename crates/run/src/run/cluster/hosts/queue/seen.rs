//! The queue as others see it.

use super::{Copy, Job, Phase, Queue, Stage};
use crate::run::cluster::{BatchId, QueuedJob, QueuedState, hosts::place};

impl Queue {
    /// The jobs for people and for the run.
    pub(in crate::run::cluster::hosts) fn all(&self) -> Vec<QueuedJob> {
        self.jobs.iter().map(|job| self.seen(job)).collect()
    }

    /// The state of a job.
    pub(in crate::run::cluster::hosts) fn state(&self, id: &BatchId) -> Option<QueuedState> {
        Some(self.seen(&self.jobs[*self.by_id.get(id)?]).state)
    }

    fn seen(&self, job: &Job) -> QueuedJob {
        let on = |copy: &Copy| self.places[copy.place].name.as_str();
        let (state, reason, orphaned) = match &job.stage {
            Stage::Over { state, orphaned } => (state.clone(), String::new(), *orphaned),
            Stage::Placed => match job.copies.iter().find(|copy| copy.phase == Phase::Sending) {
                Some(copy) if job.copies.len() == 1 => {
                    (QueuedState::Pending, format!("it is being sent to {}", on(copy)), false)
                }
                _ => (QueuedState::Running, job.copies.first().map(on).unwrap_or_default().to_owned(), false),
            },
            Stage::Waiting => (QueuedState::Pending, self.why(job), false),
        };
        QueuedJob { id: job.id.clone(), state, reason, tag: job.tag.clone(), orphaned }
    }

    /// Reason why a job waits.
    fn why(&self, job: &Job) -> String {
        if job.blockers > 0 {
            return "other jobs".to_owned();
        }
        if job.busy.is_some() {
            return "another sweep runs it".to_owned();
        }
        place::why(&self.places, &job.wants)
    }
}

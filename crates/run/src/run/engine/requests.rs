//! Jobs whose end another process has requested.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use super::LocalExecutor;
use crate::{
    plan::JobId,
    run::{RunEvent, attempt::Ending, requests, scheduler::Event},
};

/// Interval between reads of the requests, which may be on a file server.
const INTERVAL: Duration = Duration::from_millis(500);

/// The requests that were found, and the time of the last look.
#[derive(Debug, Default)]
pub(super) struct Requests {
    keys: BTreeSet<String>,
    looked: Option<Instant>,
}

impl LocalExecutor<'_, '_> {
    /// Looks for requests, if it is time, and ends the running jobs that they name.
    pub(super) fn follow_requests(&mut self) {
        if self.requests.looked.is_some_and(|looked| looked.elapsed() < INTERVAL) {
            return;
        }
        self.requests = Requests { keys: requests::stops(&self.options.folder), looked: Some(Instant::now()) };
        if self.requests.keys.is_empty() {
            return;
        }
        for (job, attempt) in &mut self.running {
            let planned = self.state.plan.job(JobId::new(*job));
            if attempt.ending.is_none() && self.requests.keys.contains(&planned.key.to_string()) {
                attempt.end(Ending::Requested, &planned.policy);
            }
        }
    }

    /// Returns the event for a job that is about to start although its end was requested.
    pub(super) fn stopped_before(&mut self, job: usize) -> Option<Event> {
        if !self.requests.keys.contains(&self.state.key(job).to_string()) {
            return None;
        }
        self.waiting.remove(&job);
        self.retrying.remove(&job);
        self.twins.unpark(job);
        let how = "its end was requested before it began".to_owned();
        self.state.tell(&RunEvent::Stopped { job, seconds: 0.0, how });
        Some(Event::Stopped(job))
    }
}

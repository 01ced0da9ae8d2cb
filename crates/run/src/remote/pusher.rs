//! Uploads of results to a remote, in parallel to a run.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
};

use super::{Remote, RemoteError};
use crate::{
    plan::{JobId, Plan},
    record::Key,
    run::{Observer, RunEvent},
    store::Store,
};

/// A thread that pushes the record of each job that gets one.
#[derive(Debug)]
pub struct Pusher {
    keys: Sender<Key>,
    thread: JoinHandle<Pushed>,
}

/// Results of a push.
#[derive(Debug, Default)]
pub struct Pushed {
    /// Number of records that the remote has now.
    pub pushed: usize,
    /// Records that are not.
    pub left: usize,
    /// Error that made the remote unusable.
    pub broken: Option<RemoteError>,
}

impl Pusher {
    /// Starts it.
    pub fn new(remote: Arc<Remote>, store: Store) -> io::Result<Self> {
        let (keys, key_receiver) = channel();
        let thread = thread::Builder::new().name("push".into()).spawn(move || {
            let mut summary = Pushed::default();
            for key in key_receiver {
                // If this upload fails, the next will, too, and waiting for each of them is pointless.
                let is_working = summary.broken.is_none() && !remote.is_given_up();
                match is_working.then(|| remote.push(&store, key)) {
                    Some(Ok(())) => summary.pushed += 1,
                    Some(Err(error)) => {
                        summary.broken = Some(error);
                        summary.left += 1;
                    }
                    None => summary.left += 1,
                }
            }
            summary
        })?;
        Ok(Self { keys, thread })
    }

    /// Waits until every record is uploaded or given up.
    pub fn finish(self) -> Pushed {
        drop(self.keys);
        self.thread.join().unwrap_or_default()
    }
}

impl Observer for Pusher {
    fn on(&mut self, plan: &Plan, event: &RunEvent) {
        // Only jobs of this run are pushed; another sweep pushes its own results if it is configured to.
        if let RunEvent::Done { job, seconds: Some(_), .. } = event {
            let _ = self.keys.send(plan.job(JobId::new(*job)).key);
        }
    }
}

//! Uploads of records to a remote during a run.

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

/// A thread that pushes the record of each job that the run finishes.
#[derive(Debug)]
pub struct Pusher {
    keys: Sender<Key>,
    thread: JoinHandle<Pushed>,
}

/// The outcome of all uploads of a run.
#[derive(Debug, Default)]
pub struct Pushed {
    /// Number of records that were pushed.
    pub pushed: usize,
    /// Number of records that were not pushed.
    pub left: usize,
    /// Error after which the remote is not used.
    pub broken: Option<RemoteError>,
}

impl Pusher {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn new(remote: Arc<Remote>, store: Store) -> io::Result<Self> {
        let (keys, key_receiver) = channel();
        let thread = thread::Builder::new().name("push".into()).spawn(move || {
            let mut summary = Pushed::default();
            for key in key_receiver {
                // After a failed upload, later uploads would wait for the same failure.
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

    /// Waits until all records are pushed or given up.
    pub fn finish(self) -> Pushed {
        drop(self.keys);
        self.thread.join().unwrap_or_default()
    }
}

impl Observer for Pusher {
    fn on(&mut self, plan: &Plan, event: &RunEvent) {
        // A job without `seconds` was done by another process, which pushes its record itself if it has a remote.
        if let RunEvent::Done { job, seconds: Some(_), .. } = event {
            let _ = self.keys.send(plan.job(JobId::new(*job)).key);
        }
    }
}

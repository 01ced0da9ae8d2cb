//! Downloads of records from a remote, in parallel to a run.

use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{Pulled, Remote, RemoteError};
use crate::run::{Arriving, Notice};
use crate::{
    format::{clean, count},
    record::Key,
    store::Store,
};

/// Time that a run waits at its beginning while nothing arrives, before it continues with independent jobs.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A thread that pulls records.
#[derive(Debug)]
pub struct Puller {
    arriving: Arriving,
    thread: JoinHandle<Result<(), RemoteError>>,
}

impl Puller {
    /// Starts it.
    pub fn new(remote: Arc<Remote>, store: Store, keys: Vec<Key>) -> io::Result<Self> {
        /// However the thread ends, nothing waits for it then.
        struct Over(Arriving);

        impl Drop for Over {
            fn drop(&mut self) {
                self.0.over();
            }
        }

        let arriving = Arriving::new(&keys);
        let over = Over(arriving.clone());
        let thread = thread::Builder::new().name("pull".into()).spawn(move || {
            let over = over;
            let arriving = &over.0;
            for notice in notices(&remote, &remote.pull(&store, &keys, arriving)?) {
                arriving.note(notice);
            }
            Ok(())
        })?;
        Ok(Self { arriving, thread })
    }

    /// Records that may still arrive.
    pub fn arriving(&self) -> &Arriving {
        &self.arriving
    }

    /// Waits while records come; `true` once it is decided about all of them.
    pub fn wait(&self) -> bool {
        self.arriving.wait(TIMEOUT);
        self.arriving.open() == 0
    }

    /// Waits for all transfers in progress, however slow they are.
    pub fn wait_for_all(&self) {
        self.arriving.wait(Duration::MAX);
    }

    /// Abandons pending downloads, and returns the remaining messages.
    pub fn finish(self) -> Result<Vec<Notice>, RemoteError> {
        self.arriving.stop();
        // Records that a thread fetched before it panicked stay in the store.
        self.thread.join().unwrap_or(Ok(()))?;
        Ok(self.arriving.notices())
    }
}

/// Messages about a pull in parallel to a run.
fn notices(remote: &Remote, summary: &Pulled) -> Vec<Notice> {
    let mut notices = refused(summary);
    if let Some(reason) = &summary.broken {
        let hint = "continuing without it; `sweep cache push` uploads the results later";
        notices.push(Notice { warning: true, text: format!("{}; {hint}", clean(reason)) });
    }
    if summary.added > 0 {
        let text = format!("{} from {}", count(summary.added, "record"), clean(remote.name()));
        notices.push(Notice { warning: false, text });
    }
    notices
}

/// A line for each reason for which records are not used.
pub fn refused(summary: &Pulled) -> Vec<Notice> {
    let mut reasons: BTreeMap<&str, Vec<&Key>> = BTreeMap::new();
    for (key, reason) in &summary.refused {
        reasons.entry(reason).or_default().push(key);
    }
    let line = |(reason, keys): (&str, Vec<&Key>)| {
        let (first_key, reason) = (keys.first().map(|key| key.short()).unwrap_or_default(), clean(reason));
        let text = match keys.len() {
            1 => format!("the remote's record {first_key} is not used: {reason}"),
            number => format!("{number} of the remote's records, {first_key} among them, are not used: {reason}"),
        };
        Notice { warning: true, text }
    };
    reasons.into_iter().map(line).collect()
}

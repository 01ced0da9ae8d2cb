//! The records that may still arrive from a remote: the state of a parallel pull.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::record::Key;

/// The records whose arrival is undecided. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct Arriving(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    open: HashSet<Key>,
    stopped: bool,
    notices: Vec<Notice>,
}

/// Message about a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// True for a warning.
    pub warning: bool,
    /// A line.
    pub text: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.warning { "warning: " } else { "" }, self.text)
    }
}

impl Arriving {
    /// Marks the records of `keys` as undecided.
    pub fn new(keys: &[Key]) -> Self {
        let arriving = Self::default();
        arriving.state().open.extend(keys);
        arriving
    }

    /// A thread that panicked left a set of keys, which is whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the arrival of the record of `key` is undecided.
    pub fn has(&self, key: Key) -> bool {
        self.state().open.contains(&key)
    }

    /// About how many records it is undecided.
    pub fn open(&self) -> usize {
        self.state().open.len()
    }

    #[cfg(feature = "remote")]
    /// Marks a record as decided: it has arrived, or will not arrive.
    #[cfg(feature = "remote")]
    pub fn decided(&self, key: Key) {
        self.state().open.remove(&key);
        self.0.changed.notify_all();
    }

    /// No other record will come.
    pub fn over(&self) {
        self.state().open.clear();
        self.0.changed.notify_all();
    }

    /// Stops waiting for the undecided records.
    pub fn stop(&self) {
        self.state().stopped = true;
    }

    #[cfg(feature = "remote")]
    /// True if no job waits for the records anymore.
    #[cfg(feature = "remote")]
    pub fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// Waits until all records are decided, or none has been decided for `patience`.
    pub fn wait(&self, patience: Duration) {
        let mut state = self.state();
        while !state.open.is_empty() {
            let before = state.open.len();
            let waited = self.0.changed.wait_timeout_while(state, patience, |state| state.open.len() == before);
            let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                return;
            }
            state = now;
        }
    }

    /// Adds a line for the run's output.
    pub fn note(&self, notice: Notice) {
        self.state().notices.push(notice);
    }

    /// Returns the notices since the last call.
    pub fn notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.state().notices)
    }
}

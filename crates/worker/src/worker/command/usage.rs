//! Memory and processor time of a program and its child processes, sampled by a separate thread.

use std::{
    io,
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use sweep_job::{Outcome, tasks::Command};

use super::fork;
use crate::host::{
    machine::{cpus, tree_memory, waited_cpu_seconds},
    threads::{self, Started},
};

/// Time to the first sample. A program that ends earlier is not measured, because such an early sample would not be representative.
const FIRST: Duration = Duration::from_secs(1);
/// Interval between two samples.
const INTERVAL: Duration = Duration::from_millis(200);

/// A thread that samples this process's children.
pub(super) struct Usage {
    stop: mpsc::Sender<()>,
    thread: Started<u64>,
    /// Seconds of processor time of children that ended before.
    before: Option<f64>,
}

impl Usage {
    pub(super) fn start() -> io::Result<Self> {
        let (stop, stop_receiver) = mpsc::channel::<()>();
        let own_pid = std::process::id();
        let before = waited_cpu_seconds(own_pid);
        let sample = move || {
            let (mut peak, mut wait) = (0, FIRST);
            while stop_receiver.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                peak = peak.max(tree_memory(
                    own_pid,
                    fork::interpreter().map(|pid| pid.as_raw_nonzero().get().cast_unsigned()),
                ));
                wait = INTERVAL;
            }
            peak
        };
        let thread = threads::start(sample)?;
        Ok(Self { stop, thread, before })
    }

    /// Ends the sampling of a program that took `seconds`, and adds the measurements to `outcome`. Failed measurements are
    /// absent.
    pub(super) fn finish(self, seconds: f64, outcome: &mut Outcome) {
        drop(self.stop);
        let Ok(peak @ 1..) = self.thread.join() else { return };
        outcome.set(&Command::MEMORY_PEAK, peak as f64);
        if let (Some(start_seconds), Some(end_seconds)) = (self.before, waited_cpu_seconds(std::process::id())) {
            outcome.set(&Command::UTILIZATION_CPU, (end_seconds - start_seconds) / seconds / cpus() as f64);
        }
    }
}

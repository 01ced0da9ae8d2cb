//! The remaining time of a run, as a terminal shows it; and the terminal's settings meanwhile.

use std::time::{Duration, Instant};

use rustix::{
    process::getpgrp,
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr},
};

use crate::{
    host,
    run::{RunEvent, estimate},
};

/// Interval between estimates.
const ESTIMATE_INTERVAL: Duration = Duration::from_millis(500);

/// The run's pace, from which the remaining time is estimated at intervals.
#[derive(Debug)]
pub(super) struct Pace {
    heard: estimate::Pace,
    made: Option<Instant>,
    /// Time of the last change of the estimate.
    end: Option<Instant>,
}

impl Pace {
    pub(super) fn new(heard: estimate::Pace) -> Self {
        Self { heard, made: None, end: None }
    }

    pub(super) fn on(&mut self, event: &RunEvent) {
        self.heard.on(host::clock::now(), event);
    }

    /// True if it is time to estimate again.
    pub(super) fn is_due(&self) -> bool {
        self.made.is_none_or(|instant| instant.elapsed() >= ESTIMATE_INTERVAL)
    }

    /// Returns the estimated seconds until the end of the run; `None` if there is no estimate.
    pub(super) fn left(&mut self) -> Option<f64> {
        if self.is_due() {
            self.made = Some(Instant::now());
            let seconds = self.heard.left(host::clock::now());
            self.end =
                seconds.and_then(|seconds| Instant::now().checked_add(Duration::try_from_secs_f64(seconds).ok()?));
        }
        self.end.map(|end| end.saturating_duration_since(Instant::now()).as_secs_f64())
    }
}

/// A terminal that does not write `^C` for Ctrl-C. The cursor stands at the end of the last row, so that it would wrap,
/// and redrawing the rows would miss one.
#[derive(Debug)]
pub(super) struct Quiet(Termios);

impl Quiet {
    /// Changes the terminal until the value is dropped; returns `None` if there is no terminal, or this process may not
    /// change it.
    pub(super) fn new() -> Option<Self> {
        let terminal = std::io::stderr();
        let settings = tcgetattr(&terminal).ok()?;
        // In the background the change would stop this process.
        if tcgetpgrp(&terminal).ok()? != getpgrp() || !settings.local_modes.contains(LocalModes::ECHOCTL) {
            return None;
        }
        let mut quiet = settings.clone();
        quiet.local_modes.remove(LocalModes::ECHOCTL);
        tcsetattr(&terminal, OptionalActions::Now, &quiet).ok()?;
        Some(Self(settings))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let terminal = std::io::stderr();
        if tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp()) {
            let _ = tcsetattr(&terminal, OptionalActions::Now, &self.0);
        }
    }
}

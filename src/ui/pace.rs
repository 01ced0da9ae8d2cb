//! How fast a run goes, as whoever shows it observes it; and a terminal that does not disturb what is shown.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use rustix::{
    process::getpgrp,
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr},
};

use crate::run::{
    RunEvent,
    estimate::{Estimate, Now},
};

/// How often the estimate is made anew.
const PAUSE: Duration = Duration::from_millis(500);

/// What was seen of the jobs.
#[derive(Debug)]
pub(super) struct Pace {
    estimate: Option<Estimate>,
    jobs: HashMap<usize, Seen>,
    made: Option<Instant>,
    /// When it will be over, as it was said last.
    end: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum Seen {
    Running { since: Instant, left: Option<f64> },
    Over(Option<f64>),
}

impl Pace {
    pub(super) fn new(estimate: Option<Estimate>) -> Self {
        Self { estimate, jobs: HashMap::new(), made: None, end: None }
    }

    pub(super) fn on(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started { job, .. } => {
                self.jobs.insert(*job, Seen::Running { since: Instant::now(), left: None });
            }
            RunEvent::Progress { job, progress } => {
                if let Some(Seen::Running { since, left }) = self.jobs.get_mut(job)
                    && progress.done > 0
                {
                    let rest = progress.total.saturating_sub(progress.done) as f64;
                    *left = Some(since.elapsed().as_secs_f64() / progress.done as f64 * rest);
                }
            }
            RunEvent::Retrying { job, .. } => drop(self.jobs.remove(job)),
            RunEvent::Done { job, seconds, .. } => drop(self.jobs.insert(*job, Seen::Over(*seconds))),
            // How long it took to fail says nothing of the others.
            RunEvent::Failed { job, .. } | RunEvent::Skipped { job, .. } => {
                self.jobs.insert(*job, Seen::Over(None));
            }
            RunEvent::Stopping { .. } => self.estimate = None,
            // The estimate knows nothing of what was held in reserve.
            RunEvent::Added { .. }
            | RunEvent::Submitted { .. }
            | RunEvent::Notice { .. }
            | RunEvent::Begun { .. }
            | RunEvent::Waiting { .. }
            | RunEvent::Note { .. }
            | RunEvent::Storing { .. }
            | RunEvent::Ended(_) => {}
        }
    }

    /// Whether it is time to ask again.
    pub(super) fn is_due(&self) -> bool {
        self.made.is_none_or(|made| made.elapsed() >= PAUSE)
    }

    /// Seconds until the run is over, if that can be said.
    pub(super) fn left(&mut self) -> Option<f64> {
        let estimate = self.estimate.as_ref()?;
        if self.is_due() {
            self.made = Some(Instant::now());
            let left = estimate.left(|job| match self.jobs.get(&job) {
                None => Now::Open,
                Some(Seen::Over(took)) => Now::Over(*took),
                Some(Seen::Running { since, left }) => {
                    Now::Running { since: since.elapsed().as_secs_f64(), left: *left }
                }
            });
            self.end = left.and_then(|left| Instant::now().checked_add(Duration::try_from_secs_f64(left).ok()?));
        }
        self.end.map(|end| end.saturating_duration_since(Instant::now()).as_secs_f64())
    }
}

/// A terminal that does not write `^C` for Ctrl-C. The cursor stands at the end of the last row, so that it would wrap, and
/// whoever draws over the rows would miss one.
#[derive(Debug)]
pub(super) struct Quiet(Termios);

impl Quiet {
    /// As long as this lives; `None` where there is no terminal, or where it is not ours to change.
    pub(super) fn new() -> Option<Self> {
        let terminal = std::io::stderr();
        let before = tcgetattr(&terminal).ok()?;
        // In the background the change would stop this process.
        if tcgetpgrp(&terminal).ok()? != getpgrp() || !before.local_modes.contains(LocalModes::ECHOCTL) {
            return None;
        }
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHOCTL);
        tcsetattr(&terminal, OptionalActions::Now, &quiet).ok()?;
        Some(Self(before))
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

//! Changes of this process from outside: time in which it did not run, because a user or the system had stopped it, and settings
//! that a job has changed.

use std::{
    mem,
    time::{Duration, Instant},
};

use super::LocalExecutor;
use crate::{format::duration, host::settings::Settings};

/// Longest time between two waits of the loop while this process runs.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// Absences that are reported.
const REPORTED: Duration = Duration::from_secs(10);

impl LocalExecutor<'_, '_> {
    /// Excludes time during which this process did not run from the limits of the running jobs: their messages were not
    /// read, and they may have been stopped, too.
    pub(super) fn forgive_absence(&mut self) {
        let time = mem::replace(&mut self.waited, Instant::now()).elapsed();
        if time < MAX_INTERVAL || self.running.is_empty() {
            return;
        }
        self.running.values_mut().for_each(|attempt| attempt.forgive(time));
        if time >= REPORTED {
            let time = duration(time.as_secs_f64());
            let text =
                format!("this process did not run for {time}, which counts neither for `timeout` nor for `heartbeat`");
            self.state.notice(text);
        }
    }

    /// Warns if settings of this process have been changed, with which a further worker starts.
    pub(super) fn warn_of_settings(&mut self) {
        let now = Settings::now();
        let differences = now.differences(&self.settings);
        if differences.is_empty() {
            return;
        }
        let text = format!(
            "{} of `sweep` itself changed since the run began, by a job or by a user: jobs that start from now on use \
             the present settings; a new run uses the settings of its own process",
            differences.join(", ")
        );
        self.settings = now;
        self.state.warn(text);
    }
}

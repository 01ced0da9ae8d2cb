//! Bounds of a run, and the account of the resources that the run has used.

use std::{io, path::Path};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::replaced::{Outlives, Readers, replace};

/// Bounds of runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Maximum number of started jobs.
    pub jobs: usize,
    /// Longest duration, in seconds.
    pub seconds: f64,
    /// Maximum time on GPUs, in hours; a job on two GPUs counts twice.
    pub gpu_hours: f64,
}

/// A bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The number of jobs.
    Jobs,
    /// The duration.
    Time,
    /// The time on GPUs.
    GpuHours,
}

/// Resources that runs have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Number of job starts; each attempt at a job counts.
    pub jobs: usize,
    /// Duration of the runs, in seconds.
    pub seconds: f64,
    /// Time on GPUs, in hours.
    pub gpu_hours: f64,
}

/// A run of a session, as its supervisor writes it down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The names of the runs' folders: a search has one for each round, a run without open jobs none.
    pub runs: Vec<String>,
    /// Its usage so far.
    pub usage: Usage,
    /// True if it is over.
    pub ended: bool,
    /// Exit code of `sweep run`; `None` if it is not over, or if a signal ended it.
    #[serde(default)]
    pub code: Option<i32>,
    /// The bound that stopped it.
    #[serde(default)]
    pub stopped_by: Option<Limit>,
    /// The last lines of its standard error.
    #[serde(default)]
    pub says: String,
}

impl Bounds {
    /// The rest of them.
    #[must_use]
    pub fn without(self, usage: Usage) -> Self {
        Self {
            jobs: self.jobs.saturating_sub(usage.jobs),
            seconds: (self.seconds - usage.seconds).max(0.0),
            gpu_hours: (self.gpu_hours - usage.gpu_hours).max(0.0),
        }
    }

    /// The bound that a usage exceeds.
    pub fn exceeded(self, usage: Usage) -> Option<Limit> {
        let checks = [
            (usage.jobs > self.jobs, Limit::Jobs),
            (usage.seconds >= self.seconds, Limit::Time),
            (usage.gpu_hours > self.gpu_hours, Limit::GpuHours),
        ];
        checks.into_iter().find(|(is_over, _)| *is_over).map(|(_, limit)| limit)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.seconds += other.seconds;
        self.gpu_hours += other.gpu_hours;
    }
}

impl Account {
    /// Reads an account.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs_err::read(path)?)?)
    }

    /// Writes it, so that a reader sees the old one or the new one.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        replace(path, &serde_json::to_vec(self)?, Readers::Owner, Outlives::Process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_never_negative_and_the_first_bound_counts() {
        let bounds = Bounds { jobs: 3, seconds: 10.0, gpu_hours: 0.0 };
        let usage = Usage { jobs: 4, seconds: 4.0, gpu_hours: 0.5 };
        assert_eq!(bounds.without(usage), Bounds { jobs: 0, seconds: 6.0, gpu_hours: 0.0 });
        assert_eq!(bounds.exceeded(usage), Some(Limit::Jobs));
        assert_eq!(bounds.exceeded(Usage { jobs: 3, ..usage }), Some(Limit::GpuHours));
        assert_eq!(bounds.exceeded(Usage { jobs: 3, gpu_hours: 0.0, ..usage }), None);
        assert_eq!(bounds.exceeded(Usage { seconds: 10.0, ..Usage::default() }), Some(Limit::Time));
    }
}

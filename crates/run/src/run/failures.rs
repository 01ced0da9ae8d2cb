//! Jobs of a run that have failed for good, for engines that share it: none of them retries another's failed job.

use std::{io, path::PathBuf};

use fs_err as fs;
use sweep_job::Failure;

use crate::{
    host::replaced::{Outlives, Readers, replace},
    plan::{JobId, Plan},
    record::Key,
};

/// The failure of a job, with a remedy if a file that its program did not find lies in the recipe's folder.
pub(super) fn with_remedy(plan: &Plan, id: JobId, failure: Failure) -> Failure {
    let Some(path) = plan.left_behind(id, &failure.message) else { return failure };
    let place = if path.starts_with("..") { "above" } else { "in" };
    let message = format!(
        "{}; `{path}` is {place} the recipe's folder: add it to `inputs`, or write `project: .`, which runs the \
         program there",
        failure.message
    );
    Failure { message, ..failure }
}

/// A folder with a file for each.
#[derive(Debug, Clone)]
pub struct Failures(PathBuf);

impl Failures {
    /// Opens the failures of the run whose folder is `folder`.
    pub fn of_run(folder: &std::path::Path) -> Self {
        Self(folder.join("failed"))
    }

    fn path(&self, key: Key) -> PathBuf {
        self.0.join(key.short())
    }

    /// Failure of a job, if it has failed.
    pub fn of(&self, key: Key) -> Option<Failure> {
        serde_json::from_slice(&std::fs::read(self.path(key)).ok()?).ok()
    }

    /// Records the failure of a job.
    pub fn add(&self, key: Key, failure: &Failure) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        replace(&self.path(key), &serde_json::to_vec(failure)?, Readers::Owner, Outlives::Process)
    }
}

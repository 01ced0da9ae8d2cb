//! Runs that pages have shown: the results that were read for one request serve the next ones.

use std::{
    collections::VecDeque,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{render::page::FollowedRun, run::RunFolder};

/// Maximum number of runs that are kept.
const MAX_RUNS: usize = 8;

/// Runs by their names, the latest shown first.
#[derive(Debug, Default)]
pub(super) struct Followed(Mutex<VecDeque<(String, Arc<Mutex<FollowedRun>>)>>);

impl Followed {
    /// The run of a folder, which all requests share.
    pub(super) fn run(&self, folder: RunFolder, results: &Path) -> io::Result<Arc<Mutex<FollowedRun>>> {
        let name = folder.name();
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = runs.iter().position(|(known, _)| *known == name).and_then(|index| runs.remove(index));
        let run = match known {
            Some((_, run)) => run,
            None => Arc::new(Mutex::new(FollowedRun::new(folder, results)?)),
        };
        runs.truncate(MAX_RUNS - 1);
        runs.push_front((name, Arc::clone(&run)));
        Ok(run)
    }
}

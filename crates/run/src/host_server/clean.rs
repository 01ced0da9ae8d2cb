//! Removal of files and records that nothing needs on a host.

use std::{
    collections::HashSet,
    fs::TryLockError,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use fs_err as fs;

use super::jobs::is_locked;
use crate::{
    hosts::{Cleaned, Fault, FaultKind, LISTS},
    record::Key,
    store::Store,
};

/// The lock of all servers in a working folder.
#[derive(Debug)]
pub(super) struct InUse(Mutex<std::fs::File>);

impl InUse {
    /// Announces this server; waits while another one removes something.
    pub(super) fn take(workdir: &Path) -> io::Result<Self> {
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(workdir.join("in-use"))?;
        let file = file.into_file();
        file.lock_shared()?;
        Ok(Self(Mutex::new(file)))
    }

    /// Runs `work` while no other server uses the folder.
    fn alone<T>(&self, work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match file.try_lock() {
            Ok(()) => work(),
            Err(TryLockError::WouldBlock) => Err(Fault::new(FaultKind::InUse, "another sweep is connected to it")),
            Err(TryLockError::Error(error)) => Err(error.into()),
        };
        file.lock_shared()?;
        result
    }
}

/// Removes programs of other versions, files, trees, and records that were fetched, of all stores. Checkpoints of jobs that are
/// not done stay.
pub(super) fn clean(workdir: &Path, in_use: &InUse) -> Result<Cleaned, Fault> {
    in_use.alone(|| {
        let stores = entries(&workdir.join("stores"))?;
        for results in &stores {
            for run in entries(&results.join("runs"))? {
                if is_locked(&run.join("lock")) {
                    return Err(Fault::new(FaultKind::InUse, "a job runs"));
                }
            }
        }
        let mut totals = Cleaned::default();
        let own_program = fs::read_link("/proc/self/exe").unwrap_or_default();
        for program in entries(&workdir.join("bin"))? {
            if !own_program.starts_with(&program) {
                totals.bytes += remove(&program)?;
                totals.programs += 1;
            }
        }
        for folder in ["blobs", "trees"] {
            for path in entries(&workdir.join(folder))? {
                totals.bytes += remove(&path)?;
                totals.files += 1;
            }
        }
        for path in entries(&workdir.join(LISTS))? {
            totals.bytes += remove(&path)?;
        }
        for results in &stores {
            let store = Store::new(results);
            let names = |folder: PathBuf| -> io::Result<HashSet<Key>> {
                let paths = entries(&folder)?.into_iter();
                Ok(paths.filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect())
            };
            // Keys of records that were not fetched yet, and of jobs that have not ended.
            let mut reached_keys = names(results.join("runs"))?;
            reached_keys.extend(names(results.join("store/partial"))?.into_iter().filter(|key| !store.contains(*key)));
            let garbage = store.garbage(&reached_keys)?;
            totals.records += garbage.records.len();
            totals.bytes += garbage.bytes();
            store.remove(&garbage).map_err(|error| Fault::new(FaultKind::InUse, error.to_string()))?;
        }
        Ok(totals)
    })
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Removes a file or a folder, and returns its length in bytes.
fn remove(path: &Path) -> io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        fs::remove_file(path)?;
        return Ok(metadata.len());
    }
    let mut bytes = 0;
    for entry in entries(path)? {
        bytes += remove(&entry)?;
    }
    fs::remove_dir(path)?;
    Ok(bytes)
}

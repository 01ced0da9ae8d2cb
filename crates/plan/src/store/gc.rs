//! Removal of unreachable records.

use std::{
    collections::{BTreeSet, HashSet},
    io,
    path::{Path, PathBuf},
};

use sweep_base::planted;
use tracing::{debug, info_span};

use super::{
    Presence, State, Store, entries,
    lock::{CLEARING, InUse, Lock, remove_file_if_there},
    remove_if_there,
    transfer::IMPORT,
};
use crate::{
    host::{files as fs, log},
    record::Key,
};

/// Folder in which earlier versions kept folders of finished jobs.
const SPARE: &str = "spare";
/// Prefix of the names of temporary files.
const TEMPORARY: &str = ".tmp";

/// Files to remove.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Garbage {
    /// Unreachable records, each with its size on the disk in bytes.
    pub records: Vec<(Key, u64)>,
    /// States that serve no reached job.
    pub states: Vec<State>,
    /// Remains of failed attempts and of killed engines.
    pub leftovers: Vec<PathBuf>,
    /// Temporary files of killed processes.
    pub temporary: Vec<PathBuf>,
    /// Size of the leftovers and of the temporary files on the disk, in bytes.
    pub leftover_bytes: u64,
}

/// Error of a removal.
#[derive(Debug, thiserror::Error)]
pub enum GcError {
    /// The store is in use.
    #[error("a sweep is running on this store; nothing was removed")]
    InUse,
    /// An I/O error.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Garbage {
    /// True if there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.states.is_empty() && self.leftovers.is_empty() && self.temporary.is_empty()
    }

    /// Bytes on the disk in all.
    pub fn bytes(&self) -> u64 {
        let states: u64 = self.states.iter().map(State::bytes).sum();
        self.leftover_bytes + states + self.records.iter().map(|(_, bytes)| bytes).sum::<u64>()
    }
}

impl Store {
    /// Records, states and files that are neither reachable nor in use. A state is reached by its own key, or by the key of the record of
    /// the job that left it.
    pub fn garbage(&self, reached: &HashSet<Key>) -> io::Result<Garbage> {
        let mut garbage = Garbage::default();
        for key in self.keys()?.into_iter().filter(|key| !reached.contains(key)) {
            garbage.records.push((key, size(&self.folder(key))?));
        }
        let is_reached = |state: &State| reached.contains(&state.key) || reached.contains(&state.record);
        garbage.states = self.states()?.into_iter().filter(|state| !is_reached(state)).collect();
        for folder in ["staging", "partial"] {
            for path in entries(&self.root.join(folder))? {
                // In a shared store, each holder has a separate folder.
                let key = path.file_name().and_then(|name| name.to_str()?.split('.').next()?.parse().ok());
                // The checkpoints of a job that is still wanted are for its next attempt.
                let is_needed = |key| folder == "partial" && reached.contains(&key) && !self.contains(key);
                if key.is_some_and(|key: Key| !is_needed(key) && !self.is_locked(key)) {
                    garbage.leftover_bytes += size(&path)?;
                    garbage.leftovers.push(path);
                }
            }
        }
        let temporary = self.temporary()?;
        // If the store is not in use, no process writes to the temporary files anymore.
        if !temporary.is_empty() && InUse::alone(&self.root, self.is_shared())?.is_some() {
            // The store's derived files are replaced by readers: such a file may have been removed meanwhile.
            garbage.leftover_bytes += temporary.iter().filter_map(|path| size(path).ok()).sum::<u64>();
            garbage.temporary = temporary;
        }
        Ok(garbage)
    }

    /// Returns records, even if others need them, with the states that their jobs have left.
    pub fn records_with_states(&self, keys: &BTreeSet<Key>) -> io::Result<Garbage> {
        let mut garbage = Garbage::default();
        for key in keys {
            garbage.records.push((*key, size(&self.folder(*key))?));
        }
        garbage.states = self.states()?.into_iter().filter(|state| keys.contains(&state.record)).collect();
        Ok(garbage)
    }

    /// Files and folders that are written under temporary names: temporary files, the folders that archives are unpacked to,
    /// and the folders that processes of earlier versions kept for their jobs.
    fn temporary(&self) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        let places = [(self.root.clone(), TEMPORARY), (self.root.join("staging"), IMPORT), (self.root.join(SPARE), "")];
        for (folder, prefix) in places {
            let has_prefix = |path: &PathBuf| {
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
            };
            paths.extend(entries(&folder)?.into_iter().filter(has_prefix));
        }
        Ok(paths)
    }

    /// Removes the garbage. Even if this process is killed meanwhile, every record is either complete or missing.
    pub fn remove(&self, garbage: &Garbage) -> Result<(), GcError> {
        let (records, leftovers) = (garbage.records.len(), garbage.leftovers.len());
        let _span = info_span!(target: log::STORE, "gc", records, leftovers).entered();
        let in_use = InUse::alone(&self.root, self.is_shared())?;
        if in_use.is_none() && !planted!(RemovalInUse) {
            return Err(GcError::InUse);
        }
        for path in &garbage.leftovers {
            self.remove_staging(path)?;
        }
        // Searched again, now exclusively, because other processes may have left more meanwhile.
        for path in self.temporary()? {
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
            if is_folder { remove_if_there(&path)? } else { remove_file_if_there(&path)? }
        }
        // Locks without a holder: a killed engine could not remove its own.
        for path in entries(&self.locks())? {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let Some((lock, _)) = name.split_once('.') else {
                drop(Lock::try_take(&self.locks(), name, self.is_shared())?);
                continue;
            };
            // Under the lock, no process takes over a lease, so links of dead heirs can be removed. This process has the lock of the
            // removal itself.
            if Presence::is_alive(&path) == Some(false) {
                let lock = if lock == CLEARING { None } else { Some(self.lock(lock)?) };
                if lock.is_none_or(|lock| lock.is_some()) {
                    remove_file_if_there(&path)?;
                }
            }
        }
        for state in &garbage.states {
            self.remove_state(state.step, state.key)?;
        }
        self.remove_records(&garbage.records)?;
        self.remove_manifests()?;
        self.remove_notes()?;
        Ok(())
    }

    /// Moves records away, and then removes their files.
    fn remove_records(&self, records: &[(Key, u64)]) -> io::Result<()> {
        fs::create_dir_all(self.root.join("staging"))?;
        let mut moved = Vec::new();
        for (key, bytes) in records {
            debug!(target: log::STORE, key = key.short(), bytes, "removing a record");
            let (folder, staging) = (self.folder(*key), self.staging(*key));
            self.remove_staging(&staging)?;
            match fs::rename(&folder, &staging) {
                // Another one has removed it since it was looked, or a network file system has repeated a rename that it had done.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
            moved.push((*key, staging));
        }
        self.sync_moves(moved.iter().map(|(key, _)| *key))?;
        moved.iter().try_for_each(|(_, staging)| remove_if_there(staging))
    }

    /// Puts the moves of records to the staging folder on the disk. Otherwise a power failure could bring back a record whose files or
    /// whose line in the list of manifests have been removed since.
    pub(super) fn sync_moves(&self, keys: impl Iterator<Item = Key>) -> io::Result<()> {
        let shards: BTreeSet<PathBuf> = keys.filter_map(|key| self.folder(key).parent().map(Path::to_owned)).collect();
        for shard in shards {
            match fs::File::open(shard) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                folder => folder?.sync_all()?,
            }
        }
        Ok(())
    }

    /// Removes a folder of a job below the staging folder, which may be a record that another process had begun to remove.
    pub(super) fn remove_staging(&self, folder: &Path) -> io::Result<()> {
        if let Some(key) = folder.file_name().and_then(|name| name.to_str()?.parse().ok())
            && fs::symlink_metadata(folder).is_ok()
        {
            self.sync_moves(std::iter::once(key))?;
        }
        remove_if_there(folder)
    }
}

/// Returns the size in bytes of the files below `path`, without following links. Files that were removed meanwhile do
/// not count, because ending workers still write and remove files.
fn size(path: &Path) -> io::Result<u64> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        metadata => metadata?,
    };
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    entries(path)?.iter().map(|entry| size(entry)).sum()
}

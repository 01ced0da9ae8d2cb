//! What finished jobs left, by key: found or not, and if not, the right to write it.
//!
//! A record's folder is written beside the store, synced, and renamed in: it is there whole or not at all, and never
//! edited. [`Store::claim`] answers `Hit`, or `Miss` with the [`Pending`] that holds the job's lock and is the only thing
//! that can write its record, or `Busy` while another process holds the lock.

mod index;
mod lock;
mod record;

use std::{
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;

use self::lock::Lock;
pub use self::{
    index::Entry,
    record::{Provenance, RECORD_FORMAT, Record},
};
use crate::plan::Key;

/// A folder of records.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// What the store says about a job that is about to run.
#[derive(Debug)]
pub enum Claim {
    /// It is done.
    Hit(Box<Record>),
    /// It is not done, and nobody else is at it.
    Miss(Pending),
    /// Another process is at it.
    Busy,
}

/// The right to write one record.
#[derive(Debug)]
pub struct Pending {
    store: Store,
    key: Key,
    staging: PathBuf,
    _lock: Lock,
}

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk says no.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A record is there but is none.
    #[error("the record {path} cannot be read, so its job runs again: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A record comes from a later version.
    #[error("the record {path} has format {found}, this program knows up to {RECORD_FORMAT}: use a newer one")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

impl Store {
    /// The store below a results folder. Nothing is created before something is written.
    pub fn new(results: &Path) -> Self {
        Self { root: results.join("store") }
    }

    /// A job's record, if it is done.
    pub fn get(&self, key: Key) -> Result<Option<Record>, StoreError> {
        let path = self.folder(key).join("record.json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Record::parse(&text, &path, key).map(Some)
    }

    /// Whether a job is done.
    pub fn contains(&self, key: Key) -> bool {
        self.folder(key).join("record.json").is_file()
    }

    /// The keys of all records, those that cannot be read included.
    pub fn keys(&self) -> io::Result<Vec<Key>> {
        let mut keys = Vec::new();
        for shard in entries(&self.root)? {
            // The other folders are `locks` and `staging`.
            if shard.file_name().is_none_or(|name| name.len() != 2) {
                continue;
            }
            let names = entries(&shard)?.into_iter().filter_map(|path| path.file_name()?.to_str()?.parse::<Key>().ok());
            keys.extend(names);
        }
        keys.sort_unstable();
        Ok(keys)
    }

    /// Whether a job is done, or nobody is at it.
    pub fn is_free(&self, key: Key) -> bool {
        self.contains(key) || !Lock::is_held(&self.locks(), &key.to_string())
    }

    fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }

    /// Where a job's record and artifacts are, or will be.
    pub fn folder(&self, key: Key) -> PathBuf {
        let name = key.to_string();
        self.root.join(&name[..2]).join(name)
    }

    /// The file that remembers digests of input files.
    pub fn digests(&self) -> PathBuf {
        self.root.join("digests.json")
    }

    /// Where the artifacts of a finished job are.
    pub fn files(&self, key: Key) -> PathBuf {
        self.folder(key).join("files")
    }

    /// A job's record, if there is one that can be read; another one is replaced by the next commit.
    fn readable(&self, key: Key) -> Result<Option<Record>, StoreError> {
        match self.get(key) {
            Err(StoreError::Damaged { .. }) => Ok(None),
            other => other,
        }
    }

    /// Asks for the right to run a job.
    pub fn claim(&self, key: Key) -> Result<Claim, StoreError> {
        if let Some(record) = self.readable(key)? {
            return Ok(Claim::Hit(Box::new(record)));
        }
        let Some(lock) = Lock::try_take(&self.locks(), &key.to_string())? else {
            return Ok(Claim::Busy);
        };
        // Whoever held the lock may have finished between the look and the lock.
        if let Some(record) = self.readable(key)? {
            return Ok(Claim::Hit(Box::new(record)));
        }
        let staging = self.root.join("staging").join(key.to_string());
        remove_if_there(&staging)?;
        fs::create_dir_all(staging.join("files"))?;
        Ok(Claim::Miss(Pending { store: self.clone(), key, staging, _lock: lock }))
    }
}

impl Pending {
    /// The folder that the job's artifacts go to; it becomes part of the record.
    pub fn dir(&self) -> PathBuf {
        self.staging.join("files")
    }

    /// Writes the record: afterwards the job is done, whatever happens to the machine.
    pub fn commit(self, record: &Record) -> Result<(), StoreError> {
        let mut text = serde_json::to_vec_pretty(record).map_err(io::Error::from)?;
        text.push(b'\n');
        fs::write(self.staging.join("record.json"), text)?;
        if fs::read_dir(self.dir())?.next().is_none() {
            fs::remove_dir(self.dir())?;
        }
        sync_tree(&self.staging)?;
        let folder = self.store.folder(self.key);
        if let Some(parent) = folder.parent() {
            let new = !parent.exists();
            fs::create_dir_all(parent)?;
            remove_if_there(&folder)?;
            fs::rename(&self.staging, &folder)?;
            fs::File::open(parent)?.sync_all()?;
            if new {
                fs::File::open(&self.store.root)?.sync_all()?;
            }
        }
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // After a commit it is gone; after a failure what is left of it helps nobody, and the next claim clears it too.
        let _ = remove_if_there(&self.staging);
    }
}

/// The entries of a folder; none if there is no folder.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Brings a folder's files, and the folder's own list of them, to the disk.
fn sync_tree(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            fs::File::open(entry.path())?.sync_all()?;
        }
    }
    fs::File::open(folder)?.sync_all()
}

fn remove_if_there(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record::tests::sample;

    #[test]
    fn a_miss_becomes_a_hit_by_commit_only() {
        let results = tempfile::tempdir().unwrap();
        let store = Store::new(results.path());
        let record = sample();
        let Claim::Miss(pending) = store.claim(record.key).unwrap() else { panic!("nothing is done yet") };
        assert!(matches!(store.claim(record.key).unwrap(), Claim::Busy), "the lock is held");
        drop(pending);
        let Claim::Miss(pending) = store.claim(record.key).unwrap() else { panic!("a dropped claim writes nothing") };
        fs::write(pending.dir().join("artifact"), "content").unwrap();
        pending.commit(&record).unwrap();
        let Claim::Hit(found) = store.claim(record.key).unwrap() else { panic!("a commit makes a hit") };
        assert_eq!(*found, record);
        assert_eq!(fs::read_to_string(store.folder(record.key).join("files/artifact")).unwrap(), "content");
        assert_eq!(fs::read_dir(results.path().join("store/staging")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(results.path().join("store/locks")).unwrap().count(), 0);
    }

    #[test]
    fn what_a_dead_process_left_in_staging_does_not_get_into_the_record() {
        let results = tempfile::tempdir().unwrap();
        let store = Store::new(results.path());
        let record = sample();
        let left = results.path().join("store/staging").join(record.key.to_string()).join("files");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("half"), "written").unwrap();
        let Claim::Miss(pending) = store.claim(record.key).unwrap() else { panic!("not done") };
        pending.commit(&record).unwrap();
        assert!(!store.folder(record.key).join("files").exists());
    }

    #[test]
    fn damage_and_later_formats_are_told_apart() {
        let results = tempfile::tempdir().unwrap();
        let store = Store::new(results.path());
        let key = sample().key;
        fs::create_dir_all(store.folder(key)).unwrap();
        let path = store.folder(key).join("record.json");
        fs::write(&path, "{\"format\":1,").unwrap();
        assert!(matches!(store.get(key), Err(StoreError::Damaged { .. })));
        fs::write(&path, "{\"format\":99,\"news\":true}").unwrap();
        assert!(matches!(store.get(key), Err(StoreError::TooNew { found: 99, .. })));
    }
}

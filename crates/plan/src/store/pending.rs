//! The right to write one record.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use sweep_base::planted;
use sweep_job::Tool;
use tracing::{debug_span, field, info_span, warn};

use super::{Origin, Record, Store, StoreError, disk, lock::Lock, remove_if_there};
use crate::record;
use crate::{
    host::{self, files as fs},
    record::{Environment, Identity, Key, Manifest, ReadSet},
};

/// Folder of `sweep` in a scratch folder.
pub const CONTRACT: &str = ".sweep";
/// File in that folder to which a program reports.
pub const REPORT: &str = "report.jsonl";
/// File in that folder with the parameters of a program.
pub const PARAMS: &str = "params.json";
/// Name of the folder with Python's observer, beside the job's folder.
pub const TRACKING: &str = "tracking";
/// File name of Python's observer.
pub const OBSERVER: &str = "sitecustomize.py";
/// File name of the list that the observer writes.
pub const READS: &str = "reads";
/// Name of the file to which the kernel's observer reports, while a program runs, the files that other programs may change, too.
pub const SHARED_FILES: &str = "shared";

/// The right to write one record.
#[derive(Debug)]
pub struct Pending {
    store: Store,
    key: Key,
    staging: PathBuf,
    /// Dropped last, when no file of the job is touched anymore.
    lock: Lock,
}

impl Pending {
    pub(super) fn begin(store: Store, key: Key, lock: Lock) -> io::Result<Self> {
        let mut staging = store.staging(key);
        if let Lock::Lease(lease) = &lock
            && !planted!(SharedStaging)
        {
            // Each lease has its own folder, because the previous holder may only be late and continue to write.
            staging.set_file_name(lease.name());
        }
        host::failpoints::point("claim: locked")?;
        store.remove_staging(&staging)?;
        // From here on, dropping `pending` removes the folder.
        let pending = Self { store, key, staging, lock };
        fs::create_dir_all(pending.dir())?;
        host::failpoints::point("claim: staging made")?;
        fs::create_dir_all(pending.scratch())?;
        host::failpoints::point("claim: done")?;
        Ok(pending)
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// The job.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The folder of the job's artifacts, which becomes part of the record.
    pub fn dir(&self) -> PathBuf {
        self.staging.join("files")
    }

    /// The folder of files for the next attempt, which is removed when an attempt succeeds.
    pub fn scratch(&self) -> PathBuf {
        self.store.partial(self.key)
    }

    /// Folder of Python's observer, which does not become part of the record.
    fn tracking(&self) -> PathBuf {
        self.staging.join(TRACKING)
    }

    /// The file in which the program reports its reads and writes.
    pub fn report_of_reads(&self) -> PathBuf {
        self.tracking().join(READS)
    }

    /// The file in which the files are reported that other programs may change, too.
    pub fn report_of_shared_files(&self) -> PathBuf {
        self.tracking().join(SHARED_FILES)
    }

    /// Marks the record as written elsewhere.
    pub(super) fn came_from(&self, origin: &Origin) -> io::Result<()> {
        origin.write(&self.staging)
    }

    /// Stores the environment of the job, before the manifest of the job; returns its identifier.
    pub fn add_environment(&self, environment: &Environment) -> io::Result<String> {
        self.store.add_environment(environment)
    }

    /// Stores the manifest of the job, before its record.
    pub fn add_manifest(&self, identity: &Identity, tool: Tool, set: &ReadSet) -> Result<(), StoreError> {
        let base = identity.base_key().map_err(io::Error::from)?;
        let (code, own) = (identity.code.clone(), set.own.clone());
        let manifest = Manifest { base, record: self.key, code, set: set.id(), tool, own };
        Ok(self.store.add_manifest(&manifest, set)?)
    }

    /// Writes the record, with the digests of its files. Afterwards the job is done, even if the machine crashes.
    pub fn commit(self, record: Record) -> Result<Record, StoreError> {
        self.write(record, false)
    }

    /// Writes a record like [`Pending::commit`], with the files of another record, whose digests it has.
    pub(super) fn commit_linked(self, record: Record) -> Result<Record, StoreError> {
        self.write(record, true)
    }

    fn write(self, mut record: Record, is_linked: bool) -> Result<Record, StoreError> {
        let span = info_span!(target: host::log::STORE, "commit", key = self.key.short(), files = field::Empty);
        let _guard = span.enter();
        let syncs = Arc::clone(&self.store.syncs);
        let shared = syncs.join();
        host::failpoints::point("commit: before the digests")?;
        if !is_linked {
            disk::unshare(&self.dir())?;
            record.files = record::of_folder(&self.dir())?;
        }
        span.record("files", record.files.len());
        let text = record.to_text()?;
        let mut file = fs::File::create(self.staging.join("record.json"))?;
        host::failpoints::write_all(&mut file, &text, "commit: before the record", "commit: in the record")?;
        drop(file);
        if record.files.is_empty() && fs::read_dir(self.dir())?.next().is_none() {
            fs::remove_dir(self.dir())?;
        }
        remove_if_there(&self.tracking())?;
        let sync_span = debug_span!(target: host::log::STORE, "sync");
        sync_span.in_scope(|| {
            if shared.shares_sync(&self.staging) { Ok(()) } else { disk::sync(&self.staging, record.files.len()) }
        })?;
        host::failpoints::point("commit: the files are synced")?;
        let folder = self.store.folder(self.key);
        let Some(shard) = folder.parent() else { return Err(io::Error::from(io::ErrorKind::InvalidInput).into()) };
        host::failpoints::point("commit: before the shard")?;
        fs::create_dir_all(shard)?;
        host::failpoints::point("commit: before a damaged one is removed")?;
        let record = match self.other(&folder)? {
            Some(record) => record,
            None => self.rename(&folder)?.unwrap_or(record),
        };
        host::failpoints::point("commit: after the rename")?;
        if !shared.shares_sync(shard) {
            fs::File::open(shard)?.sync_all()?;
            host::failpoints::point("commit: before the store's folder is synced")?;
            self.store.settle(shard)?;
        }
        drop(shared);
        host::failpoints::point("commit: done")?;
        // If a crash here leaves the folder, `sweep cache gc` clears it. The next holder of a lost lock uses the same folder.
        if !self.lock.is_lost() {
            let _ = remove_if_there(&self.scratch());
        }
        host::failpoints::point("commit: scratch removed")?;
        Ok(record)
    }

    /// The record that another holder of the claim has stored, after this process failed to renew its lease in time: that record is kept,
    /// because other processes may have used it. An unreadable record is removed.
    fn other(&self, folder: &Path) -> Result<Option<Record>, StoreError> {
        if planted!(DoubleCommit) {
            remove_if_there(folder)?;
            return Ok(None);
        }
        // A record that appears after this check is kept, because a rename never replaces a folder with content.
        let is_there = fs::symlink_metadata(folder).is_ok();
        if let Some(record) = self.store.readable(self.key)? {
            warn!(target: host::log::STORE, "another process has taken over the claim and stored its record");
            return Ok(Some(record));
        }
        if is_there {
            remove_if_there(folder)?;
        }
        Ok(None)
    }

    /// Renames the staging folder to the record's; returns the record of another process that was faster.
    fn rename(&self, folder: &Path) -> Result<Option<Record>, StoreError> {
        host::failpoints::point("commit: before the rename")?;
        match fs::rename(&self.staging, folder) {
            // File systems return either error.
            Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => {
                Ok(Some(self.store.readable(self.key)?.ok_or(error)?))
            }
            renamed => Ok(renamed.map(|()| None)?),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // After a commit the folder no longer exists; after a failure its remains are useless, and the next claim removes them,
        // too.
        let _ = remove_if_there(&self.staging);
        // Files that an attempt left here are for the next attempt; only an empty folder is removed. The next holder of a lost lock uses the
        // same folder.
        if !self.lock.is_lost() {
            let _ = fs::remove_dir(self.scratch());
        }
    }
}

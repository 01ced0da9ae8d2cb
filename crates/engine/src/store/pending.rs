//! The right to write one record.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;
use sweep_job::Tool;
use tracing::{debug_span, field, info_span, warn};

use super::{Origin, Record, Store, StoreError, TRACKING, disk, lock::Lock, own::Kind, remove_if_there};
use crate::record;
use crate::{
    host,
    record::{Identity, Key, Manifest, ReadSet},
};

/// The right to write one record.
#[derive(Debug)]
pub struct Pending {
    store: Store,
    key: Key,
    staging: PathBuf,
    /// True if nothing of the job runs any more, so that nothing writes to its folders.
    is_settled: bool,
    /// Dropped last, when nothing of the job is touched any more.
    lock: Lock,
}

impl Pending {
    pub(super) fn begin(store: Store, key: Key, lock: Lock) -> io::Result<Self> {
        let mut staging = store.staging(key);
        if let Lock::Lease(lease) = &lock {
            // A separate folder: the previous holder of the lease may only be late, and continue to write.
            staging.set_file_name(lease.name());
        }
        host::failpoints::point("claim: locked")?;
        remove_if_there(&staging)?;
        // From here on a failure clears it away.
        let pending = Self { store, key, staging, is_settled: false, lock };
        fs::create_dir_all(&pending.staging)?;
        pending.make(Kind::Files, &pending.dir())?;
        host::failpoints::point("claim: staging made")?;
        if let Some(own) = pending.store.own() {
            own.take(Kind::Tracking, &pending.tracking());
        }
        pending.make(Kind::Scratch, &pending.scratch())?;
        host::failpoints::point("claim: done")?;
        Ok(pending)
    }

    /// The job.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The folder that the job's artifacts go to; it becomes part of the record.
    pub fn dir(&self) -> PathBuf {
        self.staging.join("files")
    }

    /// The folder that stays when an attempt fails, and goes when one succeeds.
    pub fn scratch(&self) -> PathBuf {
        self.store.partial(self.key)
    }

    /// Folder of Python's observer, which does not become part of the record.
    fn tracking(&self) -> PathBuf {
        self.staging.join(TRACKING)
    }

    /// Makes a folder, or puts one here that an earlier job has left.
    fn make(&self, kind: Kind, at: &Path) -> io::Result<()> {
        if at.is_dir() {
            return Ok(());
        }
        if let Some(folder) = at.parent() {
            fs::create_dir_all(folder)?;
        }
        if self.store.own().is_some_and(|own| own.take(kind, at)) { Ok(()) } else { fs::create_dir(at) }
    }

    /// Says that nothing of the job runs any more: other jobs may get its folders.
    pub(crate) fn settle(&mut self) {
        self.is_settled = true;
    }

    /// Keeps a folder for another job, or removes it.
    fn unmake(&self, kind: Kind, folder: &Path) -> io::Result<()> {
        let own = self.store.own().filter(|_| self.is_settled);
        let kept = own.map(|own| own.keep(kind, folder)).transpose();
        if matches!(kept, Ok(Some(true))) { Ok(()) } else { remove_if_there(folder) }
    }

    /// Marks the record as one that was not made here.
    pub(super) fn came_from(&self, origin: &Origin) -> io::Result<()> {
        origin.write(&self.staging)
    }

    /// Stores what the job has read, before its record.
    pub(crate) fn add_manifest(&self, identity: &Identity, tool: Tool, set: &ReadSet) -> Result<(), StoreError> {
        let base = identity.base_key().map_err(io::Error::from)?;
        let (code, own) = (identity.code.clone(), set.own.clone());
        let manifest = Manifest { base, record: self.key, code, set: set.id(), tool, own };
        Ok(self.store.add_manifest(&manifest, set)?)
    }

    /// Writes the record, with the digests of its files: afterwards the job is done, whatever happens to the machine.
    pub fn commit(self, mut record: Record) -> Result<Record, StoreError> {
        let span = info_span!(target: host::log::STORE, "commit", key = self.key.short(), files = field::Empty);
        let _committing = span.enter();
        let syncs = Arc::clone(&self.store.syncs);
        let shared = syncs.join();
        host::failpoints::point("commit: before the digests")?;
        disk::unshare(&self.dir())?;
        record.files = record::of_folder(&self.dir())?;
        span.record("files", record.files.len());
        let text = record.to_text()?;
        let mut file = fs::File::create(self.staging.join("record.json"))?;
        host::failpoints::write_all(&mut file, &text, "commit: before the record", "commit: in the record")?;
        drop(file);
        if record.files.is_empty() && fs::read_dir(self.dir())?.next().is_none() {
            self.unmake(Kind::Files, &self.dir())?;
        }
        self.unmake(Kind::Tracking, &self.tracking())?;
        let syncing = debug_span!(target: host::log::STORE, "sync");
        syncing.in_scope(|| {
            if shared.shares_sync(&self.staging) { Ok(()) } else { disk::sync(&self.staging, record.files.len()) }
        })?;
        host::failpoints::point("commit: the files are synced")?;
        let folder = self.store.folder(self.key);
        let Some(shard) = folder.parent() else { return Err(io::Error::from(io::ErrorKind::InvalidInput).into()) };
        let new = !shard.exists();
        host::failpoints::point("commit: before the shard")?;
        fs::create_dir_all(shard)?;
        host::failpoints::point("commit: before a damaged one is removed")?;
        // Then another process does the same job by now, or has done it; what it has written stays.
        if self.lock.is_lost()
            && let Some(record) = self.store.readable(self.key)?
        {
            warn!(target: host::log::STORE, "another process has taken the claim over and stored its record");
            return Ok(record);
        }
        remove_if_there(&folder)?;
        host::failpoints::point("commit: before the rename")?;
        fs::rename(&self.staging, &folder)?;
        host::failpoints::point("commit: after the rename")?;
        if !shared.shares_sync(shard) {
            fs::File::open(shard)?.sync_all()?;
            if new {
                host::failpoints::point("commit: before the store's folder is synced")?;
                fs::File::open(&self.store.root)?.sync_all()?;
            }
        }
        drop(shared);
        host::failpoints::point("commit: done")?;
        // Left behind by a crash here, it is cleared by `sweep cache gc`.
        let _ = self.unmake(Kind::Scratch, &self.scratch());
        host::failpoints::point("commit: scratch removed")?;
        Ok(record)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // After a commit it is gone; after a failure its remains are useless, and the next claim removes them, too.
        let _ = remove_if_there(&self.staging);
        // What an attempt has left here is for the next; nothing is not worth a folder.
        let scratch = self.scratch();
        let unused = self.store.own().map(|own| own.is_unused(Kind::Scratch, &scratch)).transpose();
        let _ = if matches!(unused, Ok(Some(true))) { remove_if_there(&scratch) } else { fs::remove_dir(scratch) };
    }
}

//! Records of jobs that need not run, because another job has the same computation.

use std::{io, path::Path, sync::Arc};

use fs_err as fs;
use sweep_job::Tool;

use super::{Claim, Origin, Pending, Record, Store, StoreError, remove_if_there};
use crate::{
    host,
    record::{self, Key, ReadSet},
};

impl Store {
    /// Stores a record that follows from the record `from`, with the same files and the same observation. `false` if the job
    /// is done already, or if another process runs it.
    pub fn adopt(&self, record: Record, from: Key, observed: Option<(Tool, Arc<ReadSet>)>) -> Result<bool, StoreError> {
        let Claim::Miss(pending) = self.claim(record.key)? else { return Ok(false) };
        let files = self.files(from);
        if files.is_dir() {
            link(&files, &pending.dir())?;
        }
        if let Some(origin) = self.origin(from) {
            // A signature of the other record does not cover this one.
            pending.came_from(&Origin { signed: None, ..origin })?;
        }
        if let Some((tool, set)) = observed {
            pending.add_manifest(&record.identity, tool, &set)?;
        }
        pending.commit_linked(record)?;
        Ok(true)
    }
}

impl Pending {
    /// Stores a record that is adopted from the record `from`, with its files. `None` if these are not there any more, or if they have been changed.
    pub fn commit_adopted(self, record: Record, from: Key) -> Result<Option<Record>, StoreError> {
        let (store, dir) = (self.store().clone(), self.dir());
        if !store.contains(from) {
            return Ok(None);
        }
        // The program that was compared has left nothing that counts.
        remove_if_there(&dir)?;
        fs::create_dir_all(&dir)?;
        host::failpoints::point("adopt: before the files")?;
        let files = store.files(from);
        match if record.files.is_empty() { Ok(()) } else { link(&files, &dir) } {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            linked => linked?,
        }
        // A file may have been changed or removed since then, although the record has its digest.
        if record::of_folder(&dir)? != record.files {
            return Ok(None);
        }
        host::failpoints::point("adopt: files linked")?;
        if let Some(origin) = store.origin(from) {
            // A signature of the other record does not cover this one.
            self.came_from(&Origin { signed: None, ..origin })?;
        }
        Ok(Some(self.commit_linked(record)?))
    }
}

/// Links the files of folder `from` into folder `to`. Both are in the store, where no file is changed.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target, kind) = (entry.path(), to.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            fs::create_dir(&target)?;
            link(&path, &target)?;
        } else if kind.is_symlink() {
            fs::os::unix::fs::symlink(fs::read_link(&path)?, &target)?;
        } else if std::fs::hard_link(&path, &target).is_err() {
            // Some file systems have no links, and some systems forbid links to files of others.
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

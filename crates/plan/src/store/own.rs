//! The file of a process in the store to which the locks of its jobs are links, while it runs jobs.
//!
//! The folders and files of a job are not reused for another one: a process that outlives its job may still have them open,
//! and would write into the other job's record.

use std::{
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use super::lease::unique;
use crate::host::{
    self,
    files::{self as fs, File},
};

/// The file of this process in a store, once it has claimed a job.
#[derive(Debug, Default)]
pub(super) struct Own(OnceLock<Option<Present>>);

/// The locked file of this process in a store that lets it have one.
#[derive(Debug)]
pub(super) struct Present {
    file: Arc<File>,
    path: PathBuf,
}

impl Own {
    /// Returns the file in the store below `root`, which must not be shared among machines; `None` if it cannot be created.
    pub(super) fn at(&self, root: &Path) -> Option<&Present> {
        self.0.get_or_init(|| Present::begin(root).ok()).as_ref()
    }
}

impl Present {
    fn begin(root: &Path) -> io::Result<Self> {
        let locks = root.join("locks");
        fs::create_dir_all(&locks)?;
        let path = locks.join(format!("process-{}", unique()));
        host::failpoints::point("own: before its lock")?;
        let file = fs::OpenOptions::new().create_new(true).append(true).open(&path)?;
        // Before the file is locked, another process may remove it as the leftover of a killed engine.
        file.try_lock().map_err(io::Error::from)?;
        if fs::metadata(&path)?.ino() != file.metadata()?.ino() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self { file: Arc::new(file), path })
    }

    /// The locked file, and its path.
    pub(super) fn lock(&self) -> (&Arc<File>, &Path) {
        (&self.file, &self.path)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::entries;

    #[test]
    fn each_process_has_a_file_and_it_goes_with_its_process() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) = (Own::default(), Own::default());
        assert!(first.at(root.path()).is_some() && second.at(root.path()).is_some());
        let locks = root.path().join("locks");
        assert_eq!(entries(&locks).unwrap().len(), 2);
        drop(first);
        assert_eq!(entries(&locks).unwrap().len(), 1);
        drop(second);
        assert_eq!(entries(&locks).unwrap(), Vec::<PathBuf>::new());
    }
}

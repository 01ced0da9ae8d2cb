//! The store's folder, and names in it that a power failure does not remove.
//!
//! A file that was synced can still lose its name: the name is the data of its folder. The process that has created a folder may be killed
//! before it syncs that, so every process does it once for the names that its own records need.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{STORE_FORMAT, Store, lease::unique};
use crate::host::{
    failpoints,
    files::{self as fs, File},
};

/// Names that this process has synced to the disk, with the names of the folders above them.
#[derive(Debug, Default)]
pub(super) struct Settled(Mutex<HashSet<PathBuf>>);

impl Settled {
    fn names(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all names, because the store is created anew.
    pub(super) fn clear(&self) {
        self.names().clear();
    }
}

impl Store {
    /// Makes the store's folder, if it does not exist, so that it survives a crash of the machine.
    pub fn create(&self) -> io::Result<()> {
        let format = self.root.join("format");
        if format.is_file() {
            return Ok(());
        }
        failpoints::point("store: before its folder")?;
        let missing =
            self.root.ancestors().skip(1).take_while(|folder| !folder.as_os_str().is_empty() && !folder.is_dir());
        let missing: Vec<&Path> = missing.collect();
        fs::create_dir_all(&self.root)?;
        failpoints::point("store: before its format")?;
        // Process IDs may be equal in two containers, so the name is unique. `tempfile` is not used, because only the owner could read its
        // file.
        let temporary = self.root.join(format!("format.{}", unique()));
        fs::write(&temporary, format!("{STORE_FORMAT}\n"))?;
        fs::File::open(&temporary)?.sync_all()?;
        failpoints::point("store: format written")?;
        fs::rename(&temporary, &format)?;
        for folder in missing {
            sync_name(folder)?;
        }
        self.settled.clear();
        self.settle(&format)?;
        failpoints::point("store: made")
    }

    /// Syncs the name of `path`, which is in the store, to the disk, and the names of its folders up to the results folder.
    pub(super) fn settle(&self, path: &Path) -> io::Result<()> {
        let mut synced = Vec::new();
        for name in path.ancestors().take_while(|name| name.starts_with(self.results())) {
            if self.settled.names().contains(name) {
                break;
            }
            match sync_name(name) {
                // The folder around the results may allow its user to enter it only, or be of a file system that cannot be
                // written or has no syncs of folders.
                Err(error) if name == self.results() && is_refused(&error) => {}
                result => result?,
            }
            synced.push(name.to_owned());
        }
        self.settled.names().extend(synced);
        Ok(())
    }

    /// True if this process has brought the name of `path` to the disk.
    pub(super) fn is_settled(&self, path: &Path) -> bool {
        self.settled.names().contains(path)
    }

    /// Records that the name of `path` is about to be given to another file.
    pub(super) fn unsettle(&self, path: &Path) {
        self.settled.names().remove(path);
    }
}

fn is_refused(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::PermissionDenied | Kind::ReadOnlyFilesystem | Kind::InvalidInput | Kind::Unsupported)
}

/// Brings the name of `path` to the disk.
fn sync_name(path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    File::open(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?.sync_all()
}

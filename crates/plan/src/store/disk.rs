//! Preparation of a job's files before they become the store's.

use std::{io, os::unix::fs::MetadataExt as _, path::Path};

use crate::host::{
    self,
    files::{self as fs, File, NamedTempFile},
};

/// With more files than this, one sync of all of them is quicker than one for each.
const MAX_SYNCS: usize = 64;

/// Gives every file below a folder a single name: a file with several hard links is copied. Another link could change
/// the content of the store, which might not be noticed at once.
pub(super) fn unshare(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, metadata) = (entry.path(), entry.metadata()?);
        if metadata.is_dir() {
            unshare(&path)?;
        } else if metadata.is_file() && metadata.nlink() > 1 {
            host::failpoints::point("commit: before a copy")?;
            let copy = NamedTempFile::new_in(folder)?;
            fs::copy(&path, copy.path())?;
            copy.persist(&path)?;
        }
    }
    Ok(())
}

/// Synchronizes a folder with `files` files to the disk: the files, and every folder's own list of them.
pub(super) fn sync(folder: &Path, files: usize) -> io::Result<()> {
    if files > MAX_SYNCS
        && let Some(disk) = local(folder)?
    {
        return disk.sync();
    }
    sync_tree(folder)
}

/// A local file system, where a sync of the whole file system waits for the disk. A network file system may not wait.
#[derive(Debug)]
pub(super) struct Local(File);

/// Returns the file system of a folder; `None` if it is not known to be local.
#[cfg(target_os = "linux")]
pub(super) fn local(folder: &Path) -> io::Result<Option<Local>> {
    /// From `linux/magic.h`: bcachefs, btrfs, ext2 to ext4, f2fs, overlayfs, tmpfs, XFS, ZFS.
    const LOCAL: [u64; 8] =
        [0xca45_1a4e, 0x9123_683e, 0xef53, 0xf2f5_2010, 0x794c_7630, 0x0102_1994, 0x5846_5342, 0x2fc1_2fc1];
    let folder = File::open(folder)?;
    let kind = rustix::fs::fstatfs(&folder)?.f_type;
    Ok(u64::try_from(kind).is_ok_and(|kind| LOCAL.contains(&kind)).then_some(Local(folder)))
}

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "on Linux it may fail")]
pub(super) fn local(_: &Path) -> io::Result<Option<Local>> {
    Ok(None)
}

impl Local {
    /// Brings all data of the file system to the disk.
    #[cfg(target_os = "linux")]
    pub(super) fn sync(&self) -> io::Result<()> {
        host::failpoints::point("commit: before a sync")?;
        fs::sync_file_system(&self.0)
    }

    /// Never called: on other systems, no file system is known to be local.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

fn sync_tree(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sync_tree(&entry.path())?;
        } else if kind.is_file() {
            host::failpoints::point("commit: before a sync")?;
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

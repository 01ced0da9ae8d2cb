//! The operations of the operating system.

use std::{io, path::Path, thread, time::Duration};

pub use fs_err::{
    DirEntry, File, OpenOptions, copy, create_dir, create_dir_all, hard_link, metadata, read, read_dir, read_to_string,
    remove_dir, remove_dir_all, remove_file, rename, symlink_metadata, write,
};
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW, flock, futimens};
pub use tempfile::NamedTempFile;

/// Sets the time of a file's last change to now, by the clock of its file system.
pub fn touch(file: &File) -> io::Result<()> {
    // The server's time, not this machine's.
    let now = || Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Ok(futimens(file, &Timestamps { last_access: now(), last_modification: now() })?)
}

/// Waits for the lock of the operating system on a file.
pub fn lock(file: &File) -> io::Result<()> {
    Ok(flock(file, FlockOperation::LockExclusive)?)
}

/// Brings all data of the file system of `folder` to the disk.
#[cfg(target_os = "linux")]
pub fn sync_file_system(folder: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

/// Announces that `path` is about to be read by other functions than those of this module.
pub fn look(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Sleeps.
pub fn pause(time: Duration) {
    thread::sleep(time);
}

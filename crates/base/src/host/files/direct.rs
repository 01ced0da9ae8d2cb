//! The operations of the operating system.

use std::{io, path::Path, thread, time::Duration};

pub use fs_err::{
    DirEntry, File, OpenOptions, copy, create_dir, create_dir_all, hard_link, metadata, read, read_dir, read_to_string,
    remove_dir, remove_dir_all, remove_file, rename, symlink_metadata, write,
};
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW, flock, futimens};
pub use tempfile::NamedTempFile;

/// Sets the times of a file's last access and change to now, by the clock of its file system.
pub fn touch(file: &File) -> io::Result<()> {
    // `UTIME_NOW` takes the time of the file server, not of this machine.
    let now = || Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Ok(futimens(file, &Timestamps { last_access: now(), last_modification: now() })?)
}

/// Waits for the operating system's exclusive lock on a file.
pub fn lock(file: &File) -> io::Result<()> {
    Ok(flock(file, FlockOperation::LockExclusive)?)
}

/// Syncs all data of the file system of `folder` to the disk.
#[cfg(target_os = "linux")]
pub fn sync_file_system(folder: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

/// Announces that a function outside of this module is about to read `path`. Only the simulation needs it.
pub fn look(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Sleeps for `time`.
pub fn pause(time: Duration) {
    thread::sleep(time);
}

//! One lock a job: an operating-system lock on a file, which ends with its process, however that ends.

use std::{
    fs::{File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use fs_err as fs;

/// A held lock.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

/// A lock that is no job's, as others hold it.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "it is held, not read")] pub(super) Lock);

impl Lock {
    /// Takes the lock of this name, or answers `None` while another process holds it.
    pub(super) fn try_take(folder: &Path, name: &str) -> io::Result<Option<Self>> {
        fs::create_dir_all(folder)?;
        let path = folder.join(name);
        loop {
            let file = open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // The last holder removes the file; then the lock just taken is on a file that nobody else will open.
            if fs::metadata(&path).is_ok_and(|now| file.metadata().is_ok_and(|own| own.ino() == now.ino())) {
                return Ok(Some(Self { path, _file: file }));
            }
        }
    }
}

impl Lock {
    /// Whether a process holds the lock of this name.
    pub(super) fn is_held(folder: &Path, name: &str) -> bool {
        let file = File::open(folder.join(name));
        file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while it is still held, so that nobody can hold a lock on a removed file and believe in it. If it
        // cannot be removed, an unlocked file stays behind, which the next claim takes.
        let _ = fs::remove_file(&self.path);
    }
}

/// Held by whoever relies on the store as it is: any number of sweeps, or one that removes from it.
#[derive(Debug)]
pub struct InUse(#[expect(dead_code, reason = "it is held, not read")] File);

impl InUse {
    /// `None` while something is being removed.
    pub(super) fn shared(store: &Path) -> io::Result<Option<Self>> {
        let file = open(&store.join("in-use"))?;
        Self::taken(file.try_lock_shared(), file)
    }

    /// `None` while a sweep runs.
    pub(super) fn alone(store: &Path) -> io::Result<Option<Self>> {
        let file = open(&store.join("in-use"))?;
        Self::taken(file.try_lock(), file)
    }

    fn taken(lock: Result<(), TryLockError>, file: File) -> io::Result<Option<Self>> {
        match lock {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    Ok(fs::OpenOptions::new().create(true).append(true).open(path)?.into_file())
}

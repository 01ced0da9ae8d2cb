//! Locks of jobs: an operating-system lock on a file, which ends with its process in any case, with one file for all
//! jobs of a process; or a lease, if the store is shared among machines.

use std::{
    fs::TryLockError,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use sweep_base::planted;

use super::{
    entries,
    lease::{Lease, Presence, unique},
    own::Present,
};
use crate::host::files::{self as fs, File};

/// A held lock.
#[derive(Debug)]
pub(super) enum Lock {
    /// A lock of the operating system.
    Flock { path: PathBuf, file: Arc<File> },
    /// A lease in a store that several machines use.
    Lease(Lease),
}

/// A lock that does not belong to a job, as others hold it.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "it is held, not read")] pub(super) Lock);

impl Lock {
    /// Takes the lock `name`; returns `None` while another process holds it.
    pub(super) fn try_take(folder: &Path, name: &str, shared: bool) -> io::Result<Option<Self>> {
        if shared {
            return Ok(Lease::try_take(folder, name)?.map(Self::Lease));
        }
        fs::create_dir_all(folder)?;
        let path = folder.join(name);
        loop {
            let file = open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // The last holder removes the file; then the lock just taken is on a file that no other process will open.
            let is_its_own = fs::metadata(&path).is_ok_and(|path_metadata| {
                file.metadata().is_ok_and(|file_metadata| file_metadata.ino() == path_metadata.ino())
            });
            if is_its_own || planted!(NoIdentityOfLock) {
                return Ok(Some(Self::Flock { path, file: Arc::new(file) }));
            }
        }
    }

    /// Like [`Lock::try_take`] in a store that is not shared, but with a link to the locked file of this process instead of a
    /// new file.
    pub(super) fn try_link(folder: &Path, name: &str, own: &Present) -> io::Result<Option<Self>> {
        let path = folder.join(name);
        let (file, target) = own.lock();
        for _ in 0..2 {
            match fs::hard_link(target, &path) {
                Ok(()) => return Ok(Some(Self::Flock { path, file: Arc::clone(file) })),
                // The lock is held, or a killed process has left it. The left file may have other names, so it is
                // locked only until this name is removed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    match Self::try_take(folder, name, false)? {
                        Some(lock) => drop(lock),
                        None => return Ok(None),
                    }
                }
                Err(_) => break,
            }
        }
        // The file system has no hard links, or no more links to this file; or a leftover cannot be removed.
        Self::try_take(folder, name, false)
    }

    /// True if a process holds the lock of this name.
    pub(super) fn is_held(folder: &Path, name: &str, shared: bool) -> bool {
        if shared {
            return Lease::is_held(folder, name);
        }
        let file = File::open(folder.join(name));
        file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// True if another process has taken it over.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Lease(lease) if lease.is_lost())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Self::Flock { path, file } = self {
            if planted!(NameAfterLock) {
                let _ = file.unlock();
            }
            // Removed while it is still held, so that no process can hold a lock on a removed file and rely on it. If
            // it cannot be removed, an unlocked file stays behind, which the next claim takes.
            let _ = fs::remove_file(path);
        }
    }
}

/// Held by users of the store: any number of sweeps, or one process that removes records.
#[derive(Debug)]
pub struct InUse(#[expect(dead_code, reason = "it is held, not read")] Use);

#[derive(Debug)]
#[expect(dead_code, reason = "it is held, not read")]
enum Use {
    Flock(File),
    Present(Presence),
    Alone(Lease),
}

/// The lease of a process that removes records from a store that several machines use.
pub(super) const CLEARING: &str = "clearing";

impl InUse {
    /// `None` while something is being removed.
    pub(super) fn shared(store: &Path, shared: bool) -> io::Result<Option<Self>> {
        if shared {
            // Announces first and then checks, as removers do, so that at least one of both sees the other.
            let users = store.join("users");
            fs::create_dir_all(&users)?;
            let presence = Presence::announce(&users.join(unique()))?;
            // By the clock of the file server: a machine whose clock is ahead would not see the remover.
            let is_clear = !presence.sees_alive(&store.join("locks").join(CLEARING))?;
            return Ok(is_clear.then_some(Self(Use::Present(presence))));
        }
        let file = open(&store.join("in-use"))?;
        Self::taken(file.try_lock_shared(), file)
    }

    /// `None` while a sweep runs.
    pub(super) fn alone(store: &Path, shared: bool) -> io::Result<Option<Self>> {
        if shared {
            let Some(lease) = Lease::try_take(&store.join("locks"), CLEARING)? else { return Ok(None) };
            for user in entries(&store.join("users"))? {
                if lease.sees_alive(&user)? {
                    return Ok(None);
                }
                remove_file_if_there(&user)?;
            }
            return Ok(Some(Self(Use::Alone(lease))));
        }
        let file = open(&store.join("in-use"))?;
        Self::taken(file.try_lock(), file)
    }

    fn taken(lock: Result<(), TryLockError>, file: File) -> io::Result<Option<Self>> {
        match lock {
            Ok(()) => Ok(Some(Self(Use::Flock(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

pub(super) fn remove_file_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn open(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().create(true).append(true).open(path)
}

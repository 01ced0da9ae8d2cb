//! One lock for the machine: a job that must be alone excludes the jobs of all other sweeps, of all users and all stores.
//!
//! There are two files. Every engine that runs jobs holds `sweep-machine.lock` shared; an engine that runs an exclusive job
//! holds it exclusively. An engine that waits for this file holds `sweep-machine.gate`, so that no later engine overtakes
//! it: engines that keep starting ordinary jobs cannot starve a waiting exclusive job, and engines that run one exclusive
//! job after another cannot starve ordinary jobs. Both locks end with their process.

use std::{
    fs::{File, TryLockError},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

/// The folder of the lock's files, instead of `/tmp`. If it is set and empty, there is no lock: a sweep inside of a job
/// must not wait for the end of that job.
pub const VARIABLE: &str = "SWEEP_LOCKS";
/// The folder of the locks, the same for all users; `TMPDIR` may differ between users.
const FOLDER: &str = "/tmp";
const MACHINE: &str = "sweep-machine.lock";
const GATE: &str = "sweep-machine.gate";
/// All users may lock the files, which have no content.
const EVERYBODY: Mode = Mode::from_raw_mode(0o666);
/// So often a file is opened again that was replaced meanwhile.
const OPENINGS: usize = 10;

/// Reason why exclusive jobs are not protected from other sweeps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SharingError {
    /// The lock is disabled.
    #[error("`{VARIABLE}` is empty, which is so inside of a job")]
    Off,
    /// A file cannot be used.
    #[error("{} cannot be used as a lock ({reason}); `{VARIABLE}` names another folder, which all users must share", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Hold of an engine on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    Shared,
    Alone,
}

/// An engine among the others on this machine.
#[derive(Debug)]
pub struct Sharing {
    folder: Option<PathBuf>,
    machine: Option<File>,
    gate: Option<File>,
    held: Held,
    /// True if the gate is held, because this engine is the next.
    next: bool,
}

impl Sharing {
    /// The lock in the folder that the environment names. Nothing is opened before it is needed.
    pub fn open() -> Self {
        let folder = std::env::var_os(VARIABLE).map_or_else(|| PathBuf::from(FOLDER), PathBuf::from);
        Self::within(Some(folder).filter(|folder| !folder.as_os_str().is_empty()))
    }

    fn within(folder: Option<PathBuf>) -> Self {
        Self { folder, machine: None, gate: None, held: Held::Nothing, next: false }
    }

    /// Takes the machine for a job, together with others or, with `is_alone`, exclusively. Returns `false` if the job must
    /// wait and try again; this never blocks. Before an exclusive job, the engine must hold nothing.
    pub fn enter(&mut self, is_alone: bool) -> Result<bool, SharingError> {
        let Some(folder) = self.folder.clone() else { return Err(SharingError::Off) };
        let result = self.try_enter(is_alone, &folder.join(MACHINE), &folder.join(GATE));
        if result.is_err() {
            // An engine that cannot use one of the files must not block others at the other file.
            release(self.gate.as_ref());
            self.next = false;
        }
        result
    }

    fn try_enter(&mut self, is_alone: bool, machine: &Path, gate: &Path) -> Result<bool, SharingError> {
        if self.held == Held::Shared && !is_alone {
            // Other jobs of this engine run already, but an engine that waits to be alone goes first.
            let is_free = take(&mut self.gate, gate, false)?;
            release(self.gate.as_ref().filter(|_| is_free));
            return Ok(is_free);
        }
        debug_assert_eq!(self.held, Held::Nothing);
        if !self.next && !take(&mut self.gate, gate, is_alone)? {
            return Ok(false);
        }
        if take(&mut self.machine, machine, is_alone)? {
            self.held = if is_alone { Held::Alone } else { Held::Shared };
            self.next = true;
            self.withdraw();
            return Ok(true);
        }
        // Two engines may have passed the gate at the same time; one of them is the next to get the lock.
        self.next = is_alone || self.next || take(&mut self.gate, gate, true)?;
        if !self.next {
            release(self.gate.as_ref());
        }
        Ok(false)
    }

    /// True if a job runs that is alone on this machine.
    pub fn is_alone(&self) -> bool {
        self.held == Held::Alone
    }

    /// Gives the machine back.
    pub fn leave(&mut self) {
        if self.held != Held::Nothing {
            release(self.machine.as_ref());
            self.held = Held::Nothing;
        }
    }

    /// Waits for the machine no longer.
    pub fn withdraw(&mut self) {
        if self.next {
            release(self.gate.as_ref());
            self.next = false;
        }
    }
}

/// Locks a file, which stays open for the next time. `false` if others hold it.
fn take(slot: &mut Option<File>, path: &Path, is_alone: bool) -> Result<bool, SharingError> {
    let unusable = |reason: String| SharingError::Unusable { path: path.to_owned(), reason };
    for _ in 0..OPENINGS {
        let file = match slot.take() {
            Some(file) => file,
            None => open(path).map_err(|error| unusable(error.to_string()))?,
        };
        let metadata = file.metadata().map_err(|error| unusable(error.to_string()))?;
        if !metadata.is_file() {
            return Err(unusable("it is not a regular file".to_owned()));
        }
        let lock_result = if is_alone { file.try_lock() } else { file.try_lock_shared() };
        // A clean-up of old files may have removed the file: then other engines lock another file.
        let path_metadata = std::fs::symlink_metadata(path);
        let is_same = path_metadata
            .is_ok_and(|path_metadata| (path_metadata.dev(), path_metadata.ino()) == (metadata.dev(), metadata.ino()));
        match lock_result {
            Ok(()) if is_same => {
                *slot = Some(file);
                return Ok(true);
            }
            Err(TryLockError::WouldBlock) if is_same => {
                *slot = Some(file);
                return Ok(false);
            }
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(unusable(error.to_string())),
        }
    }
    Err(unusable("it is replaced again and again".to_owned()))
}

fn release(file: Option<&File>) {
    // Fails only if this is not a regular file.
    let _ = file.map(File::unlock);
}

/// Opens a file that all users share, or creates it. Follows no link, and does not wait for the other end of a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    for _ in 0..OPENINGS {
        // In a sticky folder, a file of another user must not be opened with `O_CREAT` (fs.protected_regular).
        match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => {}
            file => return Ok(File::from(file?)),
        }
        match rustix::fs::open(path, flags | OFlags::CREATE | OFlags::EXCL, EVERYBODY) {
            Err(Errno::EXIST) => {}
            file => {
                let file = file?;
                // Whatever the mask of this process allows.
                rustix::fs::fchmod(&file, EVERYBODY)?;
                return Ok(File::from(file));
            }
        }
    }
    Err(io::Error::other("it is removed again and again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engines(folder: &Path) -> [Sharing; 3] {
        [(); 3].map(|()| Sharing::within(Some(folder.to_owned())))
    }

    #[test]
    fn one_is_alone_and_nobody_passes_those_who_wait() {
        let folder = tempfile::tempdir().unwrap();
        let [mut a, mut b, mut c] = engines(folder.path());
        assert!(a.enter(false).unwrap() && b.enter(false).unwrap() && a.enter(false).unwrap());
        assert!(!c.enter(true).unwrap(), "others run");
        assert!(!a.enter(false).unwrap() && !b.enter(false).unwrap(), "what runs may end, but nothing begins");
        a.leave();
        assert!(!c.enter(true).unwrap() && !a.enter(false).unwrap());
        b.leave();
        assert!(c.enter(true).unwrap() && c.is_alone());
        assert!(!a.enter(false).unwrap() && !b.enter(false).unwrap());
        c.leave();
        // The first engine that waited is next, before another exclusive job.
        assert!(!c.enter(true).unwrap());
        assert!(a.enter(false).unwrap() && !a.is_alone());
        assert!(!c.enter(true).unwrap() && !b.enter(false).unwrap());
        a.leave();
        assert!(c.enter(true).unwrap());
    }

    #[test]
    fn who_gives_up_or_ends_lets_the_others_pass() {
        let folder = tempfile::tempdir().unwrap();
        let [mut a, mut b, mut c] = engines(folder.path());
        assert!(a.enter(false).unwrap() && !b.enter(true).unwrap() && !c.enter(false).unwrap());
        b.withdraw();
        assert!(c.enter(false).unwrap());
        assert!(!b.enter(true).unwrap());
        drop(b);
        assert!(a.enter(false).unwrap());
        drop((a, c));
        let [mut d, ..] = engines(folder.path());
        assert!(d.enter(true).unwrap());
    }

    #[test]
    fn the_files_are_for_all_users() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let [mut a, mut b, _] = engines(folder.path());
        assert!(a.enter(true).unwrap());
        for name in [MACHINE, GATE] {
            let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o666, "{name}");
        }
        // A clean-up has removed them while they were open.
        a.leave();
        std::fs::remove_file(folder.path().join(MACHINE)).unwrap();
        assert!(b.enter(true).unwrap() && !a.enter(true).unwrap(), "both lock the file that is there");
    }

    #[test]
    fn what_is_no_file_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(GATE);
        let reason = || match engines(folder.path())[0].enter(true) {
            Err(SharingError::Unusable { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
        std::fs::write(folder.path().join("precious"), "text").unwrap();
        std::os::unix::fs::symlink(folder.path().join("precious"), &path).unwrap();
        assert!(reason().contains("symbolic links"), "{}", reason());
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, EVERYBODY, 0).unwrap();
        assert_eq!(reason(), "it is not a regular file");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(reason().contains("directory"), "{}", reason());
        assert_eq!(std::fs::read_to_string(folder.path().join("precious")).unwrap(), "text");
        assert_eq!(Sharing::within(None).enter(false), Err(SharingError::Off));

        // Only one of the files is unusable; then no engine holds the other one.
        std::fs::remove_dir(&path).unwrap();
        std::fs::create_dir(folder.path().join(MACHINE)).unwrap();
        let [mut a, mut b, _] = engines(folder.path());
        for is_alone in [true, false] {
            assert!(a.enter(is_alone).is_err() && b.enter(true).is_err());
        }
        std::fs::remove_dir(folder.path().join(MACHINE)).unwrap();
        assert!(b.enter(true).unwrap());
    }
}

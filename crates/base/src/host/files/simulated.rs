//! The functions of `direct.rs`, each of which passes its operation to the [`World`] of the thread first. In a thread
//! without a world they have the same effects, but sync nothing.

use std::{
    fs::{Metadata, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, SystemTime},
};

pub use fs_err::DirEntry;
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW, flock, futimens};

use super::world::{Operation, world};

/// Longer writes are split into two operations, so that a failure between them tears the content.
const TORN_ABOVE: usize = 32;

/// The next handle of an open file, and the next number in the name of a temporary file.
static NUMBER: AtomicU64 = AtomicU64::new(1);

fn perform<T>(operation: Operation<'_>, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(world) = world() else { return act() };
    let (mut act, mut value) = (Some(act), None);
    world.perform(&operation, &mut || {
        if let Some(act) = act.take() {
            value = Some(act()?);
        }
        Ok(())
    })?;
    value.ok_or_else(|| io::Error::other("the simulated operation has no value"))
}

/// Like [`perform`], for an operation that a world may skip.
fn perform_or_skip(operation: Operation<'_>, mut act: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    match world() {
        Some(world) => world.perform(&operation, &mut act),
        None => act(),
    }
}

/// An open file.
#[derive(Debug)]
pub struct File {
    inner: fs_err::File,
    handle: u64,
    appends: bool,
}

impl File {
    /// Opens a file or a folder for reading.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path)
    }

    /// Creates a file, or truncates an existing one.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Options for opening a file.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Syncs the file, or the names in the folder, to the world's disk.
    pub fn sync_all(&self) -> io::Result<()> {
        perform_or_skip(Operation::Sync(self.handle), || Ok(()))
    }

    /// Like [`sync_all`](Self::sync_all).
    pub fn sync_data(&self) -> io::Result<()> {
        self.sync_all()
    }

    /// Truncates the file, or extends it with zeros, to `length` bytes.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        perform(Operation::SetLength { handle: self.handle, length }, || self.inner.set_len(length))
    }

    /// Metadata of the file.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.inner.metadata()
    }

    /// Tries to take the operating system's exclusive lock.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        let mut held = true;
        perform(Operation::Lock(self.handle), || match self.inner.try_lock() {
            Err(TryLockError::Error(error)) => Err(error),
            Err(TryLockError::WouldBlock) => {
                held = false;
                Ok(())
            }
            Ok(()) => Ok(()),
        })
        .map_err(TryLockError::Error)?;
        if held { Ok(()) } else { Err(TryLockError::WouldBlock) }
    }

    /// Tries to take the operating system's shared lock.
    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        look(self.inner.path()).map_err(TryLockError::Error)?;
        self.inner.try_lock_shared()
    }

    /// Releases the operating system's lock.
    pub fn unlock(&self) -> io::Result<()> {
        perform(Operation::Lock(self.handle), || self.inner.unlock())
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer)
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.inner).read(buffer)
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

impl Write for File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let (first, second) =
            if buffer.len() > TORN_ABOVE { buffer.split_at(buffer.len() / 2) } else { (buffer, &buffer[..0]) };
        self.write_part(first)?;
        if second.is_empty() || self.write_part(second).is_err() {
            return Ok(first.len());
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl File {
    fn write_part(&mut self, bytes: &[u8]) -> io::Result<()> {
        let at = if self.appends { self.inner.metadata()?.len() } else { self.inner.stream_position()? };
        let inner = &mut self.inner;
        perform_or_skip(Operation::Write { handle: self.handle, at, bytes }, || inner.write_all(bytes))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

/// Options for opening a file.
#[derive(Debug)]
pub struct OpenOptions {
    inner: fs_err::OpenOptions,
    creates: bool,
    truncates: bool,
    appends: bool,
}

impl OpenOptions {
    /// Options with all flags off.
    #[expect(clippy::new_without_default, reason = "like that of the standard library")]
    pub fn new() -> Self {
        Self { inner: fs_err::OpenOptions::new(), creates: false, truncates: false, appends: false }
    }

    /// Opens the file for reading.
    pub fn read(&mut self, on: bool) -> &mut Self {
        self.inner.read(on);
        self
    }

    /// Opens the file for writing.
    pub fn write(&mut self, on: bool) -> &mut Self {
        self.inner.write(on);
        self
    }

    /// Writes at the end of the file.
    pub fn append(&mut self, on: bool) -> &mut Self {
        self.inner.append(on);
        self.appends = on;
        self
    }

    /// Creates a missing file.
    pub fn create(&mut self, on: bool) -> &mut Self {
        self.inner.create(on);
        self.creates = on;
        self
    }

    /// Creates a file, and fails if it exists.
    pub fn create_new(&mut self, on: bool) -> &mut Self {
        self.inner.create_new(on);
        self.creates = on;
        self
    }

    /// Truncates the file.
    pub fn truncate(&mut self, on: bool) -> &mut Self {
        self.inner.truncate(on);
        self.truncates = on;
        self
    }

    /// Opens the file.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let (path, handle) = (path.as_ref(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let operation = Operation::Open { path, handle, creates: self.creates, truncates: self.truncates };
        let inner = perform(operation, || self.inner.open(path))?;
        Ok(File { inner, handle, appends: self.appends })
    }
}

/// Reads a file.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    perform(Operation::Look(path.as_ref()), || fs_err::read(path.as_ref()))
}

/// Reads a text file.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    perform(Operation::Look(path.as_ref()), || fs_err::read_to_string(path.as_ref()))
}

/// The entries of a folder.
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<fs_err::ReadDir> {
    perform(Operation::Look(path.as_ref()), || fs_err::read_dir(path.as_ref()))
}

/// Metadata of `path`, or of the target of a symbolic link.
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    perform(Operation::Look(path.as_ref()), || fs_err::metadata(path.as_ref()))
}

/// Metadata of `path`, without following a symbolic link.
pub fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    perform(Operation::Look(path.as_ref()), || fs_err::symlink_metadata(path.as_ref()))
}

/// Writes `content` to a file, which is created or replaced.
pub fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
    File::create(path)?.write_all(content.as_ref())
}

/// Copies the content of a file, without its permissions, and returns its length in bytes.
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let content = read(from)?;
    write(to, &content)?;
    Ok(content.len() as u64)
}

/// Creates a folder.
pub fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    perform(Operation::MakeFolder(path.as_ref()), || fs_err::create_dir(path.as_ref()))
}

/// Creates a folder and its missing parents.
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_dir_all(parent)?;
    }
    match create_dir(path) {
        Err(_) if path.is_dir() => Ok(()),
        result => result,
    }
}

/// Unlinks a file.
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    perform(Operation::Remove(path.as_ref()), || fs_err::remove_file(path.as_ref()))
}

/// Removes an empty folder.
pub fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    perform(Operation::RemoveFolder(path.as_ref()), || fs_err::remove_dir(path.as_ref()))
}

/// Removes a folder with its content.
pub fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    for entry in read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { remove_dir_all(entry.path())? } else { remove_file(entry.path())? }
    }
    remove_dir(path)
}

/// Renames `from` to `to`, and replaces a file of that name.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    perform_or_skip(Operation::Rename { from, to }, || fs_err::rename(from, to))
}

/// Links the file `from` as `to`.
pub fn hard_link(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    perform(Operation::Link { from, to }, || fs_err::hard_link(from, to))
}

/// Sets the times of a file's last access and change to now: the world's time, else its file system's time.
pub fn touch(file: &File) -> io::Result<()> {
    perform(Operation::Touch(file.handle), || set_times(file, world().map(|world| world.now())))
}

/// Sets the times of a file's last access and change to `time`, or to now.
pub fn set_times(file: &File, time: Option<SystemTime>) -> io::Result<()> {
    let time = || {
        let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        since.map_or(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }, |since| Timespec {
            tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: since.subsec_nanos().into(),
        })
    };
    Ok(futimens(file, &Timestamps { last_access: time(), last_modification: time() })?)
}

/// Waits for the operating system's exclusive lock on a file.
pub fn lock(file: &File) -> io::Result<()> {
    if world().is_none() {
        return Ok(flock(file, FlockOperation::LockExclusive)?);
    }
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => pause(Duration::from_millis(1)),
        }
    }
}

/// Syncs all data to the world's disk.
pub fn sync_file_system(folder: &File) -> io::Result<()> {
    let _ = folder;
    perform_or_skip(Operation::SyncAll, || Ok(()))
}

/// Announces that a function outside of this module is about to read `path`.
pub fn look(path: &Path) -> io::Result<()> {
    perform(Operation::Look(path), || Ok(()))
}

/// Sleeps for `time`, by the world's clock if there is a world.
pub fn pause(time: Duration) {
    match world() {
        Some(world) => world.pause(time),
        None => thread::sleep(time),
    }
}

/// A file with a temporary name. Dropping it removes that name, unless the file was renamed.
#[derive(Debug)]
pub struct NamedTempFile {
    path: PathBuf,
    file: File,
    is_kept: bool,
}

/// The failure to rename a temporary file.
#[derive(Debug)]
pub struct PersistError {
    /// The reason.
    pub error: io::Error,
}

impl From<PersistError> for io::Error {
    fn from(error: PersistError) -> Self {
        error.error
    }
}

impl NamedTempFile {
    /// Creates a file in a folder.
    pub fn new_in(folder: impl AsRef<Path>) -> io::Result<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.as_ref().join(format!(".tmp{}-{number}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        Ok(Self { path, file, is_kept: false })
    }

    /// Its temporary name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// Renames the file to `to`, and replaces a file of that name.
    pub fn persist(mut self, to: impl AsRef<Path>) -> Result<(), PersistError> {
        rename(&self.path, to).map_err(|error| PersistError { error })?;
        self.is_kept = true;
        Ok(())
    }

    /// Renames the file to `to`, and fails if that exists.
    pub fn persist_noclobber(self, to: impl AsRef<Path>) -> Result<(), PersistError> {
        hard_link(&self.path, to).map_err(|error| PersistError { error })
    }
}

impl Write for NamedTempFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.file.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NamedTempFile {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = remove_file(&self.path);
        }
    }
}

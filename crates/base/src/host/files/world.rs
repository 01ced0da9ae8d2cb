//! The simulated machine that a thread runs on.

use std::{
    cell::RefCell,
    io,
    path::Path,
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use super::File;

/// A file operation, before it takes place. A handle is the number of an open file, unique in its process.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'a> {
    /// A read, which changes nothing.
    Look(&'a Path),
    /// A file is opened.
    Open {
        /// The file.
        path: &'a Path,
        /// The handle that the open file gets.
        handle: u64,
        /// True if a missing file is created.
        creates: bool,
        /// True if the content is removed.
        truncates: bool,
    },
    /// Bytes are written at the end or at a place.
    Write {
        /// The open file.
        handle: u64,
        /// The first byte's place.
        at: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A file is cut, or lengthened with zeros.
    SetLength {
        /// The open file.
        handle: u64,
        /// Its length.
        length: u64,
    },
    /// The data of a file, or the names in a folder, go to the disk.
    Sync(u64),
    /// Everything that was written goes to the disk.
    SyncAll,
    /// A name is replaced.
    Rename {
        /// The name.
        from: &'a Path,
        /// The new name.
        to: &'a Path,
    },
    /// A file gets a further name.
    Link {
        /// A name.
        from: &'a Path,
        /// The further name.
        to: &'a Path,
    },
    /// A file's name is removed.
    Remove(&'a Path),
    /// A folder is created.
    MakeFolder(&'a Path),
    /// An empty folder is removed.
    RemoveFolder(&'a Path),
    /// A lock of the operating system is tried, or given back.
    Lock(u64),
    /// The time of a file's last change is set to now.
    Touch(u64),
}

/// The identity of a simulated engine, by which leases distinguish running engines from dead ones.
#[derive(Debug, Clone)]
pub struct Place {
    /// Name of the machine.
    pub host: String,
    /// Identifier of the machine's current run.
    pub boot: String,
    /// The process.
    pub pid: u32,
    /// Start of the process.
    pub begun: u64,
}

/// A bug that a test plants, to show that its search finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Planted {
    /// The record's file is not synced.
    RecordNotSynced,
    /// The job's files are not synced.
    FilesNotSynced,
    /// The folders of a commit are not synced before its rename.
    StagingNotSynced,
    /// The folder that a record is renamed into is not synced.
    ShardNotSynced,
    /// The name of a new folder of records is not synced.
    StoreNotSynced,
    /// The name of the store's folder is not synced.
    ResultsNotSynced,
    /// The name of a new folder of results is not synced.
    ProjectNotSynced,
    /// The set of files that a program read is not synced.
    SetNotSynced,
    /// The line of a manifest is not synced.
    LineNotSynced,
    /// The record is renamed before its files are synced.
    RenameBeforeSync,
    /// A commit fills the final folder file by file.
    FilledInPlace,
    /// A write that fails counts as done.
    ErrorIgnored,
    /// The record is not looked for again under the lock.
    NoLookUnderLock,
    /// A commit replaces the record of another holder.
    DoubleCommit,
    /// Whoever sees a dead lease removes the lock's name, whatever it is by then.
    LeaseWithoutHeir,
    /// A holder removes the lock's name without a check of its owner.
    LeaseOfAnother,
    /// The age of a lease is measured by this machine's clock.
    OwnClock,
    /// A lease that was renewed in the future, after the clock went back, counts as abandoned.
    ClockBack,
    /// A lease is not renewed.
    NoRenewal,
    /// A lease never ends.
    EternalLease,
    /// The name of a lock is removed after the lock is given back.
    NameAfterLock,
    /// A lock counts although its file has been replaced.
    NoIdentityOfLock,
    /// A torn line is not cut off before the next one is appended.
    TornLineStays,
    /// Holders of a lease share a staging folder.
    SharedStaging,
    /// Records are removed while an engine uses the store.
    RemovalInUse,
    /// A process that begins to share a store removes the leases of a process that began earlier.
    LeasesCleared,
}

/// The machine that a thread runs on.
pub trait World: Send + Sync {
    /// Performs an operation: calls `act`, which returns the operating system's result, unless the operation fails or is skipped.
    fn perform(&self, operation: &Operation<'_>, act: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;
    /// Lets time pass for this engine.
    fn pause(&self, time: Duration);
    /// The time of the file server.
    fn now(&self) -> SystemTime;
    /// The difference between the clocks of this engine and of the file server.
    fn skew(&self) -> Duration;
    /// Renews a lease from now on.
    fn keep_alive(&self, file: Weak<File>);
    /// The identity of this engine.
    fn place(&self) -> Place;
    /// Start of a process of this engine's machine; `None` if it has ended.
    fn begun(&self, pid: u32) -> Option<u64>;
    /// True if this bug is planted.
    fn planted(&self, bug: Planted) -> bool;
}

thread_local! {
    static WORLD: RefCell<Option<Arc<dyn World>>> = const { RefCell::new(None) };
}

/// Keeps a thread in a world.
#[must_use]
#[derive(Debug)]
pub struct Entered(());

impl Entered {
    /// Lets this thread run in `world` until the value is dropped.
    pub fn new(world: Arc<dyn World>) -> Self {
        WORLD.set(Some(world));
        Self(())
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        WORLD.set(None);
    }
}

/// The world of this thread.
pub(super) fn world() -> Option<Arc<dyn World>> {
    WORLD.with_borrow(Clone::clone)
}

/// The identity of this thread's engine; `None` outside of a world.
pub fn place() -> Option<Place> {
    world().map(|world| world.place())
}

/// Start of a process of this thread's machine; `None` outside of a world.
pub fn begun(pid: u32) -> Option<Option<u64>> {
    world().map(|world| world.begun(pid))
}

/// Renews a lease from now on. `false` outside of a world.
pub fn keep_alive(file: &Arc<File>) -> bool {
    world().is_some_and(|world| {
        world.keep_alive(Arc::downgrade(file));
        true
    })
}

/// The time by the clock of this thread's engine; `None` outside of a world.
pub fn local_now() -> Option<SystemTime> {
    world().map(|world| world.now() + world.skew())
}

/// True if this thread's world has planted this bug.
pub fn planted(bug: Planted) -> bool {
    world().is_some_and(|world| world.planted(bug))
}

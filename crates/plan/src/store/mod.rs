//! Records of finished jobs, by key, and the right to write missing ones.
//!
//! A record's folder is written beside the store, synced, and renamed into it: it appears atomically, and is never edited. [`Store::claim`]
//! returns `Hit`, or `Miss` with the [`Pending`] that holds the job's lock and is the only thing that can write its record, or `Busy` while
//! another process holds the lock.
//!
//! `index.rs` has one line for each record and one for its metrics, both derived and repaired; `manifests.rs` the files that
//! jobs were observed to read and their environments; `states.rs` states that jobs leave for longer ones; `decisions.rs` the
//! decisions of searches; `adopt.rs` records that follow from others; `origin.rs` where records came from, `notes.rs` tags and notes of people. `lock.rs` locks by the
//! operating system, `lease.rs` in a store that several machines use, and `own.rs` has the file that a process's locks are
//! links to, and `settled.rs` the names that are on the disk. Commits that overlap share their syncs (`syncs.rs`). `gc.rs`, `verify.rs` and `transfer.rs` implement `sweep
//! cache`.
//!
//! ```text
//! results/store/<k[0..2]>/<key>/      record.json (its digest first), files/, origin.json if it was made elsewhere;
//!                                     record.damaged.json if the files were found damaged and the job has to run again
//! results/store/format                version of the layout
//! results/store/index.jsonl, measured.jsonl   lines for records, valid for the record's file as it is; derived
//! results/store/digests.json          digests of inputs by path, size, times and inode; derived
//! results/store/reports.json          the recipe of each folder of reports
//! results/store/manifests/            list.jsonl, sets/, environments/
//! results/store/notes/<key>.json      tags and notes on a record
//! results/store/decisions/            decisions of searches
//! results/store/states/<step>/<key>/  state.json, files/
//! results/store/staging/, locks/      records that are being written, and their writers
//! results/store/partial/<key>/        checkpoints that an attempt keeps for the next attempt
//! results/store/in-use                locked by every sweep that uses the store
//! results/runs/<time>-<pid>/          plan.json, journal.jsonl, logs/<key>.log, provenance.json, diff.patch, packages-<digest>.txt
//! results/reports/<recipe>/           index.html, jobs/, tables/, figures/, claims.json, setup.md
//! results/batch/, results/ray/        templates, tags of jobs and addresses of the latest run
//! ```
//!
//! A lock of the operating system ends with its process. The last holder removes the file while it still holds the lock; a
//! process that acquires a lock checks that the file is still the one in the folder.

mod adopt;
mod decisions;
mod disk;
mod gc;
mod index;
mod lease;
mod lines;
mod lock;
mod manifests;
mod notes;
mod origin;
mod own;
mod pending;
mod settled;
mod states;
mod syncs;
mod transfer;
mod turns;
mod under;
mod verify;

use std::{
    collections::HashSet,
    fs::Permissions,
    io::{self, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::{fs::OFlags, io::Errno};
use sweep_base::planted;
use tracing::{field, info_span};

pub use self::lease::Presence;
pub use self::pending::{CONTRACT, OBSERVER, PARAMS, READS, REPORT, SHARED_FILES, TRACKING};
pub use self::turns::{out_of_turn, overlapping, turns};
pub use self::verify::wrong_key;
pub use self::{
    decisions::{Decision, Member},
    gc::{Garbage, GcError},
    index::{Looked, Stamp},
    lines::{Entry, Measured},
    lock::{Held, InUse},
    notes::{Note, NoteChange, NoteError, Notes},
    origin::Origin,
    pending::Pending,
    states::State,
    transfer::{Imported, TransferError},
    under::Under,
    verify::{Defect, Verified},
};
use self::{
    lock::Lock,
    own::{Own, Present},
    settled::Settled,
    syncs::Syncs,
};
use crate::{
    format::say,
    host::{self, files as fs},
    record::{Key, Record, RecordError},
};

/// Version of the store's layout, which is in the file `format`. 1: first.
pub const STORE_FORMAT: u32 = 1;

/// The file that marks a store as shared among machines.
const SHARED: &str = "shared";

/// A folder of records.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    /// Syncs that the commits to the store share.
    syncs: Arc<Syncs>,
    own: Arc<Own>,
    /// Names in the store that are on the disk.
    settled: Arc<Settled>,
}

/// Answer of the store about a job that is about to run.
#[derive(Debug)]
pub enum Claim {
    /// The job is done.
    Hit(Box<Record>),
    /// The job is not done, and no other process has claimed it.
    Miss(Pending),
    /// Another process has claimed it.
    Busy,
}

/// Error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An I/O error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A record cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The store comes from a later version.
    #[error(
        "the store {path} has format {found}, but this program supports formats up to {STORE_FORMAT}: use a newer \
        version"
    )]
    StoreTooNew {
        /// The store.
        path: PathBuf,
        /// The store's format.
        found: String,
    },
}

impl StoreError {
    /// True if the next job would fail, too: the disk is full, or not writable.
    pub fn is_lasting(&self) -> bool {
        use io::ErrorKind::{NotADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let lasting = [StorageFull, QuotaExceeded, ReadOnlyFilesystem, PermissionDenied, NotADirectory];
        matches!(self, Self::Io(error) if lasting.contains(&error.kind()))
    }
}

impl Store {
    /// The store below a results folder. No file is created before the first write.
    pub fn new(results: &Path) -> Self {
        Self { root: results.join("store"), syncs: Arc::default(), own: Arc::default(), settled: Arc::default() }
    }

    /// Like [`Store::new`], but fails if a later version of this program has created the store.
    pub fn open(results: &Path) -> Result<Self, StoreError> {
        let store = Self::new(results);
        match fs::read_to_string(store.root.join("format")) {
            Ok(text) if text.trim().parse::<u32>().is_ok_and(|format| format <= STORE_FORMAT) => Ok(store),
            // Torn by a crash during the creation of the store, which therefore has no files of a later version.
            Ok(text) if text.trim().is_empty() => Ok(store),
            Ok(text) => {
                let found = text.trim().chars().take(20).collect();
                Err(StoreError::StoreTooNew { path: store.root, found })
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(store),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the results folder, which contains the store, the runs and the reports.
    pub fn results(&self) -> &Path {
        self.root.parent().unwrap_or(Path::new("."))
    }

    /// Returns the record of a job, if it is done.
    pub fn get(&self, key: Key) -> Result<Option<Record>, StoreError> {
        Ok(self.text(key)?.map(|text| Record::parse(&text, &self.record_file(key), key)).transpose()?)
    }

    /// The text of a job's record, if there is one.
    fn text(&self, key: Key) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.record_file(key);
        fs::look(&path)?;
        let no_file =
            || StoreError::Record(RecordError::Damaged { path: path.clone(), reason: "it is not a file".into() });
        // Without `NONBLOCK`, opening a pipe without a writer would never return.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut file = match std::fs::File::options().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::LOOP | Errno::NXIO) => no_file(),
                    _ => io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display())).into(),
                });
            }
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(no_file());
        }
        let mut text = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
        file.read_to_end(&mut text)?;
        Ok(Some(text))
    }

    /// True if a job has a record; [`Store::look`] checks that it is valid.
    pub fn contains(&self, key: Key) -> bool {
        self.record_file(key).symlink_metadata().is_ok_and(|record| record.is_file())
    }

    /// The keys of all records, including records that cannot be read.
    pub fn keys(&self) -> io::Result<Vec<Key>> {
        let mut keys = Vec::new();
        for shard in entries(&self.root)? {
            // Folders of records have names of two digits; all other folders have longer names.
            if shard.file_name().is_none_or(|name| name.len() != 2) {
                continue;
            }
            let names = entries(&shard)?.into_iter().filter_map(|path| path.file_name()?.to_str()?.parse::<Key>().ok());
            keys.extend(names);
        }
        keys.sort_unstable();
        Ok(keys)
    }

    /// The keys of all records that begin with these digits.
    pub fn keys_from(&self, prefix: &str) -> io::Result<Vec<Key>> {
        Ok(self.keys()?.into_iter().filter(|key| key.to_string().starts_with(prefix)).collect())
    }

    /// True if a job is done, or no process has claimed it.
    pub fn is_free(&self, key: Key) -> bool {
        self.contains(key) || !self.is_locked(key)
    }

    /// Returns the keys of claimed jobs, including claims of killed processes, which [`Store::is_free`] distinguishes.
    pub fn claimed(&self) -> HashSet<Key> {
        let locks = entries(&self.locks()).unwrap_or_default();
        locks.into_iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect()
    }

    /// Announces a reader of the store, so that nothing is removed meanwhile. Waits, with a message, during a removal.
    pub fn hold(&self) -> io::Result<InUse> {
        const POLL_INTERVAL: Duration = Duration::from_millis(50);
        let mut has_warned = false;
        loop {
            if let Some(in_use) = InUse::shared(&self.root, self.is_shared())? {
                // Other processes may have removed names up to now, but do not while this process holds the lock.
                self.settled.clear();
                return Ok(in_use);
            }
            if !std::mem::replace(&mut has_warned, true) && !cfg!(feature = "simulate") {
                say(format_args!("waiting for `sweep cache gc`, which removes records from this store"));
            }
            fs::pause(POLL_INTERVAL);
        }
    }

    /// Takes the lock of this name, which does not belong to a job; `None` while another process holds it.
    pub fn lock(&self, name: &str) -> io::Result<Option<Held>> {
        self.create()?;
        Ok(Lock::try_take(&self.locks(), name, self.is_shared())?.map(Held))
    }

    /// Creates a folder beside the records, on the same disk, for incomplete files.
    pub fn beside(&self) -> io::Result<PathBuf> {
        self.create()?;
        Ok(self.root.clone())
    }

    /// True if several machines use it, so that its locks are leases.
    pub fn is_shared(&self) -> bool {
        self.root.join(SHARED).is_file()
    }

    /// Marks the store as shared among machines. Returns false while a sweep uses it that relies on the locks of this machine.
    pub fn share(&self) -> io::Result<bool> {
        self.create()?;
        if self.is_shared() {
            return Ok(true);
        }
        let Some(_in_use) = InUse::alone(&self.root, false)? else { return Ok(false) };
        // Another process may have marked it since the check, and may hold leases by now.
        if self.is_shared() && !planted!(LeasesCleared) {
            return Ok(true);
        }
        self.clear_locks()?;
        let file = fs::File::create(self.root.join(SHARED))?;
        file.sync_all()?;
        fs::File::open(&self.root)?.sync_all()?;
        Ok(true)
    }

    /// Removes the files of locks whose processes were killed. As leases they would count as new leases that are about
    /// to be written, and other processes would wait for them to expire.
    fn clear_locks(&self) -> io::Result<()> {
        let entries = match fs::read_dir(self.locks()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let name = entry?.file_name();
            // Dropping the lock removes its file.
            drop(name.to_str().map(|name| Lock::try_take(&self.locks(), name, false)).transpose()?);
        }
        Ok(())
    }

    /// True if a process has claimed a job.
    fn is_locked(&self, key: Key) -> bool {
        Lock::is_held(&self.locks(), &key.to_string(), self.is_shared())
    }

    /// Unique identifier of this store, which is created at the first request.
    pub fn id(&self) -> io::Result<String> {
        self.create()?;
        let path = self.root.join("id");
        loop {
            match fs::read_to_string(&path) {
                Ok(id) => return Ok(id.trim().to_owned()),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Err(_) => {}
            }
            let mut file = fs::NamedTempFile::new_in(&self.root)?;
            let random =
                blake3::hash(format!("{:?}{}", std::time::SystemTime::now(), file.path().display()).as_bytes());
            file.write_all(format!("{}\n", &random.to_hex()[..8]).as_bytes())?;
            file.as_file().sync_all()?;
            match file.persist_noclobber(&path) {
                Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => return Err(error.error),
                _ => {}
            }
        }
    }

    /// Folder of the entries of the project's ledger, which may not exist yet.
    pub fn ledger(&self) -> PathBuf {
        self.root.join("ledger")
    }

    /// Files of this process in the store; `None` if other machines share the store.
    fn own(&self) -> Option<&Present> {
        if self.is_shared() { None } else { self.own.at(&self.root) }
    }

    fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }

    fn staging(&self, key: Key) -> PathBuf {
        self.root.join("staging").join(key.to_string())
    }

    /// The folder of files that an attempt leaves for the next attempt.
    fn partial(&self, key: Key) -> PathBuf {
        self.root.join("partial").join(key.to_string())
    }

    /// Folder of a job's record and artifacts, which may not exist yet.
    pub fn folder(&self, key: Key) -> PathBuf {
        let name = key.to_string();
        self.root.join(&name[..2]).join(name)
    }

    /// A job's record.
    pub fn record_file(&self, key: Key) -> PathBuf {
        self.folder(key).join("record.json")
    }

    /// The file that remembers digests of input files.
    pub fn digests(&self) -> PathBuf {
        self.root.join("digests.json")
    }

    /// Folder of the artifacts of a finished job.
    pub fn files(&self, key: Key) -> PathBuf {
        self.folder(key).join("files")
    }

    /// A job's record, if it can be read; the next commit replaces a damaged record.
    fn readable(&self, key: Key) -> Result<Option<Record>, StoreError> {
        match self.get(key) {
            Err(StoreError::Record(RecordError::Damaged { .. })) => Ok(None),
            other => other,
        }
    }

    /// File of a record that was withdrawn.
    fn condemned(&self, key: Key) -> PathBuf {
        self.folder(key).join("record.damaged.json")
    }

    /// Withdraws a record, so that its job runs again, if `unfit` returns true. `unfit` is called while this process holds the job's lock.
    pub fn condemn(&self, key: Key, unfit: impl FnOnce() -> bool) -> io::Result<()> {
        // The holder of the lock is writing the record again.
        let Some(_lock) = Lock::try_take(&self.locks(), &key.to_string(), self.is_shared())? else { return Ok(()) };
        if unfit() {
            host::failpoints::point("store: before a record is taken back")?;
            fs::rename(self.record_file(key), self.condemned(key))?;
        }
        Ok(())
    }

    /// Requests the right to run a job.
    pub fn claim(&self, key: Key) -> Result<Claim, StoreError> {
        let span = info_span!(target: host::log::CLAIM, "claim", key = key.short(), answer = field::Empty);
        let claim = span.in_scope(|| self.try_claim(key));
        span.record(
            "answer",
            match &claim {
                Ok(Claim::Hit(_)) => "done already",
                Ok(Claim::Miss(_)) => "acquired",
                Ok(Claim::Busy) => "refused: another process holds it",
                Err(_) => "failed",
            },
        );
        claim
    }

    fn try_claim(&self, key: Key) -> Result<Claim, StoreError> {
        if let Some(record) = self.readable(key)? {
            return Ok(Claim::Hit(Box::new(record)));
        }
        self.create()?;
        host::failpoints::point("claim: before the lock")?;
        let (locks, name) = (self.locks(), key.to_string());
        let lock = match self.own() {
            Some(own) => Lock::try_link(&locks, &name, own)?,
            None => Lock::try_take(&locks, &name, self.is_shared())?,
        };
        let Some(lock) = lock else { return Ok(Claim::Busy) };
        // Another process may have finished the job between the lookup and the lock.
        if !planted!(NoLookUnderLock)
            && let Some(record) = self.readable(key)?
        {
            return Ok(Claim::Hit(Box::new(record)));
        }
        Ok(Claim::Miss(Pending::begin(self.clone(), key, lock)?))
    }
}

/// The entries of a folder; empty if the folder does not exist.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Removes a folder with its content, even if a program or an overlay has removed its owner's permissions.
pub fn remove_if_there(folder: &Path) -> io::Result<()> {
    /// Number of attempts: a worker that is about to end may add files while the folder is emptied.
    const MAX_TRIES: usize = 100;
    let mut is_open = false;
    for _ in 0..MAX_TRIES {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => fs::pause(Duration::from_millis(1)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_open => {
                open_folders(folder)?;
                is_open = true;
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        }
    }
    fs::remove_dir_all(folder)
}

/// Lets the owner of a folder enter and change it and all folders in it.
fn open_folders(folder: &Path) -> io::Result<()> {
    std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

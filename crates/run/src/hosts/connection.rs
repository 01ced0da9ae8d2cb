//! The connection to a host, which connects again by itself.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, atomic::Ordering},
    thread,
};

use fs_err as fs;

use super::{
    Cleaned, HostError, InputTree, Probe, Shipment, SpooledJob, StartJob, Started, Stop, Submitter, Target,
    link::{Waiting, lock},
    session::{Shared, State},
    ssh::Counts,
    trees::Tree,
    wire::{Ask, Stock},
};
use crate::{format::quantity, host::finding::Finding, record::Key};

/// Uploads of more bytes than this are reported.
const LARGE: u64 = 8 << 20;

/// Something that happened on a host.
#[derive(Debug)]
pub enum HostEvent {
    /// The host is connected.
    Connected(Box<Probe>),
    /// The connection was lost, or could not be opened; it is tried again.
    Lost(HostError),
    /// A line of the journal of a job, without its end. Its paths are paths of the host.
    Said {
        /// The job.
        key: Key,
        /// The place in the journal at which the line begins, in bytes.
        at: u64,
        /// The line.
        line: String,
    },
    /// A job's process has ended, and all lines of its journal were delivered.
    Ended {
        /// The job.
        key: Key,
        /// True if it has a record.
        has_record: bool,
    },
    /// A sentence about something that takes a while.
    Note(String),
}

/// Files and records that were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shipped {
    /// Files.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
    /// Records.
    pub records: usize,
}

/// A tree to send, with a file for each of its digests.
struct Sources<'a> {
    digest: &'a str,
    tree: &'a Tree,
    files: &'a BTreeMap<String, PathBuf>,
}

/// Bytes that have gone through connections to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// To the host.
    pub sent: u64,
    /// From the host.
    pub received: u64,
}

/// A host. Calls block until the host has answered, and fail at once while there is no connection. When the value is
/// dropped, the connection ends; jobs on the host continue.
pub struct Connection {
    shared: Arc<Shared>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("target", &self.shared.target).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects in the background. `tell` is called on threads of the connection, and must not call its methods.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn open(
        target: Target,
        submitter: Submitter,
        tell: impl Fn(HostEvent) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let initial_error = HostError::Away { host: target.host.clone(), reason: "it is not connected yet".into() };
        let shared = Arc::new(Shared {
            target,
            submitter,
            tell: Box::new(tell),
            counts: Arc::default(),
            state: Mutex::new(State::Away(initial_error)),
            changed: Condvar::new(),
            closing: false.into(),
            follows: Mutex::default(),
            known: Mutex::default(),
            preparing: Mutex::default(),
        });
        let connection = Arc::clone(&shared);
        thread::Builder::new()
            .name(format!("host {}", shared.target.host))
            .spawn(move || connection.stay_connected())?;
        Ok(Self { shared })
    }

    /// The host.
    pub fn target(&self) -> &Target {
        &self.shared.target
    }

    /// True if there is a connection now.
    pub fn is_connected(&self) -> bool {
        matches!(*lock(&self.shared.state), State::Live(_))
    }

    /// Bytes that have gone each way since it was opened.
    pub fn traffic(&self) -> Traffic {
        let Counts { sent, received } = &*self.shared.counts;
        Traffic { sent: sent.load(Ordering::Relaxed), received: received.load(Ordering::Relaxed) }
    }

    /// Sends the files and records that a job needs and the host does not have.
    pub fn prepare<'a>(&self, shipment: &'a Shipment) -> Result<Shipped, HostError> {
        let _alone = lock(&self.shared.preparing);
        let known_digests = lock(&self.shared.known).clone();
        let Shipment { project, inputs, .. } = shipment;
        let mut trees = vec![Sources { digest: project.digest(), tree: project.tree(), files: project.sources() }];
        let of_input =
            |input: &'a InputTree| Sources { digest: input.digest(), tree: input.tree(), files: input.sources() };
        trees.extend(inputs.iter().map(of_input));
        trees.retain(|tree| !known_digests.contains(tree.digest));
        let mut records = shipment.records.clone();
        records.retain(|key| !known_digests.contains(&key.to_string()));
        let mut totals = Shipped::default();
        if trees.is_empty() && records.is_empty() {
            return Ok(totals);
        }
        let digests = trees.iter().map(|tree| tree.digest.to_owned()).collect();
        let missing_stock = self.missing(&Stock { trees: digests, records: records.clone(), ..Stock::default() })?;
        for tree in &trees {
            if missing_stock.trees.iter().any(|digest| digest == tree.digest) {
                self.send_tree(tree, &mut totals)?;
            }
            lock(&self.shared.known).insert(tree.digest.to_owned());
        }
        for key in &records {
            if missing_stock.records.contains(key) {
                self.send_record(*key, shipment)?;
                totals.records += 1;
            }
            lock(&self.shared.known).insert(key.to_string());
        }
        Ok(totals)
    }

    /// Starts a job with whose [`Shipment`] the host was prepared, and follows it. A repeated start has no effect.
    pub fn start(&self, job: &StartJob) -> Result<Started, HostError> {
        let text = serde_json::to_vec(job).map_err(|error| HostError::Here(error.to_string()))?;
        // Registered before the request, so that no output of the job is missed.
        lock(&self.shared.follows).insert(job.key, 0);
        let response = self.request(&Ask::Start, text.as_slice()).and_then(|response| response.value());
        if let Err(error) = &response {
            if matches!(error, HostError::Missing { .. }) {
                lock(&self.shared.known).clear();
            }
            if !error.is_away() {
                lock(&self.shared.follows).remove(&job.key);
            }
        }
        response
    }

    /// Follows a job that another process has started, from its first line.
    pub fn follow(&self, key: Key) -> Result<(), HostError> {
        if lock(&self.shared.follows).insert(key, 0).is_some() {
            return Ok(());
        }
        self.request(&Ask::Follow { key, from: 0 }, io::empty())?.whole().map(drop)
    }

    /// The jobs of the store on the host.
    pub fn jobs(&self) -> Result<Vec<SpooledJob>, HostError> {
        self.request(&Ask::Jobs, io::empty())?.value()
    }

    /// Returns the compute devices that the drivers of the host report.
    pub fn devices(&self) -> Result<sweep_job::Probe, HostError> {
        self.request(&Ask::Devices, io::empty())?.value()
    }

    /// Asks whether results can be written there.
    ///
    /// # Errors
    /// [`HostError::Full`] if the disk has no room for them.
    pub fn writes(&self) -> Result<(), HostError> {
        self.request(&Ask::Writes, io::empty())?.whole().map(drop)
    }

    /// Checks of the host that its own processes make: its folder, its disk, its programs.
    pub fn examine(&self) -> Result<Vec<Finding>, HostError> {
        self.request(&Ask::Examine, io::empty())?.value()
    }

    /// Writes a record to the archive `into`, and returns the archive's length in bytes. Length and digest are checked.
    pub fn fetch(&self, key: Key, into: &Path) -> Result<u64, HostError> {
        let local_error =
            |error: io::Error| HostError::Here(format!("the record {} cannot be kept: {error}", key.short()));
        let response = self.request(&Ask::Fetch { key }, io::empty())?;
        let mut file = fs::File::create(into).map_err(local_error)?;
        let mut hasher = blake3::Hasher::new();
        let digest = loop {
            let (part, is_last) = response.part()?;
            if is_last {
                break part;
            }
            hasher.update(&part);
            file.write_all(&part).map_err(local_error)?;
        };
        if digest != hasher.finalize().to_hex().as_bytes() {
            let reason = format!("the record {} has arrived damaged", key.short());
            return Err(HostError::Protocol { host: self.shared.target.host.clone(), reason });
        }
        Ok(hasher.count())
    }

    /// The log of a job from a place on, at most 1 MiB.
    pub fn log(&self, key: Key, from: u64) -> Result<Vec<u8>, HostError> {
        self.request(&Ask::Log { key, from }, io::empty())?.whole()
    }

    /// The output of the engine of a job.
    pub fn output(&self, key: Key) -> Result<Vec<u8>, HostError> {
        self.request(&Ask::Output { key }, io::empty())?.whole()
    }

    /// Stops jobs. Jobs that have ended are left alone.
    pub fn cancel(&self, keys: &[Key], how: Stop) -> Result<(), HostError> {
        self.request(&Ask::Cancel { keys: keys.to_vec(), how }, io::empty())?.whole().map(drop)
    }

    /// Removes the remains of a job's run except its record, which other jobs may need; [`Connection::clean`] removes it.
    pub fn forget(&self, key: Key) -> Result<(), HostError> {
        self.request(&Ask::Forget { key }, io::empty())?.whole()?;
        lock(&self.shared.follows).remove(&key);
        Ok(())
    }

    /// Removes programs of other versions, files, and records of all stores that were fetched.
    pub fn clean(&self) -> Result<Cleaned, HostError> {
        let response = self.request(&Ask::Clean, io::empty())?.value();
        lock(&self.shared.known).clear();
        response
    }

    fn request(&self, ask: &Ask, body: impl Read) -> Result<Waiting, HostError> {
        let link = match &*lock(&self.shared.state) {
            State::Live(link) => Arc::clone(link),
            State::Away(error) if error.is_lasting() => return Err(error.clone()),
            State::Away(error) => {
                let host = self.shared.target.host.clone();
                return Err(HostError::Away { host, reason: error.to_string() });
            }
        };
        link.ask(ask, body)
    }

    fn missing(&self, stock: &Stock) -> Result<Stock, HostError> {
        let text = serde_json::to_vec(stock).map_err(|error| HostError::Here(error.to_string()))?;
        self.request(&Ask::Have, text.as_slice())?.value()
    }

    fn send_tree(&self, sources: &Sources<'_>, totals: &mut Shipped) -> Result<(), HostError> {
        let Sources { digest, tree, files: sources } = *sources;
        let mut blobs: Vec<String> = tree.blobs().map(str::to_owned).collect();
        blobs.sort_unstable();
        blobs.dedup();
        let missing_stock = self.missing(&Stock { blobs, ..Stock::default() })?;
        let mut files = Vec::new();
        for blob in missing_stock.blobs {
            let path =
                sources.get(&blob).ok_or_else(|| HostError::Project(format!("no file has the digest {blob}")))?;
            let read_error =
                |error: io::Error| HostError::Project(format!("{} cannot be sent: {error}", path.display()));
            let file = fs::File::open(path).map_err(read_error)?;
            let bytes = file.metadata().map_err(read_error)?.len();
            files.push((blob, file, bytes));
        }
        let bytes: u64 = files.iter().map(|(.., bytes)| bytes).sum();
        if bytes > LARGE {
            let (count, bytes) = (files.len(), quantity(bytes as f64, sweep_job::Unit::Bytes));
            let files = crate::format::count(count, "file");
            (self.shared.tell)(HostEvent::Note(format!("{}: {files} are sent, {bytes}", self.shared.target.host)));
        }
        let mut uploads = Vec::new();
        for (blob, file, bytes) in files {
            let path = file.path().to_owned();
            uploads.push((path, self.request(&Ask::Put { digest: blob }, file)?));
            totals.files += 1;
            totals.bytes += bytes;
        }
        for (path, response) in uploads {
            response.whole().map_err(|error| match error {
                HostError::Missing { .. } => {
                    HostError::Project(format!("{} has changed since the sweep began; run again", path.display()))
                }
                error => error,
            })?;
        }
        let text = serde_json::to_vec(tree).map_err(|error| HostError::Here(error.to_string()))?;
        self.request(&Ask::Tree { digest: digest.to_owned() }, text.as_slice())?.whole().map(drop)
    }

    fn send_record(&self, key: Key, shipment: &Shipment) -> Result<(), HostError> {
        let local_error =
            |error: &dyn fmt::Display| HostError::Here(format!("the record {} cannot be sent: {error}", key.short()));
        let mut file = tempfile::tempfile().map_err(|error| local_error(&error))?;
        shipment.store.export(&[key].into(), &mut file).map_err(|error| local_error(&error))?;
        io::Seek::rewind(&mut file).map_err(|error| local_error(&error))?;
        self.request(&Ask::Record { key }, file)?.whole().map(drop)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        if let State::Live(link) = &*lock(&self.shared.state) {
            link.kill();
        }
        self.shared.changed.notify_all();
    }
}

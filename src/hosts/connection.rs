//! The connection to a host, which connects again by itself.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    io::{self, Read, Write as _},
    path::Path,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fs_err as fs;

use super::{
    Cleaned, HostError, Probe, Shipment, SpooledJob, StartJob, Started, Stop, Submitter, Target,
    link::{Answer, Link, Waiting, lock},
    ssh::{Counts, Program, Ssh, last_words},
    trees::Tree,
    wire::{self, Ask, Frame, PROTOCOL, Say, Stock},
};
use crate::{format::quantity, host::clock, record::Key};

/// Shortest and longest pause before another try.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));
/// Uploads of more bytes than this are reported.
const LARGE: u64 = 8 << 20;

/// Something that happened on a host.
#[derive(Debug)]
pub enum HostEvent {
    /// It is connected.
    Connected(Box<Probe>),
    /// It is not connected any more, or cannot be; it is tried again.
    Lost(HostError),
    /// A line of the journal of a job, without its end. Paths in it are those of the host.
    Said {
        /// The job.
        key: Key,
        /// The place in the journal at which the line begins, in bytes.
        at: u64,
        /// The line.
        line: String,
    },
    /// A job's process has ended, and all its lines were said.
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

/// Bytes that have gone through connections to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// To the host.
    pub sent: u64,
    /// From the host.
    pub received: u64,
}

/// A host. Calls block until the host has answered, and fail at once while there is no connection. When it is dropped, the
/// connection ends; jobs on the host go on.
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    target: Target,
    submitter: Submitter,
    tell: Box<dyn Fn(HostEvent) + Send + Sync>,
    counts: Arc<Counts>,
    state: Mutex<State>,
    changed: Condvar,
    closing: AtomicBool,
    /// The jobs that are followed, and the places in their journals.
    follows: Mutex<HashMap<Key, u64>>,
    /// Trees and records that the host is known to have.
    known: Mutex<HashSet<String>>,
    /// Held by the one who sends files.
    preparing: Mutex<()>,
}

enum State {
    Away(HostError),
    Live(Arc<Link>),
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
        let away = HostError::Away { host: target.host.clone(), reason: "it is not connected yet".into() };
        let shared = Arc::new(Shared {
            target,
            submitter,
            tell: Box::new(tell),
            counts: Arc::default(),
            state: Mutex::new(State::Away(away)),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
            follows: Mutex::default(),
            known: Mutex::default(),
            preparing: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        thread::Builder::new().name(format!("host {}", shared.target.host)).spawn(move || own.stay_connected())?;
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

    /// Sends what a job needs and the host does not have.
    pub fn prepare(&self, shipment: &Shipment) -> Result<Shipped, HostError> {
        let _alone = lock(&self.shared.preparing);
        let mut trees: Vec<(String, &Tree, &dyn Fn(&str) -> Option<std::path::PathBuf>)> = Vec::new();
        let known = lock(&self.shared.known).clone();
        let project = |blob: &str| shipment.project.source(blob);
        trees.push((shipment.project.digest().to_owned(), shipment.project.tree(), &project));
        let sources: Vec<_> = shipment.inputs.iter().map(|input| |blob: &str| input.source(blob)).collect();
        for (input, source) in shipment.inputs.iter().zip(&sources) {
            trees.push((input.digest().to_owned(), input.tree(), source));
        }
        trees.retain(|(digest, ..)| !known.contains(digest));
        let mut records = shipment.records.clone();
        records.retain(|key| !known.contains(&key.to_string()));
        let mut shipped = Shipped::default();
        if trees.is_empty() && records.is_empty() {
            return Ok(shipped);
        }
        let digests = trees.iter().map(|(digest, ..)| digest.clone()).collect();
        let missing = self.missing(&Stock { trees: digests, records: records.clone(), ..Stock::default() })?;
        for (digest, tree, source) in &trees {
            if missing.trees.contains(digest) {
                self.send_tree(digest, tree, source, &mut shipped)?;
            }
            lock(&self.shared.known).insert(digest.clone());
        }
        for key in &records {
            if missing.records.contains(key) {
                self.send_record(*key, shipment)?;
                shipped.records += 1;
            }
            lock(&self.shared.known).insert(key.to_string());
        }
        Ok(shipped)
    }

    /// Starts a job with whose [`Shipment`] the host was prepared, and follows it. The same start twice is one.
    pub fn start(&self, job: &StartJob) -> Result<Started, HostError> {
        let text = serde_json::to_vec(job).map_err(|error| HostError::Here(error.to_string()))?;
        // Followed from the beginning, before it can say anything.
        lock(&self.shared.follows).insert(job.key, 0);
        let started = self.request(&Ask::Start, text.as_slice()).and_then(|waiting| waiting.value());
        if let Err(error) = &started {
            if matches!(error, HostError::Missing { .. }) {
                lock(&self.shared.known).clear();
            }
            if !error.is_away() {
                lock(&self.shared.follows).remove(&job.key);
            }
        }
        started
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

    /// The compute devices of the host, for which its drivers are asked.
    pub fn devices(&self) -> Result<sweep_job::Probe, HostError> {
        self.request(&Ask::Devices, io::empty())?.value()
    }

    /// Writes a record to an archive, and answers its length in bytes. Its length and its digest were checked.
    pub fn fetch(&self, key: Key, into: &Path) -> Result<u64, HostError> {
        let here = |error: io::Error| HostError::Here(format!("the record {} cannot be kept: {error}", key.short()));
        let waiting = self.request(&Ask::Fetch { key }, io::empty())?;
        let mut file = fs::File::create(into).map_err(here)?;
        let mut hasher = blake3::Hasher::new();
        let digest = loop {
            let (part, last) = waiting.part()?;
            if last {
                break part;
            }
            hasher.update(&part);
            file.write_all(&part).map_err(here)?;
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

    /// Stops jobs. Those that have ended need nothing.
    pub fn cancel(&self, keys: &[Key], how: Stop) -> Result<(), HostError> {
        self.request(&Ask::Cancel { keys: keys.to_vec(), how }, io::empty())?.whole().map(drop)
    }

    /// Removes what is left of a job's run, but for its record, which other jobs may need; [`Connection::clean`] removes it.
    pub fn forget(&self, key: Key) -> Result<(), HostError> {
        self.request(&Ask::Forget { key }, io::empty())?.whole()?;
        lock(&self.shared.follows).remove(&key);
        Ok(())
    }

    /// Removes programs of other versions, files, and records of all stores that were fetched.
    pub fn clean(&self) -> Result<Cleaned, HostError> {
        let cleaned = self.request(&Ask::Clean, io::empty())?.value();
        lock(&self.shared.known).clear();
        cleaned
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

    fn send_tree(
        &self,
        digest: &str,
        tree: &Tree,
        source: &dyn Fn(&str) -> Option<std::path::PathBuf>,
        shipped: &mut Shipped,
    ) -> Result<(), HostError> {
        let mut blobs: Vec<String> = tree.blobs().map(str::to_owned).collect();
        blobs.sort_unstable();
        blobs.dedup();
        let missing = self.missing(&Stock { blobs, ..Stock::default() })?;
        let mut files = Vec::new();
        for blob in missing.blobs {
            let path = source(&blob).ok_or_else(|| HostError::Project(format!("no file has the digest {blob}")))?;
            let unreadable =
                |error: io::Error| HostError::Project(format!("{} cannot be sent: {error}", path.display()));
            let file = fs::File::open(&path).map_err(unreadable)?;
            let bytes = file.metadata().map_err(unreadable)?.len();
            files.push((blob, file, bytes));
        }
        let bytes: u64 = files.iter().map(|(.., bytes)| bytes).sum();
        if bytes > LARGE {
            let (count, bytes) = (files.len(), quantity(bytes as f64, sweep_job::Unit::Bytes));
            let files = crate::format::count(count, "file");
            (self.shared.tell)(HostEvent::Note(format!("{}: {files} are sent, {bytes}", self.shared.target.host)));
        }
        let mut sent = Vec::new();
        for (blob, file, bytes) in files {
            let path = file.path().to_owned();
            sent.push((path, self.request(&Ask::Put { digest: blob }, file)?));
            shipped.files += 1;
            shipped.bytes += bytes;
        }
        for (path, waiting) in sent {
            waiting.whole().map_err(|error| match error {
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
        let here =
            |error: &dyn fmt::Display| HostError::Here(format!("the record {} cannot be sent: {error}", key.short()));
        let mut file = tempfile::tempfile().map_err(|error| here(&error))?;
        shipment.store.export(&[key].into(), &mut file).map_err(|error| here(&error))?;
        io::Seek::rewind(&mut file).map_err(|error| here(&error))?;
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

impl Shared {
    /// Connects, again and again, until the connection is dropped.
    fn stay_connected(&self) {
        let mut pause = PAUSES.0;
        let mut said: Option<HostError> = None;
        let mut program = None;
        while !self.closing.load(Ordering::SeqCst) {
            let begun = Instant::now();
            let mut was_connected = false;
            let error = self.session(&mut program, &mut was_connected);
            let mut state = lock(&self.state);
            *state = State::Away(error.clone());
            drop(state);
            if self.closing.load(Ordering::SeqCst) {
                return;
            }
            if was_connected || said.as_ref() != Some(&error) {
                (self.tell)(HostEvent::Lost(error.clone()));
            }
            if was_connected && begun.elapsed() > PAUSES.1 {
                pause = PAUSES.0;
            }
            let wait = if error.is_lasting() { PAUSES.1 } else { pause };
            pause = (pause * 2).min(PAUSES.1);
            said = Some(error);
            self.sleep(wait);
        }
    }

    /// Waits, or until the connection is dropped.
    fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = lock(&self.state);
        while !self.closing.load(Ordering::SeqCst) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// One connection, from its beginning to its end, which is the answer.
    fn session(&self, program: &mut Option<Program>, was_connected: &mut bool) -> HostError {
        let host = self.target.host.as_str();
        let (ssh, probe) = match self.connect(program) {
            Ok(connected) => connected,
            Err(error) => return error,
        };
        let Ssh { child, input, mut output, messages } = ssh;
        let link = match Link::new(host, input, &child, &self.counts) {
            Ok(link) => link,
            Err(error) => return HostError::Here(error.to_string()),
        };
        lock(&self.known).clear();
        *lock(&self.state) = State::Live(Arc::clone(&link));
        *was_connected = true;
        (self.tell)(HostEvent::Connected(Box::new(probe)));
        self.follow_again(&link);
        let defect = self.listen(&link, &mut output);
        let silence = link.silence();
        link.close();
        let _ = lock(&child).wait();
        let words = messages.join().ok().and_then(|messages| last_words(&messages));
        let reason = match (silence, defect, words) {
            (Some(silence), ..) => format!("nothing was heard of it for {} s", silence.as_secs()),
            (None, Some(reason), _) => return HostError::Protocol { host: host.to_owned(), reason },
            (None, None, Some(words)) => words,
            (None, None, None) => "it was closed".into(),
        };
        HostError::Lost { host: host.to_owned(), reason }
    }

    /// Starts the server on the host and asks it what it has.
    fn connect(&self, program: &mut Option<Program>) -> Result<(Ssh, Probe), HostError> {
        let host = self.target.host.as_str();
        let program = match program {
            Some(program) => &*program,
            none => {
                let here = |error| HostError::Here(format!("this program cannot be read to be sent: {error}"));
                &*none.insert(Program::open(&self.submitter.program).map_err(here)?)
            }
        };
        let mut ssh = Ssh::start(&self.target, program, &self.counts)?;
        let note = |text: String| (self.tell)(HostEvent::Note(format!("{host}: {text}")));
        if let Err(refused) = ssh.bootstrap(program, &self.counts, note) {
            return Err(ssh.end(Some(refused), host));
        }
        match self.hello(&mut ssh) {
            Ok(Some(probe)) => Ok((ssh, probe)),
            Ok(None) => Err(ssh.end(None, host)),
            Err(error) => {
                let _ = ssh.end(None, host);
                Err(error)
            }
        }
    }

    /// Asks the server what the host has; `None` if it has ended instead.
    fn hello(&self, ssh: &mut Ssh) -> Result<Option<Probe>, HostError> {
        let host = || self.target.host.clone();
        let asked = clock::now();
        let begun = Instant::now();
        let hello = Ask::Hello { protocol: PROTOCOL, store: self.submitter.store.clone() };
        if wire::write(&mut ssh.input, 0, false, &hello, &[]).is_err() {
            return Ok(None);
        }
        loop {
            let strange = |reason: String| HostError::Protocol { host: host(), reason };
            let frame: Option<Frame<Say>> = wire::read(&mut ssh.output).map_err(|error| strange(error.to_string()))?;
            match frame {
                None => return Ok(None),
                Some(Frame { head: Say::Done, body, .. }) => {
                    let mut probe: Probe =
                        serde_json::from_slice(&body).map_err(|error| strange(format!("its first answer: {error}")))?;
                    let half = begun.elapsed().as_secs_f64() / 2.0;
                    probe.skew = probe.clock - (asked.as_millisecond() as f64 / 1000.0 + half);
                    return Ok(Some(probe));
                }
                Some(Frame { head: Say::Failed(fault), .. }) => return Err(HostError::of_fault(&host(), fault)),
                Some(_) => {}
            }
        }
    }

    /// Follows the jobs that were followed before the connection was lost, from where that was.
    fn follow_again(&self, link: &Arc<Link>) {
        let follows: Vec<(Key, u64)> = lock(&self.follows).iter().map(|(key, from)| (*key, *from)).collect();
        let link = Arc::clone(link);
        // The answers are read by this thread, so it must not wait until all of it is written.
        let follow = move || {
            for (key, from) in follows {
                if link.ask(&Ask::Follow { key, from }, io::empty()).is_err() {
                    return;
                }
            }
        };
        let _ = thread::Builder::new().name("host follow".into()).spawn(follow);
    }

    /// Reads what the server says, until it ends; then answers the defect, if it was not understood.
    fn listen(&self, link: &Link, output: &mut impl io::BufRead) -> Option<String> {
        loop {
            let Frame { id, head, body, .. } = match wire::read::<Say>(output) {
                Ok(Some(frame)) => frame,
                Ok(None) | Err(wire::WireError::Io(_) | wire::WireError::Torn) => return None,
                Err(error) => return Some(error.to_string()),
            };
            match head {
                Say::Part => link.answer(id, Answer::Part(body)),
                Say::Done => link.answer(id, Answer::Done(body)),
                Say::Failed(fault) => link.answer(id, Answer::Failed(fault)),
                Say::Alive => {}
                Say::Line { key, next } => {
                    // Each line once, also if a connection was lost in between.
                    let is_new = match lock(&self.follows).get_mut(&key) {
                        Some(from) if *from < next => {
                            *from = next;
                            true
                        }
                        _ => false,
                    };
                    if is_new {
                        let at = next.saturating_sub(body.len() as u64 + 1);
                        let line = String::from_utf8_lossy(&body).into_owned();
                        (self.tell)(HostEvent::Said { key, at, line });
                    }
                }
                Say::Ended { key, has_record } => {
                    if lock(&self.follows).remove(&key).is_some() {
                        (self.tell)(HostEvent::Ended { key, has_record });
                    }
                }
            }
        }
    }
}

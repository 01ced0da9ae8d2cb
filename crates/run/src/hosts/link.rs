//! A live connection: requests with their answers, and signs of life.

use std::{
    collections::HashMap,
    io::{self, Read},
    process::Child,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use serde::de::DeserializeOwned;

use super::{
    HostError,
    error::Fault,
    ssh::{Counts, Sending, Watch},
    wire::{self, Ask, BEAT, PART},
};

/// Time without a byte from the host after which the connection counts as lost: its server sends a frame every [`BEAT`].
const SILENCE: Duration = Duration::from_secs(15);
/// Time limit of a response from a host that gives signs of life.
const TIMEOUT: Duration = Duration::from_mins(10);
/// Maximum number of parts of a response that wait for their reader.
const WAITING: usize = 16;

/// A part of an answer.
#[derive(Debug)]
pub(super) enum Answer {
    /// A part of the body.
    Part(Vec<u8>),
    /// The last part.
    Done(Vec<u8>),
    /// The request failed.
    Failed(Fault),
}

/// A connection to a server.
pub(super) struct Link {
    host: String,
    /// `None` once it is closed.
    input: Mutex<Option<Sending>>,
    pending: Mutex<HashMap<u64, SyncSender<Answer>>>,
    next: AtomicU64,
    child: Arc<Mutex<Child>>,
    watch: Watch,
    over: AtomicBool,
}

/// An answer to wait for.
pub(super) struct Waiting {
    host: String,
    answers: Receiver<Answer>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Takes over a connection whose server runs, and watches it.
    pub(super) fn new(
        host: &str,
        input: Sending,
        child: &Arc<Mutex<Child>>,
        counts: &Arc<Counts>,
    ) -> io::Result<Arc<Self>> {
        let link = Arc::new(Self {
            host: host.to_owned(),
            input: Mutex::new(Some(input)),
            pending: Mutex::default(),
            next: AtomicU64::new(1),
            child: Arc::clone(child),
            watch: Watch::start(child, counts, false, SILENCE),
            over: AtomicBool::new(false),
        });
        let pinging = Arc::clone(&link);
        thread::Builder::new().name("host ping".into()).spawn(move || pinging.ping())?;
        Ok(link)
    }

    /// Sends signs of life, because the server ends without them. A frame that is being written counts as one, too.
    fn ping(&self) {
        while !self.over.load(Ordering::SeqCst) {
            if let Ok(mut input) = self.input.try_lock()
                && let Some(input) = input.as_mut()
                && wire::write(input, 0, false, &Ask::Ping, &[]).is_err()
            {
                return;
            }
            thread::sleep(BEAT);
        }
    }

    /// Closes the connection: pending requests get no response.
    pub(super) fn close(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.kill();
        // A writer that was blocked is free by now.
        lock(&self.input).take();
        lock(&self.pending).clear();
    }

    /// Ends `ssh`.
    pub(super) fn kill(&self) {
        let _ = lock(&self.child).kill();
    }

    /// Time without a byte, if that has ended it.
    pub(super) fn silence(&self) -> Option<Duration> {
        self.watch.was_silent().then_some(SILENCE)
    }

    /// Passes an answer to the caller that waits for it.
    pub(super) fn answer(&self, id: u64, answer: Answer) {
        let is_last = !matches!(answer, Answer::Part(_));
        let sender = {
            let mut callers = lock(&self.pending);
            if is_last { callers.remove(&id) } else { callers.get(&id).cloned() }
        };
        if let Some(sender) = sender {
            // A send error means that no caller waits for the answer any more.
            let _ = sender.send(answer);
        }
    }

    /// Asks something, with a body.
    pub(super) fn ask(&self, ask: &Ask, mut body: impl Read) -> Result<Waiting, HostError> {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        let (sender, answers) = sync_channel(WAITING);
        lock(&self.pending).insert(id, sender);
        if self.over.load(Ordering::SeqCst) {
            lock(&self.pending).remove(&id);
            return Err(self.lost());
        }
        let local_error = |error: io::Error| HostError::Here(format!("a file to send cannot be read: {error}"));
        let mut part = next_part(&mut body).map_err(local_error)?;
        let mut head = ask;
        loop {
            // Others may write between two parts.
            let following_part =
                if part.len() < PART { Vec::new() } else { next_part(&mut body).map_err(local_error)? };
            let has_more = !following_part.is_empty();
            let mut input = lock(&self.input);
            let Some(writer) = input.as_mut() else { return Err(self.lost()) };
            wire::write(writer, id, has_more, head, &part).map_err(|_| self.lost())?;
            drop(input);
            if !has_more {
                return Ok(Waiting { host: self.host.clone(), answers });
            }
            (part, head) = (following_part, &Ask::Part);
        }
    }

    fn lost(&self) -> HostError {
        HostError::Lost { host: self.host.clone(), reason: "it ended while something was sent".into() }
    }
}

/// The next part of a body; empty at its end.
fn next_part(body: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    body.by_ref().take(PART as u64).read_to_end(&mut part)?;
    Ok(part)
}

impl Waiting {
    /// The next part of the answer; true with the last one.
    pub(super) fn part(&self) -> Result<(Vec<u8>, bool), HostError> {
        let host = || self.host.clone();
        match self.answers.recv_timeout(TIMEOUT) {
            Ok(Answer::Part(part)) => Ok((part, false)),
            Ok(Answer::Done(part)) => Ok((part, true)),
            Ok(Answer::Failed(fault)) => Err(HostError::of_fault(&self.host, fault)),
            Err(RecvTimeoutError::Timeout) => {
                let reason = format!("no answer within {} min", TIMEOUT.as_secs() / 60);
                Err(HostError::There { host: host(), reason })
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(HostError::Lost { host: host(), reason: "it ended before the answer".into() })
            }
        }
    }

    /// The whole answer, which has a limit.
    pub(super) fn whole(&self) -> Result<Vec<u8>, HostError> {
        const MAX_ANSWER_BYTES: usize = 1 << 28;
        let mut answer = Vec::new();
        loop {
            let (part, is_last) = self.part()?;
            answer.extend_from_slice(&part);
            if is_last {
                return Ok(answer);
            }
            if answer.len() > MAX_ANSWER_BYTES {
                let reason = format!("an answer is longer than {MAX_ANSWER_BYTES} bytes");
                return Err(HostError::Protocol { host: self.host.clone(), reason });
            }
        }
    }

    /// The whole answer as a value.
    pub(super) fn value<T: DeserializeOwned>(&self) -> Result<T, HostError> {
        serde_json::from_slice(&self.whole()?).map_err(|error| {
            let reason = format!("an answer is invalid: {error}");
            HostError::Protocol { host: self.host.clone(), reason }
        })
    }
}

//! The connection from its beginning to its end, again and again.

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    HostError, HostEvent, Probe, Submitter, Target,
    link::{Answer, Link, lock},
    ssh::{Counts, Program, Ssh, last_words},
    wire::{self, Ask, Frame, PROTOCOL, Say},
};
use crate::{host::clock, record::Key};

/// Shortest and longest pause before another try.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));

/// Differences of clocks up to this many seconds are not reported.
const MAX_SKEW: f64 = 2.0;

/// A host, as the threads of its connection share it.
pub(super) struct Shared {
    pub(super) target: Target,
    pub(super) submitter: Submitter,
    pub(super) tell: Box<dyn Fn(HostEvent) + Send + Sync>,
    pub(super) counts: Arc<Counts>,
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
    pub(super) closing: AtomicBool,
    /// The jobs that are followed, and the places in their journals.
    pub(super) follows: Mutex<HashMap<Key, u64>>,
    /// Trees and records that the host is known to have.
    pub(super) known: Mutex<HashSet<String>>,
    /// Held by the thread that sends files.
    pub(super) preparing: Mutex<()>,
}

/// State of the connection.
pub(super) enum State {
    Away(HostError),
    Live(Arc<Link>),
}

impl Shared {
    /// Connects, again and again, until the connection is dropped.
    pub(super) fn stay_connected(&self) {
        let mut pause = RETRY_DELAYS.0;
        let mut last_error: Option<HostError> = None;
        let mut program = None;
        while !self.closing.load(Ordering::SeqCst) {
            let start = Instant::now();
            let mut was_connected = false;
            let error = self.session(&mut program, &mut was_connected);
            let mut state = lock(&self.state);
            *state = State::Away(error.clone());
            drop(state);
            if self.closing.load(Ordering::SeqCst) {
                return;
            }
            if was_connected || last_error.as_ref() != Some(&error) {
                (self.tell)(HostEvent::Lost(error.clone()));
            }
            if was_connected && start.elapsed() > RETRY_DELAYS.1 {
                pause = RETRY_DELAYS.0;
            }
            let wait = if error.is_lasting() { RETRY_DELAYS.1 } else { pause };
            pause = (pause * 2).min(RETRY_DELAYS.1);
            last_error = Some(error);
            self.sleep(wait);
        }
    }

    /// Waits, or until the connection is dropped.
    fn sleep(&self, time: Duration) {
        let deadline = Instant::now() + time;
        let mut state = lock(&self.state);
        while !self.closing.load(Ordering::SeqCst) {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Runs one connection from its start to its end, and returns the reason why it ended.
    fn session(&self, program: &mut Option<Program>, was_connected: &mut bool) -> HostError {
        let host = self.target.host.as_str();
        let (ssh, probe) = match self.connect(program) {
            Ok(connection) => connection,
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
        if self.closing.load(Ordering::SeqCst) {
            // The connection was dropped before the link was visible, so the link is closed here.
            link.kill();
        }
        let skew = probe.skew;
        (self.tell)(HostEvent::Connected(Box::new(probe)));
        if skew.abs() > MAX_SKEW {
            let (seconds, side) = (skew.abs(), if skew > 0.0 { "ahead of" } else { "behind" });
            let text =
                format!("{host}: its clock is {seconds:.0} s {side} this machine's; times in its records are its own");
            (self.tell)(HostEvent::Note(text));
        }
        self.follow_again(&link);
        let defect = self.listen(&link, &mut output);
        let silence = link.silence();
        link.close();
        let _ = lock(&child).wait();
        let words = messages.join().ok().and_then(|messages| last_words(&messages));
        let reason = match (silence, defect, words) {
            (Some(silence), ..) => format!("no message from it for {} s", silence.as_secs()),
            (None, Some(reason), _) => return HostError::Protocol { host: host.to_owned(), reason },
            (None, None, Some(words)) => words,
            (None, None, None) => "it was closed".into(),
        };
        HostError::Lost { host: host.to_owned(), reason }
    }

    /// Starts the server on the host and requests its probe.
    fn connect(&self, program: &mut Option<Program>) -> Result<(Ssh, Probe), HostError> {
        let host = self.target.host.as_str();
        let program = match program {
            Some(program) => &*program,
            slot => {
                let local_error = |error| HostError::Here(format!("this program cannot be read to be sent: {error}"));
                &*slot.insert(Program::open(&self.submitter.program).map_err(local_error)?)
            }
        };
        let mut ssh = Ssh::start(&self.target, program, &self.counts)?;
        let note = |text: String| (self.tell)(HostEvent::Note(format!("{host}: {text}")));
        if let Err(refusal) = ssh.bootstrap(program, &self.counts, note) {
            return Err(ssh.end(Some(refusal), host));
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

    /// Requests the host's probe from the server; returns `None` if the server has ended instead.
    fn hello(&self, ssh: &mut Ssh) -> Result<Option<Probe>, HostError> {
        let host = || self.target.host.clone();
        let request_time = clock::now();
        let start = Instant::now();
        let hello = Ask::Hello { protocol: PROTOCOL, store: self.submitter.store.clone() };
        if wire::write(&mut ssh.input, 0, false, &hello, &[]).is_err() {
            return Ok(None);
        }
        loop {
            let protocol_error = |reason: String| HostError::Protocol { host: host(), reason };
            let frame: Option<Frame<Say>> =
                wire::read(&mut ssh.output).map_err(|error| protocol_error(error.to_string()))?;
            match frame {
                None => return Ok(None),
                Some(Frame { head: Say::Done, body, .. }) => {
                    let mut probe: Probe = serde_json::from_slice(&body)
                        .map_err(|error| protocol_error(format!("its first answer: {error}")))?;
                    let half = start.elapsed().as_secs_f64() / 2.0;
                    probe.skew = probe.clock - (request_time.as_millisecond() as f64 / 1000.0 + half);
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
        // This thread reads the responses, so it must not wait until the request is written.
        let follow = move || {
            for (key, from) in follows {
                if link.ask(&Ask::Follow { key, from }, io::empty()).is_err() {
                    return;
                }
            }
        };
        let _ = thread::Builder::new().name("host follow".into()).spawn(follow);
    }

    /// Reads the server's frames until the stream ends; returns the defect if a frame was not understood.
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
                        Some(offset) if *offset < next => {
                            *offset = next;
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

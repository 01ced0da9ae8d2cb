//! The server on a host (`sweep hosts serve`): it responds to the frames of one connection ([`crate::hosts`]) on standard input and output,
//! and ends with it. The jobs that it starts continue.
//!
//! ```text
//! WORKDIR/bin/<digest>/sweep     this program
//! WORKDIR/blobs/<digest>         files by content
//! WORKDIR/trees/<digest>/        folders by content: projects, in which jobs start, and other inputs
//! WORKDIR/lists/<digest>         the entries of these folders, by which they are checked before a job starts
//! WORKDIR/stores/<id>/           a results folder for each submitting store: records, and a folder in runs/ for each job
//! WORKDIR/in-use                 locked by every server, so that nothing is removed meanwhile
//! ```

mod clean;
mod depot;
mod follow;
mod jobs;
mod uploads;

use std::{
    collections::HashMap,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use fs_err as fs;
use rustix::fs::Mode;
use serde::Serialize;

use self::{clean::InUse, depot::Depot, jobs::Jobs, uploads::Upload};
use crate::{
    host::{
        self,
        finding::Finding,
        folder::{self, Folder},
        machine, system,
    },
    hosts::{
        Fault, FaultKind, Probe,
        wire::{self, Ask, BEAT, Frame, PART, PROTOCOL, Say, Stock},
    },
    record::Key,
    run::cluster::trial::on_path,
    store::{Origin, Store},
};

/// Time without a byte from the submitting side after which the server ends.
const SILENCE: Duration = Duration::from_mins(1);
/// Maximum number of requests whose bodies are transferred at the same time.
const MAX_UPLOADS: usize = 256;
/// Room for a small result with its journal, in bytes.
const RESULT: usize = 1 << 18;
/// Longest part of a log that is sent at once, in bytes.
const MAX_LOG: u64 = 1 << 20;

/// Standard output, for frames of several threads.
#[derive(Debug)]
struct Voice(Mutex<io::Stdout>);

/// The server's state, after the first request.
#[derive(Debug)]
struct Server {
    workdir: PathBuf,
    depot: Depot,
    jobs: Jobs,
    voice: Arc<Voice>,
    in_use: InUse,
}

impl Voice {
    /// Writes a frame. A write error is ignored: it means that the other side is gone, and standard input ends then, too.
    fn say(&self, id: u64, say: &Say, body: &[u8]) {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = wire::write(&mut *output, id, false, say, body);
    }

    fn answer(&self, id: u64, result: Result<Vec<u8>, Fault>) {
        match result {
            Err(fault) => self.say(id, &Say::Failed(fault), &[]),
            Ok(body) => {
                let mut parts = body.chunks(PART).peekable();
                while let Some(part) = parts.next() {
                    let say = if parts.peek().is_some() { Say::Part } else { Say::Done };
                    self.say(id, &say, part);
                }
                if body.is_empty() {
                    self.say(id, &Say::Done, &[]);
                }
            }
        }
    }
}

/// Writes parts of an answer.
struct Parts<'a> {
    voice: &'a Voice,
    id: u64,
    hasher: blake3::Hasher,
}

impl Write for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.update(bytes);
        self.voice.say(self.id, &Say::Part, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves one connection on standard input and output, until the connection ends.
///
/// # Errors
/// The folder cannot be used, or the other side does not speak the protocol.
pub fn serve(workdir: &Path) -> io::Result<()> {
    // Files that users send must be readable only by them.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let voice = Arc::new(Voice(Mutex::new(io::stdout())));
    let frames_read = Arc::new(AtomicU64::new(0));
    give_signs_of_life(&voice, &frames_read)?;
    let mut input = io::stdin().lock();
    let mut next = || {
        let frame: Result<Option<Frame<Ask>>, _> = wire::read(&mut input);
        frames_read.fetch_add(1, Ordering::SeqCst);
        frame.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
    };
    let Some(Frame { id, head, .. }) = next()? else { return Ok(()) };
    let server = match head {
        Ask::Hello { protocol: PROTOCOL, store } => Server::open(workdir, &store, Arc::clone(&voice)),
        _ => Err(Fault::new(FaultKind::Other, "the first request is from another version")),
    };
    let server = match server.and_then(|server| Ok((server.probe()?, server))) {
        Ok((probe, server)) => {
            voice.answer(id, json(&probe));
            Arc::new(server)
        }
        Err(fault) => {
            let message = fault.message.clone();
            voice.answer(id, Err(fault));
            return Err(io::Error::other(message));
        }
    };
    let mut uploads: HashMap<u64, (Ask, Upload)> = HashMap::new();
    while let Some(Frame { id, more, head, body }) = next()? {
        let (ask, mut upload) = match head {
            Ask::Ping => continue,
            Ask::Part => match uploads.remove(&id) {
                Some(upload) => upload,
                None => continue,
            },
            ask => {
                let upload = server.open_upload(&ask);
                (ask, upload)
            }
        };
        upload.add(&body);
        if more && uploads.len() < MAX_UPLOADS {
            uploads.insert(id, (ask, upload));
        } else {
            server.execute(id, ask, upload);
        }
    }
    Ok(())
}

/// Sends signs of life, and ends this process if the other side sends none.
fn give_signs_of_life(voice: &Arc<Voice>, frames_read: &Arc<AtomicU64>) -> io::Result<()> {
    let voice = Arc::clone(voice);
    thread::Builder::new().name("signs of life".into()).spawn(move || {
        loop {
            thread::sleep(BEAT);
            voice.say(0, &Say::Alive, &[]);
        }
    })?;
    let frames_read = Arc::clone(frames_read);
    let watch = move || {
        let mut last_count = 0;
        loop {
            thread::sleep(SILENCE);
            let new_count = frames_read.load(Ordering::SeqCst);
            if new_count == last_count {
                // A writer may be blocked, and jobs do not depend on this process.
                std::process::exit(1);
            }
            last_count = new_count;
        }
    };
    thread::Builder::new().name("watch".into()).spawn(watch).map(drop)
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec(value).map_err(|error| Fault::new(FaultKind::Other, error.to_string()))
}

fn parsed<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(text).map_err(|error| Fault::new(FaultKind::Other, format!("a request is invalid: {error}")))
}

impl Server {
    fn open(workdir: &Path, store: &str, voice: Arc<Voice>) -> Result<Self, Fault> {
        let is_name = !store.is_empty() && store.len() <= 64 && store.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_name {
            return Err(Fault::new(FaultKind::Other, "the name of the store is none"));
        }
        fs::create_dir_all(workdir)?;
        let workdir = fs::canonicalize(workdir)?;
        let in_use = InUse::take(&workdir)?;
        let depot = Depot::open(&workdir)?;
        let jobs = Jobs::open(workdir.join("stores").join(store), &depot)?;
        Ok(Self { workdir, depot, jobs, voice, in_use })
    }

    /// Describes this machine.
    fn probe(&self) -> Result<Probe, Fault> {
        let gpus = machine::nvidia_gpus();
        let free_bytes = rustix::fs::statvfs(&self.workdir).map(|disk| disk.f_bavail * disk.f_frsize);
        let kernel = [system::os(), system::kernel()].join(" ");
        let system = system::cpu_model().map_or(kernel.clone(), |model| format!("{kernel}, {model}"));
        let clock = host::clock::now();
        Ok(Probe {
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            version: env!("CARGO_PKG_VERSION").into(),
            cpus: machine::cpus(),
            memory: machine::memory(),
            gpu_memory: crate::host::gpus::memories(&gpus),
            gpu_names: if gpus.is_empty() { Vec::new() } else { gpu_names() },
            gpus,
            system,
            workdir: self.workdir.clone(),
            free: free_bytes.map_err(io::Error::from)?,
            jobs: self.jobs.list()?,
            clock: clock.as_millisecond() as f64 / 1000.0,
            skew: 0.0,
        })
    }

    /// Tries whether there is room for a result.
    fn writes(&self) -> Result<(), Fault> {
        let mut file = tempfile::tempfile_in(self.jobs.store().results())?;
        file.write_all(&vec![1; RESULT])?;
        Ok(file.sync_all()?)
    }

    /// Checks the properties that only this machine knows.
    fn examine(&self) -> Vec<Finding> {
        let mut findings = folder::examine(&Folder {
            path: self.jobs.store().results(),
            name: "folder",
            unwritable: "choose a folder that the user of the login can write to (`workdir`)",
            little_room: "remove unneeded files (`sweep hosts clean HOST`), or use another disk (`workdir`)",
        });
        if !on_path("python3") {
            let message = "there is no `python3` on the PATH of the login";
            let help = "recipes whose steps start Python need it; `ssh HOST COMMAND` must find it";
            findings.push(Finding::doubtful("python", message, help));
        }
        findings
    }

    fn open_upload(&self, ask: &Ask) -> Upload {
        match ask {
            Ask::Put { digest } => self.depot.blob(digest),
            Ask::Record { .. } => self.depot.archive(),
            _ => Upload::memory(),
        }
    }

    /// Carries a request out. Long requests run beside the others.
    fn execute(self: &Arc<Self>, id: u64, ask: Ask, upload: Upload) {
        let is_long = matches!(
            ask,
            Ask::Record { .. }
                | Ask::Tree { .. }
                | Ask::Fetch { .. }
                | Ask::Clean
                | Ask::Devices
                | Ask::Examine
                | Ask::Forget { .. }
        );
        if !is_long {
            let result = self.result(id, ask, upload);
            self.voice.answer(id, result);
            return;
        }
        let server = Arc::clone(self);
        let work = move || {
            let result = server.result(id, ask, upload);
            server.voice.answer(id, result);
        };
        if let Err(error) = thread::Builder::new().name("request".into()).spawn(work) {
            self.voice.answer(id, Err(host::threads::refused(error).into()));
        }
    }

    fn result(&self, id: u64, ask: Ask, upload: Upload) -> Result<Vec<u8>, Fault> {
        let no_body = |()| Vec::new();
        match ask {
            Ask::Hello { .. } | Ask::Ping | Ask::Part => Err(Fault::new(FaultKind::Other, "it is not asked now")),
            Ask::Have => {
                let Stock { blobs, trees, records } = parsed(&upload.bytes()?)?;
                let blobs = blobs.into_iter().filter(|digest| !self.depot.has_blob(digest)).collect();
                let trees = trees.into_iter().filter(|digest| !self.depot.has_tree(digest)).collect();
                let records = records.into_iter().filter(|key| !self.jobs.store().contains(*key)).collect();
                json(&Stock { blobs, trees, records })
            }
            Ask::Put { digest } => self.depot.put(&digest, upload).map(no_body),
            Ask::Record { key } => self.take_record(key, upload).map(no_body),
            Ask::Tree { digest } => self.depot.build(&parsed(&upload.bytes()?)?, &digest).map(no_body),
            Ask::Start => {
                let (key, answer, child) = self.jobs.start(parsed(&upload.bytes()?)?)?;
                self.follow(key, 0, child)?;
                json(&answer)
            }
            Ask::Follow { key, from } => self.follow(key, from, None).map(no_body),
            Ask::Jobs => json(&self.jobs.list()?),
            Ask::Fetch { key } => self.send_record(id, key),
            Ask::Log { key, from } => Ok(jobs::part_of(&self.jobs.log(key), from, MAX_LOG)?),
            Ask::Output { key } => Ok(jobs::part_of(&self.jobs.output(key), 0, MAX_LOG)?),
            Ask::Cancel { keys, how } => {
                for key in keys {
                    self.jobs.cancel(key, how);
                }
                Ok(Vec::new())
            }
            Ask::Forget { key } => self.jobs.forget(key).map(no_body),
            Ask::Clean => json(&clean::clean(&self.workdir, &self.in_use)?),
            Ask::Writes => self.writes().map(no_body),
            Ask::Examine => json(&self.examine()),
            Ask::Devices => {
                let probe = host::devices::probe().map_err(|error| Fault::new(FaultKind::Other, error.to_string()))?;
                json(&probe)
            }
        }
    }

    /// Takes the archive of a needed record.
    fn take_record(&self, key: Key, upload: Upload) -> Result<(), Fault> {
        let archive = upload.file()?;
        let other_fault = |error: &dyn std::fmt::Display| Fault::new(FaultKind::Other, error.to_string());
        let origin = Origin::new("the submitting machine");
        let import = self.jobs.store().import_only(archive, key, &origin).map_err(|error| match error {
            crate::store::TransferError::Io(error) => Fault::from(error),
            error => other_fault(&error),
        })?;
        match import.refused.first() {
            Some((_, reason)) => Err(other_fault(&reason)),
            None => Ok(()),
        }
    }

    /// Sends the archive of a record, and its digest at the end.
    fn send_record(&self, id: u64, key: Key) -> Result<Vec<u8>, Fault> {
        let store: &Store = self.jobs.store();
        if !store.contains(key) {
            return Err(Fault::new(FaultKind::NoRecord, key.short()));
        }
        let parts = Parts { voice: &self.voice, id, hasher: blake3::Hasher::new() };
        let mut parts = io::BufWriter::with_capacity(PART, parts);
        store.export(&[key].into(), &mut parts).map_err(|error| Fault::new(FaultKind::Other, error.to_string()))?;
        let parts = parts.into_inner().map_err(|error| Fault::from(error.into_error()))?;
        Ok(parts.hasher.finalize().to_hex().as_bytes().to_vec())
    }

    fn follow(&self, key: Key, from: u64, child: Option<std::process::Child>) -> Result<(), Fault> {
        let followed = self.jobs.followed(key, from)?;
        Ok(follow::follow(followed, child, Arc::clone(&self.voice))?)
    }
}

/// The names of the GPUs.
fn gpu_names() -> Vec<String> {
    const TIMEOUT: Duration = Duration::from_secs(5);
    let mut command = std::process::Command::new("nvidia-smi");
    let answer = host::ask(
        command.args(["--query-gpu=name", "--format=csv,noheader"]),
        1 << 16,
        std::time::Instant::now() + TIMEOUT,
    );
    let text = answer.map(|answer| String::from_utf8_lossy(&answer.text).into_owned()).unwrap_or_default();
    text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

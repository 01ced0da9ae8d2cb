//! `launch: fork`: a Python interpreter that has run the first imports of a script, and from which the processes of jobs are forked.
//!
//! The interpreter belongs to the worker, and serves one job after the other. The kernel reports its imports like the actions of a job, so
//! every job's observation includes the observation of the imports. If a path that they have read, looked for or listed has changed, if the
//! environment differs, or if the script begins with other imports, another interpreter is started. `server.py` runs in it, and decides
//! which imports are run in advance.
//!
//! A process that is forked lacks what `exec` gives: its outputs and its view of the project are taken from a *stub*, a process that was
//! started only for them.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::{self, BufRead as _, BufReader, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, ffi::OsStringExt as _, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command as Process, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};
use serde::{Deserialize, Serialize};
use sweep_job::{
    FileStamp, Job, Report,
    tasks::{Command, Launch, script_position},
};
use sweep_observer::{Layer, Listener, Options, Seen};
use tracing::info;

use super::{
    place::Place,
    program::follow_worker,
    tracking::{Ground, Kernel},
};
use crate::host::{log, threads};

/// Source of the program of the interpreter.
const SERVER: &str = include_str!("fork/server.py");
/// Name of the folder of an interpreter, in the folder that is removed with the job that starts it.
const FOLDER: &str = "fork";
/// Variables whose values differ between jobs, besides the variables of `sweep`.
const OF_JOB: [&str; 2] = ["PWD", "OLDPWD"];

/// The interpreter of this worker.
static SERVING: Mutex<Option<Interpreter>> = Mutex::new(None);

/// The process of a job, which is to be forked.
pub(super) struct Fork {
    /// The stub of the process.
    pub(super) stub: Process,
    pub(super) listener: Listener,
    pub(super) earlier: Arc<Earlier>,
    started: PathBuf,
    reads: PathBuf,
    /// The reason why the process was not forked but started.
    refusal: Option<String>,
}

/// The observation of the imports.
pub(super) struct Earlier {
    pub(super) seen: Seen,
    /// The report of Python.
    pub(super) reads: Vec<u8>,
    /// The files of all modules.
    files: Vec<(FileStamp, PathBuf)>,
    /// Paths that do not count.
    skipped: Vec<PathBuf>,
}

impl Earlier {
    /// True if a program under `layer` finds the files of the imports as they were.
    fn holds(&self, layer: &Layer) -> bool {
        let is_same = |(stamp, path): &(FileStamp, PathBuf)| {
            layer.at(path).metadata().is_ok_and(|metadata| FileStamp::of(&metadata) == *stamp)
        };
        self.seen.holds(&self.skipped, layer) && self.files.iter().all(is_same)
    }
}

/// Everything that decides the imports, besides files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    /// The interpreter, its options, and the script or module.
    argv: Vec<OsString>,
    script: usize,
    env: BTreeMap<OsString, OsString>,
    working: PathBuf,
    project: PathBuf,
}

struct Interpreter {
    process: Running,
    line: BufReader<UnixStream>,
    listener: Listener,
    identity: Identity,
    earlier: Arc<Earlier>,
}

#[derive(Serialize)]
struct Preparation {
    prepare: usize,
    argv: Vec<Hex>,
    env: BTreeMap<Hex, Hex>,
}

#[derive(Serialize)]
struct Request {
    stub: u32,
    worker: u32,
    argv: Vec<Hex>,
    env: BTreeMap<Hex, Hex>,
    cwd: Hex,
    started: Hex,
    reads: Hex,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Refused(String),
    Prepared(Prepared),
    Process(i32),
}

#[derive(Deserialize)]
struct Prepared {
    /// The files of all modules.
    files: Vec<Hex>,
    /// The files that say which imports come first. Each forked process reads them again.
    sources: Vec<Hex>,
}

/// The process of an interpreter, which ends with this value.
struct Running {
    pid: Pid,
    /// Refers to the process even after its end, which another thread may notice first.
    handle: OwnedFd,
}

impl Running {
    fn of(child: &Child) -> io::Result<Self> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { pid, handle: pidfd_open(pid, PidfdFlags::empty())? })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        let _ = waitid(WaitId::PidFd(self.handle.as_fd()), WaitIdOptions::EXITED);
    }
}

/// Bytes as hexadecimal text, because paths and variables need not be Unicode.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
struct Hex(String);

impl Hex {
    fn of(text: impl AsRef<OsStr>) -> Self {
        use std::fmt::Write as _;
        let mut hex = String::new();
        for byte in text.as_ref().as_bytes() {
            let _ = write!(hex, "{byte:02x}");
        }
        Self(hex)
    }

    fn path(&self) -> Option<PathBuf> {
        let digits = self.0.as_bytes().chunks(2);
        let bytes = digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
        Some(OsString::from_vec(bytes.collect::<Option<_>>()?).into())
    }
}

impl Fork {
    /// Prepares the process of a job with `launch: fork`: starts an interpreter unless one serves. `None` for any other job, and, with a
    /// notice, if the process cannot be forked.
    pub(super) fn of(
        command: &Command,
        job: &Job,
        place: &Place,
        program: &Process,
        report: &mut dyn Report,
    ) -> Option<Self> {
        // The interpreter is kept only for further jobs of the same worker.
        if command.launch != Some(Launch::Fork) || job.log.is_none() {
            return None;
        }
        Self::prepare(command, job, place, program).map_err(|reason| report.note(&started(&reason))).ok()
    }

    fn prepare(command: &Command, job: &Job, place: &Place, program: &Process) -> Result<Self, String> {
        // The interpreter has run the imports with the settings of another job, which they may have read.
        if place.settings().is_some() {
            return Err("each job has its own copy of `settings`, which the imports could read".to_owned());
        }
        let ground = Ground::of(command, job, place).map_err(|error| error.to_string())?;
        let ground = ground.ok_or("`tracks: declared` observes no imports")?;
        let identity = Identity::of(command, program, place, &ground)?;
        let mut serving = SERVING.lock().unwrap_or_else(PoisonError::into_inner);
        if !serving.as_mut().is_some_and(|interpreter| interpreter.serves(&identity)) {
            // Ends the other interpreter first, because its memory may be needed.
            *serving = None;
            *serving = Some(Interpreter::start(identity, command, job, place)?);
        }
        let interpreter = serving.as_ref().ok_or("there is no interpreter")?;
        if !place.layer().is_empty() && !interpreter.earlier.holds(place.layer()) {
            return Err("its imports depend on files that differ from those of the project".to_owned());
        }
        let mut stub = Process::new("/proc/self/exe");
        stub.args(["worker", "--hold", "--engine", "0"]);
        Ok(Self {
            stub,
            listener: interpreter.listener.try_clone().map_err(|error| error.to_string())?,
            earlier: Arc::clone(&interpreter.earlier),
            started: ground.audit.started(),
            reads: ground.audit.reads(),
            refusal: None,
        })
    }

    /// Forks the process of `program`; returns its stub, which has its outputs, and its number. `None` if the process cannot be forked.
    ///
    /// # Errors
    ///
    /// The stub cannot be started.
    pub(super) fn start(&mut self, program: &Process) -> io::Result<Option<(Child, Pid)>> {
        follow_worker(&mut self.stub);
        self.stub.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut stub = self.stub.spawn()?;
        let answer = self.ask(program, stub.id());
        let _ = stub.kill();
        match answer {
            Ok(pid) => Ok(Some((stub, pid))),
            Err(reason) => {
                let _ = stub.wait();
                self.refusal = Some(reason);
                *SERVING.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Ok(None)
            }
        }
    }

    fn ask(&self, program: &Process, stub: u32) -> Result<Pid, String> {
        let request = Request {
            stub,
            worker: std::process::id(),
            argv: argv(program).iter().map(Hex::of).collect(),
            env: hex(&environment(program)),
            cwd: Hex::of(program.get_current_dir().unwrap_or(Path::new("/"))),
            started: Hex::of(&self.started),
            reads: Hex::of(&self.reads),
        };
        let mut serving = SERVING.lock().unwrap_or_else(PoisonError::into_inner);
        let interpreter = serving.as_mut().ok_or("there is no interpreter")?;
        match interpreter.ask(&request)? {
            Answer::Process(pid) => Pid::from_raw(pid).ok_or_else(|| "the interpreter has no process".to_owned()),
            Answer::Refused(reason) => Err(reason),
            Answer::Prepared(_) => Err("the interpreter has not understood the request".to_owned()),
        }
    }
}

/// Reports the reason if a process was started instead of forked.
pub(super) fn end(fork: Option<Fork>, report: &mut dyn Report) {
    if let Some(reason) = fork.and_then(|fork| fork.refusal) {
        report.note(&started(&reason));
    }
}

/// The notice of a job whose process was started instead of forked.
fn started(reason: &str) -> String {
    format!("the job was started, not forked: {reason}")
}

/// True if `pid` is the interpreter, which outlives the jobs of this worker.
pub(super) fn is_interpreter(pid: Pid) -> bool {
    interpreter() == Some(pid)
}

/// The process of the interpreter.
pub(super) fn interpreter() -> Option<Pid> {
    SERVING.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|interpreter| interpreter.process.pid)
}

impl Identity {
    fn of(command: &Command, program: &Process, place: &Place, ground: &Ground) -> Result<Self, String> {
        let script = script_position(&command.arguments()).ok_or("its command line has no script of Python")?;
        let argv = argv(program);
        let is_module = argv.get(script).is_some_and(|argument| argument == "-m");
        let mut env = environment(program);
        env.retain(|name, _| !name.as_bytes().starts_with(b"SWEEP_") && !OF_JOB.iter().any(|own| name == own));
        Ok(Self {
            argv: argv.into_iter().take(script + 1 + usize::from(is_module)).collect(),
            script,
            env,
            working: place.working().to_owned(),
            project: ground.project.clone(),
        })
    }

    fn preparation(&self) -> Preparation {
        Preparation { prepare: self.script, argv: self.argv.iter().map(Hex::of).collect(), env: hex(&self.env) }
    }

    /// The interpreter that runs the server, with its line as standard input.
    fn command(&self, line: UnixStream) -> Process {
        let name = self.argv.first().map_or(OsStr::new(""), OsString::as_os_str);
        let mut command = Process::new(super::location(&name.to_string_lossy(), &self.working));
        std::os::unix::process::CommandExt::arg0(&mut command, name);
        command.args(self.argv.get(1..self.script).unwrap_or_default()).arg("-c").arg(SERVER);
        command.current_dir(&self.working).env_clear().envs(&self.env).env("SWEEP_FORKS", "1");
        command.stdin(Stdio::from(OwnedFd::from(line))).stdout(Stdio::null());
        follow_worker(&mut command);
        command
    }
}

impl Interpreter {
    /// Starts an interpreter, and lets it run the first imports of the script.
    fn start(identity: Identity, command: &Command, job: &Job, place: &Place) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the interpreter cannot be started: {error}");
        let ground = Ground::below(command, job, place, Some(FOLDER)).map_err(failed)?;
        let Ground { project, skipped, audit, options, .. } = ground.ok_or("its project is not on this machine")?;
        // The interpreter is outside of the job's view.
        let (hook, supervisor) = Kernel::prepare(Options { layer: Layer::default(), ..options })?;
        let (here, there) = UnixStream::pair().map_err(failed)?;
        let mut command = identity.command(there);
        audit.prepare(&mut command, &project, &skipped, &[], true);
        hook.clone().required().install(&mut command);
        let observation = threads::start(move || supervisor.run_outlasted()).map_err(failed)?;
        let process = command.spawn().and_then(|child| Running::of(&child)).map_err(failed);
        // Closes the interpreter's end of the connection in this process.
        drop(command);
        let mut line = BufReader::new(here);
        let answer = process.as_ref().map(|_| ask(&mut line, &identity.preparation()));
        // Dropping the hook ends the observation.
        drop(hook);
        let (mut seen, listener) = observation.join().map_err(|error| error.to_string())?;
        let answer = answer.map_err(Clone::clone)?;
        let process = process?;
        info!(target: log::SPAWN, pid = process.pid.as_raw_nonzero(), "interpreter started");
        let Prepared { files, sources } = match answer? {
            Answer::Prepared(prepared) => prepared,
            Answer::Refused(reason) => return Err(reason),
            Answer::Process(_) => return Err("the interpreter has not understood the request".to_owned()),
        };
        if let Some(path) = seen.written.iter().find(|path| path.starts_with(&project)) {
            return Err(format!("an import writes `{}` to the project", path.display()));
        }
        for source in sources.iter().filter_map(Hex::path) {
            seen.files.remove(&source);
        }
        let stamp = |path: PathBuf| Some((FileStamp::of(&path.metadata().ok()?), path));
        // The reporting module of this interpreter goes with the job that starts it.
        let is_counted = |path: &PathBuf| !skipped.iter().any(|folder| path.starts_with(folder));
        let files = files.iter().filter_map(Hex::path).filter(is_counted).filter_map(stamp).collect();
        let reads = std::fs::read(audit.reads()).map_err(failed)?;
        let earlier = Arc::new(Earlier { seen, reads, files, skipped });
        let listener = listener.ok_or("its imports are not observed")?;
        Ok(Self { process, line, listener, identity, earlier })
    }

    /// True if a process that the interpreter forks is equivalent to a process that imports everything itself.
    fn serves(&mut self, identity: &Identity) -> bool {
        self.identity == *identity
            && pidfd_send_signal(&self.process.handle, Signal::CONT).is_ok()
            && self.earlier.holds(&Layer::default())
    }

    fn ask(&mut self, request: &impl Serialize) -> Result<Answer, String> {
        ask(&mut self.line, request)
    }
}

fn ask(line: &mut BufReader<UnixStream>, request: &impl Serialize) -> Result<Answer, String> {
    let exchange = |line: &mut BufReader<UnixStream>| -> io::Result<Answer> {
        let mut text = serde_json::to_vec(request)?;
        text.push(b'\n');
        line.get_mut().write_all(&text)?;
        let mut answer = String::new();
        if line.read_line(&mut answer)? == 0 {
            return Err(io::Error::other("it has ended"));
        }
        Ok(serde_json::from_str(&answer)?)
    };
    exchange(line).map_err(|error| format!("the interpreter does not respond: {error}"))
}

/// The program and its arguments as the program sees them.
fn argv(program: &Process) -> Vec<OsString> {
    let name = program.get_program().to_owned();
    std::iter::once(name).chain(program.get_args().map(OsStr::to_owned)).collect()
}

fn hex(env: &BTreeMap<OsString, OsString>) -> BTreeMap<Hex, Hex> {
    env.iter().map(|(name, value)| (Hex::of(name), Hex::of(value))).collect()
}

/// All variables of a program.
fn environment(program: &Process) -> BTreeMap<OsString, OsString> {
    let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => env.insert(name.to_owned(), value.to_owned()),
            None => env.remove(name),
        };
    }
    env
}

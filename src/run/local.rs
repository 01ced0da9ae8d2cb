//! A worker process on this machine: the same program, in a process group of its own.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::Sender,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use sweep_job::{Job, Message};

/// What the loop waits for.
#[derive(Debug)]
pub(super) enum Input {
    /// A worker said something.
    Message(usize, Message),
    /// A worker will say nothing more.
    Closed(usize),
    /// The user, or the system, wants the end.
    Signal(i32),
}

/// A worker process. Whoever drops it ends it.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    ended: bool,
}

/// The longest line that a worker may say; anything longer is not the protocol.
const LONGEST_LINE: u64 = 64 << 20;

impl Worker {
    /// Starts a worker. Must be called from a thread that lives as long as the worker shall: the kernel ends a worker
    /// when the thread that started it ends.
    pub(super) fn spawn(id: usize, job: &Job, log: &Path, inputs: Sender<Input>) -> io::Result<Self> {
        let log = fs_err::File::create(log)?.into_file();
        let child = Command::new(program()?)
            .arg0("sweep")
            .args(["worker", "--engine", &std::process::id().to_string()])
            .env("RAYON_NUM_THREADS", job.threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()?;
        // From here on a failure ends the process, too.
        let mut worker = Self { child, ended: false };
        let mut order = serde_json::to_vec(job)?;
        order.push(b'\n');
        if let Some(mut stdin) = worker.child.stdin.take() {
            // A worker that is gone already says so by its exit status.
            let _ = stdin.write_all(&order);
        }
        if let Some(stdout) = worker.child.stdout.take() {
            thread::Builder::new().name(format!("worker {id}")).spawn(move || listen(id, stdout, &inputs))?;
        }
        Ok(worker)
    }

    /// Asks it, and whatever it has started, to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it, and whatever it has started.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Waits for its end; after `patience` it is ended. What it has started and left running ends with it.
    pub(super) fn wait(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        let until = Instant::now() + patience;
        let mut pause = Duration::from_micros(100);
        loop {
            if self.has_ended()? || Instant::now() >= until {
                // Before it is waited for: until then its number, which is its group's, is nobody else's.
                self.kill();
                let status = self.child.wait()?;
                self.ended = true;
                return Ok(status);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Whether it has ended; it still has to be waited for.
    fn has_ended(&self) -> io::Result<bool> {
        let Some(pid) = self.pid() else { return Ok(true) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options))?.is_some())
    }

    /// Its number, as long as nobody else can have it.
    fn pid(&self) -> Option<Pid> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        pid.filter(|_| !self.ended)
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.ended {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

/// This program, even if its file has been replaced since it was started.
pub(crate) fn program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from("/proc/self/exe")) } else { std::env::current_exe() }
}

/// Passes on what a worker says. Lines that are not messages are dropped: something in the worker wrote to a standard
/// output that it should not have.
fn listen(id: usize, stdout: ChildStdout, inputs: &Sender<Input>) {
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        if let Ok(message) = serde_json::from_slice(&line)
            && inputs.send(Input::Message(id, message)).is_err()
        {
            return;
        }
    }
    let _ = inputs.send(Input::Closed(id));
}

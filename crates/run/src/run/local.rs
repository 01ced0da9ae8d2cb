//! A worker process on this machine: the same program, in a separate process group.

use std::{
    io::{self, BufReader, Write},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use sweep_job::{Failure, Job, Message};

use super::{
    engine::{NotStored, Sample, Stored},
    listen::messages,
    reads::Reads,
};
use crate::{
    host::{self, machine::own_cpu_seconds},
    record::Started,
};

/// Events that the loop waits for.
#[derive(Debug)]
pub(super) enum Input {
    /// A worker sent a message.
    Message(usize, Message),
    /// A worker has closed its output; the second value is the number of lines that were not messages.
    Closed(usize, usize),
    /// A job's inputs have been checked before its start, and the state of another one is in its scratch folder, if it begins
    /// with one.
    Checked(usize, Result<(Arc<Reads>, Option<Started>), Failure>),
    /// A result has been stored, or not; with the time at which the job began.
    Stored(usize, Instant, Result<Stored, NotStored>),
    /// The memory that processes use on GPUs has been sampled.
    Sampled(Sample),
    /// The user or the system sent a signal to end the run.
    Signal(i32),
}

/// A worker process. Dropping the worker ends the process.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    /// Open while the worker may get further jobs.
    stdin: Option<ChildStdin>,
    /// The worker's settings, which all of its jobs have.
    kind: Kind,
    ended: bool,
    /// Processor time in seconds that the worker had used when it got its job.
    before: f64,
    /// The state of the worker's listener.
    hearing: Arc<Mutex<Hearing>>,
    /// Processor time in seconds of the worker and its children; set when the worker has ended.
    used: Option<f64>,
    /// Time of the worker's last message, as its listener received it: the loop may be late.
    heard: Arc<Mutex<Instant>>,
}

/// Settings that cannot be changed while a worker lives.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kind {
    threads: usize,
    gpus: Option<String>,
    env: Vec<(&'static str, String)>,
}

/// The job of a worker, as its listener knows it.
#[derive(Debug)]
struct Hearing {
    /// The worker's present job, or its last one.
    job: usize,
    /// True if the worker has done its job and waits for another one.
    idle: bool,
    /// True if no more messages follow.
    gone: bool,
}

/// Workers that have done their jobs and wait for others.
#[derive(Debug, Default)]
pub(super) struct IdleWorkers(Vec<Worker>);

impl IdleWorkers {
    /// Keeps a worker if it waits for another job; else it is ended.
    pub(super) fn keep(&mut self, worker: Worker) {
        if worker.is_idle() {
            self.0.push(worker);
        }
    }

    /// True if a worker waits for a job like this one.
    pub(super) fn has_one_for(&self, start: &Start<'_>) -> bool {
        start.job.log.is_some() && self.0.iter().any(|worker| worker.kind == Kind::of(start))
    }

    /// Gives a job to a worker that waits for one like it, or to a new one.
    ///
    /// # Errors
    /// The errors of [`Worker::spawn`].
    pub(super) fn start(&mut self, start: &Start<'_>, inputs: &Sender<Input>) -> io::Result<Worker> {
        if start.job.log.is_some() {
            let kind = Kind::of(start);
            while let Some(place) = self.0.iter().position(|worker| worker.kind == kind) {
                let mut worker = self.0.swap_remove(place);
                // A worker that ended while it was idle is not a failure of this job.
                if worker.take(start)? {
                    return Ok(worker);
                }
            }
        }
        Worker::spawn(start, inputs.clone())
    }
}

impl Kind {
    fn of(start: &Start<'_>) -> Self {
        Self { threads: start.job.threads, gpus: start.gpus.clone(), env: start.env.clone() }
    }
}

/// Settings for the start of a worker.
pub(super) struct Start<'a> {
    /// The job's index.
    pub(super) id: usize,
    pub(super) job: &'a Job,
    /// File for its standard error; existing content stays.
    pub(super) log: &'a Path,
    /// The GPUs that the job may use, as `CUDA_VISIBLE_DEVICES` names them; `None` leaves that to the environment.
    pub(super) gpus: Option<String>,
    /// Further variables of its environment.
    pub(super) env: Vec<(&'static str, String)>,
}

impl Worker {
    /// Starts a worker. Must be called from a thread that outlives the worker: the kernel ends a worker when the thread
    /// that started it ends.
    pub(super) fn spawn(start: &Start<'_>, inputs: Sender<Input>) -> io::Result<Self> {
        let log = fs_err::OpenOptions::new().create(true).append(true).open(start.log)?.into_file();
        let mut command = Command::new(host::program()?);
        command
            .arg0("sweep")
            .args(["worker", "--engine", &std::process::id().to_string()])
            // A sweep inside of a job must not wait for the end of that job.
            .env(host::sharing::VARIABLE, "")
            .env("RAYON_NUM_THREADS", start.job.threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0);
        if let Some(gpus) = &start.gpus {
            command.env("CUDA_VISIBLE_DEVICES", gpus);
        }
        command.envs(start.env.iter().map(|(name, value)| (name, value)));
        let child = command.spawn()?;
        // From here on a failure ends the process, too.
        let mut worker = Self {
            stdin: None,
            child,
            kind: Kind::of(start),
            ended: false,
            before: 0.0,
            hearing: Arc::new(Mutex::new(Hearing { job: start.id, idle: false, gone: false })),
            used: None,
            heard: Arc::new(Mutex::new(Instant::now())),
        };
        worker.stdin = worker.child.stdin.take();
        // A failed write is ignored, because the exit status shows that the worker has ended.
        let _ = worker.send(start.job)?;
        if start.job.log.is_none() {
            worker.stdin = None;
        }
        if let Some(stdout) = worker.child.stdout.take() {
            let (heard, hearing) = (Arc::clone(&worker.heard), Arc::clone(&worker.hearing));
            thread::Builder::new().name(format!("worker {}", start.id)).spawn(move || {
                let stray_lines = messages(BufReader::new(stdout), |message| {
                    *heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                    let mut hearing = hearing.lock().unwrap_or_else(PoisonError::into_inner);
                    hearing.idle = matches!(message, Message::Idle);
                    let job = hearing.job;
                    drop(hearing);
                    let input =
                        if let Message::Idle = message { Input::Closed(job, 0) } else { Input::Message(job, message) };
                    inputs.send(input).is_ok()
                });
                let mut hearing = hearing.lock().unwrap_or_else(PoisonError::into_inner);
                hearing.gone = true;
                if !hearing.idle {
                    let _ = inputs.send(Input::Closed(hearing.job, stray_lines));
                }
            })?;
        }
        Ok(worker)
    }

    /// Gives another job to a worker that waits for one; `false` if it has ended.
    fn take(&mut self, start: &Start<'_>) -> io::Result<bool> {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        (self.before, self.used) = (own_cpu_seconds(self.id()).unwrap_or(0.0), None);
        let hearing = Arc::clone(&self.hearing);
        // The lock is held while the job is written: if the worker ends now, its listener finds it either idle, so that its end does not
        // fail a job, or with the job.
        let mut hearing = hearing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_sent = !hearing.gone && self.send(start.job)?;
        if is_sent {
            (hearing.job, hearing.idle) = (start.id, false);
        }
        Ok(is_sent)
    }

    /// Writes a job to the worker; `false` if the worker has ended.
    fn send(&mut self, job: &Job) -> io::Result<bool> {
        let mut line = serde_json::to_vec(job)?;
        line.push(b'\n');
        Ok(self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(&line).is_ok()))
    }

    /// True if the worker has done its job and waits for another one.
    fn is_idle(&self) -> bool {
        self.hearing.lock().unwrap_or_else(PoisonError::into_inner).idle
    }

    /// Asks it, and whatever it has started, to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it, and whatever it has started.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Leaves this much time before now out of its silence.
    pub(super) fn forgive(&self, time: Duration) {
        let mut time_heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        *time_heard = (*time_heard + time).min(Instant::now());
    }

    /// Time since its last message.
    pub(super) fn silence(&self) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// The process's number.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Processor time in seconds that the worker and its children have used for the job. `None` before its end, and where the
    /// system does not report it.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        self.used
    }

    /// Waits for the worker's end, and kills it after `patience`, with all processes that it left running. A worker
    /// that waits for another job has left no process running, and continues.
    pub(super) fn wait(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        if self.is_idle() {
            self.used = own_cpu_seconds(self.id()).map(|seconds| seconds - self.before);
            return Ok(ExitStatus::default());
        }
        let until = Instant::now() + patience;
        let mut pause = Duration::from_micros(100);
        loop {
            if self.has_ended()? || Instant::now() >= until {
                // This precedes the `wait`: until then, the IDs of the worker's process and of its group are not reused, and its times can
                // be read.
                self.used = own_cpu_seconds(self.id()).map(|seconds| seconds - self.before);
                self.kill();
                let status = self.child.wait()?;
                self.ended = true;
                return Ok(status);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// True if the worker has ended; `wait` must still be called.
    fn has_ended(&self) -> io::Result<bool> {
        let Some(pid) = self.pid() else { return Ok(true) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options))?.is_some())
    }

    /// Returns the worker's process ID while that cannot be reused.
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

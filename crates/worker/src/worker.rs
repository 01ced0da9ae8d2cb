//! The worker process: reads jobs from standard input, one after the other, and writes messages to standard output. Only this file calls
//! the lab.

mod batch_size;
mod command;
mod heartbeat;
mod imported;
mod mock;

use std::{
    fs::File,
    io::{self, BufRead, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use rustix::{
    process::{Pid, Signal, getppid, set_parent_process_death_signal},
    stdio::{dup2_stderr, dup2_stdout, stderr, stdout},
};
use sweep_job::{
    Backend, Failure, FailureKind, Job, Lab, Message, Observed, Outcome, PROTOCOL, Probe, Progress, Report, Task,
    for_each_task,
};

use crate::host::{lab, settings::Settings};

pub use self::command::{logs, measure_again, without_codes};

/// Runs the jobs on standard input. The process dies with the engine, whose process is `engine`.
pub fn main(engine: u32) -> ExitCode {
    die_with(engine);
    let Ok(mut channel) = Channel::open() else { return ExitCode::FAILURE };
    let settings = Settings::now();
    let mut job = read_job();
    loop {
        let stays = job.as_ref().is_ok_and(|job| job.log.is_some());
        let result = job.and_then(|job| {
            heartbeat::start(&job, &channel);
            catch_unwind(AssertUnwindSafe(|| run(&job, &mut channel))).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
                Err(Failure { kind: FailureKind::Crash, message: format!("the worker panicked: {text}") })
            })
        });
        let done = result.is_ok();
        channel.say(&match result {
            Ok(outcome) => Message::Done(outcome),
            Err(failure) => Message::Failed(failure.recognized()),
        });
        // This process ends after a failure, with remains of the job, or if the job has changed settings of the process, which programs
        // inherit. The engine then starts a new worker.
        if !(stays && done && command::is_over() && Settings::now() == settings) {
            return if done { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        channel.say(&Message::Idle);
        job = match next_job() {
            Some(next) => next,
            None => return ExitCode::SUCCESS,
        };
    }
}

/// Prints the devices of this machine for one backend, as JSON. Runs in a separate process, because a broken driver may crash it.
pub fn probe(engine: u32, backend: Backend) -> ExitCode {
    die_with(engine);
    let Ok(channel) = Channel::open() else { return ExitCode::FAILURE };
    match serde_json::to_vec(&lab::installed().map_or_else(Probe::default, |lab| lab.probe(backend))) {
        Ok(text) if channel.write(&text) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Runs another process of a job that has several. It dies with the job's own process, which is `engine`.
pub fn rank(engine: u32) -> ExitCode {
    die_with(engine);
    lab::installed().map_or(ExitCode::FAILURE, Lab::rank)
}

/// Does nothing until it is killed: this process holds the outputs and the view for a forked process.
pub fn hold() -> ! {
    loop {
        std::thread::park();
    }
}

fn run(job: &Job, channel: &mut Channel) -> Result<Outcome, Failure> {
    let broken = |message: String| Failure { kind: FailureKind::Crash, message };
    if job.protocol != PROTOCOL {
        let message = format!("engine and worker speak protocols {} and {PROTOCOL}", job.protocol);
        return Err(broken(format!("{message}: the program was replaced during the sweep")));
    }
    let unknown = || broken(format!("the engine sent a `{}`, which this worker does not support", job.task));
    let info = Task::info(&job.task).ok_or_else(unknown)?;
    if let Some(outcome) = info.run(job, channel) {
        return outcome;
    }
    let task = info.build(&job.params).ok_or_else(unknown)?;
    macro_rules! dispatch {
        ($($place:ident $task:ident;)+) => {
            match &task { $(Task::$task(params) => dispatch!(@$place params),)+ }
        };
        (@worker $params:ident) => { $params.run(job, channel) };
        (@lab $params:ident) => {{
            let _ = $params;
            compute(&task, job, channel)
        }};
    }
    for_each_task!(dispatch)
}

/// A task that the worker runs without the lab.
trait Run {
    fn run(&self, job: &Job, channel: &mut Channel) -> Result<Outcome, Failure>;
}

/// Runs a task of the lab.
fn compute(task: &Task, job: &Job, channel: &mut Channel) -> Result<Outcome, Failure> {
    let Some(lab) = lab::installed() else {
        let message = format!("this build has no lab, so it cannot run `{}`: build with the feature `cpu`", job.task);
        return Err(Failure { kind: FailureKind::Backend, message });
    };
    lab.run(task, job, channel)
}

fn read_job() -> Result<Job, Failure> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.and_then(|_| serde_json::from_str(&line).map_err(io::Error::from))
        .map_err(|error| Failure { kind: FailureKind::Crash, message: format!("the engine sent no job: {error}") })
}

/// The next job of a worker that stays, whose output goes to its own log; `None` if the engine has no further job.
fn next_job() -> Option<Result<Job, Failure>> {
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line).is_ok_and(|count| count == 0) {
        return None;
    }
    let job: io::Result<Job> = serde_json::from_str(&line).map_err(io::Error::from);
    let job = job.and_then(|job| {
        if let Some(log) = &job.log {
            let log = File::options().create(true).append(true).open(log)?;
            dup2_stderr(&log)?;
            dup2_stdout(stderr())?;
        }
        Ok(job)
    });
    let failure = |error| Failure { kind: FailureKind::Crash, message: format!("the engine sent no job: {error}") };
    Some(job.map_err(failure))
}

/// Asks the kernel to kill this process when the engine ends for any reason. If the engine has ended already, this process ends, too.
fn die_with(engine: u32) {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid().map(Pid::as_raw_nonzero).map(|pid| pid.get().cast_unsigned()) != Some(engine) {
        std::process::exit(1);
    }
}

/// The channel to the engine: the original standard output. Standard output itself leads to the log from now on, so that a library that
/// prints does not break the protocol.
#[derive(Clone)]
struct Channel(Arc<Mutex<Line>>);

struct Line {
    to: File,
    /// Time of the last message.
    said: Instant,
}

impl Channel {
    fn open() -> io::Result<Self> {
        let own = stdout().try_clone_to_owned()?;
        dup2_stdout(stderr())?;
        Ok(Self(Arc::new(Mutex::new(Line { to: own.into(), said: Instant::now() }))))
    }

    fn say(&self, message: &Message) {
        let Ok(mut line) = serde_json::to_vec(message) else { return };
        line.push(b'\n');
        // A write fails only if the engine has ended, and then this process is about to end.
        let _ = self.write(&line);
    }

    fn write(&self, text: &[u8]) -> bool {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        line.said = Instant::now();
        line.to.write_all(text).is_ok()
    }

    /// Time of the last message.
    fn said(&self) -> Instant {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).said
    }
}

impl Report for Channel {
    fn progress(&mut self, progress: Progress) {
        self.say(&Message::Progress(progress));
    }

    fn note(&mut self, text: &str) {
        self.say(&Message::Note(text.to_owned()));
    }

    fn alive(&mut self) {
        self.say(&Message::Alive);
    }

    fn observed(&mut self, observed: Observed) {
        self.say(&Message::Observed(observed));
    }
}

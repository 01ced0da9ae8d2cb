//! A program as a job: its inputs are linked, its output is read, its metrics and files are collected.

mod folder;
mod program;
mod tracking;
mod words;

use std::{
    collections::BTreeMap,
    io,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{self, ExitStatus},
};

use sweep_job::{
    Failure, FailureKind, Job, Outcome, Report, Task, Unit, Variable,
    tasks::{Command, input_name},
};

use crate::{host::machine::OutOfMemory, run::killed};

use self::{folder::Folder, program::Ended, tracking::Tracking, words::Word};
use super::{Channel, Run};

impl Run for Command {
    fn run(&self, job: &Job, channel: &mut Channel) -> Result<Outcome, Failure> {
        let folder = Folder::open(&job.dir).map_err(disk("the job's folder cannot be used"))?;
        let result = attempt(self, job, &folder, channel);
        if result.is_err() {
            // Nothing of it will be kept; what cannot be removed here, the engine tries again.
            let _ = folder.keep(&[]);
        }
        result
    }
}

fn attempt(command: &Command, job: &Job, folder: &Folder, report: &mut dyn Report) -> Result<Outcome, Failure> {
    for input in &command.inputs {
        let name = input_name(&input.0).unwrap_or_default();
        input.0.metadata().map_err(|error| Failure {
            kind: FailureKind::Input,
            message: format!("the input `{}` cannot be read any more: {error}", input.0.display()),
        })?;
        folder.link(&input.0, name).map_err(disk("an input cannot be linked into the job's folder"))?;
    }
    let stop = program::follow_engine().map_err(disk("the worker cannot watch the engine"))?;
    let mut found = BTreeMap::new();
    let from_lines = command.metrics.is_none();
    let mut on_word = |word| match word {
        Some(Word::Metric(name, value)) if from_lines => {
            found.insert(name, value);
        }
        Some(Word::Metric(..)) => {}
        Some(Word::Progress(progress)) => report.progress(progress),
        None => report.alive(),
    };
    let memory = OutOfMemory::now();
    let mut program = prepare(command, job)?;
    let tracking =
        Tracking::begin(command, job).map_err(disk("the files that the program reads cannot be observed"))?;
    if let Some(tracking) = &tracking {
        tracking.prepare(&mut program);
    }
    let ended = program::run(program, &mut on_word).map_err(|error| not_started(command, folder.path(), &error))?;
    if stop.load(std::sync::atomic::Ordering::SeqCst) {
        // A program that was told to stop early may say that all is well; its result is none.
        let message = "it was asked to end (SIGTERM); in a script, `kill 0` asks its worker, too".into();
        return Err(Failure { kind: FailureKind::Crash, message });
    }
    if !ended.status.success() {
        return Err(describe(&ended, OutOfMemory::now().since(memory)));
    }
    if let Some(path) = &command.metrics {
        found = words::read_json(&folder.path().join(&path.0)).map_err(|reason| Failure {
            kind: FailureKind::Experiment,
            message: format!("the metrics file `{}` {reason}", path.0),
        })?;
    }
    if let Some(observed) = tracking.map(|tracking| tracking.end(folder.path(), report)).transpose()?.flatten() {
        report.observed(observed);
    }
    let outputs: Vec<&str> = command.outputs.iter().map(|output| output.0.as_str()).collect();
    for output in &outputs {
        folder.check(output, &outputs)?;
    }
    folder.keep(&outputs).map_err(disk("the job's folder cannot be cleaned up"))?;

    let mut outcome = Outcome::default();
    outcome.set(&Command::TIME_RUN, ended.seconds);
    for (name, value) in found {
        if !value.is_finite() {
            report.note(&format!("`{name}` is {value}, which is not a number: ignored"));
            outcome.metrics.remove(&name);
        }
        let declared = Task::info("command").and_then(|task| task.metric(&name));
        outcome.set_open(&name, value, declared.map_or(Unit::One, |metric| metric.unit));
    }
    outcome.artifacts = outputs.iter().map(|output| ((*output).to_owned(), (*output).to_owned())).collect();
    Ok(outcome)
}

/// The program with its arguments and its environment. Fails if a variable is not set whose value it is to get.
fn prepare(command: &Command, job: &Job) -> Result<process::Command, Failure> {
    let argv: Vec<&str> = match &command.run {
        Some(script) => vec!["sh", "-eu", "-c", script, "run"],
        None => command.argv.iter().map(|argument| argument.0.as_str()).collect(),
    };
    let (name, arguments) = argv.split_first().unwrap_or((&"", &[]));
    let mut program = process::Command::new(location(name, &job.dir));
    std::os::unix::process::CommandExt::arg0(&mut program, name);
    program.args(arguments).current_dir(&job.dir).env("PWD", &job.dir);
    let threads = job.threads.to_string();
    if std::env::var_os("OMP_NUM_THREADS").is_none() {
        program.env("OMP_NUM_THREADS", &threads);
    }
    for (name, variable) in &command.env {
        match variable {
            Variable::Text(text) => program.env(name, text),
            Variable::From(from) => program.env(
                name,
                std::env::var_os(from).ok_or_else(|| Failure {
                    kind: FailureKind::Input,
                    message: format!("`{from}`, from which `env` reads `{name}`, is not set where the job runs"),
                })?,
            ),
        };
    }
    program.env("SWEEP_SCRATCH", &job.scratch);
    program.env("SWEEP_THREADS", &threads).env("SWEEP_SEED", command.seed.to_string());
    for (index, input) in command.inputs.iter().enumerate() {
        program.env(format!("SWEEP_INPUT_{}", index + 1), &input.0);
    }
    Ok(program)
}

/// A path starts from the job's folder; a name is looked for on the `PATH`.
fn location(name: &str, folder: &Path) -> PathBuf {
    if name.contains('/') { folder.join(name) } else { PathBuf::from(name) }
}

fn not_started(command: &Command, folder: &Path, error: &io::Error) -> Failure {
    let name = command.argv.first().map_or("sh", |name| name.0.as_str());
    let missing = error.kind() == io::ErrorKind::NotFound && !location(name, folder).exists();
    let message = match (missing, name.contains('/')) {
        (true, false) => format!("there is no program `{name}` on the PATH"),
        (true, true) => {
            format!("there is no program `{name}`: paths start from the job's folder, which contains its inputs")
        }
        (false, _) => format!("the program `{name}` cannot be started: {error}"),
    };
    Failure { kind: FailureKind::Input, message }
}

fn describe(ended: &Ended, out_of_memory: Option<bool>) -> Failure {
    let (kind, how) = describe_status(ended.status, out_of_memory);
    let separator = if ended.complaint.is_empty() { "" } else { ": " };
    Failure { kind, message: format!("{how}{separator}{}", ended.complaint) }
}

fn describe_status(status: ExitStatus, out_of_memory: Option<bool>) -> (FailureKind, String) {
    match (status.code(), status.signal()) {
        // A shell reports a killed program in this way.
        (Some(137), _) if out_of_memory == Some(true) => killed("the program", out_of_memory),
        (Some(code), _) => (FailureKind::Experiment, format!("the program ended with exit code {code}")),
        (None, Some(9)) => killed("the program", out_of_memory),
        (None, signal) => {
            let number = signal.unwrap_or_default();
            let name = signal_hook::low_level::signal_name(number).unwrap_or("unknown");
            (FailureKind::Crash, format!("the program was ended by signal {number} ({name})"))
        }
    }
}

fn disk(what: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure { kind: FailureKind::Io, message: format!("{what}: {error}") }
}

//! A program as a job: its inputs are linked, its output is read, its metrics and files are collected.
//!
//! `program.rs` starts the program and leaves no process behind, `place.rs` chooses its folder, `contract.rs` writes the files that it is
//! given, `settings.rs` the copy of its settings, `tracking.rs` observes its reads, `report/` and `reads/` follow its outputs (each source
//! is a `Follower` that feeds a `Series`), `trial.rs` compares the first steps with an earlier run, `kept.rs` keeps small logs, `again.rs`
//! reads them when `reads` or `metrics` have changed, and `params_file.rs` observes whether it opens the file with its parameters.

mod again;
mod cause;
mod contract;
mod folder;
mod fork;
mod kept;
mod launcher;
mod lines;
mod module;
mod params_file;
mod place;
mod program;
mod ranks;
mod reads;
mod report;
mod resume;
mod settings;
mod shell;
mod tracking;
mod trial;
mod usage;
mod values;
mod verdict;
mod words;

use std::{
    collections::BTreeMap,
    io,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{self, ExitStatus},
    sync::atomic::Ordering,
};

use signal_hook::consts::SIGPIPE;
use sweep_job::{
    Agreement, Failure, FailureKind, Ignore, Job, Message, Metric, Outcome, Report as _, Reported, Variable,
    tasks::{Collect, Command, Launch, MetricsFrom, Shell, input_name},
};

use crate::{host::machine::OutOfMemory, run::killed};

pub(super) use self::program::is_over;
pub use self::{again::measure_again, kept::logs, words::without_codes};
use self::{
    contract::Contract,
    folder::Folder,
    fork::Fork,
    launcher::Launcher,
    params_file::ParamsFile,
    place::Place,
    program::Ended,
    ranks::Ranks,
    report::{Following, Gathered},
    resume::Keeper,
    tracking::Tracking,
    trial::Comparison,
    usage::Usage,
    values::Values,
    verdict::Facts,
    words::Word,
};
use super::{Channel, Run};

impl Run for Command {
    fn run(&self, job: &Job, channel: &mut Channel) -> Result<Outcome, Failure> {
        let folder = Folder::open(&job.dir).map_err(disk("the job's folder cannot be used"))?;
        let mut place = Place::open(self, job, channel)?;
        let result = place.put_settings(self, job).and_then(|()| attempt(self, job, &folder, &place, channel));
        // The engine tries again to remove anything that cannot be removed here.
        let _ = place.clear();
        if result.is_err() {
            let _ = folder.keep(&[]);
            contract::leave(&job.scratch);
        }
        result
    }
}

/// Links the inputs into the job's folder.
fn link_inputs(command: &Command, job: &Job, folder: &Folder) -> Result<(), Failure> {
    let input_failure = |message: String| Failure { kind: FailureKind::Input, message };
    let ignore = Ignore::new(&command.ignore).map_err(input_failure)?;
    for input in &command.inputs {
        let name = input_name(&input.0).unwrap_or_default();
        let read_error = |error: io::Error| {
            input_failure(format!("the input `{}` cannot be read any more: {error}", input.0.display()))
        };
        let metadata = input.0.metadata().map_err(read_error)?;
        if command.copy && metadata.is_dir() {
            folder.copy(&input.0, name, &ignore, results_of(job)).map_err(|error| {
                input_failure(format!(
                    "the input `{}` cannot be copied into the job's folder: {error}",
                    input.0.display()
                ))
            })?;
            continue;
        }
        folder.link(&input.0, name).map_err(disk("an input cannot be linked into the job's folder"))?;
    }
    Ok(())
}

/// The results folder of a job, whose own folder is `results/store/staging/KEY/files`.
fn results_of(job: &Job) -> &Path {
    job.dir.ancestors().nth(4).filter(|results| results.parent().is_some()).unwrap_or(&job.dir)
}

fn attempt(
    command: &Command,
    job: &Job,
    folder: &Folder,
    place: &Place,
    channel: &mut Channel,
) -> Result<Outcome, Failure> {
    if !place.is_project() {
        link_inputs(command, job, folder)?;
    }
    let stop = program::follow_engine().map_err(disk("the worker cannot watch the engine"))?;
    let mut values = Values::of(command);
    let mut contract = Contract::open(command, job).map_err(disk("the job's scratch folder cannot be used"))?;
    let (sources, patterns, keeper) = contract.sources(command, job, place.written());
    let launcher = Launcher::of(command, job)?;
    let mut programs = prepare(command, job, place, (&contract, &keeper), launcher.as_ref())?;
    let comparison = job.trial.as_deref().map(|trial| Comparison::new(trial, &job.scratch));
    let follower = Following::start(sources, contract.state(), command.until, (keeper, comparison), channel.clone())
        .map_err(disk("the reports cannot be followed"))?;
    let report_flag = follower.spoke();
    let mut fork = programs.first().and_then(|program| Fork::of(command, job, place, program, channel));
    let mut on_word = |word| match word {
        Some(Word::Metric(name, value, unit)) => values.number(name, value, unit),
        Some(Word::NoNumber(name, text)) => values.other(name, &text),
        Some(Word::Progress(progress)) => channel.progress(progress),
        None => channel.alive(),
    };
    let memory = OutOfMemory::lately();
    let tracking = Tracking::of(command, job, launcher.as_ref(), place, (&mut programs, fork.as_ref()))?;
    if let Some(launcher) = &launcher {
        programs = launcher.wrap_all(&programs);
    }
    place.apply(programs.iter_mut().chain(fork.as_mut().map(|fork| &mut fork.stub)));
    let usage = Usage::start().map_err(disk("the program cannot be observed"))?;
    // The kernel does not report files that processes on other machines open.
    let params_file = if launcher.is_none() { ParamsFile::watch(&contract.params(), &job.scratch) } else { None };
    let on_line = move |output, line: &[u8], is_cut| patterns.hear(output, line, is_cut);
    let observer = tracking.as_ref().and_then(Tracking::hook);
    let exit = program::run((programs, fork.as_mut()), launcher.as_ref(), observer, on_line, &mut on_word)
        .map_err(|error| not_started(command, place, &error))?;
    fork::end(fork, channel);
    launcher.iter().filter(|_| !exit.status.success()).for_each(Launcher::clear);
    let (reports, mut keeper, comparison) = follower.finish().map_err(disk("the reports cannot be read"))?;
    if let Some(agreement) = comparison.as_ref().and_then(Comparison::agreed) {
        return adopt(agreement, tracking, place, folder, channel);
    }
    let (step, total) = reports.progress();
    let facts = Facts {
        is_success: exit.status.success(),
        has_reported: report_flag.load(Ordering::SeqCst),
        is_asked: keeper.is_asked(),
        is_terminated: stop.load(Ordering::SeqCst),
        says_stopped: reports.is_stopped(),
        step,
        total: [total, command.until].into_iter().flatten().min(),
    };
    let exit_failure =
        || (!facts.is_success).then(|| describe(command, place, &exit, OutOfMemory::now().since(memory)));
    if let Some(mut failure) = verdict::stopped(&facts).or_else(exit_failure) {
        keeper.end();
        if let Some(hint) = tracking.and_then(Tracking::hint) {
            failure.message = format!("{}; {hint}", failure.message);
        }
        return Err(failure);
    }
    let params_unread = params_file.is_some_and(|file| file.is_untouched());
    values.read(place.written())?;
    if let Some(tracking) = tracking {
        tracking.end(place.written(), channel)?;
    }
    // Evaluated before the files of the sources are removed.
    let (silence, removed) = (reports.silence(), removed(command, place));
    let outputs = clean_up(command, place, folder)?;
    let mut outcome = Outcome::default();
    keeper.add_to(&mut outcome, exit.seconds);
    // Slurm's daemons start the processes of `srun`, so they are not children of this process.
    if launcher.is_none_or(|launcher| launcher.is_local()) {
        usage.finish(exit.seconds, &mut outcome);
    }
    let lines = values.lines();
    values.add_to(&mut outcome, channel, |name| reports.has(name) || reports.has(&name.to_lowercase()));
    for text in silence.into_iter().chain(comparison.as_ref().and_then(Comparison::silence)) {
        channel.note(&text);
    }
    reported(command, (&reports, removed), &mut outcome, channel);
    let reported = Reported { sources: reports.reported(), lines, params_unread };
    outcome.reported = (reported != Reported::default()).then(|| Box::new(reported));
    outcome.beginning = comparison.map(|comparison| Box::new(comparison.beginning(&outcome.curves)));
    outcome.artifacts = outputs.into_iter().map(|output| (output.clone(), output)).collect();
    Ok(outcome)
}

/// A notice about the files of a program in which results may be, if its folder is its own and is removed.
fn removed(command: &Command, place: &Place) -> Option<String> {
    let inputs = command.inputs.iter().filter(|_| !place.is_project()).filter_map(|input| input_name(&input.0));
    let settings = place.settings().and_then(|settings| settings.inside(place.written()));
    // The view has copies of the files of its layer, such as those that were edited while the run went on.
    let layer = place.layer().files().filter_map(|(path, _)| path.to_str());
    let except: Vec<&str> = inputs.chain(settings).chain(layer).collect();
    place.is_private().then(|| kept::removed(command, place.written(), &except)).flatten()
}

/// Ends the job of a program that was stopped because an earlier result is valid. Files of the program are not kept.
fn adopt(
    agreement: &Agreement,
    tracking: Option<Tracking<'_>>,
    place: &Place,
    folder: &Folder,
    channel: &mut Channel,
) -> Result<Outcome, Failure> {
    if let Some(tracking) = tracking {
        tracking.end(place.written(), channel)?;
    }
    folder.keep(&[]).map_err(disk("the job's folder cannot be cleaned up"))?;
    channel.say(&Message::Agreed(agreement.clone()));
    Ok(Outcome::default())
}

/// Checks the outputs of a program, and removes all other files but the logs from which metrics can be taken again.
fn clean_up(command: &Command, place: &Place, folder: &Folder) -> Result<Vec<String>, Failure> {
    let program_files = place.finish().map_err(disk("the program's folder cannot be read"))?;
    // In its own folder, a program has its inputs next to its outputs.
    let inputs = command.inputs.iter().filter(|_| !place.is_project());
    let settings = place.settings().and_then(|settings| settings.inside(place.written()));
    let inputs: Vec<&str> = inputs.filter_map(|input| input_name(&input.0)).chain(settings).collect();
    let mut paths: Vec<String> = Vec::new();
    for output in &command.outputs {
        paths.extend(program_files.matching(&output.0, &inputs)?);
    }
    let outputs: Vec<&str> = paths.iter().map(String::as_str).collect();
    for output in &outputs {
        program_files.check(output, &outputs)?;
    }
    // A log that cannot be kept does not invalidate the result.
    let others: Vec<&str> = outputs.iter().copied().chain(settings).collect();
    let has_logs = place.is_private() && kept::keep(command, place.written(), &others).unwrap_or(false);
    let kept_paths: Vec<&str> = outputs.iter().copied().chain(has_logs.then_some(kept::KEPT)).collect();
    place.hand_over(&kept_paths, folder).map_err(disk("the program's outputs cannot be kept"))?;
    folder.keep(&kept_paths).map_err(disk("the job's folder cannot be cleaned up"))?;
    Ok(paths)
}

/// Adds the reports of the program, which take precedence over its lines and its file. Without any metric, `removed` is the notice about
/// its other files.
fn reported(
    command: &Command,
    (reports, removed): (&Gathered, Option<String>),
    outcome: &mut Outcome,
    channel: &mut Channel,
) {
    let empty = BTreeMap::new();
    let collect = command.metrics.as_ref().and_then(MetricsFrom::series).unwrap_or(&empty);
    let (metrics, missing_names) = reports.metrics(collect);
    for name in missing_names.iter().filter(|name| !outcome.metrics.contains_key(name.as_str())) {
        channel.note(&format!("`metrics` names `{name}`, but the program has not reported it"));
    }
    for (name, Metric { value, unit }) in metrics {
        if values::is_reserved(&name) {
            channel.note(&values::reserved(&name));
            continue;
        }
        outcome.facts.remove(&Outcome::absent(&name));
        outcome.set_open(&name, value, unit);
    }
    for (name, since) in reports.diverged(collect).into_iter().filter(|(name, _)| !values::is_reserved(name)) {
        collect.get(&name).copied().unwrap_or(Collect::Last).remove(&name, &mut outcome.metrics);
        outcome.set_diverged(&name, since);
    }
    outcome.curves = reports.curves();
    if let Some(notice) = removed.filter(|_| outcome.metrics.keys().all(|name| values::is_own(name))) {
        channel.note(&notice);
    }
}

/// The processes of the program, each with its arguments and its environment.
fn prepare(
    command: &Command,
    job: &Job,
    place: &Place,
    (contract, keeper): (&Contract, &Keeper),
    launcher: Option<&Launcher>,
) -> Result<Vec<process::Command>, Failure> {
    // A launcher starts all processes, and sets their variables.
    let count = if launcher.is_some() { 1 } else { command.processes() };
    let launch = command.launch.filter(|launch| launcher.is_none() && *launch != Launch::Fork);
    let ranks = launch.map(|launch| Ranks::new(launch, count, job.threads)).transpose();
    let ranks = ranks.map_err(disk("there is no free port for the processes"))?;
    let program = |rank| -> Result<process::Command, Failure> {
        let mut program = prepare_one(command, job, place, contract)?;
        keeper.describe(&mut program);
        if let Some(ranks) = &ranks {
            ranks.describe(rank, &mut program);
        }
        Ok(program)
    };
    (0..count).map(program).collect()
}

/// The program with its arguments and its environment. Fails if a variable is unset whose value the program should get.
fn prepare_one(command: &Command, job: &Job, place: &Place, contract: &Contract) -> Result<process::Command, Failure> {
    let argv = match &command.run {
        Some(script) => shell::words(command, script, &job.dir)?,
        None => command.arguments(),
    };
    let argv = match place.settings() {
        Some(settings) => settings.arguments(argv, place.working())?,
        None => argv,
    };
    let (name, arguments) = argv.split_first().map_or(("", [].as_slice()), |(name, rest)| (name.as_str(), rest));
    let mut program = process::Command::new(location(name, place.working()));
    std::os::unix::process::CommandExt::arg0(&mut program, name);
    program.args(arguments).current_dir(place.working()).env("PWD", place.working());
    let threads = job.threads.to_string();
    if std::env::var_os("OMP_NUM_THREADS").is_none() {
        program.env("OMP_NUM_THREADS", &threads);
    }
    for (name, variable) in &command.env {
        match variable {
            Variable::Text(text) => program.env(name, text),
            Variable::From(source) => program.env(
                name,
                std::env::var_os(source).ok_or_else(|| Failure {
                    kind: FailureKind::Input,
                    message: format!("`{source}`, from which `env` reads `{name}`, is not set where the job runs"),
                })?,
            ),
        };
    }
    module::offer(job, &mut program).map_err(disk("the Python module cannot be written"))?;
    program.env("SWEEP_SCRATCH", &job.scratch);
    contract.describe(command, &mut program);
    if let Some(settings) = place.settings() {
        settings.describe(&mut program);
    }
    program.env("SWEEP_THREADS", &threads).env("SWEEP_SEED", command.seed.to_string());
    for (index, input) in command.inputs.iter().enumerate() {
        let copy = input_name(&input.0).map(|name| job.dir.join(name)).filter(|_| command.copy && input.0.is_dir());
        program.env(format!("SWEEP_INPUT_{}", index + 1), copy.as_ref().unwrap_or(&input.0));
    }
    Ok(program)
}

/// The path of a program: a path is relative to `folder`; a name is searched on the `PATH`.
fn location(name: &str, folder: &Path) -> PathBuf {
    if name.contains('/') { folder.join(name) } else { PathBuf::from(name) }
}

fn not_started(command: &Command, place: &Place, error: &io::Error) -> Failure {
    let shell = command.shell.as_ref().and_then(|shell| shell.0.first()).map_or("sh", String::as_str);
    let name = command.argv.first().map_or(shell, |name| name.0.as_str());
    let is_found = |folder: PathBuf| folder.join(name).is_file();
    let is_there = if name.contains('/') {
        location(name, place.working()).exists()
    } else {
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(is_found))
    };
    let is_missing = error.kind() == io::ErrorKind::NotFound && !is_there;
    let message = match (is_missing, name.contains('/')) {
        (true, false) => format!("there is no program `{name}` on the PATH"),
        (true, true) if place.is_project() => {
            format!("there is no program `{name}` in `{}`, in which the program is to run", place.working().display())
        }
        (true, true) => {
            format!("there is no program `{name}`: paths are relative to the job's folder, which contains its inputs")
        }
        (false, _) => format!("the program `{name}` cannot be started: {error}"),
    };
    Failure { kind: FailureKind::Input, message }
}

fn describe(command: &Command, place: &Place, exit: &Ended, out_of_memory: Option<bool>) -> Failure {
    let (kind, phrase) = describe_status(exit.status, out_of_memory);
    let rank = exit.rank.map_or_else(String::new, |rank| format!("rank {rank} of {}: ", command.processes()));
    let separator = if exit.complaint.is_empty() { "" } else { ": " };
    // A shell reports a program that a signal has ended by 128 and its number.
    let is_pipe =
        command.shell().is_some_and(|shell| shell != Shell::Plain) && exit.status.code() == Some(128 + SIGPIPE);
    let hint = if is_pipe {
        "; the program after it in a pipeline ended before it had read all (SIGPIPE): let it read the rest, as `sed -n 1p` does and `head -1` does not, or write `|| true` for the part that may fail"
    } else {
        ""
    };
    // A file in the job's folder is named as the program names it, so that the same failure of many jobs reads the same.
    let folder = format!("{}/", place.working().display());
    let complaint = if place.is_project() { exit.complaint.clone() } else { exit.complaint.replace(&folder, "") };
    Failure { kind, message: format!("{rank}{phrase}{separator}{complaint}{hint}") }
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

fn disk(context: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure { kind: FailureKind::Io, message: format!("{context}: {error}") }
}

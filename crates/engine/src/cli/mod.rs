//! The command line; one file per command.

mod ablate;
mod answer;
mod best;
mod bisect;
mod bundle;
mod cache;
mod checklist;
mod compared;
mod demo;
mod design;
mod devices;
mod diff;
mod doctor;
mod exec;
mod explain;
mod export;
mod home;
mod hosts;
mod import;
mod init;
mod ledger;
mod log;
mod logs;
#[cfg(feature = "mcp")]
mod mcp;
mod measure;
mod nearby;
mod note;
mod plan;
mod propose;
mod query;
mod rebuilt;
mod remote;
mod report;
mod rerun;
mod run;
mod runs;
mod saved;
mod script;
mod show;
mod status;
mod stop;
mod studies;
mod tasks;
#[cfg(feature = "ui")]
mod ui;
mod usage;
mod watch;

use std::{
    ffi::OsStr,
    io::{self, Write as _},
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{ArgAction, Args, CommandFactory as _, Parser, Subcommand, ValueEnum, builder::PossibleValuesParser};
use serde::{Deserialize, Serialize};
use sweep_job::{Backend, BackendChoice, Lab, Task, TaskInfo};
use tracing::{debug_span, field, info_span};

use crate::{
    batches::{self, Batches},
    error::{Error, Exit},
    format::{clean, count, say, use_color},
    host,
    recipe::{Draft, Executor, Request},
    run::bound_starts,
    session::{Prepared, warn, warn_of_damage},
    store::Store,
    worker,
};

/// The results folder without `--results`, and the variable that names another one.
const RESULTS: &str = "results";
const RESULTS_VARIABLE: &str = "SWEEP_RESULTS";

/// Declarative ablations and sweeps for neural-network training.
#[derive(Debug, Parser)]
#[command(name = "sweep", bin_name = "sweep", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// The folder for records, journals and reports.
    #[arg(long, global = true, value_name = "DIR", default_value = RESULTS, env = RESULTS_VARIABLE)]
    results: PathBuf,
    /// Log the stages of the command to standard error, and each job of a run; `-vv` logs more. `SWEEP_LOG` sets the levels of individual stages.
    #[arg(long, short, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Maximum number of jobs that this process starts; set by `sweep exec-bounded`.
    #[arg(long, global = true, hide = true)]
    max_starts: Option<usize>,
    /// Without a command: the recipes of this folder, the latest run, and the next commands.
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write an example recipe, or a recipe for a script with the parameters that the script declares.
    #[command(alias = "init")]
    New(init::NewArgs),
    /// Copy a small study to a folder, run it and print its results.
    Demo(demo::DemoArgs),
    /// List the recipes that come with the program, or copy them with their data to a folder.
    Examples(demo::ExamplesArgs),
    /// Run the jobs of a recipe, a script or a command line that are not cached, then print the tables.
    Run(run::RunArgs),
    /// Measure the finished jobs of a recipe without training: run the steps that depend on them, or a command line on their
    /// artifacts.
    Measure(run::RunArgs),
    /// Show the jobs that would run, with the reasons, and the cached jobs.
    Plan(plan::PlanArgs),
    /// Explain why a job will run: the difference from the nearest record, and its place in the recipe.
    Explain(explain::ExplainArgs),
    /// Print a recipe's tables from the existing records, without running anything.
    Report(report::ReportArgs),
    /// Print answers to the NeurIPS checklist and the ACM badges, derived from a recipe and its records.
    Checklist(checklist::ChecklistArgs),
    /// Rank the configurations of a step by the mean of a metric over seeds, the best first.
    Best(best::BestArgs),
    /// Find, sort and export records, of recipes or of the whole store.
    Query(query::QueryArgs),
    /// Compare two runs, recipes or results folders.
    Diff(diff::DiffArgs),
    /// Export records to another program.
    Export(export::ExportArgs),
    /// Import runs of other programs, and write a study of them.
    Import(import::ImportArgs),
    /// Test a change to a recipe on sealed seeds, at a level that limits false discoveries over all proposals.
    Propose(propose::ProposeArgs),
    /// Find the revision of the project's code that changed a metric.
    Bisect(bisect::BisectArgs),
    /// Write patches for an ablation of code: one for each marked region, or for each commit of a range.
    Ablate(ablate::AblateArgs),
    /// Show every proposal made with `sweep propose`, with its level and verdict; or verify the ledger.
    Ledger(ledger::LedgerArgs),
    /// Write a study to one archive that others can verify, or verify such an archive.
    Bundle(bundle::BundleArgs),
    /// The older form of `sweep bundle verify`.
    #[command(hide = true)]
    Verify(bundle::VerifyArgs),
    /// Show the progress or the outcome of a run, and the reason why each waiting job waits.
    Status(status::StatusArgs),
    /// Show a run full-screen in the terminal: jobs, curves and logs; sort, filter and stop jobs with the keyboard.
    Watch(watch::WatchArgs),
    /// Stop single jobs of a live run; the run continues with the others.
    Stop(stop::StopArgs),
    /// Add tags and notes to the record of a job, remove them, or print them.
    Note(note::NoteArgs),
    /// Serve web pages with live runs, comparisons and reports.
    #[cfg(feature = "ui")]
    Ui(ui::UiArgs),
    /// Serve tools for agents over the Model Context Protocol: recipes, plans, runs within limits, reports.
    #[cfg(feature = "mcp")]
    Mcp(mcp::McpArgs),
    /// Print the output of a job's process.
    Logs(logs::LogsArgs),
    /// Print a job's record: parameters, metrics, files and provenance; for a failed job, the failure.
    Show(show::ShowArgs),
    /// Add, remove and list the hosts on which runs start jobs by SSH.
    Hosts(hosts::HostsArgs),
    /// List, check, remove, export, import and share records.
    Cache(cache::CacheArgs),
    /// List the tasks that a step can use; with a name, show the task's parameters and metrics.
    Tasks(tasks::TasksArgs),
    /// Print the JSON Schema of recipes or of sweep files, for editors.
    Schema {
        /// Kind of file.
        #[arg(value_enum, default_value = "recipe")]
        of: SchemaOf,
    },
    /// List the compute devices of this machine, and the one that `--backend auto` selects.
    Devices(devices::DevicesArgs),
    /// Check the requirements of an executor, and print a remedy for each that is not met.
    Doctor(doctor::DoctorArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Run the jobs that the engine sends on standard input.
    #[command(hide = true)]
    Worker {
        /// The engine's process id.
        #[arg(long)]
        engine: u32,
        /// Only report the devices of a backend.
        #[arg(long)]
        probe: Option<BackendArg>,
        /// Run as a further process (rank) of a job, which the environment variables describe.
        #[arg(long, conflicts_with = "probe")]
        rank: bool,
        /// Only keep the output pipes of a process open.
        #[arg(long, conflicts_with_all = ["probe", "rank"])]
        hold: bool,
    },
    /// Run one job of a run in an allocation of a batch system.
    #[command(hide = true)]
    ExecJob(exec::ExecJobArgs),
    /// Run the remaining jobs of a run in an allocation of a batch system.
    #[command(hide = true)]
    ExecPilot(exec::ExecPilotArgs),
    /// Run a saved plan within the limits that `sweep mcp` sets.
    #[cfg(feature = "mcp")]
    #[command(hide = true)]
    ExecBounded(mcp::ExecBoundedArgs),
    /// Run one job that is downloaded from a remote; its record is uploaded to it.
    #[command(hide = true)]
    ExecRemote(exec::ExecRemoteArgs),
    /// Write the findings of a trial job of `sweep doctor` on its machine to a file.
    #[command(hide = true)]
    ExecTrial(exec::ExecTrialArgs),
}

/// Kind of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SchemaOf {
    Recipe,
    Sweep,
}

/// Recipes, and the values to change.
#[derive(Debug, Args)]
struct RecipeArgs {
    /// Recipes, or sweep files, which run recipes with other values.
    #[arg(value_name = "RECIPE", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    changes: ChangeArgs,
}

/// Changes to the files' values.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
struct ChangeArgs {
    /// Run the recipes at this scale: the name of an entry of their `scales`, or `quick` for their plain values. `--set` and
    /// `--axis` take precedence over its values.
    #[arg(long, value_name = "NAME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scale: Option<String>,
    /// Set a param of the recipe; can be repeated.
    #[arg(long, value_name = "PARAM=VALUE")]
    set: Vec<String>,
    /// Replace the values of an axis, in all steps or in one; can be repeated.
    #[arg(long = "axis", value_name = "[STEP.]AXIS=A,B,…")]
    axes: Vec<String>,
    /// Backend to compute on. `auto` selects CUDA, else a hardware GPU through wgpu, else the CPU.
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: BackendArg,
    /// Executor of the jobs: this machine, or a batch system. Default: the sweep file's executor, else `local`.
    #[arg(long, value_name = "EXECUTOR", value_parser = PossibleValuesParser::new(Executor::words()))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    executor: Option<String>,
    /// Also run jobs on these hosts, over SSH; separated by commas. Implies `--executor ssh`.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<String>,
}

/// Part of a recipe.
#[derive(Debug, Args)]
struct OnlyArgs {
    /// Select a step, or some of its points, with their dependencies; can be repeated.
    #[arg(long, value_name = "STEP[/AXIS=VALUE,…]")]
    only: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BackendArg {
    Auto,
    Cuda,
    Wgpu,
    Cpu,
}

/// Runs the program, which can compute the tasks of `lab` and those that it adds.
pub fn main(lab: Option<&'static dyn Lab>, added: &[TaskInfo]) -> ExitCode {
    if let Some(lab) = lab {
        host::lab::install(lab);
    }
    let tasks = Task::add(added);
    batches::install_measurer(worker::measure_again);
    crate::run::install_earlier_results(batches::earlier_results);
    let cli = usage::parse().unwrap_or_else(|error| {
        // A closed standard output changes no exit code.
        if error.use_stderr() && answer::is_wanted() {
            let _ = answer::usage(&error);
        }
        error.exit()
    });
    if let Some(most) = cli.max_starts {
        bound_starts(most);
    }
    let ready = tasks.map_err(Error::from).and_then(|()| Ok(log::start(cli.verbose)?));
    let exit = match (ready, cli.command) {
        (Err(error), _) => Err(error),
        (Ok(()), Some(Command::Worker { hold: true, .. })) => worker::hold(),
        (Ok(()), Some(Command::Worker { engine, rank: true, .. })) => return worker::rank(engine),
        (Ok(()), Some(Command::Worker { engine, probe: Some(backend), .. })) => {
            return match backend.choice() {
                BackendChoice::Only(backend) => worker::probe(engine, backend),
                BackendChoice::Auto => ExitCode::FAILURE,
            };
        }
        (Ok(()), Some(Command::Worker { engine, probe: None, .. })) => return worker::main(engine),
        (Ok(()), Some(command)) => execute(command, &cli.results),
        (Ok(()), None) => home::home(&cli.results),
    };
    exit.unwrap_or_else(|error| {
        show(&error);
        if answer::is_wanted() {
            let _ = answer::failure(&error);
        }
        error.exit()
    })
    .into()
}

/// Carries a command out.
fn execute(command: Command, results: &Path) -> Result<Exit, Error> {
    match command {
        // Separate entry points handle these commands of the engine.
        Command::Worker { .. } => Ok(Exit::Usage),
        Command::Hosts(args) => hosts::hosts(results, &args),
        Command::ExecJob(args) => exec::job(results, &args),
        Command::ExecPilot(args) => exec::pilot(results, &args),
        Command::ExecRemote(args) => exec::remote(results, &args),
        Command::ExecTrial(args) => exec::trial(results, &args),
        Command::New(args) => init::new(results, &args),
        Command::Demo(args) => demo::demo(results, &args),
        Command::Examples(args) => demo::examples(&args),
        Command::Run(args) => script::run(results, args),
        Command::Measure(args) => measure::measure(results, args),
        Command::Plan(args) => plan::plan(results, &args),
        Command::Explain(args) => explain::explain_job(results, &args),
        Command::Report(args) => report::report(results, &args),
        Command::Checklist(args) => checklist::checklist(results, &args),
        Command::Best(args) => best::best(results, &args),
        Command::Query(args) => query::query(results, args),
        Command::Diff(args) => diff::diff(results, &args),
        Command::Export(args) => export::export(results, &args),
        Command::Import(args) => import::import(results, &args),
        Command::Propose(args) => propose::propose(results, &args),
        Command::Bisect(args) => bisect::run(results, &args),
        Command::Ablate(args) => ablate::ablate(&args),
        Command::Ledger(args) => ledger::ledger(results, &args),
        Command::Bundle(args) => bundle::bundle(results, &args),
        Command::Verify(args) => bundle::verify(&args),
        Command::Status(args) => status::status(results, &args),
        Command::Watch(args) => watch::watch(results, &args),
        Command::Stop(args) => stop::stop(results, &args),
        Command::Note(args) => note::note(results, &args),
        #[cfg(feature = "ui")]
        Command::Ui(args) => ui::ui(results, &args),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => mcp::mcp(results, &args),
        #[cfg(feature = "mcp")]
        Command::ExecBounded(args) => mcp::bounded(results, &args),
        Command::Logs(args) => logs::logs(results, &args),
        Command::Show(args) => show::show(results, &args),
        Command::Cache(args) => cache::cache(results, &args),
        Command::Tasks(args) => tasks::tasks(&args),
        Command::Schema { of } => {
            let schema = match of {
                SchemaOf::Recipe => crate::recipe::schema::recipe(),
                SchemaOf::Sweep => crate::recipe::schema::sweep(),
            };
            print(&crate::recipe::schema::text(schema)).map(|()| Exit::Done)
        }
        Command::Devices(args) => devices::devices(&args),
        Command::Doctor(args) => doctor::doctor(results, &args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "sweep", &mut script);
            print(&String::from_utf8_lossy(&script)).map(|()| Exit::Done)
        }
    }
}

/// Prints a failure: mistakes in a recipe with their places, everything else in one sentence.
fn show(error: &Error) {
    let color = use_color(&io::stderr());
    if let Error::Recipe { problems, .. } = error {
        let count = count(problems.iter().count(), "mistake");
        say(format_args!("{}{error}: {count}; nothing was run", problems.render(color, 100)));
    } else {
        say(format_args!("error: {}", clean(&error.to_string())));
    }
}

/// The destination of an export, and its records: the older forms of these commands have the file first.
fn destination<'a, T: AsRef<OsStr>>(output: Option<&'a Path>, which: &'a [T]) -> (&'a Path, &'a [T]) {
    match (output, which) {
        (None, [first, rest @ ..]) => (Path::new(first), rest),
        (output, which) => (output.unwrap_or(Path::new("")), which),
    }
}

/// Writes the result of a command to standard output. A closed pipe is not an error.
fn print(text: &str) -> Result<(), Error> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("cannot write the result")(error)),
        _ => Ok(()),
    }
}

impl RecipeArgs {
    fn prepare(&self, results: &Path, only: &[String], must_exist: bool) -> Result<Prepared, Error> {
        self.changes.prepare(results, &self.paths, only, must_exist)
    }
}

impl BackendArg {
    fn choice(self) -> BackendChoice {
        match self {
            Self::Auto => BackendChoice::Auto,
            Self::Cuda => BackendChoice::Only(Backend::Cuda),
            Self::Wgpu => BackendChoice::Only(Backend::Wgpu),
            Self::Cpu => BackendChoice::Only(Backend::Cpu),
        }
    }
}

impl ChangeArgs {
    /// Reads and plans recipes. The drivers are queried only if a job needs a device and the result matters: always for
    /// `auto`, and for a backend given by name only if jobs are going to run (`must_exist`).
    fn prepare(&self, results: &Path, paths: &[PathBuf], only: &[String], must_exist: bool) -> Result<Prepared, Error> {
        let paths =
            paths.iter().map(|path| script::recipe_of(results, path)).collect::<Result<Vec<PathBuf>, Error>>()?;
        let paths = paths.as_slice();
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let name = names.join(", ");
        let span = info_span!(target: host::log::PLAN, "plan", recipes = name, jobs = field::Empty);
        let _planning = span.enter();
        let request = Request { paths, set: &self.set, axes: &self.axes, scale: self.scale.as_deref(), only };
        let reading = debug_span!(target: host::log::PLAN, "read");
        let draft = reading.in_scope(|| Draft::load(&request));
        let draft = draft.map_err(|error| nearby::explained(error, name.clone(), self, results))?;
        drop(reading);
        let prepared = self.plan(results, draft, name, must_exist)?;
        span.record("jobs", prepared.plan.len());
        Ok(prepared)
    }

    /// Plans recipes that have been read, as [`Self::prepare`] does.
    fn plan(&self, results: &Path, mut draft: Draft, name: String, must_exist: bool) -> Result<Prepared, Error> {
        if let Some(word) = &self.executor {
            draft.executor.select(word);
        }
        if !self.hosts.is_empty() {
            self.select_hosts(&mut draft.executor)?;
        }
        let elsewhere = draft.executor != Executor::Local;
        let choice = self.backend.choice();
        let needed = draft.needs_device();
        if needed && elsewhere && choice == BackendChoice::Auto {
            return Err(Error::BackendElsewhere);
        }
        let device = match choice {
            BackendChoice::Only(_) if !must_exist || elsewhere => None,
            _ if !needed || !host::lab::is_installed() => None,
            choice => {
                let probe = host::devices::probe()?;
                let device = host::devices::choose(&probe, choice)?;
                Some((probe, device))
            }
        };
        let backend = match (&device, choice) {
            (Some((_, device)), _) => device.backend,
            (None, BackendChoice::Only(backend)) => backend,
            (None, BackendChoice::Auto) => Backend::Cpu,
        };
        draft.tell_reports_apart(results);
        let store = Store::new(results);
        let planned = Batches::plan(draft, backend, &store);
        let (mut batches, plan) = planned.map_err(Error::search(name.clone()))?;
        batches.measured().say();
        Ok(Prepared { plan: ManuallyDrop::new(plan), device, batches, name })
    }
}

impl ChangeArgs {
    fn select_hosts(&self, executor: &mut Executor) -> Result<(), Error> {
        if let Some(other) = self.executor.as_ref().filter(|word| *word != Executor::OF_HOSTS) {
            return Err(Error::HostsElsewhere(other.clone()));
        }
        let refused = |(name, reason)| Error::Host { name, reason };
        executor.select_hosts(&self.hosts).map_err(refused)
    }
}

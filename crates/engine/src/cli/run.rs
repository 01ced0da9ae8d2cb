//! `sweep run`.

mod batches;
mod code;
mod elsewhere;
mod end;
mod prepared;
mod reports;
mod states;

use std::{
    collections::HashSet,
    io::{self, IsTerminal as _},
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use sweep_job::{
    Device, Probe,
    tasks::{Launch, launched},
};

pub(super) use self::end::Ended;
use self::{
    batches::{Past, Round},
    elsewhere::{opening, shared},
    states::{look_again, say_at_once, share, warn_of_scarcity},
};
use super::{
    ChangeArgs, OnlyArgs, Prepared,
    answer::FormatArgs,
    log,
    remote::{self, RemoteArgs},
    use_color, warn, warn_of_damage,
};
use crate::{
    analysis::search::{DecidedJobs, Searches},
    error::Error,
    format::{count, say},
    host,
    plan::{Digests, JobId, Plan},
    progress::{Bars, Lines},
    recipe::{BatchSystem, Executor},
    record::Key,
    remote::{Puller, Pusher, Remote},
    render::{Page, beside},
    run::{
        self, Control, Disposition, Exchange, History, Journal, Manifest, Observer, Options, RunFolder, RunProvenance,
        Signals, Standing, Summary, Through,
        cluster::{self, Opening},
        estimate::Pace,
        slots::Limits,
    },
    store::{InUse, Store},
};

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct RunArgs {
    /// Recipes, or sweep files, which run recipes with other values; or a script, whose parameters `--axis` varies.
    #[arg(value_name = "RECIPE", required_unless_present_any = ["plan", "command"])]
    pub(super) paths: Vec<PathBuf>,
    /// A command line, with `{AXIS}` where the values of `--axis` belong and `{seed}` for the seed; after a script, arguments that
    /// every job gets.
    #[arg(value_name = "COMMAND", last = true, conflicts_with = "plan")]
    pub(super) command: Vec<String>,
    /// Repeat each job of a script or a command line with the seeds 0, 1, …, N - 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "plan")]
    pub(super) seeds: Option<u32>,
    /// The Python that has a script's packages. Default: `python` on the PATH, else `python3`.
    #[arg(long, value_name = "PATH", conflicts_with = "plan")]
    pub(super) python: Option<String>,
    /// Run a saved plan, the output of `sweep plan --format json`. It is rejected if the recipes have changed since.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "set", "axes", "backend", "only"])]
    plan: Option<PathBuf>,
    #[command(flatten)]
    pub(super) changes: ChangeArgs,
    #[command(flatten)]
    pub(super) only: OnlyArgs,
    /// Maximum number of jobs at once, even if cores, GPUs and memory allow more.
    #[arg(long, short, value_name = "N", env = "SWEEP_JOBS", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Stop at the first failure, instead of running the jobs that do not need the failed job.
    #[arg(long, overrides_with = "keep_going")]
    fail_fast: bool,
    /// End with exit code 6 if a claim is refuted.
    #[arg(long)]
    strict: bool,
    /// After a failure, run the jobs that do not need the failed job (the default).
    #[arg(long, overrides_with = "fail_fast")]
    keep_going: bool,
    /// See [`super::measure::ready`].
    #[arg(skip)]
    pub(super) measures: bool,
    /// Run exclusive jobs, and jobs that take turns, again if other processes disturbed their times; whole rounds, also where
    /// jobs took no turns.
    #[arg(long)]
    remeasure: bool,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    pub(super) format: FormatArgs,
    /// With a batch system: exit as soon as the jobs are submitted. Run the same command again to wait for them.
    #[arg(long)]
    detach: bool,
    /// With a batch system: submit N pilot jobs, each of which runs as many jobs as fit into its allocation, instead of one batch job
    /// per job; for jobs of a few seconds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pilot: Option<u16>,
    /// With a batch system: shortest interval between polls of the queue, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = poll)]
    poll: Duration,
}

fn poll(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.05..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "it must be a number from 0.05 to 3600".to_owned())
}

impl RunArgs {
    /// Rejects flags that apply to batch systems only, and to those whose queue outlives this process.
    fn check(&self, batch: Option<&BatchSystem>) -> Result<(), Error> {
        let (flag, reason) = match (self.detach, self.pilot) {
            (true, _) => ("--detach", "its jobs wait in this process, and would not start without it"),
            (false, Some(_)) => ("--pilot", "it starts a job in milliseconds already"),
            (false, None) => return Ok(()),
        };
        let Some(system) = batch else { return Err(Error::NeedsBatchSystem(flag)) };
        let cluster = cluster::open(system, Opening::default());
        let system = cluster.system().to_owned();
        if cluster.needs_exchange() && self.pilot.is_some() {
            let reason = "its machines share no folder, so each job is a batch job";
            return Err(Error::NoQueue { flag: "--pilot", system, reason });
        }
        if cluster.starts_jobs_itself() { Err(Error::NoQueue { flag, system, reason }) } else { Ok(()) }
    }

    fn cluster(&self, results: &Path, folder: RunFolder, exchange: Option<Arc<dyn Exchange>>) -> cluster::Options {
        cluster::Options {
            results: results.to_owned(),
            folder,
            poll: self.poll,
            detach: self.detach,
            pilots: self.pilot.map(usize::from),
            most: self.jobs.map(usize::from),
            fail_fast: self.fail_fast,
            exchange,
        }
    }
}

impl RunArgs {
    /// The plan that it runs.
    pub(super) fn plan(&self, results: &Path) -> Result<ManuallyDrop<Plan>, Error> {
        Ok(self.changes.prepare(results, &self.paths, &self.only.only, false)?.plan)
    }
}

/// Runs the jobs of recipes, and prints the reports unless they are for JSON.
pub(super) fn run(results: &Path, args: &RunArgs) -> Result<Ended, Error> {
    let (mut prepared, store, mut selected) = prepared::prepared(results, args)?;
    let mut past = Past::default();
    loop {
        let Some(round) = round(results, args, &prepared, &store, &selected, &past)? else {
            (prepared, _, selected) = prepared::prepared(results, args)?;
            continue;
        };
        past.runs.extend(round.run.clone());
        if !args.measures
            && let Some(next) = past.next(args, &mut prepared, &store, &round)?
        {
            selected = next;
            continue;
        }
        let Round { summary, page, stamps, .. } = round;
        let summary = past.summary(summary);
        let (page, stamps) = if past.rounds > 0 { (Page::Anew, None) } else { (page, stamps) };
        let is_mixed = matches!(page, Page::Anew) && code::has_mixed_versions(&prepared.plan, &store);
        // The plan is not dropped.
        prepared.plan.moments.end();
        if is_mixed {
            // Jobs that read other versions of a file are not compared.
            prepared = prepared::planned(results, args)?.0;
        }
        return end::conclude(results, args, &prepared.plan, &store, (summary, past.runs), (page, stamps));
    }
}

/// Runs the jobs of a plan; `None` if records from other machines change keys, so that the plan has to be made again.
fn round(
    results: &Path,
    args: &RunArgs,
    prepared: &Prepared,
    store: &Store,
    selected: &HashSet<JobId>,
    past: &Past,
) -> Result<Option<Round>, Error> {
    let Prepared { plan, device, .. } = prepared;
    let batch = if let Executor::Batch(system) = &plan.executor { Some(system.clone()) } else { None };
    args.check(batch.as_ref())?;
    let mut looked = look(args, store, plan, selected, batch.is_some())?;
    if looked.puller.is_none() && looked.has_other_code(plan, store) {
        return Ok(None);
    }
    if args.remeasure && past.rounds == 0 {
        let again = looked.standing.measure_again(plan, store, selected)?;
        let disturbed = count(again.disturbed, "job");
        let others = match again.in_rounds {
            0 => String::new(),
            others => format!(", and {} took no turns or belong to the same rounds", count(others, "other")),
        };
        let now = if again.disturbed + again.in_rounds > 0 { ", measured again now" } else { "" };
        say(format_args!("other processes disturbed {disturbed}{others}{now}"));
    }
    if past.rounds == 0 {
        warn_of_damage(&looked.standing);
        warn(plan);
    }
    let (mut states, has_twins) = past.states(plan, store, selected, &looked.standing, batch.is_none())?;
    share(plan, store, &mut states);
    check_plan(plan, &states)?;
    check_nodes(args, plan, &states, batch.as_ref())?;
    let mut searches = Searches::new(plan, store, &states).map_err(Error::io("cannot read the store"))?;
    let (limits, gpus) = run::allocation::share(device.as_ref().map(|(_, device)| device), args.jobs.map(usize::from));
    let limits = run::allocation::with_gpu_memory(limits, &gpus, plan);
    let ran: Vec<JobId> = plan.jobs().map(|(id, _)| id).filter(|id| states[id.index()] == Disposition::Yes).collect();
    let remote = looked.remote.clone();
    let mut request = Request { results, args, plan, store, states, device, limits, gpus, batch, remote };
    // A rerun of finished jobs reads records and writes only the tables.
    let opened = if request.has_work(&mut searches)? { Some(request.open(&looked)?) } else { None };
    let page = if opened.is_some() { Page::Anew } else { Page::IfStale };
    let run = opened.as_ref().map(|opened| opened.folder.name());
    let was_run = run.is_some();
    let stamps = std::mem::take(&mut looked.standing.stamps);
    let summary = request.execute(looked, opened, &mut searches)?;
    if was_run && !summary.detached {
        // Best effort: a state that remains only takes disk space.
        let decided_jobs = DecidedJobs::read(plan, store).unwrap_or_default();
        let _ = run::retire(plan, store, |id| decided_jobs.is_stopped(id));
    }
    let stamps = (!was_run).then_some(stamps);
    Ok(Some(Round { summary, page, run, ran, stamps, has_twins }))
}

/// A request to run a plan.
struct Request<'a> {
    results: &'a Path,
    args: &'a RunArgs,
    plan: &'a Plan,
    store: &'a Store,
    states: Vec<Disposition>,
    device: &'a Option<(Probe, Device)>,
    limits: Limits,
    gpus: Vec<String>,
    /// The batch system, if the jobs run through one.
    batch: Option<BatchSystem>,
    remote: Option<Arc<Remote>>,
}

/// Open resources of a run with work to do: its folder and journal, the connection to the remote, and the store, locked
/// against removal.
struct Opened {
    folder: RunFolder,
    journal: Journal,
    pusher: Option<Pusher>,
    history: History,
    pace: Pace,
    _in_use: InUse,
}

impl Request<'_> {
    /// True if a job is to run. Results that were undecided when an earlier run ended may still be so.
    fn has_work(&mut self, searches: &mut Searches<'_>) -> Result<bool, Error> {
        if self.states.contains(&Disposition::Yes) {
            return Ok(true);
        }
        let ahead = searches.plan_ahead().map_err(Error::io("cannot read the store"))?;
        Ok(ahead > 0)
    }

    fn open(&mut self, looked: &Looked) -> Result<Opened, Error> {
        let Self { plan, store, .. } = *self;
        let limits = &self.limits;
        if let Some((probe, device)) = &self.device {
            say(format_args!("{}", host::devices::describe(probe, device, limits.cpus)));
            if let Some(warning) = host::devices::warning(device) {
                say(format_args!("warning: {warning}"));
            }
        }
        store.create().map_err(Error::io("cannot write to the store"))?;
        let through = match &self.batch {
            Some(system) => shared(self.results, store, system, self.args.pilot, self.remote.as_deref())?,
            None => {
                warn_of_scarcity(plan, &self.states, limits);
                Through::Local
            }
        };
        let in_use = store.hold().map_err(Error::io("cannot write to the store"))?;
        looked.standing.take_back(store).map_err(Error::io("cannot write to the store"))?;
        look_again(store, plan, &mut self.states);
        let history = History::read(store, plan).map_err(Error::io("cannot read the store"))?;
        if through == Through::Local {
            say_at_once(plan, &self.states, &self.limits, &history);
        }
        let manifest = Manifest::new(plan, &self.states, limits, through, &history);
        // Before the folder is created: readers expect it to be complete, and Git may be slow.
        let provenance = RunProvenance::determine(plan);
        let folder = RunFolder::create(self.results, &manifest).map_err(Error::io("cannot write the journal"))?;
        // Records that come through the remote are there, as their machines have signed them.
        let carried =
            self.batch.as_ref().is_some_and(|system| cluster::open(system, Opening::default()).needs_exchange());
        let remote = looked.remote.clone().filter(|remote| !carried && !remote.is_given_up());
        let pusher = remote.map(|remote| Pusher::new(remote, store.clone())).transpose();
        let pusher = pusher.map_err(Error::io("cannot start a thread"))?;
        let journal = Journal::create(folder.path(), store.is_shared());
        let journal = journal.map_err(Error::io("cannot write the journal"))?;
        provenance.keep(folder.path());
        Ok(Opened { folder, journal, pusher, history, pace: Pace::new(&manifest), _in_use: in_use })
    }

    /// Runs the jobs to run, with all observers.
    fn execute(&self, looked: Looked, opened: Option<Opened>, searches: &mut Searches<'_>) -> Result<Summary, Error> {
        let signals = Signals::catch().map_err(Error::io("cannot catch signals"))?;
        let (remote, puller) = (looked.remote, looked.puller);
        let Some(mut opened) = opened else {
            let mut progress = progress(Pace::silent());
            let summary = self.drive(None, puller.as_ref(), signals, searches, &mut [&mut *progress])?;
            remote::report(remote.as_deref(), puller, None);
            return Ok(summary);
        };
        let mut progress = progress(std::mem::replace(&mut opened.pace, Pace::silent()));
        let Opened { folder, mut journal, mut pusher, history, .. } = opened;
        let summary = beside(self.plan, self.store, self.results, |live| {
            let pusher = pusher.as_mut().map(|pusher| pusher as &mut dyn Observer);
            let others: [&mut dyn Observer; 3] = [&mut journal, &mut *progress, live];
            let mut observers: Vec<&mut dyn Observer> = pusher.into_iter().chain(others).collect();
            self.drive(Some((folder, &history)), puller.as_ref(), signals, searches, &mut observers)
        })?;
        remote::report(remote.as_deref(), puller, pusher.map(Pusher::finish).as_ref());
        if let (Some(error), None) = (journal.error, &summary.broken) {
            say(format_args!("warning: the journal is not complete: {error}"));
        }
        Ok(summary)
    }

    fn drive(
        &self,
        opened: Option<(RunFolder, &History)>,
        puller: Option<&Puller>,
        signals: Signals,
        searches: &mut Searches<'_>,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Summary, Error> {
        let Self { results, args, plan, store, states, .. } = self;
        let no_history = History::default();
        let (folder, history) = opened.map_or((None, &no_history), |(folder, history)| (Some(folder), history));
        let summary = match (&self.batch, folder) {
            (Some(system), Some(folder)) => {
                let cluster = cluster::open(system, opening(results, store, self.remote.as_deref())?);
                let exchange = self.remote.clone().filter(|_| cluster.needs_exchange());
                let exchange = exchange.map(|remote| remote as Arc<dyn Exchange>);
                let control = Control { signals: Some(signals), rounds: Some(searches) };
                cluster::run(
                    plan,
                    store,
                    states,
                    &*cluster,
                    &args.cluster(results, folder, exchange),
                    control,
                    observers,
                )
            }
            (_, folder) => {
                let options = Options {
                    limits: self.limits.clone(),
                    gpus: self.gpus.clone(),
                    fail_fast: args.fail_fast,
                    device: self.device.as_ref().map(|(_, device)| device.clone()),
                    folder: folder.map(|folder| folder.path().to_owned()).unwrap_or_default(),
                    deadline: run::DEADLINE,
                    arriving: puller.map(|puller| puller.arriving().clone()).unwrap_or_default(),
                    failures: None,
                };
                let control = Control { signals: Some(signals), rounds: Some(searches) };
                run::run(plan, store, states, &options, history, control, observers)
            }
        };
        summary.map_err(Error::io("the run cannot continue"))
    }
}

/// Returns the observer for progress on stderr: bars on a terminal, otherwise lines.
fn progress(pace: Pace) -> Box<dyn Observer> {
    if shows_bars() {
        Box::new(Bars::new(use_color(&io::stderr()), pace))
    } else {
        Box::new(Lines::new(io::stderr(), pace, log::is_verbose()))
    }
}

/// Refuses to begin if a job takes an unset variable from the
/// environment. In a batch system, a job has the environment of the submitting process.
fn check_plan(plan: &Plan, states: &[Disposition]) -> Result<(), Error> {
    for (id, job) in plan.jobs().filter(|(id, _)| matches!(states[id.index()], Disposition::Yes | Disposition::Reserve))
    {
        let (names, place) = plan.inherited(id);
        if let Some(name) = names.into_iter().find(|name| std::env::var_os(name).is_none()) {
            let at = place.map(|place| format!("{}: ", plan.sources().location(place))).unwrap_or_default();
            return Err(Error::Unset { at, name: name.to_owned(), step: job.label.step.to_string() });
        }
    }
    Ok(())
}

/// Fails if a job needs several nodes, or processes by `srun`, which the executor does not provide.
fn check_nodes(args: &RunArgs, plan: &Plan, states: &[Disposition], batch: Option<&BatchSystem>) -> Result<(), Error> {
    let wanted = |id: JobId| matches!(states[id.index()], Disposition::Yes | Disposition::Reserve);
    let several = plan.jobs().filter(|(id, _)| wanted(*id)).find_map(|(_, job)| {
        let is_launched = launched(&job.values).is_some_and(|(launch, _)| launch == Launch::Srun);
        let nodes = job.resources.nodes();
        (nodes > 1 || is_launched).then_some((job, nodes))
    });
    let Some((job, nodes)) = several else { return Ok(()) };
    let gives_nodes = |system: &BatchSystem| cluster::open(system, Opening::default()).gives_nodes();
    let reason = match batch {
        Some(_) if args.pilot.is_some() => "pilot jobs have one node each: leave out `--pilot`",
        Some(system) if gives_nodes(system) => return Ok(()),
        Some(_) => "this executor gives each job one machine: use `--executor slurm`, or write `nodes: 1`",
        None => "this machine is one node: use `--executor slurm`, or write `nodes: 1` and `launch: torchrun`",
    };
    let wants = if nodes > 1 { format!("{nodes} nodes") } else { "processes by `srun`".to_owned() };
    Err(Error::Nodes { step: job.label.step.to_string(), wants, reason })
}

/// State before a run.
struct Looked {
    /// The finished jobs.
    standing: Standing,
    remote: Option<Arc<Remote>>,
    /// The pull of the remote's records, if it continues.
    puller: Option<Puller>,
}

impl Looked {
    /// True if the record of a job was made with other code than it has now.
    fn has_other_code(&self, plan: &Plan, store: &Store) -> bool {
        if self.remote.is_none() {
            return false;
        }
        let (mut manifests, mut digests) = (store.manifests(), Digests::open(store.digests()));
        let mut cached = plan.jobs().filter(|(id, _)| self.standing.cached[id.index()]);
        cached.any(|(id, _)| plan.has_other_code(id, &mut manifests, &mut digests))
    }
}

/// Finds the jobs that are done, including those of the remote. In a batch system no job could wait for later records.
fn look(
    args: &RunArgs,
    store: &Store,
    plan: &Plan,
    selected: &HashSet<JobId>,
    in_batch: bool,
) -> Result<Looked, Error> {
    let remote = args.remote.open()?;
    let standing = Standing::of(plan, store, selected)?;
    let Some(remote) = remote else { return Ok(Looked { standing, remote, puller: None }) };
    let wanted = plan.jobs().filter(|(id, _)| selected.contains(id) && !standing.cached[id.index()]);
    let wanted: Vec<Key> = wanted.map(|(_, job)| job.key).collect();
    let puller = remote::pull(&remote, store, wanted, in_batch)?;
    Ok(Looked { standing: Standing::of(plan, store, selected)?, remote: Some(remote), puller })
}

/// True if standard error is an interactive terminal on which rows can be redrawn. CI terminals may look like one, but
/// their output is read later.
fn shows_bars() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    io::stderr().is_terminal() && !set("CI") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

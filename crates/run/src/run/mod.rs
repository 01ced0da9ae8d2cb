//! Runs the jobs that are not done in worker processes, and stores their results.
//!
//! One loop (`executor.rs`) drives a run, locally and through batch systems: an executor starts jobs and learns of their ends,
//! `state.rs` counts the [`RunEvent`]s, and decisions release further jobs. Output and journal only observe events. The executor
//! of this machine (`engine.rs`) turns messages of workers, signals and timers into [`scheduler::Event`]s, and carries out the
//! [`scheduler::Action`]s that follow.
//!
//! Deciding: `scheduler.rs`, with the resources in `slots.rs`; `gpu_memory.rs` estimates the GPU memory
//! of jobs, `history.rs` durations, `savings.rs` and `estimate.rs` the time that is saved and left, `starts.rs` bounds
//! starts, and `at_once.rs` counts the jobs at once.
//!
//! One job: `engine/start.rs` claims it and starts its worker, `engine/sharing.rs` takes the machine for it, `engine/gpus.rs` samples GPU
//! memory, `engine/absence.rs` leaves out time in which the engine was stopped, and `engine/beside.rs` does slow work outside of the loop.
//! `attempt.rs` is one attempt, `scratch.rs` keeps files for the next attempt, `states.rs` has the states from which longer jobs begin,
//! `adoption.rs` with `engine/trial.rs` the earlier result that a program is compared with, `local.rs` its worker process, `listen.rs`
//! reads the worker's messages, `reads.rs` compares its inputs with its key, and `environment.rs` has its environment.
//!
//! Around it: `conditions.rs`, `interpreter.rs` and `provenance.rs` describe the conditions under which a job ran, `journal.rs`,
//! `folder.rs` and `watch.rs` are the run for other processes, `standing.rs` has the disposition of each job, `arriving.rs` the records
//! that may arrive from a remote, `signals.rs` makes Ctrl-C an event, `failures.rs` groups failures, `requests.rs` has the requests to stop
//! single jobs, `writes.rs` the paths that jobs write, and `shared.rs` finds files that one job changes while another uses them.
//!
//! Elsewhere: `cluster/` runs a plan through a batch system, `allocation.rs` is the engine inside of an allocation with the
//! job specifications of `job_specs.rs`, and `exchange.rs` is the store through which jobs go to machines without a shared
//! folder.

mod adoption;
pub mod allocation;
mod arriving;
mod at_once;
mod attempt;
pub mod cluster;
mod conditions;
mod engine;
mod environment;
pub mod estimate;
mod event;
mod exchange;
mod executor;
mod failures;
mod folder;
mod gpu_memory;
mod history;
mod interpreter;
mod job_specs;
mod journal;
pub mod listen;
mod local;
mod provenance;
mod reads;
mod requests;
mod savings;
pub mod scheduler;
mod scratch;
mod shared;
mod signals;
pub mod slots;
mod standing;
mod starts;
mod state;
mod states;
pub mod watch;
mod writes;

use std::{collections::BTreeSet, io, path::PathBuf, sync::OnceLock, time::Duration};

use serde::{Deserialize, Serialize};
use sweep_job::{Backend, Device, tasks::launched};

pub use self::{
    adoption::{Adoptable, MIN_THINNED_POINTS},
    arriving::{Arriving, Notice},
    at_once::AtOnce,
    event::{Observer, RunEvent, Summary},
    exchange::{Exchange, SentJob},
    failures::Failures,
    folder::{InBatchSystem, Manifest, ManifestJob, RunFolder, Through},
    gpu_memory::{Estimate, GpuHistory, NEUTRAL, Shape, describe as describe_gpu, shape},
    history::History,
    journal::{Journal, Line},
    provenance::{FoundProvenance, RunProvenance},
    requests::{StopError, request_stop},
    savings::TimeSaving,
    signals::{Deferral, Signals},
    standing::Standing,
    starts::bound_starts,
    states::retire,
};
pub use self::{
    attempt::killed,
    job_specs::{names as job_names, write_one as write_job_spec},
    scratch::{ABOUT, Attempts, Scratch},
    writes::unescaped,
};
use self::{
    scheduler::JobSpec,
    slots::{Demand, Limits},
    state::RunState,
};
use crate::{
    plan::{Code, Job, JobId, Plan},
    recipe::{GpuMemory, ResourceCount, Resources},
    record::Key,
    store::{Store, StoreError},
};

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Resources to share among the jobs.
    pub limits: Limits,
    /// The GPUs, as `CUDA_VISIBLE_DEVICES` names them; GPUs without a name are left to the environment.
    pub gpus: Vec<String>,
    /// Stop the run at the first failure.
    pub fail_fast: bool,
    /// Device of the jobs that need one.
    pub device: Option<Device>,
    /// The folder of this run: its journal and the logs of its workers.
    pub folder: PathBuf,
    /// Time for running jobs after SIGTERM or SIGHUP.
    pub deadline: Duration,
    /// The records that may come from a remote during the run; their jobs wait for them.
    pub arriving: Arriving,
    /// Failures that engines of one run share.
    pub failures: Option<Failures>,
}

/// Default of [`Options::deadline`]: the sender of SIGTERM or SIGHUP does not wait for long.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Results of earlier jobs.
pub trait EarlierResults {
    /// Gives a job without a record the record of an earlier job, if the inputs from needed jobs have equal bytes. Returns true if the job
    /// has a record now.
    ///
    /// # Errors
    /// The store cannot be read or written.
    fn holds(&mut self, plan: &Plan, id: JobId) -> Result<bool, StoreError>;

    /// Reads the records again at the next request, because this run has stored a record that other jobs may get.
    fn refresh(&mut self);

    /// The latest record that the job's program, with earlier code, created from the same parameters and inputs. `code` is the code that
    /// the program finds now.
    ///
    /// # Errors
    /// The store cannot be read.
    fn adoptable(&mut self, plan: &Plan, id: JobId, code: &Code) -> Result<Option<Adoptable>, StoreError>;
}

/// Opens the earlier results of a store.
type OpenResults = for<'s> fn(&'s Store) -> Box<dyn EarlierResults + 's>;

static EARLIER_RESULTS: OnceLock<OpenResults> = OnceLock::new();

/// Sets the function that finds earlier results.
pub fn install_earlier_results(open: OpenResults) {
    let _ = EARLIER_RESULTS.set(open);
}

fn earlier_results(store: &Store) -> Option<Box<dyn EarlierResults + '_>> {
    EARLIER_RESULTS.get().map(|open| open(store))
}

/// Decision of a run about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disposition {
    /// To run it.
    Yes,
    /// Nothing: the job is done.
    Cached,
    /// Nothing: the job was not selected, and no selected job needs it.
    No,
    /// To run it if the results require it: an additional seed for an undecided result, or a job that a decision of a search releases.
    Reserve,
}

/// A job of the reserve that will run, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// The job.
    pub job: JobId,
    /// The result that the job helps to decide.
    pub because: String,
}

/// Decisions after some jobs have ended.
#[derive(Debug, Default)]
pub struct Released {
    /// The keys of new decisions, each with a sentence about it.
    pub decided: Vec<(Key, String)>,
    /// The jobs that the decisions release, each after the jobs that it needs.
    pub added: Vec<Addition>,
}

/// Source of further jobs.
pub trait RoundPlanner {
    /// Returns the jobs that may run after the end of the jobs `ended`, each with true if it has a result. Called with no jobs before the
    /// first job starts. `lost` are the jobs that failed or were skipped.
    fn ended(&mut self, _ended: &[(JobId, bool)], _lost: &BTreeSet<usize>) -> io::Result<Released> {
        Ok(Released::default())
    }

    /// Returns the jobs of the next round once all jobs have run, each job after the jobs that it needs; empty if no round follows. `lost`
    /// are the jobs that failed or were skipped.
    fn next(&mut self, lost: &BTreeSet<usize>) -> io::Result<Vec<Addition>>;
}

/// External control of a run.
#[derive(Default)]
pub struct Control<'a> {
    /// Signals that end it.
    pub signals: Option<Signals>,
    /// Source of further jobs.
    pub rounds: Option<&'a mut dyn RoundPlanner>,
}

/// Runs the wanted jobs on this machine. `wanted` has every job, in the plan's order.
pub fn run(
    plan: &Plan,
    store: &Store,
    wanted: &[Disposition],
    options: &Options,
    history: &History,
    control: Control<'_>,
    observers: &mut [&mut dyn Observer],
) -> io::Result<Summary> {
    let state = RunState::begin(plan, store, wanted, observers);
    executor::drive(&mut engine::LocalExecutor::new(state, options, history), control)
}

/// Resources that a job uses. By default, a job that computes on GPUs has one GPU and its share of the cores; a job
/// that computes on the CPU has no GPU and all cores, and a program has one core for each of its processes.
pub fn demand(job: &Job, limits: &Limits, history: &GpuHistory) -> Demand {
    let (resources, usual) = (&job.resources, Usual::of(job));
    let gpus = usual.gpus.map_or_else(|| gpus(job), |max_gpus| max_gpus.min(limits.gpus));
    let (share, gpu_memory) = if gpus > 0 { part_of_gpu(job, history) } else { (None, 0) };
    let demand = Demand {
        cpus: 1,
        core_share: None,
        gpus,
        share,
        gpu_memory,
        memory: resources.memory.unwrap_or(0),
        exclusive: resources.exclusive,
    };
    let demand = limits.clamp(demand);
    let cpus = resources.cpus.map_or_else(|| usual.cores(&demand, limits), ResourceCount::count);
    limits.clamp(Demand { cpus, core_share: resources.cpus.and_then(ResourceCount::share), ..demand })
}

/// Default resources of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Usual {
    /// Cores of a job without a GPU; `None` for all.
    cpus: Option<usize>,
    /// Maximum number of GPUs that the job takes if the machine has any; `None` if the job needs the number that [`gpus`]
    /// returns.
    gpus: Option<usize>,
}

impl Usual {
    fn of(job: &Job) -> Self {
        // Jobs whose times are measured get the whole machine.
        if !job.is_program() || job.resources.exclusive || job.turn.is_some() {
            return Self { cpus: None, gpus: None };
        }
        let processes = launched(&job.values).map_or(1, |(_, ranks)| ranks / job.resources.nodes()).max(1);
        let Resources { cpus, gpus, gpu_memory, .. } = job.resources;
        let says = cpus.is_some() || gpus.is_some() || gpu_memory.is_some();
        Self { cpus: Some(processes), gpus: (!says).then_some(processes) }
    }

    /// Returns the cores of a job without `cpus`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a number of cores")]
    fn cores(self, demand: &Demand, limits: &Limits) -> usize {
        match (demand.gpus, self.cpus) {
            (0, Some(cpus)) => cpus,
            (0, None) => limits.cpus,
            // Adds a little before rounding down, so that a third of six is two.
            _ => (limits.cpus as f64 * estimate::share_of_gpus(demand, limits) + 1e-9) as usize,
        }
    }
}

/// Number of GPUs that a job needs.
fn gpus(job: &Job) -> usize {
    let resources = &job.resources;
    match (job.identity.backend, resources.gpus) {
        (Some(Backend::Cpu), _) => 0,
        (_, Some(count)) => count.count(),
        (Some(_), None) => 1,
        (None, None) => usize::from(resources.gpu_memory.is_some()),
    }
}

/// Thousandths of a GPU that a job uses, `None` for whole GPUs, and bytes of memory on each, 0 if that is not known.
/// Durations measured while another job uses the same GPU would not be valid, so a measured job gets whole GPUs.
fn part_of_gpu(job: &Job, history: &GpuHistory) -> (Option<u16>, u64) {
    let declared_memory = match job.resources.gpu_memory {
        Some(GpuMemory::Bytes(bytes)) => Some(bytes),
        Some(GpuMemory::Measured) | None => None,
    };
    if !job.shares_gpu() {
        return (None, declared_memory.unwrap_or(0));
    }
    let share = job.resources.gpus.and_then(ResourceCount::share).unwrap_or(0);
    match (declared_memory, history.estimate(shape(&job.identity))) {
        (_, Estimate::Whole) => (None, declared_memory.unwrap_or(0)),
        (Some(declared_memory), Estimate::Bytes { bytes, exhausted: true, .. }) => {
            (Some(share), declared_memory.max(bytes))
        }
        (Some(declared_memory), _) => (Some(share), declared_memory),
        (None, Estimate::Bytes { bytes, .. }) => (Some(share), bytes),
        // Without a share and without an estimate, the memory that other jobs may use is unknown.
        (None, Estimate::Unknown) if share == 0 => (None, 0),
        (None, Estimate::Unknown) => (Some(share), 0),
    }
}

/// The lists of jobs that are needed together, by the jobs' places in the plan.
fn lists(plan: &Plan) -> Vec<Vec<usize>> {
    plan.lists().map(|list| list.iter().copied().map(JobId::index).collect()).collect()
}

/// Returns the jobs in the form for the scheduler, and the lists of needed jobs.
fn specs(
    plan: &Plan,
    dispositions: &[Disposition],
    limits: &Limits,
    history: &History,
) -> (Vec<JobSpec>, Vec<Vec<usize>>) {
    let expected = history.expect(plan);
    let specs = plan
        .jobs()
        .zip(expected)
        .map(|((id, job), expected)| JobSpec {
            needs: plan.lists_of(id).to_vec(),
            after: plan.continues(id).map(JobId::index),
            demand: demand(job, limits, &history.gpus),
            expected,
            cached: dispositions[id.index()] != Disposition::Yes,
            held: dispositions[id.index()] == Disposition::Reserve,
            tolerated: job.policy.tolerated,
            turn: job.turn,
        })
        .collect();
    (specs, lists(plan))
}

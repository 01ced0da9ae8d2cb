//! A run through a batch system, inside an allocation: one job, or a separate engine.
//!
//! It runs the jobs in the run's folder, as they were planned, with the engine that also runs jobs on one machine: time
//! limits, retries and the treatment of failures are the same. Its events go to a file in that folder.

mod afar;

use std::{
    collections::HashMap,
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use sweep_job::{Backend, Device, Failure, FailureKind};

pub use self::afar::job_from_afar;
use super::{
    Control, Disposition, Failures, History, Journal, Observer, Options, RunEvent, RunFolder, Signals, Summary,
    cluster,
    job_specs::{self, JobSpecs},
    journal,
    slots::Limits,
};
use crate::{
    host::{self, machine},
    hosts,
    plan::{Digests, JobId, Manifests, Plan, SerializedJob},
    recipe::{ResourceCount, Resources},
    record::Key,
    run::Arriving,
    store::Store,
};

/// The exit code of a job that does not find the records that it needs.
pub const BLOCKED: i32 = 75;

/// Time to wait for the record of a needed job whose process has just ended on another machine: network file systems
/// show new files late.
const LAG: Duration = Duration::from_mins(1);

/// End of a job in an allocation.
#[derive(Debug)]
pub enum Ended {
    /// The job ran, with this summary.
    Ran(Summary),
    /// The job did not run, because this job, which it needs, has no record.
    Blocked(Key),
}

/// Starts a new session, so that the job outlives the server that started this process on a host, and writes the
/// process ID to the run's folder.
pub fn detach(results: &Path, run: &str) -> io::Result<()> {
    rustix::process::setsid()?;
    fs_err::write(RunFolder::named(results, run).path().join("pid"), std::process::id().to_string())
}

/// Runs one job of a run, whose specification begins at `at`. A `hosted` job came with everything that it needs, and with the key
/// of the code that came with it, which the manifests of this machine do not know.
pub fn job(results: &Path, run: &str, at: u64, key: Key, hosted: bool) -> io::Result<Ended> {
    let signals = Signals::catch()?;
    let folder = RunFolder::named(results, run);
    let spec = job_specs::read_at(folder.path(), at)?;
    if spec.key != key {
        return Err(invalid(format!("at {at} is the specification of {}, not of {key}", spec.key)));
    }
    let store = Store::open(results).map_err(io::Error::other)?;
    let _held = store.hold()?;
    let mut journal = Journal::part(&folder.part(key), Some(spec.index))?;
    // Dependencies in Slurm only decide the time: Slurm runs a job even if it has forgotten the dependency.
    let missing_key = spec
        .identity
        .needs
        .iter()
        .find(|need| !arrives(&store, &folder, *need, if hosted { Duration::ZERO } else { LAG }));
    let manifests = if hosted {
        let base = spec.identity.base_key().map_err(io::Error::from)?;
        let files = hosts::sent_files(&std::env::current_dir()?);
        Manifests::hosted(spec.identity.code.iter().map(|code| (base, code.clone())).collect(), files)
    } else {
        store.manifests()
    };
    let resources = if spec.is_program() { whole(spec.resources) } else { spec.resources };
    let alone = SerializedJob { needs: Vec::new(), lists: Vec::new(), resources, ..spec };
    let plan = from_serialized(JobSpecs { jobs: vec![alone], lists: HashMap::new() }, &store, manifests)?;
    if let Some(missing_key) = missing_key {
        let text = format!("it does not run: {} has no record, which it needs", missing_key.short());
        journal.on(&plan, &RunEvent::Note { job: 0, text });
        return Ok(Ended::Blocked(missing_key));
    }
    let device = match device_of(&plan) {
        Ok(device) => device,
        Err(error) => {
            let failure = Failure { kind: FailureKind::Backend, message: error.to_string() };
            journal.on(&plan, &RunEvent::Failed { job: 0, seconds: 0.0, failure, log: None, tolerated: false });
            return Ok(Ended::Ran(Summary { failed: 1, ..Summary::default() }));
        }
    };
    let allocation_run = AllocationRun { folder: &folder, plan: &plan, store: &store, device, signals };
    allocation_run.run(&[Disposition::Yes], &History::default(), Some(1), None, &mut journal).map(Ended::Ran)
}

/// Resources of a program that has its allocation for itself: the whole allocation, unless the recipe declares less.
fn whole(mut resources: Resources) -> Resources {
    resources.cpus.get_or_insert_with(|| {
        let allocated = cluster::allocated().and_then(|allocated| allocated.cpus);
        ResourceCount::whole(allocated.unwrap_or_else(machine::cpus))
    });
    if resources.gpu_memory.is_none() {
        resources.gpus.get_or_insert_with(|| ResourceCount::whole(machine::nvidia_gpus().len()));
    }
    resources
}

/// Runs the open jobs of a run, beside other pilots.
pub fn pilot(results: &Path, run: &str, number: usize) -> io::Result<Summary> {
    let signals = Signals::catch()?;
    let folder = RunFolder::named(results, run);
    let manifest = folder.manifest()?;
    let store = Store::open(results).map_err(io::Error::other)?;
    let _held = store.hold()?;
    let plan = from_serialized(job_specs::read(folder.path())?, &store, store.manifests())?;
    let keys: Vec<Key> = manifest.jobs.iter().map(|job| job.key).collect();
    let done = store.look(&keys).map_err(io::Error::other)?.whole;
    let added = folder.added()?;
    let jobs = manifest.jobs.iter().zip(done);
    let dispositions: Vec<Disposition> = jobs
        .enumerate()
        .map(|(index, (job, done))| match job.wanted {
            Disposition::Yes if done => Disposition::Cached,
            // Released since the run began.
            Disposition::Reserve if added.contains(&index) && done => Disposition::Cached,
            Disposition::Reserve if added.contains(&index) => Disposition::Yes,
            disposition => disposition,
        })
        .collect();
    let device = device_of(&plan).map_err(io::Error::other)?;
    let history = History::read(&store, &plan)?;
    let mut journal = Journal::part(&folder.pilot(number), None)?;
    let failures = Failures::of_run(folder.path());
    let allocation_run = AllocationRun { folder: &folder, plan: &plan, store: &store, device, signals };
    allocation_run.run(&dispositions, &history, None, Some(failures), &mut journal)
}

/// Runner of jobs in an allocation.
struct AllocationRun<'a> {
    folder: &'a RunFolder,
    plan: &'a Plan,
    store: &'a Store,
    device: Option<Device>,
    signals: Signals,
}

impl AllocationRun<'_> {
    /// Runs the wanted jobs, at most `jobs` at once.
    fn run(
        self,
        dispositions: &[Disposition],
        history: &History,
        jobs: Option<usize>,
        failures: Option<Failures>,
        journal: &mut Journal,
    ) -> io::Result<Summary> {
        let Self { folder, plan, store, device, signals } = self;
        let (limits, gpus) = allocation(device.as_ref(), jobs);
        let limits = with_gpu_memory(limits, &gpus, plan);
        let folder = folder.path().to_owned();
        // Slurm has given its own warning, and ends everything soon.
        let deadline = Duration::ZERO;
        let arriving = Arriving::default();
        let options = Options { limits, gpus, fail_fast: false, device, folder, deadline, arriving, failures };
        let control = Control { signals: Some(signals), rounds: None };
        super::run(plan, store, dispositions, &options, history, control, &mut [journal])
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn from_serialized(specs: JobSpecs, store: &Store, manifests: Manifests) -> io::Result<Plan> {
    let mut plan = Plan::from_serialized(specs.jobs, &specs.lists).map_err(|error| invalid(error.to_string()))?;
    let mut digests = Digests::open(store.digests()).with_manifests(manifests);
    plan.find_code(&mut digests).map_err(|error| invalid(error.to_string()))?;
    Ok(plan)
}

/// True if a needed job has a record, or gets one within the delay of a file system. A job that is known to
/// have failed is not waited for.
fn arrives(store: &Store, folder: &RunFolder, need: Key, lag: Duration) -> bool {
    let start = Instant::now();
    let mut pause = Duration::from_millis(50);
    loop {
        if matches!(store.get(need), Ok(Some(_))) {
            return true;
        }
        let lines = journal::more(&folder.part(need), &mut 0);
        let failed = lines.iter().rev().find_map(|line| match line.event {
            RunEvent::Failed { .. } => Some(true),
            RunEvent::Started { .. } | RunEvent::Done { .. } => Some(false),
            _ => None,
        });
        if failed == Some(true) || start.elapsed() >= lag {
            return false;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

/// The device that the jobs compute on, if any does on one: it must be on this machine.
fn device_of(plan: &Plan) -> Result<Option<Device>, host::devices::DeviceError> {
    let backend = plan.jobs().find_map(|(_, job)| job.identity.backend);
    match backend.filter(|_| host::lab::is_installed()) {
        Some(backend) => {
            let probe = host::devices::probe()?;
            host::devices::choose(&probe, sweep_job::BackendChoice::Only(backend)).map(Some)
        }
        None => Ok(None),
    }
}

/// Resources of the batch system's allocation: its cores and memory, and the GPUs that it shows.
fn allocation(device: Option<&Device>, jobs: Option<usize>) -> (Limits, Vec<String>) {
    let (mut limits, gpus) = share(device, jobs);
    let allocated = cluster::allocated().unwrap_or_default();
    if let Some(cpus) = allocated.cpus {
        limits.cpus = cpus;
        limits.jobs = jobs.unwrap_or_else(|| Limits::most_jobs(cpus, limits.gpus));
    }
    limits.memory = allocated.memory.unwrap_or(limits.memory);
    (limits, gpus)
}

/// Shared resources of this machine, and the names of its GPUs.
pub fn share(device: Option<&Device>, jobs: Option<usize>) -> (Limits, Vec<String>) {
    let cpus = machine::cpus();
    let gpus = machine::nvidia_gpus();
    let count = match device.map(|device| device.backend) {
        // There is a GPU, even if it does not show where others do.
        Some(Backend::Cuda) => gpus.len().max(1),
        // No environment variable selects the adapter that a job computes on.
        Some(Backend::Wgpu) => 1,
        Some(Backend::Cpu) | None => gpus.len(),
    };
    let gpus = if device.is_some_and(|device| device.backend == Backend::Wgpu) { Vec::new() } else { gpus };
    let jobs = jobs.unwrap_or_else(|| Limits::most_jobs(cpus, count));
    (Limits { cpus, gpus: count, gpu_memory: Vec::new(), memory: machine::memory(), jobs }, gpus)
}

/// Adds the memory of `gpus` to `limits`, if a job of `plan` declares its GPU memory or shares a GPU.
#[must_use]
pub fn with_gpu_memory(limits: Limits, gpus: &[String], plan: &Plan) -> Limits {
    let matters = plan.jobs().any(|(_, job)| job.resources.gpu_memory.is_some() || job.shares_gpu());
    if matters { Limits { gpu_memory: host::gpus::memories(gpus), ..limits } } else { limits }
}

/// The jobs of a plan that have a record by now.
pub(super) fn recorded(plan: &Plan, store: &Store, jobs: impl Iterator<Item = usize>) -> Vec<usize> {
    jobs.filter(|job| store.contains(plan.job(JobId::new(*job)).key)).collect()
}

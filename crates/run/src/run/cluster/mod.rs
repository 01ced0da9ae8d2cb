//! A run through a batch system: one batch job per job, or a few pilot jobs with an engine each.
//!
//! A batch system only provides processes: a [`Cluster`] submits, polls and cancels. Finished jobs are in the store,
//! and failed jobs are in the files that the jobs' own processes write into the run's folder
//! ([`crate::run::allocation`]); the queue only has the pending ones. Nothing is lost when this process dies: the next
//! one reads the store and the queue, adopts the jobs in the queue, and submits the others.

mod batch;
pub mod hosts;
mod job_per_allocation;
mod job_tag;
mod jobs;
mod pilot_jobs;
mod ray;
mod script;
mod session;
mod slurm;
mod templates;
pub mod trial;

use std::{collections::HashMap, io, path::PathBuf, sync::Arc, time::Duration};

pub use self::batch::{
    Allocated, BatchId, BatchJob, CancelScope, Cluster, EndCause, Ending, QueuedJob, QueuedState, Refusal, Request,
    Work,
};
use crate::{
    plan::Plan,
    recipe::BatchSystem,
    record::Key,
    run::{Control, Disposition, Exchange, Observer, RunFolder, Summary, executor::drive, job_specs, state::RunState},
    store::Store,
};

/// Settings of a run through a batch system.
#[derive(Debug, Clone)]
pub struct Options {
    /// The results folder.
    pub results: PathBuf,
    /// This run's folder.
    pub folder: RunFolder,
    /// Shortest interval between polls of the queue; longer while nothing changes.
    pub poll: Duration,
    /// Exit when everything is submitted.
    pub detach: bool,
    /// Number of allocations with an engine each, instead of one batch job per job.
    pub pilots: Option<usize>,
    /// Largest number of jobs in the queue.
    pub most: Option<usize>,
    /// Stop the run at the first failure.
    pub fail_fast: bool,
    /// The store through which jobs go to machines that share no folder with this one.
    pub exchange: Option<Arc<dyn Exchange>>,
}

/// Time that a file written by a job's process may be invisible on another machine (NFS caches attributes for up to a
/// minute).
const LAG: Duration = Duration::from_mins(1);
/// Time that a job may be missing from the queue before it counts as lost.
const MISSING: Duration = Duration::from_secs(10);
/// Number of times that a job is resubmitted that the batch system has lost: with its node, or altogether.
const LOSSES: u32 = 3;

/// The jobs of a store, as far as a batch system is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Opening {
    /// The name of the jobs in the batch system.
    pub jobs_name: String,
    /// The results folder.
    pub results: PathBuf,
    /// The address of the remote store, if there is one.
    pub remote: Option<String>,
}

/// A batch system for the jobs of a store. This is cheap: no request is sent yet.
pub fn open(system: &BatchSystem, opening: Opening) -> Box<dyn Cluster> {
    match system {
        BatchSystem::Slurm(settings) => Box::new(slurm::Slurm::new(opening.jobs_name, (**settings).clone())),
        BatchSystem::Ray(settings) => Box::new(ray::RayJobs::new(opening, (**settings).clone())),
        BatchSystem::CommandTemplates(settings) => Box::new(templates::Templates::new(opening, (**settings).clone())),
        BatchSystem::Ssh(settings) => Box::new(hosts::Hosts::new(opening, (**settings).clone())),
    }
}

/// Resources of the allocation in which this process runs, of any batch system.
pub fn allocated() -> Option<Allocated> {
    let mut systems = BatchSystem::WORDS.iter().filter_map(|word| BatchSystem::named(word));
    systems.find_map(|system| open(&system, Opening::default()).allocated())
}

/// Runs the wanted jobs through a batch system, and then the jobs that the planner of further jobs adds, until no more follow.
pub fn run(
    plan: &Plan,
    store: &Store,
    wanted: &[Disposition],
    cluster: &dyn Cluster,
    options: &Options,
    control: Control<'_>,
    observers: &mut [&mut dyn Observer],
) -> io::Result<Summary> {
    let state = RunState::begin(plan, store, wanted, observers);
    cluster.attend()?;
    let places = job_specs::write(plan, options.folder.path())?;
    let session = session::ClusterSession::new(state, cluster, options)?;
    match options.pilots {
        Some(_) => drive(&mut pilot_jobs::PilotExecutor::new(session), control),
        None => drive(&mut job_per_allocation::JobExecutor::new(session, places), control),
    }
}

/// The jobs of a store that are in a queue.
#[derive(Debug, Default)]
pub(crate) struct InQueue {
    /// By key: the job's name there, whether it runs, and why not.
    pub jobs: HashMap<Key, (BatchId, bool, String)>,
    /// Number of pilot jobs.
    pub pilots: usize,
}

/// Polls the queue; `None` without a response.
pub(crate) fn in_queue(cluster: &dyn Cluster) -> Option<InQueue> {
    let mut in_queue = InQueue::default();
    for queued in cluster.poll().ok()?.into_iter().filter(|queued| queued.state.is_live()) {
        match queued.tag.parse::<job_tag::JobTag>() {
            Ok(tag) => {
                in_queue.jobs.insert(tag.key, (queued.id, queued.state == QueuedState::Running, queued.reason));
            }
            Err(()) => in_queue.pilots += 1,
        }
    }
    Some(in_queue)
}

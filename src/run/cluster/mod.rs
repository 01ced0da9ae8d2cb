//! A run through Slurm: one batch job for each job, all of them submitted at once, with Slurm's dependencies between them.
//!
//! Slurm is a way to get processes, and no more. What is done is in the store, and what has failed is in the files that the
//! jobs' own processes write into the run's folder ([`crate::run::allocation`]); the queue only says which jobs are still to come. So
//! nothing is lost when this process dies: the next one reads the store and the queue, takes over the jobs that are there,
//! and submits the others.

pub(crate) mod client;
mod job_per_allocation;
pub(crate) mod job_tag;
mod jobs;
mod pilot_jobs;
mod sbatch_args;
mod session;

use std::{collections::HashMap, io, path::PathBuf, time::Duration};

use self::client::{Client, State};
use crate::{
    plan::Plan,
    recipe,
    record::Key,
    run::{Disposition, Observer, RunFolder, Signals, Summary},
    store::Store,
};

/// How to run through Slurm.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is asked of Slurm beyond the jobs' resources.
    pub asked: recipe::Slurm,
    /// The name that all jobs of this store have in Slurm.
    pub name: String,
    /// The results folder.
    pub results: PathBuf,
    /// This run's folder.
    pub folder: RunFolder,
    /// How often the queue is looked at while much happens; less often while nothing does.
    pub poll: Duration,
    /// Whether to leave as soon as everything is submitted.
    pub detach: bool,
    /// How many allocations run an engine each, instead of one batch job for each job.
    pub pilots: Option<usize>,
    /// How many jobs may be in the queue at once.
    pub most: Option<usize>,
    /// Whether the first failure stops the run.
    pub fail_fast: bool,
}

/// How long a file that a job's process has written may be out of sight on another machine (NFS caches attributes for up to a
/// minute).
const LAG: Duration = Duration::from_mins(1);
/// How long a job may be missing from the queue before it counts as forgotten.
const MISSING: Duration = Duration::from_secs(10);
/// How often a job is submitted again that Slurm has lost: with its node, or altogether.
const LOSSES: u32 = 3;

/// Whether there is a Slurm on this machine.
pub fn is_here() -> bool {
    client::is_here()
}

/// Runs what is wanted through Slurm.
pub fn run(
    plan: &Plan,
    store: &Store,
    wanted: &[Disposition],
    options: &Options,
    signals: Option<Signals>,
    observers: &mut [&mut dyn Observer],
) -> io::Result<Summary> {
    if let Some(pilots) = options.pilots {
        return pilot_jobs::Run::new(plan, store, wanted, options, observers)?.drive(pilots, signals);
    }
    job_per_allocation::Run::new(plan, store, wanted, options, observers)?.drive(signals)
}

/// What can be done about a job that waits for this reason; `None` for reasons that pass by themselves.
pub(crate) fn never(reason: &str) -> Option<&'static str> {
    let reason = reason.split([',', ' ']).next().unwrap_or_default();
    Some(match reason {
        "PartitionConfig" | "PartitionNodeLimit" | "BadConstraints" | "ReqNodeNotAvail" | "NodeDown" => {
            "no node of its partition has what it asks for"
        }
        "PartitionTimeLimit" => "it asks for more time than its partition allows",
        "PartitionDown" | "PartitionInactive" => "its partition takes no jobs",
        "InvalidAccount" => "its account is not valid",
        "InvalidQOS" => "its QOS is not valid",
        "JobHeldUser" | "JobHeldAdmin" => "it is held; `scontrol release` frees it",
        "AssocMaxCpuPerJobLimit"
        | "AssocMaxNodePerJobLimit"
        | "AssocMaxWallDurationPerJobLimit"
        | "AssocMaxGRESPerJob"
        | "AssocMaxMemPerJob"
        | "QOSMaxCpuPerJobLimit"
        | "QOSMaxNodePerJobLimit"
        | "QOSMaxWallDurationPerJobLimit"
        | "QOSMaxGRESPerJob"
        | "QOSMaxMemoryPerJob"
        | "AssocMaxJobsLimit"
        | "AssocGrpGRES"
        | "QOSMinCpuNotSatisfied"
        | "QOSMinGRES" => "it asks for more than its account or QOS allows",
        "launch_failed_requeued_held" | "launch" => "it could not be started on its node and is held",
        _ => return None,
    })
}

/// What the queue says of the jobs of a store.
#[derive(Debug, Default)]
pub(crate) struct InQueue {
    /// By key: the job's number, whether it runs, and why not.
    pub(crate) jobs: HashMap<Key, (u64, bool, String)>,
    /// How many engines there are in allocations of their own.
    pub(crate) pilots: usize,
}

/// Asks the queue; `None` if there is no answer.
pub(crate) fn in_queue(name: &str) -> Option<InQueue> {
    let mut found = InQueue::default();
    for seen in (Client { name: name.to_owned() }).queue().ok()?.into_iter().filter(|seen| seen.state.is_live()) {
        match seen.mark {
            Some(mark) => {
                found.jobs.insert(mark.key, (seen.id, seen.state == State::Running, seen.reason));
            }
            None => found.pilots += 1,
        }
    }
    Some(found)
}

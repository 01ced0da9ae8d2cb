//! Slurm, through its own commands.

mod commands;
mod sbatch_args;

use self::commands::Client;
use super::{Allocated, BatchId, BatchJob, CancelScope, Cluster, EndCause, Ending, QueuedJob, QueuedState, Refusal};
use crate::recipe::executor::slurm as recipe;

/// The Slurm cluster of this machine, as far as the jobs of one store are concerned.
#[derive(Debug, Clone)]
pub(super) struct Slurm {
    client: Client,
    asked: recipe::Slurm,
}

impl Slurm {
    /// Creates the cluster whose jobs have the name `name`; `asked` are the executor's settings.
    pub(super) fn new(name: String, asked: recipe::Slurm) -> Self {
        Self { client: Client { name }, asked }
    }
}

impl Cluster for Slurm {
    fn system(&self) -> &'static str {
        "Slurm"
    }

    fn unavailable(&self) -> Option<&'static str> {
        let reason = "no working `sbatch` is on the PATH; run on a node that can submit jobs";
        (!commands::is_here()).then_some(reason)
    }

    fn gives_nodes(&self) -> bool {
        true
    }

    /// Slurm enforces memory itself.
    fn allocated(&self) -> Option<Allocated> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok().filter(|number| *number > 0);
        std::env::var_os("SLURM_JOB_ID")?;
        // Several tasks are the processes of one job.
        let of_tasks = number("SLURM_CPUS_PER_TASK").map(|each| each * number("SLURM_NTASKS_PER_NODE").unwrap_or(1));
        let cpus = of_tasks.or_else(|| number("SLURM_CPUS_ON_NODE"));
        Some(Allocated { cpus, memory: number("SLURM_MEM_PER_NODE").map(|mebibytes| (mebibytes as u64) << 20) })
    }

    fn jobs_name(&self) -> &str {
        &self.client.name
    }

    fn cancel_command(&self) -> String {
        format!("scancel --me --name {}", self.client.name)
    }

    fn submit(&self, job: &BatchJob<'_>) -> Result<BatchId, Refusal> {
        let request = job.step.map_or_else(|| self.asked.all.clone(), |step| self.asked.of_step(step));
        self.client.submit(&sbatch_args::arguments(job, &request), &job.script)
    }

    fn poll(&self) -> Result<Vec<QueuedJob>, String> {
        self.client.queue()
    }

    fn cancel(&self, ids: &[BatchId], scope: CancelScope) -> Result<(), String> {
        match scope {
            CancelScope::Pending => self.client.cancel(ids, true),
            CancelScope::All => self.client.cancel(ids, false),
            CancelScope::Interrupt => {
                self.client.interrupt(ids);
                Ok(())
            }
        }
    }

    fn why_pending(&self, reason: &str) -> Option<&'static str> {
        why_pending(reason)
    }

    fn ending(&self, id: &BatchId, word: &str) -> Ending {
        let end = self.client.end(id).unwrap_or_default();
        let cause = match (word, end.code, end.signal) {
            ("TIMEOUT" | "DEADLINE", ..) => EndCause::TimeLimit,
            ("OUT_OF_MEMORY", ..) => EndCause::OutOfMemory,
            ("PREEMPTED", ..) => EndCause::Preempted,
            ("NODE_FAIL" | "BOOT_FAIL" | "REVOKED", ..) => EndCause::Lost(word.to_owned()),
            (_, Some(code), _) => EndCause::Exit(code),
            (_, None, Some(signal)) => EndCause::Signal(signal),
            (_, None, None) => EndCause::Other(word.to_owned()),
        };
        Ending { cause, node: end.nodes, reason: end.reason }
    }

    fn remembered(&self, id: &BatchId) -> Option<QueuedState> {
        self.client.remembered(id)
    }
}

/// Reason why a job stays in the queue for good, if this reason for waiting is permanent.
fn why_pending(reason: &str) -> Option<&'static str> {
    let reason = reason.split([',', ' ']).next().unwrap_or_default();
    Some(match reason {
        "PartitionConfig" | "PartitionNodeLimit" | "BadConstraints" | "ReqNodeNotAvail" | "NodeDown" => {
            "no node of its partition has the requested resources"
        }
        "PartitionTimeLimit" => "it requests more time than its partition allows",
        "PartitionDown" | "PartitionInactive" => "its partition accepts no jobs",
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
        | "QOSMinGRES" => "it requests more than its account or QOS allows",
        "launch_failed_requeued_held" | "launch" => "it could not be started on its node and is held",
        _ => return None,
    })
}

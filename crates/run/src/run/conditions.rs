//! Conditions under which the jobs of an engine run.

use std::path::{Path, PathBuf};

use sweep_job::Values;

use super::{Options, RunProvenance, attempt::Attempt, interpreter::Interpreters, slots::WHOLE};
use crate::{
    host::{
        machine::{cpus, memory},
        system::{self, Load},
    },
    plan::Job,
    record::{Conditions, Exclusivity, GpuUse, Machine, RunConditions},
};

/// Conditions that all jobs of an engine share, determined when the first one starts.
#[derive(Debug)]
pub(super) struct Surroundings {
    machine: Machine,
    run: RunConditions,
    folder: PathBuf,
    interpreters: Interpreters,
}

impl Surroundings {
    /// Determines them.
    pub(super) fn new(options: &Options) -> Self {
        let memory = Some(memory()).filter(|memory| *memory < u64::MAX);
        let machine = Machine {
            os: Some(system::os()),
            kernel: Some(system::kernel()),
            cpu: system::cpu_model(),
            cores: system::cores(),
            usable: cpus(),
            memory,
            governor: system::governor(),
            driver: None,
        };
        let run = RunProvenance::read(&options.folder).of_jobs(&options.folder);
        Self { machine, run, folder: options.folder.clone(), interpreters: Interpreters::default() }
    }

    /// The conditions of a job whose worker has ended, without its program. `after` is the load at its end.
    pub(super) fn of(&self, job: &Job, attempt: &Attempt, after: Load, options: &Options) -> Conditions {
        let driver = options.device.as_ref().filter(|_| job.task.on_device).map(|device| device.driver.clone());
        let usage = attempt.worker.cpu_seconds().and_then(|seconds| after.since(attempt.load, seconds));
        Conditions {
            machine: Machine { driver: driver.filter(|driver| !driver.is_empty()), ..self.machine.clone() },
            exclusive: Exclusivity { asked: job.resources.exclusive, held: attempt.lease.alone },
            load_before: attempt.load.average,
            load_after: after.average,
            own: usage.map(|usage| rounded(usage.own)),
            foreign: usage.and_then(|usage| usage.foreign).map(rounded),
            neighbors: attempt.neighbors,
            attempts: attempt.number,
            gpu: gpu(job, attempt),
            seeds: job.seeds,
            run: RunConditions {
                round: job.turn.map(|turn| turn.round),
                position: job.turn.map(|turn| turn.position),
                ..self.run.clone()
            },
            interpreter: None,
            environment: None,
        }
    }

    /// Adds the program of a job with these parameters, which ran in `dir`. May take seconds, once for each program.
    pub(super) fn add_program(&self, conditions: &mut Conditions, values: &Values, dir: &Path) {
        conditions.interpreter = self.interpreters.of(values, dir, &self.folder);
    }
}

/// The GPUs of a job, if it had any.
fn gpu(job: &Job, attempt: &Attempt) -> Option<GpuUse> {
    let lease = &attempt.lease;
    (!lease.gpus.is_empty()).then(|| GpuUse {
        devices: lease.gpus.len(),
        share: lease.share.map_or(1.0, |share| f64::from(share) / f64::from(WHOLE)),
        shares: job.shares_gpu(),
        reserved: (lease.gpu_memory > 0).then_some(lease.gpu_memory),
        peak: attempt.gpu_peak,
        exhausted: attempt.exhausted,
    })
}

/// Cores with the digits that a clock of ticks has.
fn rounded(cores: f64) -> f64 {
    (cores * 1000.0).round() / 1000.0
}

//! The lab, as the engine sees it. The program that has one hands it to the engine, so that neither package depends on the
//! other.

use std::process::ExitCode;

use crate::{Backend, Failure, Job, Outcome, Probe, Report, Task};

/// A lab that computes tasks on the backends of this machine. Its methods are called in worker processes.
pub trait Lab: Sync {
    /// Runs `task`, the task of `job`, on the job's backend, and reports its progress.
    fn run(&self, task: &Task, job: &Job, report: &mut dyn Report) -> Result<Outcome, Failure>;

    /// Returns the devices of this machine for a backend, best first, or the reason why no device was found.
    fn probe(&self, backend: Backend) -> Probe;

    /// Runs another process of a job that has several; its arguments are in the environment.
    fn rank(&self) -> ExitCode;
}

//! The lab on Burn, as the engine calls it.

use std::process::ExitCode;

use sweep_job::{Backend, Failure, Job, Lab, Outcome, Probe, Report, Task};
use sweep_lab::{Folders, measure::heap::Counting};

/// The system's allocator, which some jobs ask how much they need.
#[global_allocator]
static HEAP: Counting = Counting;

/// The lab of this program.
pub(crate) const LAB: &dyn Lab = &OnBurn;

#[derive(Debug)]
struct OnBurn;

impl Lab for OnBurn {
    fn run(&self, task: &Task, job: &Job, report: &mut dyn Report) -> Result<Outcome, Failure> {
        let folders = Folders { files: job.dir.clone(), scratch: job.scratch.clone() };
        sweep_lab::run(task, job.backend.unwrap_or(Backend::Cpu), &folders, report)
    }

    fn probe(&self, backend: Backend) -> Probe {
        sweep_lab::probe(backend)
    }

    fn rank(&self) -> ExitCode {
        sweep_lab::rank()
    }
}

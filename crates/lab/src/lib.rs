//! The experiments of `sweep` on Burn: GPT-2, its optimizer, pruning, data and measurement, one file per task.
//!
//! The engine calls two functions, [`probe`] and [`run`]; everything else is public for tests and benchmarks. Numerics
//! are generic over a [`Compute`](backend::Compute) backend; the concrete Burn types are named in [`backend`] only.

pub mod backend;
pub mod data;
mod error;
mod files;
pub mod hub;
mod measure;
pub mod model;
pub mod ops;
pub mod optim;
mod probe;
pub mod prune;
pub mod rng;
pub mod tasks;

use std::path::Path;

pub use error::LabError;
pub use probe::probe;
use sweep_job::{Backend, Failure, Outcome, Report, Task};

/// Runs a job in this process, on `backend`.
///
/// Artifacts are written under `dir`, which exists.
pub fn run(task: &Task, backend: Backend, dir: &Path, report: &mut dyn Report) -> Result<Outcome, Failure> {
    tasks::run(task, backend, dir, report).map_err(Failure::from)
}

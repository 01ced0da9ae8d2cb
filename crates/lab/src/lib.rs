//! The experiments of `sweep` on Burn: GPT-2, its optimizer, pruning, data and measurement, one file per task.
//!
//! The engine calls two functions, [`probe`] and [`run`]; everything else is public for tests and benchmarks. Numerics
//! are generic over a [`Compute`](backend::Compute) backend; the concrete Burn types are named in [`backend`] only.

pub mod backend;
pub mod data;
mod error;
mod files;
pub mod gradient;
pub mod gradprobe;
pub mod hub;
pub mod k1;
pub mod measure;
pub mod model;
pub mod ops;
pub mod optim;
mod probe;
pub mod prune;
pub mod read;
#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
pub mod resident;
pub mod state;
pub mod tasks;

use std::path::PathBuf;

pub use error::LabError;
pub use probe::probe;
pub use sweep_cpu_kernels::{rng, selection};
use sweep_job::{Backend, Failure, Outcome, Report, Task};

/// Folders that a job writes to. Both exist.
#[derive(Debug, Clone)]
pub struct Folders {
    /// For artifacts.
    pub files: PathBuf,
    /// For what a failed attempt leaves for the next one.
    pub scratch: PathBuf,
}

/// Runs a job in this process, on `backend`.
pub fn run(task: &Task, backend: Backend, folders: &Folders, report: &mut dyn Report) -> Result<Outcome, Failure> {
    tasks::run(task, backend, folders, report).map_err(Failure::from)
}

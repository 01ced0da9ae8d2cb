//! The experiments of `sweep` on Burn: GPT-2, its optimizer, pruning, data and measurement, one file per task.
//!
//! The engine calls two functions, [`probe`] and [`run`]; everything else is public for tests and benchmarks. Numerics
//! are generic over a [`Compute`](backend::Compute) backend; the concrete Burn types are named in [`backend`] only.

pub mod backend;
pub mod data;
pub mod device;
mod error;
pub mod files;
pub mod measure;
pub mod model;
pub mod ops;
pub mod optim;
pub mod papers;
pub mod prune;
pub mod tasks;

pub use backend::probe::probe;
pub use error::{DataError, HubError, LabError, StateError};
pub use files::Folders;
pub use papers::pairs::ranks::main as rank;
pub use sweep_cpu_kernels::{rng, selection};
use sweep_job::{Backend, Failure, Outcome, Report, Task};

/// Runs a job in this process, on `backend`.
pub fn run(task: &Task, backend: Backend, folders: &Folders, report: &mut dyn Report) -> Result<Outcome, Failure> {
    tasks::run(task, tasks::Context { backend, folders, report }).map_err(Failure::from)
}

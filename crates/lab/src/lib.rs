//! The experiments of `sweep` on Burn: GPT-2, its optimizer, pruning, data and measurement, one file per task.
//!
//! The engine calls two functions, [`probe`] and [`run`]; everything else is public for tests and benchmarks. Numerics
//! are generic over a [`Compute`](backend::Compute) backend; the concrete Burn types are named in [`backend`] only.
//!
//! # Sources
//!
//! The documentation of the code refers to these names.
//!
//! - **ratio-ablation** is the 19-step ablation of GPT-2 with RATIO, SPAM and AdamWPrune, from the repository `mcgrof/knlp` at commit
//!   `4c1a1cb2` (2025-11-15) and, for the mechanisms, `52d8632f` (2025-11-02). Where that code and its documentation disagree, or where it
//!   has defects, this project follows the documented intent and notes the difference in place. Sections: 2 base model, 4 mechanisms, 5 the
//!   19 steps, 6 training hyperparameters, 7 checks, 8 optimizers and pruning, 9 the unified series.
//! - **K-1** is paper 002's network and training, from the repository `PlanetDestroyyer/self-learning-k-1` at commit `5fff84b` (2025-12-21)
//!   and the fixes that followed it. Where it has defects (targets shifted twice, a new mask in every forward pass, norms read one by one),
//!   the correct behavior is the default, and a parameter value selects the defect.
//! - **paper 003** is about pruning Mistral-7B by gradients. The method is taken from the repository `dcifrian/GradProbe` at commit
//!   `528d9b4`. Here, calibration batches are drawn once, a missing gradient is an error, and one-step tuning either works or is rejected. In
//!   the reference, a batch may differ between the two gradients, a missing gradient allows every weight to be pruned, and one-step tuning
//!   has no effect from tensor to tensor.
//! - **`nanoGPT`** is the source of the names and shapes of GPT-2's parameters and of the format of token files; **the Hub's layout** is that
//!   of Hugging Face's `GPT2LMHeadModel`.

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
pub use burn;
pub use error::{DataError, HubError, LabError, StateError};
pub use files::Folders;
pub use papers::pairs::ranks::main as rank;
pub use sweep_cpu_kernels::{rng, selection};
use sweep_job::{Backend, Failure, Outcome, Report, Task};

/// Runs a job in this process, on `backend`.
pub fn run(task: &Task, backend: Backend, folders: &Folders, report: &mut dyn Report) -> Result<Outcome, Failure> {
    tasks::run(task, tasks::Context { backend, folders, report }).map_err(Failure::from)
}

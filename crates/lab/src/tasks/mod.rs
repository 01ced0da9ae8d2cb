//! The tasks, one file each, and shared code.

mod bench;
mod check;
mod coupling;
mod eval;
mod generate;
mod gradprobe;
mod k1;
mod pairs;
mod parity;
mod steps;
mod train;

use burn::tensor::{Tensor, backend::Backend as BurnBackend};
use sweep_job::{
    Backend, Outcome, Report, Task,
    tasks::{Architecture, Model},
};

use self::bench::Bench;
pub use check::{Assertion, Expected, assertions};

use crate::{
    Folders, LabError,
    backend::{Compute, ExecutionTarget, dispatch, dispatch_eager},
    data::Batch,
    hub,
    model::{Gpt, GptDims, Network},
    read::number,
};

/// Runs `task` on `backend`.
pub(crate) fn run(
    task: &Task,
    backend: Backend,
    folders: &Folders,
    report: &mut dyn Report,
) -> Result<Outcome, LabError> {
    match task {
        Task::Train(train) => {
            dispatch(ExecutionTarget::new(backend, &train.computing), train::Job { train, backend, folders, report })
        }
        Task::Eval(eval) => dispatch_eager(backend, eval::Job { eval, report }),
        Task::GradProbe(task) => dispatch_eager(backend, gradprobe::Job { task, backend, folders, report }),
        Task::Generate(generate) => dispatch_eager(backend, generate::Job { generate, folders, report }),
        Task::Check(check) => dispatch_eager(backend, check::Job { check, report }),
        Task::K1(k1) => {
            let place = ExecutionTarget::new(backend, &k1.computing.settings());
            dispatch(place, k1::Job { k1, backend, report })
        }
        Task::Parity(parity) => parity::run(parity, backend, report),
        Task::BatchSize(_) => Err(LabError::NotALabTask("bench/batch-size")),
        Task::BenchThreshold(found) => dispatch_eager(backend, bench::Job { bench: Bench::Threshold(found), report }),
        Task::BenchMaskUpdate(made) => dispatch_eager(backend, bench::Job { bench: Bench::MaskUpdate(made), report }),
        Task::BenchMasking(applied) => dispatch_eager(backend, bench::Job { bench: Bench::Masking(applied), report }),
        Task::Pair(pair) => pairs::run(pair, backend, folders, report),
        Task::Command(_) => Err(LabError::NotALabTask("command")),
        Task::Mock(_) => Err(LabError::NotALabTask("mock")),
    }
}

/// The network that a recipe asks for: from a folder, or with random weights.
///
/// `vocab_size` is what the data needs; the recipe may give its own.
fn network<B: BurnBackend>(
    model: &Model,
    architecture: &Architecture,
    vocab_size: usize,
    seed: u64,
    device: &B::Device,
) -> Result<Gpt<B>, LabError> {
    match &model.init {
        Some(folder) => hub::load(&folder.0, device),
        None => Gpt::random(GptDims::new(model, architecture, vocab_size)?, seed, device),
    }
}

/// The mean loss of `network` on `batches`, without dropout, in nats.
fn mean_loss<B: Compute, N: Network<B>>(network: &N, batches: &[Batch], device: &B::Device) -> Result<f64, LabError> {
    let mut sum = Mean::default();
    for batch in batches {
        sum.add(batch_loss(network, batch, device));
    }
    sum.read()
}

/// The loss of `network` on one batch, without dropout, `[1]`.
fn batch_loss<B: Compute, N: Network<B>>(network: &N, batch: &Batch, device: &B::Device) -> Tensor<B, 1> {
    let (inputs, targets) = batch.to_tensors(device);
    network.loss(inputs, targets, 0.0)
}

/// A mean that grows on the device and is read when asked for.
struct Mean<B: BurnBackend> {
    sum: Option<Tensor<B, 1>>,
    count: usize,
}

impl<B: BurnBackend> Default for Mean<B> {
    fn default() -> Self {
        Self { sum: None, count: 0 }
    }
}

impl<B: BurnBackend> Mean<B> {
    fn add(&mut self, value: Tensor<B, 1>) {
        self.sum = Some(match self.sum.take() {
            Some(sum) => sum + value,
            None => value,
        });
        self.count += 1;
    }

    /// The mean since the last reading; waits for the device. NaN if nothing was added.
    fn read(&mut self) -> Result<f64, LabError> {
        let count = std::mem::take(&mut self.count) as f64;
        match self.sum.take() {
            Some(sum) => Ok(number(sum)? / count),
            None => Ok(f64::NAN),
        }
    }
}

/// Waits until the device has done everything that it was told.
fn sync<B: BurnBackend>(device: &B::Device) -> Result<(), LabError> {
    Ok(B::sync(device)?)
}

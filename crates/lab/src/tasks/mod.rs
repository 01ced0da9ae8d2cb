//! The tasks, one file each, and shared code.

mod bench;
mod check;
mod coordinates;
mod coupling;
mod eval;
mod generate;
mod gradprobe;
mod k1;
mod pairs;
mod parity;
mod profile;
mod steps;
mod tokenize;
mod train;

use burn::tensor::{Tensor, backend::Backend as BurnBackend};
use sweep_job::{
    Backend, Conflict, Outcome, Report, Task, TaskSpec, for_each_task,
    tasks::{Architecture, Model, Optimizer},
};

pub use check::{Assertion, Expected, assertions};

use crate::{
    Folders, LabError,
    backend::Compute,
    data::Batch,
    device::read::number,
    model::{Gpt, GptDims, Network, ParamInfo, hub},
    optim::AdamW,
};

/// A job's surroundings: its backend, its folders, and the receiver of its progress.
pub(crate) struct Context<'a> {
    pub(crate) backend: Backend,
    pub(crate) folders: &'a Folders,
    pub(crate) report: &'a mut dyn Report,
}

/// A task that the lab runs.
pub(crate) trait Run {
    /// Runs it in this process.
    fn run(&self, context: Context<'_>) -> Result<Outcome, LabError>;
}

/// Runs `task`.
pub(crate) fn run(task: &Task, context: Context<'_>) -> Result<Outcome, LabError> {
    macro_rules! dispatch {
        ($($place:ident $task:ident;)+) => {
            match task { $(Task::$task(task) => dispatch!(@$place task),)+ }
        };
        (@lab $task:ident) => { $task.run(context) };
        (@worker $task:ident) => { Err(not_for_the_lab($task)) };
    }
    for_each_task!(dispatch)
}

fn not_for_the_lab<T: TaskSpec>(_: &T) -> LabError {
    LabError::NotALabTask(T::NAME)
}

/// Returns the network that a recipe requests: from a folder, or with random weights.
///
/// `vocab_size` is the size that the data needs; the recipe may give its own.
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

/// Fails if the parametrization of a network, which may come from a folder, does not define the learning rates of `optimizer`.
fn check_optimizer(dims: &GptDims, optimizer: &Optimizer) -> Result<(), LabError> {
    match dims.block.misfit_of_optimizer(optimizer) {
        Some(Conflict { message, advice, .. }) => Err(LabError::Dimensions(format!("{message}; {advice}"))),
        None => Ok(()),
    }
}

/// The optimizer of the `parameters` of a network of `dims`. Fails like [`check_optimizer`].
fn adamw<B: Compute>(settings: &Optimizer, dims: &GptDims, parameters: &[ParamInfo]) -> Result<AdamW<B>, LabError> {
    check_optimizer(dims, settings)?;
    Ok(AdamW::new(settings, parameters).with_rates_of(dims, parameters))
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

/// A mean that is accumulated on the device and read on request.
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

//! Mask updates of a training.

use std::time::Instant;

use burn::{backend::Autodiff, module::AutodiffModule};
use sweep_job::{Unit, tasks::Train};

use super::Trainer;
use crate::{
    DataError, LabError,
    backend::{Compute, sync},
    data::{Batch, Tokens},
    measure::Part,
    model::Gpt,
};

/// Batches of `tokens` by whose inputs `train` scores weights, each of `shape`; none if it does not.
pub(super) fn calibration(
    train: &Train,
    tokens: &Tokens,
    shape: [usize; 2],
    vocab_size: usize,
) -> Result<Vec<Batch>, DataError> {
    if !train.prune.prune.by_output() {
        return Ok(Vec::new());
    }
    tokens.spread_batches(train.prune.calibration_batches, shape, vocab_size)
}

impl<B: Compute> Trainer<'_, B> {
    /// Chooses masks after iteration `iter`, and sets pruned weights to 0.
    pub(super) fn prune(&mut self, network: Gpt<Autodiff<B>>, iter: usize) -> Result<Gpt<Autodiff<B>>, LabError> {
        let Train { training, prune, .. } = self.train;
        sync::<B>(self.device)?;
        let start = Instant::now();
        if !self.calibration.is_empty() {
            let batches = self.calibration.iter().map(|batch| batch.to_tensors::<B>(self.device).0);
            self.pruner.calibrate(&network.valid(), batches)?;
        }
        let target = prune.target_at(iter, training.iters);
        let sparsity = self.pruner.choose::<Autodiff<B>, _>(&network, &self.optimizer, target)?;
        let end = Instant::now();
        self.prune_time += end - start;
        if let Some(trace) = self.breakdown.trace() {
            trace.span("prune", start, end, end, false);
        }
        self.curves.push("sparsity", Unit::Fraction, iter as u64 + 1, sparsity);
        let Self { optimizer, pruner, breakdown, device, .. } = self;
        breakdown.time::<B, _>(Part::Masking, device, || pruner.apply::<Autodiff<B>, _>(network, optimizer))
    }
}

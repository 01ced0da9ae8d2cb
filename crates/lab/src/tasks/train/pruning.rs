//! Mask updates of a training.

use std::{path::Path, time::Instant};

use burn::{backend::Autodiff, module::AutodiffModule, tensor::Tensor};
use sweep_job::{
    Report, Unit,
    tasks::{MaskPlan, PruneMethod, Train},
};

use super::Trainer;
use crate::{
    DataError, LabError,
    backend::{Compute, sync},
    data::{Batch, Tokens},
    measure::Part,
    model::{self, Gpt, ParamInfo, hub},
    optim::{Gradients, gradient},
    prune::Pruner,
    rng,
};

/// Adds a note if the step of the ablation prunes and the training does not.
pub(super) fn note_missing(train: &Train, report: &mut dyn Report) {
    if train.architecture.ablation.pruning().is_some() && train.prune.prune == PruneMethod::None {
        report.note(
            "`ablation: 1` selects the network of step 0 and does not prune: declare the pruning of step 1 by \
             `prune: bitter0` and `optimizer: adamwspam`",
        );
    }
}

/// Batches of `tokens` by whose inputs or gradients `train` scores weights, each of `shape`; none if it does not.
pub(super) fn calibration(
    train: &Train,
    tokens: &Tokens,
    shape: [usize; 2],
    vocab_size: usize,
) -> Result<Vec<Batch>, DataError> {
    if !train.prune.prune.calibrates() {
        return Ok(Vec::new());
    }
    tokens.spread_batches(train.prune.calibration_batches, shape, vocab_size)
}

/// The pruner of a training that begins with `network`.
pub(super) fn pruner<B: Compute>(train: &Train, parameters: &[ParamInfo], network: &Gpt<Autodiff<B>>) -> Pruner<B> {
    Pruner::new(&train.prune, parameters)
        .with_seed(train.training.seed)
        .with_fusing(train.computing.fusion)
        .with_given_masks(train.ticket.mask.is_some())
        .starting_from::<Autodiff<B>, _>(network)
}

/// The seed of random initial weights.
pub(super) fn seed_of_weights(train: &Train) -> u64 {
    let seed = train.training.seed;
    if train.ticket.fresh_weights { rng::derived_seed(seed, "fresh weights", &[]) } else { seed }
}

impl<B: Compute> Trainer<'_, B> {
    /// Makes the masks that act from the first iteration on, if there are such, and sets pruned weights to 0.
    pub(super) fn begin_pruning(
        &mut self,
        network: Gpt<Autodiff<B>>,
        parameters: &[ParamInfo],
    ) -> Result<Gpt<Autodiff<B>>, LabError> {
        let Train { prune, ticket, computing, .. } = self.train;
        let start = self.pause_to_prune()?;
        let sparsity = match (&ticket.mask, prune.prune.plan()) {
            (Some(folder), _) => {
                let weights = self.weights_of_mask(&folder.0, parameters)?;
                self.pruner.take_masks(&weights, ticket.mask_sparsity)?
            }
            (None, MaskPlan::Start) => {
                let batches = self.calibration.iter().map(|batch| batch.to_tensors::<B>(self.device));
                self.pruner.sense(gradient::mean(&network, batches, computing));
                self.pruner.choose::<Autodiff<B>, _>(&network, &self.optimizer, prune.target())?
            }
            (None, MaskPlan::Replace) => self.pruner.draw(prune.target(), self.device),
            (None, MaskPlan::Never | MaskPlan::Ramp) => return Ok(network),
        };
        self.note_time(start);
        self.curves.push("sparsity", Unit::Fraction, 0, sparsity);
        self.apply_masks(network)
    }

    /// The weights of the network in `folder`, which must have the `parameters` of this one.
    fn weights_of_mask(&self, folder: &Path, parameters: &[ParamInfo]) -> Result<Vec<Tensor<B, 1>>, LabError> {
        let network: Gpt<Autodiff<B>> = hub::load(folder, self.device)?;
        let found = model::infos(&network);
        if found == parameters {
            return Ok(model::values(&network));
        }
        let differing = parameters.iter().zip(&found).find(|(own, other)| own != other);
        let difference = match differing {
            Some((own, other)) => {
                format!("`{}` {:?} instead of `{}` {:?}", other.name, other.shape, own.name, own.shape)
            }
            None => format!("{} parameters instead of {}", found.len(), parameters.len()),
        };
        Err(LabError::Dimensions(format!(
            "the network in `mask` has other parameters than the one that is trained, {difference}: choose a network of the same \
             dimensions"
        )))
    }

    /// Chooses masks after iteration `iter`, and sets pruned weights to 0.
    pub(super) fn prune(&mut self, network: Gpt<Autodiff<B>>, iter: usize) -> Result<Gpt<Autodiff<B>>, LabError> {
        let start = self.pause_to_prune()?;
        if !self.calibration.is_empty() {
            let batches = self.calibration.iter().map(|batch| batch.to_tensors::<B>(self.device).0);
            self.pruner.calibrate(&network.valid(), batches)?;
        }
        let target = self.train.prune.target_at(iter, self.train.training.iters);
        let sparsity = self.pruner.choose::<Autodiff<B>, _>(&network, &self.optimizer, target)?;
        self.note_time(start);
        self.curves.push("sparsity", Unit::Fraction, iter as u64 + 1, sparsity);
        self.apply_masks(network)
    }

    /// Replaces the part `share` of the kept weights of each layer, by the `gradients` of all weights.
    pub(super) fn replace(
        &mut self,
        network: Gpt<Autodiff<B>>,
        gradients: &Gradients<B>,
        share: f64,
    ) -> Result<Gpt<Autodiff<B>>, LabError> {
        let start = self.pause_to_prune()?;
        let network = self.pruner.replace::<Autodiff<B>, _>(network, &mut self.optimizer, gradients, share)?;
        self.note_time(start);
        Ok(network)
    }

    /// The time at which a choice of masks begins.
    fn pause_to_prune(&self) -> Result<Instant, LabError> {
        sync::<B>(self.device)?;
        Ok(Instant::now())
    }

    /// Notes the time of a choice of masks that began at `start`.
    fn note_time(&mut self, start: Instant) {
        let end = Instant::now();
        self.prune_time += end - start;
        if let Some(trace) = self.breakdown.trace() {
            trace.span("prune", start, end, end, false);
        }
    }

    /// `network` with the weights that new masks prune at 0.
    fn apply_masks(&mut self, network: Gpt<Autodiff<B>>) -> Result<Gpt<Autodiff<B>>, LabError> {
        let Self { optimizer, pruner, breakdown, device, .. } = self;
        breakdown.time::<B, _>(Part::Masking, device, || pruner.apply::<Autodiff<B>, _>(network, optimizer))
    }
}

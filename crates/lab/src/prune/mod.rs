//! Pruning while training (ratio-ablation, sections 8.2, 8.4 and 8.5).
//!
//! At every update the mask is chosen again over all prunable weights: with `K = floor(sparsity * total)`, the
//! threshold is the `K`-th smallest score, or an estimate of it, and a weight stays if its score is above it. Between
//! updates the mask is applied in every optimizer step, so pruned weights are exactly 0. The methods that use Adam's
//! moments mask the gradients and the moments too, including AMSGrad's maximum, which the reference does not mask.
//!
//! A pruned weight stays pruned, but with RigL (`regrow.rs`). If scores are magnitudes this follows from the score 0 of a
//! pruned weight; if scores can be negative, pruned weights are ranked below all others. In the reference they come back.
//!
//! Other masks are computed before the first iteration: SNIP's by gradients, RigL's at random, and a lottery ticket's from the weights of
//! another network.
//!
//! `surgery.rs` prunes and rounds a trained network without scores: block by block, and input by input (`sweep.rs`).
//!
//! A [`Select`] computes thresholds and masks: `host.rs` on any backend from the scores of `score.rs`,
//! `cpu.rs` and `gpu.rs` exactly and without stored scores. `docs/selection.md` has the algorithms.

mod cholesky;
mod cpu;
#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
pub mod gpu;
mod host;
mod masks;
mod outputs;
mod pattern;
mod regrow;
mod score;
mod select;
mod selects;
mod surgery;
mod sweep;

use std::time::{Duration, Instant};

use burn::{
    module::Module,
    tensor::{
        Int, Tensor,
        backend::{AutodiffBackend, Backend},
    },
};
pub use cpu::OnePassSelect;
#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
pub use gpu::DeviceSelect;
pub use host::{HostSelect, by_histogram, kth_smallest};
pub use masks::{HostMasks, Masks};
pub use score::{Moments, scores};
pub use select::{Choice, Goal, Group, Inputs, Layers, Scorer, Select};
pub use selects::Selects;
pub use surgery::Surgery;
pub use sweep::{Codes, Pruned, sweep};
pub use sweep_cpu_kernels::selection::PRUNED;
use sweep_job::tasks::{Fusing, Prune, PruneMethod, PrunePattern};

pub(crate) use self::select::part_of;
use crate::{
    LabError, StateError,
    device::read::{host, integers},
    files::Snapshot,
    model::{
        self, Network, ParamInfo, Role,
        inputs::{self, Combining},
    },
    optim::{AdamW, Gradients, StepContext},
    rng,
};

/// Maximum sparsity of a layer where every layer has its own threshold.
const MAX_LAYER_SPARSITY: f64 = 0.95;

/// Chooses and applies masks.
#[derive(Debug)]
pub struct Pruner<B: Backend> {
    settings: Prune,
    /// Places of the prunable parameters in the network's order; the token table last, where it is the output layer.
    layers: Vec<usize>,
    /// Names and numbers of the prunable parameters, in the order of `layers`.
    names: Vec<(String, usize)>,
    /// Inputs of the layers, in the order of `layers`.
    inputs: Vec<usize>,
    /// By parameter: 1 where a weight stays, 0 where it is pruned.
    masks: Vec<Option<Tensor<B, 1>>>,
    /// By parameter: the weights at the start, where scores need them.
    origins: Vec<Option<Tensor<B, 1>>>,
    /// By parameter: the norms of its inputs, where scores need them.
    norms: Vec<Option<Vec<f32>>>,
    /// By parameter: the gradients that multiply the scores of the next choice; empty if none do.
    sensed: Gradients<B>,
    selector: Box<dyn Select<B>>,
    scorer: Scorer<B>,
    /// Gradients and moments are masked like the weights.
    masks_state: bool,
    /// Masks of another network are the least that is pruned.
    is_given: bool,
    seed: u64,
    /// Masks chosen so far.
    choices: u64,
    spent: Option<Spent>,
}

/// Time of choosing masks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Spent {
    /// Computing scores.
    pub(crate) scores: Duration,
    /// Finding thresholds and making masks.
    pub(crate) thresholds: Duration,
}

impl<B: Selects> Pruner<B> {
    /// A pruner for `parameters`, in the network's order, that prunes nothing yet.
    pub fn new(settings: &Prune, parameters: &[ParamInfo]) -> Self {
        let layers = prunable(settings, parameters);
        Self {
            settings: settings.clone(),
            names: layers.iter().map(|index| (parameters[*index].name.clone(), parameters[*index].len())).collect(),
            inputs: layers.iter().map(|index| parameters[*index].shape.first().copied().unwrap_or(1)).collect(),
            layers,
            masks: parameters.iter().map(|_| None).collect(),
            origins: parameters.iter().map(|_| None).collect(),
            norms: parameters.iter().map(|_| None).collect(),
            sensed: Vec::new(),
            selector: B::selector(settings),
            scorer: scores,
            masks_state: settings.prune.masks_state(),
            is_given: false,
            seed: 0,
            choices: 0,
            spent: None,
        }
    }

    /// Returns this pruner with `seed` for its random numbers.
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Returns this pruner with masks of another network ([`take_masks`](Self::take_masks)) as the least that is pruned, if
    /// there `are` such masks.
    pub fn with_given_masks(self, are: bool) -> Self {
        Self { is_given: are, masks_state: self.masks_state || are, ..self }
    }

    /// Returns this pruner with scores that are fused according to `fusing`, on backends that can fuse them.
    pub fn with_fusing(self, fusing: Fusing) -> Self {
        if fusing == Fusing::Scores { Self { scorer: B::fused_scores, ..self } } else { self }
    }

    /// This pruner with another way from scores to masks.
    pub fn with_selector(self, selector: Box<dyn Select<B>>) -> Self {
        Self { selector, ..self }
    }

    /// This pruner for a training that begins with `network`, whose weights it remembers if the scores need them.
    pub fn starting_from<AB, M>(mut self, network: &M) -> Self
    where
        AB: AutodiffBackend<InnerBackend = B>,
        M: Module<AB>,
    {
        if self.settings.prune == PruneMethod::Movement {
            let values = model::values::<AB, M>(network);
            for &index in &self.layers {
                self.origins[index] = Some(values[index].clone());
            }
        }
        self
    }

    /// Measures the time of choosing masks from now on, which waits for the device.
    pub(crate) fn measure(&mut self) {
        self.spent = Some(Spent::default());
    }

    /// The measurements.
    pub(crate) fn spent(&self) -> Spent {
        self.spent.unwrap_or_default()
    }

    /// The gradients, with zeros for pruned weights if the method requires it.
    pub fn mask_gradients(&self, gradients: Gradients<B>) -> Gradients<B> {
        if !self.masks_state {
            return gradients;
        }
        let mask_gradient = |(gradient, mask): (Option<Tensor<B, 1>>, &Option<Tensor<B, 1>>)| match (gradient, mask) {
            (Some(gradient), Some(mask)) => Some(B::masked(gradient, mask)),
            (gradient, _) => gradient,
        };
        gradients.into_iter().zip(&self.masks).map(mask_gradient).collect()
    }

    /// A step of `optimizer` that leaves pruned weights at 0, and their moments if the method requires it.
    ///
    /// All gradients are multiplied by `gradient_factor` `[1]` first.
    pub fn step<AB, M>(
        &self,
        network: M,
        gradients: Gradients<B>,
        optimizer: &mut AdamW<B>,
        lr: f64,
        gradient_factor: Option<Tensor<B, 1>>,
    ) -> Result<M, LabError>
    where
        AB: AutodiffBackend<InnerBackend = B>,
        M: Module<AB>,
    {
        let context = StepContext { gradient_factor, masks: &self.masks, mask_moments: self.masks_state };
        optimizer.step_with::<AB, M>(network, gradients, lr, context)
    }

    /// Sets the pruned weights to 0, and their moments if the method requires it. Called for new masks.
    pub fn apply<AB, M>(&self, network: M, optimizer: &mut AdamW<B>) -> M
    where
        AB: AutodiffBackend<InnerBackend = B>,
        M: Module<AB>,
    {
        if self.masks.iter().all(Option::is_none) {
            return network;
        }
        optimizer.mask(&self.masks, self.masks_state);
        model::map_values::<AB, M>(network, &mut |index, weight| match &self.masks[index] {
            Some(mask) => B::masked(weight, mask),
            None => weight,
        })
    }

    /// Takes the norms of the inputs of `network`'s linear layers over all `batches` of tokens `[batch, length]`; they multiply
    /// the scores of the next choices. Waits for the device.
    pub fn calibrate<M: Network<B>>(
        &mut self,
        network: &M,
        batches: impl IntoIterator<Item = Tensor<B, 2, Int>>,
    ) -> Result<(), LabError> {
        let norms = inputs::watch(Combining::All, || {
            for tokens in batches {
                drop(network.logits(tokens, 0.0));
            }
            Ok(())
        })?;
        self.norms = model::ids(network).iter().map(|id| norms.get(id).cloned()).collect();
        Ok(())
    }

    /// Takes the masks of another network, whose `weights` are in the same order: prunes the prunable weights that are 0, and the part
    /// `sparsity` with the smallest magnitudes. Returns the part that is pruned. Waits for the device.
    pub fn take_masks(&mut self, weights: &[Tensor<B, 1>], sparsity: f64) -> Result<f64, LabError> {
        let settings = Prune { prune: PruneMethod::Magnitude, ..Prune::default() };
        let inputs = self.layers.iter().zip(&self.names).map(|(&index, (name, _))| Inputs {
            name: name.clone(),
            weights: weights[index].clone(),
            moments: None,
            origin: None,
            mask: None,
        });
        let mut layers = Layers::new(&settings, inputs.collect());
        let groups = [Group { layers: 0..self.layers.len(), sparsity }];
        let choices = B::selector(&settings).select(&mut layers, &Goal { groups: &groups, seed: self.seed })?;
        let zeros = |index: &usize| weights[*index].clone().not_equal_elem(0.0).float();
        let choices = self.layers.iter().zip(choices).map(|(index, choice)| {
            // Nothing more than the zeros is asked for.
            Some(choice.unwrap_or_else(|| Choice { threshold: 0.0, mask: zeros(index), pruned: None }))
        });
        self.keep(choices.collect())
    }

    /// Takes the `gradients` that multiply the scores of the next choice.
    pub fn sense(&mut self, gradients: Gradients<B>) {
        self.sensed = gradients;
    }

    /// Chooses new masks for `sparsity`; [`apply`](Self::apply) applies them.
    ///
    /// Returns the part that is pruned now: at least the whole weights in `sparsity`, more where scores are equal, and
    /// near it where the threshold is an estimate. Waits for the device.
    pub fn choose<AB, M>(&mut self, network: &M, optimizer: &AdamW<B>, sparsity: f64) -> Result<f64, LabError>
    where
        AB: AutodiffBackend<InnerBackend = B>,
        M: Module<AB>,
    {
        let start = Instant::now();
        let values = model::values::<AB, M>(network);
        let groups = self.groups(sparsity);
        let seed = rng::derived_seed(self.seed, "threshold choice", &[self.choices]);
        let inputs = self.layers.iter().zip(&self.names);
        let inputs = inputs.map(|(&index, (name, _))| self.inputs(name, index, values[index].clone(), optimizer));
        let inputs = inputs.collect::<Result<_, _>>()?;
        let settings = self.settings.clone();
        let mut layers = Layers::new(&settings, inputs).scored_by(self.scorer);
        if self.spent.is_some() {
            layers.measure();
        }
        let choices = match settings.prune_pattern.counts() {
            Some([_, size]) => pattern::select(&mut layers, &self.inputs, kept_of(size, sparsity), size)?,
            None if settings.prune.by_output() => outputs::select(&mut layers, &self.inputs, sparsity)?,
            None => self.selector.select(&mut layers, &Goal { groups: &groups, seed })?,
        };
        let scoring = layers.scoring();
        drop(layers);
        self.choices += 1;
        self.sensed.clear();
        let pruned_part = self.keep(choices)?;
        if let Some(times) = &mut self.spent {
            times.scores += scoring;
            times.thresholds += start.elapsed().saturating_sub(scoring);
        }
        Ok(pruned_part)
    }

    /// Layers that share a threshold, and the part of them to prune.
    fn groups(&self, sparsity: f64) -> Vec<Group> {
        let layers = self.layers.len();
        if self.settings.prune.by_layer() {
            (0..layers)
                .map(|layer| Group { layers: layer..layer + 1, sparsity: by_layer(sparsity, layer, layers) })
                .collect()
        } else {
            vec![Group { layers: 0..layers, sparsity }]
        }
    }

    /// Inputs of the scores of parameter `index`. An error if they need the norms of inputs that no layer has seen.
    fn inputs(
        &self,
        name: &str,
        index: usize,
        weights: Tensor<B, 1>,
        optimizer: &AdamW<B>,
    ) -> Result<Inputs<B>, LabError> {
        let moments = optimizer.state(index).map(|state| Moments {
            first: state.moment_1.clone(),
            second: state.moment_2.clone(),
            bias_correction_1: optimizer.bias_correction_1(),
        });
        // In a group, a weight with score 0 must rank above a pruned weight.
        let Prune { prune, prune_pattern, .. } = self.settings;
        let needs_mask = prune.has_negative_scores() || prune.by_output() || prune_pattern != PrunePattern::None;
        let mask = self.masks[index].clone().filter(|_| needs_mask);
        let weights = if prune.by_output() { self.scaled(name, index, weights)? } else { weights };
        let weights = if prune.by_gradient() { self.sensitivities(name, index, weights)? } else { weights };
        Ok(Inputs { name: name.to_owned(), weights, moments, origin: self.origins[index].clone(), mask })
    }

    /// `weights` of parameter `index` times their gradients.
    fn sensitivities(&self, name: &str, index: usize, weights: Tensor<B, 1>) -> Result<Tensor<B, 1>, LabError> {
        match self.sensed.get(index) {
            Some(Some(gradient)) => Ok(weights * gradient.clone()),
            _ => Err(self.no_gradient(name)),
        }
    }

    /// The error of a parameter without a gradient.
    fn no_gradient(&self, name: &str) -> LabError {
        LabError::Unsupported(format!(
            "`prune: {}` needs the gradient of `{name}`, on which no loss depends: choose another `prune`, or another \
             architecture",
            self.settings.prune
        ))
    }

    /// `weights` of parameter `index` times the norms of their inputs.
    fn scaled(&self, name: &str, index: usize, weights: Tensor<B, 1>) -> Result<Tensor<B, 1>, LabError> {
        let Some(norms) = self.norms.get(index).and_then(Option::as_deref) else {
            return Err(LabError::Unsupported(format!(
                "`prune: {}` needs the inputs of `{name}`, which no linear layer has seen: choose another `prune`, or another \
                 architecture",
                self.settings.prune
            )));
        };
        let [numbers] = weights.dims();
        let shape = [norms.len(), numbers / norms.len().max(1)];
        let norms = Tensor::<B, 1>::from_floats(norms, &weights.device()).reshape([shape[0], 1]);
        Ok((weights.reshape(shape) * norms).reshape([numbers]))
    }

    /// Takes the chosen masks, and returns the part that they prune.
    fn keep(&mut self, choices: Vec<Option<Choice<B>>>) -> Result<f64, LabError> {
        let (mut pruned_count, mut mask_sums) = (0, Vec::new());
        for ((&index, choice), (_, size)) in self.layers.iter().zip(choices).zip(&self.names) {
            // Weights that another network has pruned remain pruned, even if the request is for less.
            let given = self.masks[index].take().filter(|_| self.is_given);
            let choice = match (choice, given) {
                (Some(choice), Some(given)) => Some(Choice { mask: choice.mask * given, pruned: None, ..choice }),
                (None, Some(mask)) => Some(Choice { threshold: f32::NAN, mask, pruned: None }),
                (choice, None) => choice,
            };
            match &choice {
                Some(Choice { pruned: Some(count), .. }) => pruned_count += count,
                Some(Choice { mask, .. }) => {
                    pruned_count += size;
                    mask_sums.push(mask.clone().int().sum());
                }
                None => {}
            }
            self.masks[index] = choice.map(|choice| choice.mask);
        }
        if !mask_sums.is_empty() {
            let kept_weights: i64 = integers(Tensor::cat(mask_sums, 0))?.into_iter().sum();
            pruned_count = pruned_count.saturating_sub(usize::try_from(kept_weights).unwrap_or_default());
        }
        let prunable: usize = self.names.iter().map(|(_, size)| size).sum();
        Ok(pruned_count as f64 / prunable.max(1) as f64)
    }

    /// Adds everything that the next choice depends on to `snapshot`.
    pub fn store(&self, snapshot: &mut Snapshot<B>, parameters: &[ParamInfo]) {
        snapshot.put_count("prune.choices", self.choices);
        for (index, info) in parameters.iter().enumerate() {
            if let Some(mask) = &self.masks[index] {
                snapshot.put(format!("mask.{}", info.name), mask.clone());
            }
            if let Some(origin) = &self.origins[index] {
                snapshot.put(format!("origin.{}", info.name), origin.clone());
            }
        }
    }

    /// Takes the state that [`store`](Self::store) has put into `snapshot`, and continues from it. After an error, this
    /// pruner may have taken a part of the state.
    pub fn restore(&mut self, snapshot: &mut Snapshot<B>, parameters: &[ParamInfo]) -> Result<(), StateError> {
        self.choices = snapshot.take_count("prune.choices")?;
        for &index in &self.layers {
            let info = &parameters[index];
            self.masks[index] = snapshot.take(&format!("mask.{}", info.name), info.len())?;
            // Before the first choice a training by any method has the same state; only this pruner stores the initial weights, of the
            // network with which it began.
            let name = format!("origin.{}", info.name);
            let origin = snapshot.take(&name, info.len())?;
            if self.settings.prune == PruneMethod::Movement {
                let start_weights = self.origins[index].take().filter(|_| self.choices == 0);
                self.origins[index] = Some(origin.or(start_weights).ok_or(StateError::Missing { name })?);
            }
        }
        Ok(())
    }
}

/// Sparsity of layer `layer` of `layers` at the overall `sparsity`, if every layer has its own threshold. Layers differ
/// in size, so the sum is near `sparsity`, not at it.
pub fn by_layer(sparsity: f64, layer: usize, layers: usize) -> f64 {
    // Multiplied before it is divided: the other way round the part of a layer can be rounded to less than a whole weight.
    let slope = if layers > 1 { 0.6 * layer as f64 / (layers - 1) as f64 } else { 0.3 };
    (sparsity * (0.7 + slope)).min(MAX_LAYER_SPARSITY)
}

/// The weights that stay in a group of `size` at this sparsity.
fn kept_of(size: usize, sparsity: f64) -> usize {
    // The sparsity of a pattern is a multiple of `1 / size`, up to rounding.
    size - part_of(sparsity + 1e-9, size)
}

/// The part of the prunable weights of `network` that is exactly 0.
pub fn sparsity<AB: AutodiffBackend, M: Module<AB>>(settings: &Prune, network: &M) -> Result<f64, LabError> {
    let parameters = model::infos(network);
    let values = model::values::<AB, M>(network);
    let (mut zeros, mut total) = (0_usize, 0_usize);
    for index in prunable(settings, &parameters) {
        let weights = host(values[index].clone())?;
        zeros += weights.iter().filter(|weight| **weight == 0.0).count();
        total += weights.len();
    }
    Ok(zeros as f64 / total.max(1) as f64)
}

/// Places of the prunable parameters; the token table last, where it is the output layer.
pub(crate) fn prunable(settings: &Prune, parameters: &[ParamInfo]) -> Vec<usize> {
    let prunable = |index: &usize| parameters[*index].prunable(settings.prune_tied_head);
    let mut layers: Vec<usize> = (0..parameters.len()).filter(prunable).collect();
    layers.sort_by_key(|index| parameters[*index].role() == Role::TokenTable);
    layers
}

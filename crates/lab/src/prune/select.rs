//! A choice of masks: its inputs, its result, and the trait of selectors.

use std::{
    fmt,
    ops::Range,
    time::{Duration, Instant},
};

use burn::tensor::{DType, Tensor, backend::Backend};
use sweep_job::tasks::{Prune, PruneUpdate, ScorePrecision, ThresholdMethod};

use super::{
    PRUNED,
    score::{Moments, scores},
};
use crate::{LabError, rng};

/// Layers that share a threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The layers.
    pub layers: Range<usize>,
    /// The part of their weights to prune.
    pub sparsity: f64,
}

/// A selection to make.
#[derive(Debug)]
pub struct Goal<'a> {
    /// Every layer is in one of them.
    pub groups: &'a [Group],
    /// Seed of the random numbers of this selection.
    pub seed: u64,
}

/// Result for a layer.
#[derive(Debug, Clone)]
pub struct Choice<B: Backend> {
    /// The largest score that is pruned.
    pub threshold: f32,
    /// 1 where a weight stays, 0 where it is pruned, `[numbers]`.
    pub mask: Tensor<B, 1>,
    /// Number of pruned weights, if it is known without reading the mask.
    pub pruned: Option<usize>,
}

/// Inputs of a layer's scores.
#[derive(Debug, Clone)]
pub struct Inputs<B: Backend> {
    /// The parameter's name.
    pub name: String,
    /// The weights, `[numbers]`.
    pub weights: Tensor<B, 1>,
    /// Adam's moments, if there are any yet.
    pub moments: Option<Moments<B>>,
    /// The weights at the start, `[numbers]`, where scores need them.
    pub origin: Option<Tensor<B, 1>>,
    /// 0 where a weight is pruned and must not come back, else 1, `[numbers]`.
    pub mask: Option<Tensor<B, 1>>,
}

/// Computes the scores of a layer, as [`scores`] does.
pub type Scorer<B> = fn(&Prune, Tensor<B, 1>, Option<Moments<B>>, Option<Tensor<B, 1>>) -> Tensor<B, 1>;

/// The layers among whose weights is chosen.
#[derive(Debug)]
pub struct Layers<'a, B: Backend> {
    settings: &'a Prune,
    inputs: Vec<Inputs<B>>,
    scorer: Scorer<B>,
    /// Spent on [`scores`](Self::scores), if that is measured.
    scoring: Option<Duration>,
}

impl<'a, B: Backend> Layers<'a, B> {
    /// Creates layers that are scored according to `settings`.
    pub fn new(settings: &'a Prune, inputs: Vec<Inputs<B>>) -> Self {
        Self { settings, inputs, scorer: scores, scoring: None }
    }

    /// Returns these layers with scores by `scorer`.
    pub(super) fn scored_by(self, scorer: Scorer<B>) -> Self {
        Self { scorer, ..self }
    }

    /// Measures the time of scores from now on, which waits for the device.
    pub(super) fn measure(&mut self) {
        self.scoring = Some(Duration::ZERO);
    }

    /// Measured time.
    pub(super) fn scoring(&self) -> Duration {
        self.scoring.unwrap_or_default()
    }

    /// Inputs of the scores.
    pub fn inputs(&self) -> &[Inputs<B>] {
        &self.inputs
    }

    /// Weights of all layers.
    pub fn sizes(&self) -> Vec<usize> {
        self.inputs.iter().map(|inputs| inputs.weights.dims()[0]).collect()
    }

    /// The scores of a layer, `[numbers]`, computed again.
    pub fn scores(&mut self, layer: usize) -> Tensor<B, 1> {
        let start = Instant::now();
        let Inputs { weights, moments, origin, mask, .. } = self.inputs[layer].clone();
        let scores = (self.scorer)(self.settings, weights, moments, origin);
        let scores = match mask {
            Some(mask) => scores * mask.clone() + (mask - 1.0) * -PRUNED,
            None => scores,
        };
        if let Some(scoring) = &mut self.scoring {
            // A failing device reports its failure again when the scores are read.
            let _ = B::sync(&scores.device());
            *scoring += start.elapsed();
        }
        scores
    }

    /// Error of a NaN score in `layer`.
    pub(crate) fn not_a_number(&self, layer: usize) -> LabError {
        LabError::NotANumber { parameter: self.inputs[layer].name.clone() }
    }
}

/// Chooses the weights to prune.
pub trait Select<B: Backend>: fmt::Debug {
    /// A choice for every layer; `None` where nothing is pruned. A NaN score is an error.
    fn select(&self, layers: &mut Layers<'_, B>, goal: &Goal<'_>) -> Result<Vec<Option<Choice<B>>>, LabError>;
}

/// The whole weights in the part `fraction` of `total`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and `total`")]
pub(crate) fn part_of(fraction: f64, total: usize) -> usize {
    (fraction * total as f64).floor() as usize
}

/// True if scores are computed in the pass that compares them, in a form that kernels support.
pub(super) fn in_one_pass(settings: &Prune) -> bool {
    settings.prune_update == PruneUpdate::OnePass
        && settings.threshold == ThresholdMethod::Exact
        && settings.score_precision == ScorePrecision::F32
}

/// True if all weights are in 32 bits, as kernels require. Moments are if weights are.
pub(super) fn in_32_bits<B: Backend>(layers: &Layers<'_, B>) -> bool {
    layers.inputs().iter().all(|inputs| inputs.weights.dtype() == DType::F32)
}

/// A choice for every layer, by `choose` for every group with weights to prune: from the group, their number,
/// and a seed.
pub(super) fn by_group<B: Backend>(
    sizes: &[usize],
    goal: &Goal<'_>,
    choose: impl Fn(&Group, usize, u64) -> Result<Vec<Choice<B>>, LabError>,
) -> Result<Vec<Option<Choice<B>>>, LabError> {
    let mut choices: Vec<Option<Choice<B>>> = sizes.iter().map(|_| None).collect();
    for (index, group) in goal.groups.iter().enumerate() {
        let pruned = part_of(group.sparsity, sizes[group.layers.clone()].iter().sum());
        if pruned == 0 {
            continue;
        }
        let seed = rng::derived_seed(goal.seed, "threshold group", &[index as u64]);
        let layer_choices = choose(group, pruned, seed)?;
        for (layer, choice) in group.layers.clone().zip(layer_choices) {
            choices[layer] = Some(choice);
        }
    }
    Ok(choices)
}

/// Divisor that corrects the bias of the first moments of all layers.
pub(super) fn bias_correction_1<B: Backend>(inputs: &[Inputs<B>]) -> f64 {
    inputs.iter().find_map(|inputs| Some(inputs.moments.as_ref()?.bias_correction_1)).unwrap_or(1.0)
}

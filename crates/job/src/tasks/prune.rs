//! The parameters and the schedule of pruning during training, and the methods with their scores.

mod conflicts;

use crate::params::{choice, params};

choice! {
    /// The score of a weight. The weights with the smallest scores are pruned. `w` is a weight, `w0` its initial value,
    /// `m` and `v` are Adam's first and second moment, `e` is `score_epsilon`.
    pub enum PruneMethod {
        /// No pruning.
        None = "none",
        /// `|w|` (ratio-ablation, section 8.4). As with `movement`, gradients and moments are not masked.
        Magnitude = "magnitude",
        /// `w (w - w0)`: prunes weights that have moved toward zero (ratio-ablation, section 8.5).
        Movement = "movement",
        /// `|w|` times the norm of the weight's input over `calibration_batches` (Wanda, Sun et al. 2023). Each output keeps the
        /// same number of weights. As with `magnitude`, gradients and moments are not masked.
        Wanda = "wanda",
        /// `|w g|`, where `g` is the gradient of the loss of the network at the start over `calibration_batches` (SNIP, Lee et al.
        /// 2019). Chosen once, before the first iteration.
        Snip = "snip",
        /// Random masks at the start; every mask update prunes the smallest weights of each layer, and restores an
        /// equal number of weights with the largest gradients (RigL, Evci et al. 2020).
        Rigl = "rigl",
        /// `|w m| |w| / (sqrt(v) + e)`. This and the following scores: ratio-ablation, section 8.2.
        Bitter0 = "bitter0",
        /// `|w|`.
        Bitter1 = "bitter1",
        /// `|w|`. In the reference it differs from `bitter1` by a longer training.
        Bitter2 = "bitter2",
        /// `|w| sqrt(|m| + e)`.
        Bitter3 = "bitter3",
        /// As `bitter3`, with a threshold per layer; later layers are sparser.
        Bitter4 = "bitter4",
        /// `0.1 |w| - sign(w) m / (sqrt(v) + e)`: prunes weights that Adam moves toward zero.
        Bitter5 = "bitter5",
        /// `|w| sqrt(|m| + e) sqrt(m^2 / (v + e))`.
        Bitter6 = "bitter6",
        /// `|w| (|v| + e)^(1/4)`.
        Bitter7 = "bitter7",
        /// As `bitter3`, with bias-corrected `m`. In paper 000 the name means `bitter7` with `score_precision: f16`.
        Bitter8 = "bitter8",
        /// `|w| sqrt(|m| + e) - 0.1 sign(w) m / (sqrt(v) + e)`. In paper 000 the name means the same as its `bitter8`,
        /// with the score function compiled: `fusion: scores`.
        Bitter9 = "bitter9",
    }
}

choice! {
    /// The increase of sparsity to its target; `p` is the elapsed fraction of the ramp.
    pub enum Schedule {
        /// `p^3`.
        Cubic = "cubic",
        /// `p`.
        Linear = "linear",
    }
}

choice! {
    /// A method to find the threshold: the largest score that is pruned.
    pub enum ThresholdMethod {
        /// The k-th smallest of all scores.
        Exact = "exact",
        /// The quantile of a random sample, drawn with replacement from every layer. Sparsity exceeds its target:
        /// weights that a sampling error prunes stay pruned, so the largest error over all mask updates remains.
        Sample = "sample",
        /// The largest score of such a sample that, counted among all scores, prunes no more weights than requested.
        /// Sparsity approaches its target from below, and exceeds it only if scores are equal.
        SampleCorrected = "sample_corrected",
        /// A histogram of 1024 equal bins, refined in the bin that contains the k-th smallest score until at most 0.1 %
        /// too many are pruned.
        Histogram = "histogram",
    }
}

choice! {
    /// The treatment of scores between the threshold and the masks.
    pub enum PruneUpdate {
        /// Scores are concatenated for the threshold, and recomputed for the masks.
        DoublePass = "double_pass",
        /// Scores are stored for each layer.
        SinglePass = "single_pass",
        /// Scores are neither stored nor recomputed: on the CPU, the pass that computes scores for an exact threshold
        /// also writes the masks. Elsewhere, and with other thresholds, as `single_pass`.
        OnePass = "fused",
    }
}

choice! {
    /// A structure of pruned weights. `N:M` keeps the N highest scores of each M neighboring inputs of an output.
    pub enum PrunePattern {
        /// Any weights.
        None = "none",
        /// 1 of 2.
        OneOf2 = "1:2",
        /// 1 of 4.
        OneOf4 = "1:4",
        /// 2 of 4, which sparse tensor cores multiply (Mishra et al. 2021).
        TwoOf4 = "2:4",
        /// 4 of 8.
        FourOf8 = "4:8",
    }
}

choice! {
    /// The number format of scores.
    pub enum ScorePrecision {
        /// Single precision.
        F32 = "f32",
        /// Half precision: at most 65504, and no values between 0 and 6e-8.
        F16 = "f16",
    }
}

params! {
    /// Pruning of the weights of the linear layers to a global sparsity.
    pub struct Prune {
        /// Score of a weight: its magnitude, its movement, its magnitude times the norm of its input (`wanda`) or its
        /// gradient at the start (`snip`), or a formula of Adam's moments (`bitter0` to `bitter9`). `rigl` exchanges
        /// pruned weights for others.
        prune: PruneMethod = PruneMethod::None;
        /// Target fraction of pruned weights.
        sparsity: f64 = 0.5, in 0.0..=0.99;
        /// Structure of the pruned weights. `2:4` prunes two of each four neighboring inputs of an output, the form that sparse
        /// tensor cores multiply, so that it determines the sparsity. The ramp prunes one weight of each group after another.
        prune_pattern: PrunePattern = PrunePattern::None;
        /// Iterations before the ramp begins; by default `iters` / 10.
        prune_warmup: Option<usize> = None, in 0..=100_000_000, unit "iterations";
        /// Iteration at which the target is reached, and from which on `prune: rigl` keeps its mask; by default 3/5 of `iters`.
        prune_ramp_end: Option<usize> = None, in 1..=100_000_000, unit "iterations";
        /// Iterations between two mask updates.
        prune_every: usize = 10, in 1..=100_000_000, unit "iterations";
        /// Iterations between two maskings of the gradients of pruned weights, for methods that mask gradients.
        /// Weights and moments are masked in every step, so pruned weights stay 0. Gradients that are not masked
        /// count in the global norm, by which all gradients are clipped, and in SPAM's measures.
        mask_every: usize = 1, in 1..=100_000_000, unit "iterations";
        /// Shape of the ramp of sparsity.
        prune_schedule: Schedule = Schedule::Cubic;
        /// Also prune the token embedding, which is tied to the output layer.
        prune_tied_head: bool = false;
        /// Method to find the threshold, the largest score that is pruned. With `sample`, sparsity exceeds the target
        /// by the largest sampling error, because pruned weights stay pruned; `sample_corrected` counts the pruned
        /// weights and stays at the target.
        threshold: ThresholdMethod = ThresholdMethod::Exact;
        /// Fraction of the scores that `threshold: sample` and `threshold: sample_corrected` draw.
        sample_fraction: f64 = 0.02, in 0.000_001..=1.0;
        /// Treatment of scores between the threshold and the masks: `double_pass` recomputes them, `single_pass` stores
        /// them, `fused` finds the threshold and writes the masks in the same pass.
        prune_update: PruneUpdate = PruneUpdate::OnePass;
        /// Number format of scores.
        score_precision: ScorePrecision = ScorePrecision::F32;
        /// Term `e` in the scores, added to a moment before a root or a division.
        score_epsilon: f64 = 1e-8, in 1e-30..=1.0;
        /// Batches of `batch_size` sequences, spread evenly over the training tokens, from which `prune: wanda`
        /// computes the norms of inputs before each mask update, and `prune: snip` the gradients at the start. The
        /// passes are in single precision and without dropout.
        calibration_batches: usize = 4, in 1..=1_000_000;
    }
}

/// When a method chooses masks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskPlan {
    /// Never.
    Never,
    /// Along the ramp of sparsity.
    Ramp,
    /// Once, before the first iteration.
    Start,
    /// At random before the first iteration; later a part of each is replaced.
    Replace,
}

/// What multiplies the scores of weights, measured on calibration batches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Factor {
    /// Nothing.
    None,
    /// The norms of their inputs. Every output has its own threshold.
    Inputs,
    /// Their gradients.
    Gradients,
}

/// The properties of a pruning method.
struct Method {
    score: ScoreKind,
    factor: Factor,
    plan: MaskPlan,
    masks_state: bool,
    by_layer: bool,
}

impl PrunePattern {
    /// Numbers N and M of a pattern that keeps N of M weights.
    pub const fn counts(self) -> Option<[usize; 2]> {
        match self {
            Self::None => None,
            Self::OneOf2 => Some([1, 2]),
            Self::OneOf4 => Some([1, 4]),
            Self::TwoOf4 => Some([2, 4]),
            Self::FourOf8 => Some([4, 8]),
        }
    }
}

impl PruneMethod {
    /// The declaration of every method.
    fn declaration(self) -> Method {
        let by_weights =
            |score| Method { score, factor: Factor::None, plan: MaskPlan::Ramp, masks_state: false, by_layer: false };
        let by_moments = |score| Method { masks_state: true, ..by_weights(score) };
        match self {
            Self::None => Method { plan: MaskPlan::Never, ..by_weights(ScoreKind::Size) },
            Self::Magnitude => by_weights(ScoreKind::Size),
            Self::Movement => by_weights(ScoreKind::Movement),
            Self::Wanda => Method { factor: Factor::Inputs, ..by_weights(ScoreKind::Size) },
            // A pruned connection has no gradient, so it does not count in the gradients' norm.
            Self::Snip => Method {
                plan: MaskPlan::Start,
                masks_state: true,
                factor: Factor::Gradients,
                ..by_weights(ScoreKind::Size)
            },
            Self::Rigl => Method { plan: MaskPlan::Replace, masks_state: true, ..by_weights(ScoreKind::Size) },
            Self::Bitter0 => by_moments(ScoreKind::Bitter0),
            Self::Bitter1 | Self::Bitter2 => by_moments(ScoreKind::Size),
            Self::Bitter3 => by_moments(ScoreKind::Bitter3),
            Self::Bitter4 => Method { by_layer: true, ..by_moments(ScoreKind::Bitter3) },
            Self::Bitter5 => by_moments(ScoreKind::Bitter5),
            Self::Bitter6 => by_moments(ScoreKind::Bitter6),
            Self::Bitter7 => by_moments(ScoreKind::Bitter7),
            Self::Bitter8 => by_moments(ScoreKind::Bitter8),
            Self::Bitter9 => by_moments(ScoreKind::Bitter9),
        }
    }

    /// The arithmetic of its score.
    pub fn score(self) -> ScoreKind {
        self.declaration().score
    }

    /// When it chooses masks.
    pub fn plan(self) -> MaskPlan {
        self.declaration().plan
    }

    /// True if gradients and Adam's moments are masked like the weights.
    pub fn masks_state(self) -> bool {
        self.declaration().masks_state
    }

    /// True if every layer has its own threshold.
    pub fn by_layer(self) -> bool {
        self.declaration().by_layer
    }

    /// True if every output of a layer has its own threshold, and the norms of the inputs multiply the scores.
    pub fn by_output(self) -> bool {
        self.declaration().factor == Factor::Inputs
    }

    /// True if the gradients over calibration batches multiply the scores.
    pub fn by_gradient(self) -> bool {
        self.declaration().factor == Factor::Gradients
    }

    /// True if it needs calibration batches.
    pub fn calibrates(self) -> bool {
        self.declaration().factor != Factor::None
    }

    /// True if it needs a network that computes, and not its weights and moments alone.
    pub fn needs_network(self) -> bool {
        self.calibrates() || self.plan() == MaskPlan::Replace
    }

    /// True if a score can be below that of a zero weight, so that a pruned weight could return.
    pub fn has_negative_scores(self) -> bool {
        self.score().may_be_negative()
    }
}

/// The score of pruned weights where they must not come back: below every score of a weight that is still there. Finite,
/// because shader languages promise nothing about infinities.
pub const PRUNED: f32 = -1e30;

/// The arithmetic of a score. `w` is a weight, `w0` its value at the start, `m` and `v` are Adam's moments, `c` is what `m`
/// must be divided by to be without bias, `e` is `score_epsilon`.
///
/// The lab computes each in tensor operations (`prune/score.rs`), and the kernels of both kinds in registers
/// (`formula.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScoreKind {
    /// The weights are the scores.
    Given,
    /// `|w|`
    Size,
    /// `w (w - w0)`
    Movement,
    /// `w (w - w)`: without a start nothing has moved.
    Unmoved,
    /// `|w m| |w| / (sqrt(v) + e)`
    Bitter0,
    /// `|w| sqrt(|m| + e)`
    Bitter3,
    /// `0.1 |w| - sign(w) m / (sqrt(v) + e)`
    Bitter5,
    /// `|w| sqrt(|m| + e) sqrt(m^2 / (v + e))`
    Bitter6,
    /// `|w| sqrt(sqrt(|v| + e))`
    Bitter7,
    /// `|w| sqrt(|m / c| + e)`
    Bitter8,
    /// `|w| sqrt(|m| + e) - 0.1 sign(w) m / (sqrt(v) + e)`
    Bitter9,
}

/// An input of a score besides the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreInput {
    /// The weights at the start.
    Origin,
    /// Adam's first moment.
    Moment1,
    /// Adam's second moment.
    Moment2,
}

impl ScoreKind {
    /// Inputs besides the weights, in the order in which kernels take them.
    pub const fn inputs(self) -> &'static [ScoreInput] {
        use ScoreInput::{Moment1, Moment2, Origin};
        match self {
            Self::Given | Self::Size | Self::Unmoved => &[],
            Self::Movement => &[Origin],
            Self::Bitter3 | Self::Bitter8 => &[Moment1],
            Self::Bitter7 => &[Moment2],
            Self::Bitter0 | Self::Bitter5 | Self::Bitter6 | Self::Bitter9 => &[Moment1, Moment2],
        }
    }

    /// The score where some of its inputs may be missing: without moments the size counts, without a start nothing has
    /// moved.
    pub fn available(self, moments: bool, origin: bool) -> Self {
        match self.inputs() {
            [] => self,
            [ScoreInput::Origin] if origin => self,
            [ScoreInput::Origin] => Self::Unmoved,
            _ if moments => self,
            _ => Self::Size,
        }
    }

    /// True if it adds `score_epsilon`, as scores of moments do.
    fn has_epsilon(self) -> bool {
        matches!(self.inputs(), [ScoreInput::Moment1 | ScoreInput::Moment2, ..])
    }

    /// True if it may be below 0.
    fn may_be_negative(self) -> bool {
        matches!(self, Self::Movement | Self::Unmoved | Self::Bitter5 | Self::Bitter9)
    }
}

/// A score with its numbers, in single precision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Formula {
    /// Its arithmetic.
    pub kind: ScoreKind,
    /// Divisor of the first moment that removes its bias.
    pub bias_correction_1: f32,
    /// Number added to a moment before a root or a division.
    pub epsilon: f32,
}

impl Formula {
    /// The weights are the scores.
    pub const GIVEN: Self = Self { kind: ScoreKind::Given, bias_correction_1: 1.0, epsilon: 0.0 };

    /// The score that `settings` ask for.
    #[expect(clippy::cast_possible_truncation, reason = "they meet numbers in single precision")]
    pub fn new(settings: &Prune, bias_correction_1: f64) -> Self {
        let (bias_correction_1, epsilon) = (bias_correction_1 as f32, settings.score_epsilon as f32);
        Self { kind: settings.prune.score(), bias_correction_1, epsilon }
    }
}

impl Prune {
    /// The part of a layer's kept weights that RigL replaces at the beginning; it falls to 0 as half a cosine.
    pub const REPLACED: f64 = 0.3;

    /// First and last iteration of the ramp in a training of `iters` iterations.
    pub fn ramp(&self, iters: usize) -> (usize, usize) {
        (self.prune_warmup.unwrap_or(iters / 10), self.prune_ramp_end.unwrap_or(iters * 3 / 5))
    }

    /// True if the mask is updated after the optimizer step of iteration `iter`, counted from 0.
    pub fn updates_at(&self, iter: usize, iters: usize) -> bool {
        let (warmup, _) = self.ramp(iters);
        self.prune.plan() == MaskPlan::Ramp && iter >= warmup && iter.is_multiple_of(self.prune_every)
    }

    /// The first iteration, counted from 0, that a mask can change; `None` without pruning.
    pub fn first_update(&self, iters: usize) -> Option<usize> {
        let (warmup, _) = self.ramp(iters);
        match self.prune.plan() {
            MaskPlan::Never => None,
            MaskPlan::Ramp => Some(warmup.next_multiple_of(self.prune_every)),
            MaskPlan::Start | MaskPlan::Replace => Some(0),
        }
    }

    /// The part of a layer's kept weights that iteration `iter`, counted from 0, replaces instead of an optimizer step, if it
    /// does (Evci et al. 2020, algorithm 1).
    pub fn replaces_at(&self, iter: usize, iters: usize) -> Option<f64> {
        let (_, end) = self.ramp(iters);
        let is_due =
            self.prune.plan() == MaskPlan::Replace && (1..end).contains(&iter) && iter.is_multiple_of(self.prune_every);
        is_due.then(|| Self::REPLACED / 2.0 * (1.0 + (std::f64::consts::PI * iter as f64 / end as f64).cos()))
    }

    /// The sparsity at the end of the ramp: that of the pattern, or `sparsity`.
    pub fn target(&self) -> f64 {
        self.prune_pattern.counts().map_or(self.sparsity, |[kept, size]| 1.0 - kept as f64 / size as f64)
    }

    /// The scheduled sparsity at iteration `iter`.
    pub fn target_at(&self, iter: usize, iters: usize) -> f64 {
        let (warmup, end) = self.ramp(iters);
        let span = end.saturating_sub(warmup).max(1);
        let passed = (iter.saturating_sub(warmup) as f64 / span as f64).min(1.0);
        self.target()
            * match self.prune_schedule {
                Schedule::Cubic => passed.powi(3),
                Schedule::Linear => passed,
            }
    }

    /// The last iteration that updates the mask at full sparsity, if there is one.
    fn last_update(&self, iters: usize) -> Option<usize> {
        let (warmup, end) = self.ramp(iters);
        let last = (iters - 1) / self.prune_every * self.prune_every;
        (last >= end && last >= warmup && end >= warmup).then_some(last)
    }
}

#[cfg(test)]
mod tests;

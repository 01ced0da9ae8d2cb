//! `uses: bench/threshold`, `bench/mask-update` and `bench/masking`: the cost of pruning, apart from any training.
//!
//! The workload is that of paper 001: square layers with random weights and moments, a fraction of which is pruned.

use super::{Prune, PruneMethod};
use crate::{
    Conflict, Group, MetricInfo, Param, TaskSpec, Values,
    metric::metrics,
    params::{choice, params},
};

choice! {
    /// A method to find the threshold: the largest score that is pruned.
    pub enum ThresholdSearch {
        /// Burn's sort of all scores; on a GPU by a round trip through the host.
        Sort = "sort",
        /// Burn's selection of all scores up to the threshold, which sorts all of them.
        TopK = "topk",
        /// The exact score, by quickselect of a copy of all scores on one thread, as `torch.kthvalue` on the CPU.
        Quickselect = "quickselect",
        /// The smallest scores and their indices, by quickselect of pairs on one thread, as `torch.topk` on the CPU.
        TopKIndices = "topk_indices",
        /// The quantile of all scores, interpolated between neighbors in a sorted copy, as `torch.quantile`.
        Quantile = "quantile",
        /// The quantile of a random sample, drawn with replacement from every layer (paper 001).
        Sample = "sample",
        /// An estimate by a coarse histogram, a fine one around the threshold, and bisection (GradProbe). CPU only.
        Histogram = "histogram",
        /// The exact score, by radix selection.
        Radix = "radix",
        /// The exact score, in one pass that collects the scores between two bounds from a sample.
        Bracket = "bracket",
    }
}

impl ThresholdSearch {
    /// True if it computes scores on the fly and writes masks in the same passes.
    pub fn streams(self) -> bool {
        matches!(self, Self::Histogram | Self::Radix | Self::Bracket)
    }
}

choice! {
    /// The scores among which a threshold is searched.
    pub enum ScoreSource {
        /// Those of random weights and moments.
        Weights = "weights",
        /// Uniform random numbers between 0 and 1.
        Uniform = "uniform",
    }
}

choice! {
    /// A number format to which scores are rounded.
    pub enum ScoreFormat {
        /// Single precision.
        F32 = "f32",
        /// bfloat16, to the nearest number, in ties to the even one: between 0.5 and 1 there are 128 numbers.
        Bf16 = "bf16",
    }
}

choice! {
    /// The flow of scores to the threshold and to the masks.
    pub enum UpdateKind {
        /// Scores are concatenated for the threshold, and recomputed for the masks (paper 001, before).
        DoublePass = "double_pass",
        /// Scores are computed once and kept for each layer (paper 001, after).
        SinglePass = "single_pass",
        /// Scores are computed in registers by the pass that writes the masks, and never stored.
        OnePass = "fused",
    }
}

choice! {
    /// Element type of a mask.
    pub enum MaskFormat {
        /// A byte for each weight.
        U8 = "u8",
        /// A bit for each weight.
        Bit = "bit",
        /// A 32-bit factor for each weight.
        F32 = "f32",
    }
}

params! {
    /// Layers to prune, and number of repetitions.
    pub struct Workload {
        /// Number of layers.
        n_layer: usize = 12, in 1..=4096;
        /// Rows and columns of a layer's weight matrix.
        d_model: usize = 256, in 1..=65_536;
        /// Score of a weight.
        prune: PruneMethod = PruneMethod::Bitter7;
        /// Fraction of the weights to prune.
        sparsity: f64 = 0.5, in 0.0..=1.0;
        /// Timed calls, after one warm-up call.
        calls: usize = 10, in 1..=1_000_000;
        /// Seed of weights, moments and samples.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

params! {
    /// Method to find the threshold.
    pub struct Finding {
        /// Method to find the threshold: the largest score that is pruned.
        method: ThresholdSearch = ThresholdSearch::Bracket;
        /// Fraction of the scores that `method: sample` draws.
        sample_fraction: f64 = 0.02, in 0.000_001..=1.0;
    }
}

params! {
    /// Scores among which a threshold is searched.
    pub struct Given {
        /// Scores: those of random weights and moments by the formula of `prune`, or `uniform` random numbers between 0
        /// and 1.
        scores: ScoreSource = ScoreSource::Weights;
        /// Number format that scores are rounded to. They are stored in single precision in any case, so the format
        /// changes equal scores, not time and memory.
        score_format: ScoreFormat = ScoreFormat::F32;
        /// Mask updates of a training, for `time.updates`. Does not change the measurement.
        updates: usize = 99, in 1..=1_000_000_000;
    }
}

params! {
    /// Masking by new masks.
    pub struct Applying {
        /// Also mask weights and both moments in every timed call, as a training does after a mask update.
        apply: bool = false;
    }
}

params! {
    /// Computation and format of masks.
    pub struct Making {
        /// Flow of scores to the threshold and to the masks.
        update: UpdateKind = UpdateKind::OnePass;
        /// Element type of a mask. Burn's operations and GPUs support only `f32`.
        mask: MaskFormat = MaskFormat::U8;
    }
}

params! {
    /// Interval between mask updates.
    pub struct Timing {
        /// Steps between two mask updates.
        every: usize = 100, in 1..=100_000_000, unit "steps";
    }
}

/// Finds the k-th smallest of given scores.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchThreshold {
    /// The layers.
    pub workload: Workload,
    /// Method to find the threshold.
    pub finding: Finding,
    /// The scores.
    pub given: Given,
}

/// Makes masks from weights and moments.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchMaskUpdate {
    /// The layers.
    pub workload: Workload,
    /// Method to find the threshold.
    pub finding: Finding,
    /// Computation and format of masks.
    pub making: Making,
    /// Masking by new masks.
    pub applying: Applying,
}

/// Masks gradients, weights and moments in every step, and updates the masks in some.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchMasking {
    /// The layers.
    pub workload: Workload,
    /// Computation and format of masks.
    pub mask: Making,
    /// Interval between mask updates.
    pub timing: Timing,
}

impl Workload {
    /// Number of weights in all layers.
    pub fn weights(&self) -> usize {
        self.n_layer * self.d_model * self.d_model
    }

    /// The same, as settings of a training.
    pub fn settings(&self) -> Prune {
        Prune { prune: self.prune, sparsity: self.sparsity, ..Prune::default() }
    }

    fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        if self.prune == PruneMethod::None {
            conflicts.push(Conflict {
                params: vec!["prune"],
                message: "`prune: none` defines no scores".into(),
                advice: "choose a scoring method, for example `prune: bitter7`".into(),
            });
        }
        if self.prune.needs_network() {
            conflicts.push(Conflict {
                params: vec!["prune"],
                message: format!(
                    "`prune: {}` scores by the inputs or gradients of a network, which this task does not have",
                    self.prune
                ),
                advice: "write `prune: magnitude`".into(),
            });
        }
        if self.prune.by_layer() {
            conflicts.push(Conflict {
                params: vec!["prune"],
                message: format!("`prune: {}` has a threshold per layer, but this task uses a global one", self.prune),
                advice: "write `prune: bitter3`, which has the same score".into(),
            });
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the weights")]
        let pruned = (self.sparsity * self.weights() as f64).floor() as usize;
        if pruned == 0 {
            conflicts.push(Conflict {
                params: vec!["sparsity", "d_model", "n_layer"],
                message: format!("`sparsity: {}` prunes none of {} weights", self.sparsity, self.weights()),
                advice: "raise `sparsity`".into(),
            });
        }
        conflicts
    }
}

/// Metrics of all three tasks.
#[derive(Debug)]
pub struct WorkloadMetrics;

/// Metrics of the tasks that search a threshold.
#[derive(Debug)]
pub struct SearchMetrics;

/// Metrics of the tasks that make masks.
#[derive(Debug)]
pub struct MaskMetrics;

metrics! {
    impl WorkloadMetrics {
        /// Fraction of the weights that are pruned.
        SPARSITY: Fraction = "sparsity", Deterministic;
        /// Number of weights in all layers.
        WEIGHTS: Count = "weights";
    }
}

metrics! {
    impl SearchMetrics {
        /// Minimum time of a call.
        TIME_LEAST: Seconds = "time.least";
        /// Minimum time of a pass that reads and writes the same bytes once with almost no computation. For streaming
        /// methods only.
        TIME_FLOOR: Seconds = "time.floor";
        /// `time.least` divided by `time.floor`.
        RATIO_FLOOR: One = "ratio.floor";
        /// Increase of the worker's peak resident memory by the first call, in whole pages. On a GPU, device memory
        /// that a streaming method allocates in addition to the masks.
        MEMORY_EXTRA: Bytes = "memory.extra", Resolution(4096.0);
        /// Difference of the threshold from the exact threshold, relative to the exact threshold.
        ERROR_THRESHOLD: Fraction = "error.threshold", Deterministic;
        /// Passes over all weights. For streaming methods only.
        PASSES: Count = "passes";
    }
}

metrics! {
    impl MaskMetrics {
        /// Median time to compute new masks.
        TIME_UPDATE: Seconds = "time.update";
        /// Size of the masks.
        MEMORY_MASKS: Bytes = "memory.masks", Deterministic;
    }
}

metrics! {
    impl BenchThreshold {
        /// Median time of a call.
        TIME_THRESHOLD: Seconds = "time.threshold";
        /// Time of all mask updates of a training: `time.threshold` times `updates`.
        TIME_UPDATES: Seconds = "time.updates";
        /// Mean over the calls of the difference from the exact threshold, relative to the exact threshold. Calls
        /// differ by their samples.
        ERROR_MEAN: Fraction = "error.mean", Deterministic;
        /// Maximum over the calls of that difference.
        ERROR_MAX: Fraction = "error.max", Deterministic;
        /// Fraction of the scores that the exact threshold prunes: more than requested if scores are equal.
        SPARSITY_EXACT: Fraction = "sparsity.exact", Deterministic;
        /// Fraction of the scores that equal the exact threshold.
        TIES: Fraction = "ties", Deterministic;
        /// Size of all scores.
        MEMORY_SCORES: Bytes = "memory.scores", Deterministic;
    }
}

metrics! {
    impl BenchMaskUpdate {
        /// Size of all scores, if they were stored once.
        MEMORY_SCORES: Bytes = "memory.scores", Deterministic;
        /// Size of the tensor that is concatenated to find the threshold: all scores, or with `single_pass` and
        /// `method: sample` the sample. 0 for streaming methods.
        MEMORY_CONCATENATED: Bytes = "memory.concatenated", Deterministic;
    }
}

metrics! {
    impl BenchMasking {
        /// Median time per step to mask gradients, weights and both moments.
        TIME_MASKING: Seconds = "time.masking";
        /// Time that pruning adds to a step: `time.masking` plus `time.update` divided by `every`.
        TIME_STEP: Seconds = "time.step";
    }
}

impl TaskSpec for BenchThreshold {
    const NAME: &'static str = "bench/threshold";
    const REVISION: u32 = 2;
    const ABOUT: &'static str = "measures methods to find the k-th smallest of given scores";
    const HEADLINE: &'static [&'static str] = &["time.threshold", "error.threshold"];

    const GROUPS: &'static [&'static [Param]] = &[Workload::PARAMS, Finding::PARAMS, Given::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] =
        &[Self::DECLARED, SearchMetrics::DECLARED, WorkloadMetrics::DECLARED];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            workload: Workload::from_values(values)?,
            finding: Finding::from_values(values)?,
            given: Given::from_values(values)?,
        })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        Self::build(values).map(|bench| bench.workload.conflicts()).unwrap_or_default()
    }
}

impl TaskSpec for BenchMaskUpdate {
    const NAME: &'static str = "bench/mask-update";
    const REVISION: u32 = 2;
    const ABOUT: &'static str = "measures methods to make pruning masks from weights and moments";
    const HEADLINE: &'static [&'static str] = &["time.update", "memory.extra"];

    const GROUPS: &'static [&'static [Param]] = &[Workload::PARAMS, Finding::PARAMS, Making::PARAMS, Applying::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] =
        &[MaskMetrics::DECLARED, Self::DECLARED, SearchMetrics::DECLARED, WorkloadMetrics::DECLARED];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            workload: Workload::from_values(values)?,
            finding: Finding::from_values(values)?,
            making: Making::from_values(values)?,
            applying: Applying::from_values(values)?,
        })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(Self { workload, finding, making, .. }) = Self::build(values) else { return Vec::new() };
        let mut conflicts = workload.conflicts();
        let streams = finding.method.streams();
        if streams != (making.update == UpdateKind::OnePass) {
            let message = format!("`method: {}` does not support `update: {}`", finding.method, making.update);
            let advice = "combine `histogram`, `radix` and `bracket` with `fused`, and the other methods with \
                          `double_pass` or `single_pass`";
            conflicts.push(Conflict { params: vec!["method", "update"], message, advice: advice.into() });
        }
        if !streams && making.mask != MaskFormat::F32 {
            let message = format!("`mask: {}` requires `update: fused`", making.mask);
            conflicts.push(Conflict {
                params: vec!["mask", "update"],
                message,
                advice: "write `mask: f32`, or `update: fused`".into(),
            });
        }
        conflicts
    }
}

impl TaskSpec for BenchMasking {
    const NAME: &'static str = "bench/masking";
    const ABOUT: &'static str = "measures the application of masks in every step and their update in some steps";
    const HEADLINE: &'static [&'static str] = &["time.masking", "time.update"];

    const GROUPS: &'static [&'static [Param]] = &[Workload::PARAMS, Making::PARAMS, Timing::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] =
        &[Self::DECLARED, MaskMetrics::DECLARED, WorkloadMetrics::DECLARED];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            workload: Workload::from_values(values)?,
            mask: Making::from_values(values)?,
            timing: Timing::from_values(values)?,
        })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(bench) = Self::build(values) else { return Vec::new() };
        let mut conflicts = bench.workload.conflicts();
        if bench.mask.update != UpdateKind::OnePass && bench.mask.mask != MaskFormat::F32 {
            let message = format!("`mask: {}` requires `update: fused`", bench.mask.mask);
            conflicts.push(Conflict {
                params: vec!["mask", "update"],
                message,
                advice: "write `mask: f32`, or `update: fused`".into(),
            });
        }
        conflicts
    }
}

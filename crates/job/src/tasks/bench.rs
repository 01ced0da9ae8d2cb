//! `uses: bench/threshold`, `bench/mask-update` and `bench/masking`: the cost of pruning, apart from any training.
//!
//! The workload is paper 001's: square layers with random weights and moments, of which a part is pruned.

use super::{Prune, PruneMethod};
use crate::{
    Conflict, Group, MetricInfo, Param, TaskSpec, Unit, Values,
    params::{choice, params},
};

choice! {
    /// Search for the largest score that is pruned.
    pub enum ThresholdSearch {
        /// All scores are sorted, as Burn does it: on a GPU by a round trip through the host.
        Sort = "sort",
        /// All scores up to the threshold are picked, as Burn does it.
        TopK = "topk",
        /// The corresponding score of a random sample, drawn with replacement from every layer (paper 001).
        Sample = "sample",
        /// An estimate by a coarse histogram, a fine one where it is full, and bisection (GradProbe). On the CPU.
        Histogram = "histogram",
        /// Exact, by counting leading bits.
        Radix = "radix",
        /// Exact, in one pass between two scores of a sample.
        Bracket = "bracket",
    }
}

impl ThresholdSearch {
    /// True if scores are computed and masks are written in the same pass.
    pub fn streams(self) -> bool {
        matches!(self, Self::Histogram | Self::Radix | Self::Bracket)
    }
}

choice! {
    /// Computation of scores for the threshold and for the masks.
    pub enum UpdateKind {
        /// All scores are laid side by side for the threshold, and computed again for the masks (paper 001, before).
        DoublePass = "double_pass",
        /// Scores are computed once and kept, layer by layer (paper 001, after).
        SinglePass = "single_pass",
        /// Scores are computed in registers by the pass that writes the masks, and not kept.
        OnePass = "fused",
    }
}

choice! {
    /// Element of a mask for each weight.
    pub enum MaskFormat {
        /// A byte.
        U8 = "u8",
        /// A bit.
        Bit = "bit",
        /// A number to multiply with.
        F32 = "f32",
    }
}

params! {
    /// Layers to prune, and how often.
    pub struct Workload {
        /// Layers.
        n_layer: usize = 12, in 1..=4096;
        /// Rows and columns of a layer.
        d_model: usize = 256, in 1..=65_536;
        /// Score of the weights.
        prune: PruneMethod = PruneMethod::Bitter7;
        /// The part of the weights that is pruned.
        sparsity: f64 = 0.5, in 0.0..=1.0;
        /// Timed calls, after one that is not.
        calls: usize = 10, in 1..=1_000_000;
        /// Seed of weights, moments and samples.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

params! {
    /// Search for the threshold.
    pub struct Finding {
        /// Search for the largest score that is pruned.
        method: ThresholdSearch = ThresholdSearch::Bracket;
        /// The part of the scores that `method: sample` draws.
        sample_fraction: f64 = 0.02, in 0.000_001..=1.0;
    }
}

params! {
    /// Computation of masks.
    pub struct Making {
        /// How scores come to the threshold and to the masks.
        update: UpdateKind = UpdateKind::OnePass;
        /// What a mask has for each weight. With Burn's operations, and on a GPU, only `f32`.
        mask: MaskFormat = MaskFormat::U8;
    }
}

params! {
    /// Time at which masks are made.
    pub struct Timing {
        /// Steps from one choice of masks to the next.
        every: usize = 100, in 1..=100_000_000, unit "steps";
    }
}

/// Finds the k-th smallest of given scores.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchThreshold {
    /// The layers.
    pub workload: Workload,
    /// Search for the threshold.
    pub finding: Finding,
}

/// Makes masks from weights and moments.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchMaskUpdate {
    /// The layers.
    pub workload: Workload,
    /// Search for the threshold.
    pub finding: Finding,
    /// Computation of masks.
    pub making: Making,
}

/// Masks gradients, weights and moments in every step, and makes masks in some.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchMasking {
    /// The layers.
    pub workload: Workload,
    /// Computation of masks.
    pub mask: Making,
    /// The time.
    pub timing: Timing,
}

impl Workload {
    /// All weights.
    pub fn weights(&self) -> usize {
        self.n_layer * self.d_model * self.d_model
    }

    /// As the settings of a training.
    pub fn settings(&self) -> Prune {
        Prune { prune: self.prune, sparsity: self.sparsity, ..Prune::default() }
    }

    fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        if self.prune == PruneMethod::None {
            conflicts.push(Conflict {
                params: vec!["prune"],
                message: "`prune: none` has no scores".into(),
                advice: "choose a score, for example `prune: bitter7`".into(),
            });
        }
        if self.prune.by_layer() {
            conflicts.push(Conflict {
                params: vec!["prune"],
                message: format!(
                    "`prune: {}` has a threshold for every layer; one for all is measured here",
                    self.prune
                ),
                advice: "choose `bitter3`, which has the same score".into(),
            });
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the weights")]
        let pruned = (self.sparsity * self.weights() as f64).floor() as usize;
        if pruned == 0 {
            conflicts.push(Conflict {
                params: vec!["sparsity", "d_model", "n_layer"],
                message: format!("{} of {} weights is none, so there is no threshold", self.sparsity, self.weights()),
                advice: "raise `sparsity`".into(),
            });
        }
        conflicts
    }
}

const WEIGHTS: MetricInfo = MetricInfo { name: "weights", unit: Unit::Count, doc: "weights in all layers" };
const ERROR: MetricInfo = MetricInfo {
    name: "error.threshold",
    unit: Unit::Fraction,
    doc: "distance of the threshold from the exact one, over the exact one",
};
const SPARSITY: MetricInfo =
    MetricInfo { name: "sparsity", unit: Unit::Fraction, doc: "the part of the weights that goes" };
const FLOOR: MetricInfo = MetricInfo {
    name: "time.floor",
    unit: Unit::Seconds,
    doc: "least time of a pass that reads and writes the same bytes once and computes next to nothing; for methods that stream",
};
const RATIO: MetricInfo = MetricInfo {
    name: "ratio.floor",
    unit: Unit::One,
    doc: "`time.least` over `time.floor`, which is a least time too",
};
const EXTRA: MetricInfo = MetricInfo {
    name: "memory.extra",
    unit: Unit::Bytes,
    doc: "by how much the first call raised the worker's resident memory at most, in whole pages; on a GPU what a method that streams allocates there besides masks",
};
const PASSES: MetricInfo =
    MetricInfo { name: "passes", unit: Unit::Count, doc: "passes over all weights; for methods that stream" };

impl TaskSpec for BenchThreshold {
    const NAME: &'static str = "bench/threshold";
    const REVISION: u32 = 2;
    const ABOUT: &'static str = "measures ways to find the k-th smallest of given scores";
    const HEADLINE: &'static [&'static str] = &["time.threshold", "error.threshold"];

    const GROUPS: &'static [&'static [Param]] = &[Workload::PARAMS, Finding::PARAMS];

    const METRICS: &'static [MetricInfo] = &[
        MetricInfo { name: "time.threshold", unit: Unit::Seconds, doc: "median time of a call" },
        MetricInfo { name: "time.least", unit: Unit::Seconds, doc: "least time of a call" },
        FLOOR,
        RATIO,
        EXTRA,
        ERROR,
        SPARSITY,
        PASSES,
        WEIGHTS,
    ];

    fn build(values: &Values) -> Option<Self> {
        Some(Self { workload: Workload::from_values(values)?, finding: Finding::from_values(values)? })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        Self::build(values).map(|bench| bench.workload.conflicts()).unwrap_or_default()
    }
}

impl TaskSpec for BenchMaskUpdate {
    const NAME: &'static str = "bench/mask-update";
    const REVISION: u32 = 2;
    const ABOUT: &'static str = "measures ways to make masks from weights and moments";
    const HEADLINE: &'static [&'static str] = &["time.update", "memory.extra"];

    const GROUPS: &'static [&'static [Param]] = &[Workload::PARAMS, Finding::PARAMS, Making::PARAMS];

    const METRICS: &'static [MetricInfo] = &[
        MetricInfo { name: "time.update", unit: Unit::Seconds, doc: "median time of a call" },
        MetricInfo { name: "time.least", unit: Unit::Seconds, doc: "least time of a call" },
        FLOOR,
        RATIO,
        EXTRA,
        MetricInfo { name: "memory.scores", unit: Unit::Bytes, doc: "what all scores would take, stored once" },
        MetricInfo { name: "memory.masks", unit: Unit::Bytes, doc: "what the masks take" },
        ERROR,
        SPARSITY,
        PASSES,
        WEIGHTS,
    ];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            workload: Workload::from_values(values)?,
            finding: Finding::from_values(values)?,
            making: Making::from_values(values)?,
        })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(Self { workload, finding, making }) = Self::build(values) else { return Vec::new() };
        let mut conflicts = workload.conflicts();
        let streams = finding.method.streams();
        if streams != (making.update == UpdateKind::OnePass) {
            let message = format!("`method: {}` does not go with `update: {}`", finding.method, making.update);
            let advice =
                "`histogram`, `radix` and `bracket` go with `fused`; `sort`, `topk` and `sample` with the others";
            conflicts.push(Conflict { params: vec!["method", "update"], message, advice: advice.into() });
        }
        if !streams && making.mask != MaskFormat::F32 {
            let message = format!("Burn's operations make masks of numbers, not `mask: {}`", making.mask);
            conflicts.push(Conflict { params: vec!["mask", "update"], message, advice: "write `mask: f32`".into() });
        }
        conflicts
    }
}

impl TaskSpec for BenchMasking {
    const NAME: &'static str = "bench/masking";
    const ABOUT: &'static str = "measures masking in every step, and choosing masks in some";
    const HEADLINE: &'static [&'static str] = &["time.masking", "time.update"];

    const GROUPS: &'static [&'static [Param]] = &[Workload::PARAMS, Making::PARAMS, Timing::PARAMS];

    const METRICS: &'static [MetricInfo] = &[
        MetricInfo {
            name: "time.masking",
            unit: Unit::Seconds,
            doc: "median time of a step's masking: gradients, weights and both moments",
        },
        MetricInfo { name: "time.update", unit: Unit::Seconds, doc: "median time of choosing the masks" },
        MetricInfo {
            name: "time.step",
            unit: Unit::Seconds,
            doc: "what pruning adds to a step: `time.masking`, and `time.update` over `every`",
        },
        MetricInfo { name: "memory.masks", unit: Unit::Bytes, doc: "what the masks take" },
        SPARSITY,
        WEIGHTS,
    ];

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
            let message = format!("Burn's operations make masks of numbers, not `mask: {}`", bench.mask.mask);
            conflicts.push(Conflict { params: vec!["mask", "update"], message, advice: "write `mask: f32`".into() });
        }
        conflicts
    }
}

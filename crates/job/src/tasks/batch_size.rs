//! `uses: bench/batch-size`.

use super::{Architecture, Computing, Data, Model, Optimizer};
use crate::{Conflict, Group, MetricInfo, Param, TaskSpec, Values, metric::metrics, params::params};

params! {
    /// Range of batch sizes, and the measurement at each size.
    pub struct BatchSizes {
        /// First batch size.
        first: usize = 1, in 1..=1_000_000, unit "sequences";
        /// Last batch size, if neither memory nor throughput ends the search earlier.
        last: usize = 1024, in 1..=1_000_000, unit "sequences";
        /// Factor from one batch size to the next.
        factor: usize = 2, in 2..=16;
        /// Optimizer steps at each batch size. The first two are not timed.
        iters: usize = 8, in 3..=100_000, unit "iterations";
        /// Minimum relative gain in throughput from one batch size to the next. The search ends below it.
        min_gain: f64 = 0.05, in 0.0..=10.0;
        /// Limit on the main memory of a process; by default the memory of the machine. Device memory is limited by the
        /// device.
        memory: Option<usize> = None, in 1..=9_007_199_254_740_991_i64, unit "B";
        /// Seed of weights and batches.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

/// Raises the batch size until memory runs out or throughput stops growing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchSize {
    /// The network.
    pub model: Model,
    /// The structure of its blocks.
    pub architecture: Architecture,
    /// The tokens.
    pub data: Data,
    /// The batches.
    pub sizes: BatchSizes,
    /// Computing options.
    pub computing: Computing,
    /// The optimizer.
    pub optimizer: Optimizer,
}

metrics! {
    impl BatchSize {
        /// Batch size beyond which the next batch size gains less than `min_gain` or does not fit into memory.
        KNEE: Count = "batch.knee";
        /// Largest batch size that completed.
        LARGEST: Count = "batch.largest";
        /// Training tokens per second at the knee.
        TOKENS_PER_S: TokensPerSecond = "throughput.tokens_per_s";
        /// Throughput at the knee divided by the throughput at the first batch size.
        GAIN: One = "throughput.gain";
        /// Peak resident memory of the worker process at the knee.
        MEMORY_PEAK: Bytes = "memory.peak", Resolution(4096.0);
        /// Peak device memory in tensors at the knee.
        MEMORY_DEVICE_PEAK: Bytes = "memory.device.peak";
    }
}

impl TaskSpec for BatchSize {
    const NAME: &'static str = "bench/batch-size";
    const ABOUT: &'static str =
        "raises the batch size until memory runs out or throughput stops growing, and reports the best size";
    const HEADLINE: &'static [&'static str] = &["batch.knee", "throughput.tokens_per_s", "memory.peak"];

    const GROUPS: &'static [&'static [Param]] =
        &[Model::PARAMS, Architecture::PARAMS, Data::PARAMS, BatchSizes::PARAMS, Computing::PARAMS, Optimizer::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] = &[Self::DECLARED];

    /// Curves over the batch size instead of the iteration.
    const CURVES: &'static [&'static str] = &["tokens_per_s", "step", "memory", "device_memory"];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            data: Data::from_values(values)?,
            sizes: BatchSizes::from_values(values)?,
            computing: Computing::from_values(values)?,
            optimizer: Optimizer::from_values(values)?,
        })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(bench) = Self::build(values) else { return Vec::new() };
        let dims = bench.model.dims();
        let mut conflicts = bench.model.conflicts();
        conflicts.extend(bench.architecture.conflicts(dims, bench.model.init.is_some()));
        conflicts.extend(bench.optimizer.conflicts());
        let block = bench.architecture.block(dims);
        conflicts.extend(bench.computing.conflicts(bench.model.init.is_none().then_some((dims.n_layer, &block))));
        if bench.sizes.last < bench.sizes.first {
            conflicts.push(Conflict {
                params: vec!["last", "first"],
                message: format!("`last: {}` is below `first: {}`", bench.sizes.last, bench.sizes.first),
                advice: "raise `last`".into(),
            });
        }
        conflicts
    }
}

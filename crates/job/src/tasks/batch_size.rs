//! `uses: bench/batch-size`.

use super::{Architecture, Computing, Data, Model, Optimizer};
use crate::{Conflict, Group, MetricInfo, Param, TaskSpec, Unit, Values, params::params};

params! {
    /// Range of batch sizes, and the measurement at each size.
    pub struct BatchSizes {
        /// The first batch size.
        first: usize = 1, in 1..=1_000_000, unit "sequences";
        /// The last one tried, if nothing stops it before.
        last: usize = 1024, in 1..=1_000_000, unit "sequences";
        /// Factor between consecutive batch sizes.
        factor: usize = 2, in 2..=16;
        /// Optimizer steps at each size, the first two of which are not timed.
        iters: usize = 8, in 3..=100_000, unit "iterations";
        /// Least growth of the throughput that a larger batch must bring, as a part; when it brings less, the search ends.
        min_gain: f64 = 0.05, in 0.0..=10.0;
        /// Most main memory that a process may take; not given, what the machine has. A GPU's memory is its own limit.
        memory: Option<usize> = None, in 1..=9_007_199_254_740_991_i64, unit "B";
        /// Seed of the weights and of the batches.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

/// Raises the batch until memory or throughput stops it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchSize {
    /// The network.
    pub model: Model,
    /// Architecture of its blocks.
    pub architecture: Architecture,
    /// The tokens.
    pub data: Data,
    /// The batches.
    pub sizes: BatchSizes,
    /// Computation settings.
    pub computing: Computing,
    /// The optimizer.
    pub optimizer: Optimizer,
}

impl TaskSpec for BatchSize {
    const NAME: &'static str = "bench/batch-size";
    const ABOUT: &'static str =
        "raises the batch until memory or throughput stops it, and finds the size from which on it brings nothing";
    const HEADLINE: &'static [&'static str] = &["batch.knee", "throughput.tokens_per_s", "memory.peak"];

    const GROUPS: &'static [&'static [Param]] =
        &[Model::PARAMS, Architecture::PARAMS, Data::PARAMS, BatchSizes::PARAMS, Computing::PARAMS, Optimizer::PARAMS];

    const METRICS: &'static [MetricInfo] = &[
        MetricInfo {
            name: "batch.knee",
            unit: Unit::Count,
            doc: "the batch size from which on a larger one brings less than `min_gain`, or does not fit",
        },
        MetricInfo { name: "batch.largest", unit: Unit::Count, doc: "the largest batch size that was trained with" },
        MetricInfo {
            name: "throughput.tokens_per_s",
            unit: Unit::TokensPerSecond,
            doc: "trained tokens a second at the knee",
        },
        MetricInfo {
            name: "throughput.gain",
            unit: Unit::One,
            doc: "the throughput at the knee over that of the first batch size",
        },
        MetricInfo {
            name: "memory.peak",
            unit: Unit::Bytes,
            doc: "largest resident memory of the process at the knee",
        },
        MetricInfo {
            name: "memory.device.peak",
            unit: Unit::Bytes,
            doc: "most memory in tensors on the device at the knee",
        },
    ];

    /// By batch size instead of iteration.
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
        let block = bench.architecture.block(dims);
        conflicts.extend(bench.computing.conflicts(bench.model.init.is_none().then_some((dims.n_layer, &block))));
        if bench.sizes.last < bench.sizes.first {
            conflicts.push(Conflict {
                params: vec!["last", "first"],
                message: format!(
                    "the last batch size, {}, is below the first, {}",
                    bench.sizes.last, bench.sizes.first
                ),
                advice: "raise `last`".into(),
            });
        }
        conflicts
    }
}

//! `uses: profile`: the operations of a training step, one by one.

use super::{Architecture, Model};
use crate::{
    Conflict, Group, MetricInfo, Param, TaskSpec, Values, metric::metrics, params::params, tasks::NetworkMetrics,
};

params! {
    /// Steps to profile, and their batches.
    pub struct Profiling {
        /// Sequences per batch.
        batch_size: usize = 4, in 1..=65_536, unit "sequences";
        /// Tokens per sequence; by default the network's `block_size`.
        length: Option<usize> = None, in 1..=16_384, unit "tokens";
        /// Warm-up steps before the profiled steps.
        warmups: usize = 2, in 1..=100_000;
        /// Profiled steps.
        steps: usize = 3, in 1..=100_000;
        /// Learning rate of the step of SGD with which a step ends.
        lr: f64 = 0.001, in 0.0..=1000.0;
        /// Seed of weights and tokens.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

/// Profiles training steps of a network.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// The network.
    pub model: Model,
    /// The structure of its blocks.
    pub architecture: Architecture,
    /// Steps and batches.
    pub profiling: Profiling,
}

impl Profile {
    /// The name of the artifact with a row for each operation.
    pub const OPERATORS: &'static str = "operators";
    /// The name of the artifact with the times of all operations.
    pub const TRACE: &'static str = "trace";
}

metrics! {
    impl Profile {
        /// Mean time of a profiled step, with a wait for the device after every operation.
        TIME_STEP: Seconds = "time.step";
        /// Mean time per step within operations.
        TIME_OPERATIONS: Seconds = "time.operations";
        /// Mean time per step in matrix products.
        TIME_PRODUCTS: Seconds = "time.products";
        /// Mean time per step in element-wise operations.
        TIME_POINTWISE: Seconds = "time.pointwise";
        /// Mean time per step in reductions, such as sums and means.
        TIME_REDUCTIONS: Seconds = "time.reductions";
        /// Mean time per step in operations that copy, select or rearrange numbers.
        TIME_MOVEMENT: Seconds = "time.movement";
        /// Mean time per step in all other operations.
        TIME_OTHER: Seconds = "time.other";
        /// Fraction of `time.operations` in the operation with the largest total time.
        SHARE_TOP: Fraction = "share.top";
        /// Fraction of `time.operations` in matrix products.
        SHARE_PRODUCTS: Fraction = "share.products";
        /// Operations per step.
        CALLS: Count = "calls";
        /// Number of different operations.
        OPERATORS_COUNT: Count = "operators";
        /// Memory per step that operations allocated: the peak of each operation. On the CPU, heap memory; on a GPU,
        /// memory of the device's allocator that is in use after the operation and was not before.
        MEMORY_OPERATIONS: Bytes = "memory.operations";
        /// Loss of the first step.
        LOSS: Nats = "loss";
    }
}

impl TaskSpec for Profile {
    const NAME: &'static str = "profile";
    const ABOUT: &'static str = "measures time, calls and memory of every operation of training steps";
    const GROUPS: &'static [&'static [Param]] = &[Model::PARAMS, Architecture::PARAMS, Profiling::PARAMS];
    const METRICS: &'static [&'static [MetricInfo]] = &[Self::DECLARED, NetworkMetrics::DECLARED];
    const HEADLINE: &'static [&'static str] = &["time.step", "share.top"];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            profiling: Profiling::from_values(values)?,
        })
    }

    fn artifacts(_: &Values) -> Vec<String> {
        [Self::OPERATORS, Self::TRACE].map(str::to_owned).into()
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(profile) = Self::build(values) else { return Vec::new() };
        let mut conflicts = profile.model.conflicts();
        conflicts.extend(profile.architecture.conflicts(profile.model.dims(), profile.model.init.is_some()));
        let most = profile.model.dims().block_size;
        if let Some(length) = profile.profiling.length.filter(|length| profile.model.init.is_none() && *length > most) {
            conflicts.push(Conflict {
                params: vec!["length", "block_size"],
                message: format!("`length: {length}` exceeds the network's context of {most} tokens"),
                advice: "decrease `length`, or increase `block_size`".to_owned(),
            });
        }
        conflicts
    }
}

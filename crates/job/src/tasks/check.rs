//! `uses: check`.

use super::{Architecture, Model, NetworkMetrics, WorkerMetrics};
use crate::{Conflict, Group, MetricInfo, Param, TaskSpec, Values, metric::metrics, params::params};

params! {
    /// Input and seed of the checks.
    pub struct Checking {
        /// Sequences per batch.
        batch_size: usize = 2, in 1..=1024, unit "sequences";
        /// Tokens per sequence; at most the network's `block_size`.
        length: usize = 32, in 4..=65_536, unit "tokens";
        /// Learning rate of the five steps over which the loss must decrease.
        lr: f64 = 1e-3, in 0.0..=1.0;
        /// Seed of weights and tokens.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

/// Asserts properties of a network (ratio-ablation, section 7).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Check {
    /// The network.
    pub model: Model,
    /// The structure of its blocks.
    pub architecture: Architecture,
    /// Input of the checks.
    pub checking: Checking,
}

metrics! {
    impl Check {
        /// Number of assertions that held. If one fails, the job fails.
        ASSERTIONS: Count = "assertions";
        /// Cross-entropy of the untrained network on random tokens.
        LOSS: Nats = "loss";
    }
}

impl TaskSpec for Check {
    const NAME: &'static str = "check";
    const REVISION: u32 = 2;
    const ABOUT: &'static str = "builds a network and asserts that it computes, that it learns, and that it is causal";
    const HEADLINE: &'static [&'static str] = &["assertions", "parameters"];

    const GROUPS: &'static [&'static [Param]] = &[Model::PARAMS, Architecture::PARAMS, Checking::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] =
        &[Self::DECLARED, &[NetworkMetrics::PARAMETERS, WorkerMetrics::MEMORY_PEAK]];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            checking: Checking::from_values(values)?,
        })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(check) = Self::build(values) else { return Vec::new() };
        let mut conflicts = check.model.conflicts();
        let size = check.model.dims();
        let block_size = size.block_size;
        conflicts.extend(check.architecture.conflicts(size, check.model.init.is_some()));
        if check.model.init.is_none() && check.checking.length > block_size {
            conflicts.push(Conflict {
                params: vec!["length", "block_size"],
                message: format!("`length: {}` exceeds `block_size: {block_size}`", check.checking.length),
                advice: "reduce `length`, or raise `block_size`".into(),
            });
        }
        conflicts
    }
}

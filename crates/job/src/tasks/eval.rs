//! `uses: eval`.

use super::{Architecture, Data, LossMetrics, Model, NetworkMetrics, WorkerMetrics, data::held_out_conflict};
use crate::{Conflict, Group, MetricInfo, Param, TaskSpec, Values, metric::metrics, params::params};

params! {
    /// Held-out tokens and seed of an evaluation.
    pub struct Evaluation {
        /// Sequences per forward pass.
        batch_size: usize = 8, in 1..=1_000_000, unit "sequences";
        /// Number of batches, spread evenly over the held-out tokens.
        eval_batches: usize = 16, in 1..=1_000_000;
        /// Seed of the weights, unless `init` provides them.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

/// Measures a network's loss on held-out tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Eval {
    /// The network.
    pub model: Model,
    /// The structure of its blocks.
    pub architecture: Architecture,
    /// The tokens.
    pub data: Data,
    /// The held-out tokens.
    pub evaluation: Evaluation,
}

metrics! {
    impl Eval {
        /// Evaluated tokens per second, excluding the first batch.
        TOKENS_PER_S: TokensPerSecond = "throughput.tokens_per_s";
    }
}

impl TaskSpec for Eval {
    const NAME: &'static str = "eval";
    const ABOUT: &'static str = "measures a network's loss on held-out tokens";
    const HEADLINE: &'static [&'static str] = &["loss", "perplexity"];

    const GROUPS: &'static [&'static [Param]] =
        &[Model::PARAMS, Architecture::PARAMS, Data::PARAMS, Evaluation::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] =
        &[LossMetrics::DECLARED, Self::DECLARED, &[WorkerMetrics::MEMORY_PEAK, NetworkMetrics::PARAMETERS]];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            data: Data::from_values(values)?,
            evaluation: Evaluation::from_values(values)?,
        })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(eval) = Self::build(values) else { return Vec::new() };
        let mut conflicts = eval.model.conflicts();
        conflicts.extend(eval.architecture.conflicts(eval.model.dims(), eval.model.init.is_some()));
        let Evaluation { eval_batches, batch_size, .. } = eval.evaluation;
        conflicts.extend(held_out_conflict(eval_batches, batch_size, eval.model.dims().block_size));
        conflicts
    }
}

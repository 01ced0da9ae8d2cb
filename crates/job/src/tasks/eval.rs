//! `uses: eval`.

use super::{Architecture, Data, Model, data::held_out_conflict};
use crate::{Conflict, Group, MetricInfo, Param, TaskSpec, Unit, Values, params::params};

params! {
    /// The evaluation.
    pub struct Evaluation {
        /// Sequences in one forward pass.
        batch_size: usize = 8, in 1..=1_000_000, unit "sequences";
        /// Batches of held-out tokens, spread evenly over them.
        eval_batches: usize = 16, in 1..=1_000_000;
        /// Seed of the weights, where `init` does not give them.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

/// Measures a network's loss on held-out tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Eval {
    /// The network.
    pub model: Model,
    /// Architecture of its blocks.
    pub architecture: Architecture,
    /// The tokens.
    pub data: Data,
    /// The evaluation.
    pub evaluation: Evaluation,
}

impl TaskSpec for Eval {
    const NAME: &'static str = "eval";
    const ABOUT: &'static str = "measures a network's loss on held-out tokens";
    const HEADLINE: &'static [&'static str] = &["loss", "perplexity"];

    const GROUPS: &'static [&'static [Param]] =
        &[Model::PARAMS, Architecture::PARAMS, Data::PARAMS, Evaluation::PARAMS];

    const METRICS: &'static [MetricInfo] = &[
        MetricInfo { name: "loss", unit: Unit::Nats, doc: "mean cross-entropy on the held-out tokens" },
        MetricInfo { name: "perplexity", unit: Unit::One, doc: "exp(loss)" },
        MetricInfo {
            name: "throughput.tokens_per_s",
            unit: Unit::TokensPerSecond,
            doc: "evaluated tokens over the time of the forward passes, the first left out",
        },
        MetricInfo { name: "memory.peak", unit: Unit::Bytes, doc: "largest resident memory of the worker process" },
        MetricInfo { name: "parameters", unit: Unit::Count, doc: "numbers in the network, tied ones counted once" },
    ];

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

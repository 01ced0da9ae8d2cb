//! `uses: check`.

use super::{Architecture, Model};
use crate::{Conflict, Group, MetricInfo, Param, TaskSpec, Unit, Values, params::params};

params! {
    /// The assertions, and the amount of data.
    pub struct Checking {
        /// Sequences in the batch.
        batch_size: usize = 2, in 1..=1024, unit "sequences";
        /// Length of the sequences; at most the network's `block_size`.
        length: usize = 32, in 4..=65_536, unit "tokens";
        /// Learning rate of the five steps in which the loss must fall.
        lr: f64 = 1e-3, in 0.0..=1.0;
        /// Seed of weights and tokens.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

/// Checks that a network is what it claims to be (ratio-ablation, section 7).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Check {
    /// The network.
    pub model: Model,
    /// Architecture of its blocks.
    pub architecture: Architecture,
    /// The assertions.
    pub checking: Checking,
}

impl TaskSpec for Check {
    const NAME: &'static str = "check";
    const REVISION: u32 = 2;
    const ABOUT: &'static str = "builds a network and asserts that it computes, learns, and does not see the future";
    const HEADLINE: &'static [&'static str] = &["assertions", "parameters"];

    const GROUPS: &'static [&'static [Param]] = &[Model::PARAMS, Architecture::PARAMS, Checking::PARAMS];

    const METRICS: &'static [MetricInfo] = &[
        MetricInfo { name: "assertions", unit: Unit::Count, doc: "assertions that held" },
        MetricInfo { name: "loss", unit: Unit::Nats, doc: "cross-entropy of the untrained network on random tokens" },
        MetricInfo { name: "parameters", unit: Unit::Count, doc: "trained numbers, tied ones counted once" },
        MetricInfo { name: "memory.peak", unit: Unit::Bytes, doc: "largest resident memory of the worker process" },
    ];

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
                message: format!("length {} is above the network's block_size {block_size}", check.checking.length),
                advice: "shorten `length` or raise `block_size`".into(),
            });
        }
        conflicts
    }
}

//! `uses: parity`.

use super::{Architecture, Computing, Data, Model, Optimizer, Prune};
use crate::{Conflict, Group, MetricInfo, Param, Unit, Values, params::params};

params! {
    /// What is compared, and how closely.
    pub struct Comparing {
        /// Sequences in the batch.
        batch_size: usize = 2, in 1..=1_000_000, unit "sequences";
        /// Optimizer steps whose losses are compared; a mask is chosen after the last, if `prune` says how.
        iters: usize = 3, in 1..=10_000, unit "iterations";
        /// Seed of the weights and of the batches.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// Times what may differ: of logits, as a part of the largest, 1e-4 in single precision, 1e-2 in half precision, 5e-2 in
        /// bfloat16; of gradients 1e-3, 4e-2 and 0.2; of losses 1e-3, 1e-2 and 5e-2 nats.
        tolerance: f64 = 1.0, in 0.0..=1e6;
    }
}

/// Compares a backend with plain operations on the CPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parity {
    /// The network; computes without dropout.
    pub model: Model,
    /// What its blocks are made of.
    pub architecture: Architecture,
    /// The tokens.
    pub data: Data,
    /// What is compared.
    pub comparing: Comparing,
    /// How the backend computes.
    pub computing: Computing,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// The pruning.
    pub prune: Prune,
}

impl Parity {
    pub(crate) const GROUPS: &'static [&'static [Param]] = &[
        Model::PARAMS,
        Architecture::PARAMS,
        Data::PARAMS,
        Comparing::PARAMS,
        Computing::PARAMS,
        Optimizer::PARAMS,
        Prune::PARAMS,
    ];

    pub(crate) const METRICS: &'static [MetricInfo] = &[
        MetricInfo {
            name: "error.logits",
            unit: Unit::One,
            doc: "largest difference of a logit, as a part of the largest logit",
        },
        MetricInfo {
            name: "error.gradients",
            unit: Unit::One,
            doc: "largest difference of a gradient's number, as a part of the largest of its parameter; the worst parameter's; of the first step that is not left out",
        },
        MetricInfo { name: "error.loss", unit: Unit::Nats, doc: "largest difference of a training loss" },
        MetricInfo {
            name: "error.modules",
            unit: Unit::One,
            doc: "as `error.logits`, of what each block gives for the reference's input; the worst block's",
        },
        MetricInfo {
            name: "error.masks",
            unit: Unit::Fraction,
            doc: "part of the prunable weights that one of the two prunes and the other does not; with `prune` only",
        },
        MetricInfo {
            name: "steps.skipped",
            unit: Unit::Count,
            doc: "steps that both leave out because the backend's gradients in half precision overflowed; 0 but with `precision: f16`",
        },
        MetricInfo { name: "parameters", unit: Unit::Count, doc: "trained numbers, tied ones counted once" },
    ];

    pub(crate) fn from_values(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            data: Data::from_values(values)?,
            comparing: Comparing::from_values(values)?,
            computing: Computing::from_values(values)?,
            optimizer: Optimizer::from_values(values)?,
            prune: Prune::from_values(values)?,
        })
    }

    pub(crate) fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(parity) = Self::from_values(values) else { return Vec::new() };
        let dims = parity.model.dims();
        let mut conflicts = parity.model.conflicts();
        conflicts.extend(parity.architecture.conflicts(dims, parity.model.init.is_some()));
        let block = parity.architecture.block(dims);
        conflicts.extend(parity.computing.conflicts(parity.model.init.is_none().then_some((dims.n_layer, &block))));
        conflicts
    }
}

//! `uses: parity`.

use super::{Architecture, Computing, Data, Model, NetworkMetrics, Optimizer, Prune};
use crate::{Conflict, Group, MetricInfo, Param, TaskSpec, Values, metric::metrics, params::params};

params! {
    /// Input and tolerance of the comparison.
    pub struct Comparing {
        /// Sequences per batch.
        batch_size: usize = 2, in 1..=1_000_000, unit "sequences";
        /// Optimizer steps whose losses are compared. With `prune`, a mask is also computed after the last step and
        /// compared.
        iters: usize = 3, in 1..=10_000, unit "iterations";
        /// Seed of weights and batches.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// Factor on the allowed differences in f32, f16 and bf16. These are 1e-4, 1e-2 and 5e-2 for logits, relative
        /// to the largest logit; 1e-3, 4e-2 and 0.2 for gradients; 1e-3, 1e-2 and 5e-2 nats for losses.
        tolerance: f64 = 1.0, in 0.0..=1e6;
    }
}

/// Compares a backend with plain operations on the CPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parity {
    /// The network, without dropout.
    pub model: Model,
    /// The structure of its blocks.
    pub architecture: Architecture,
    /// The tokens.
    pub data: Data,
    /// Input and tolerance.
    pub comparing: Comparing,
    /// Computing options of the backend.
    pub computing: Computing,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// The pruning.
    pub prune: Prune,
}

metrics! {
    impl Parity {
        /// Largest difference of a logit, relative to the largest logit.
        ERROR_LOGITS: One = "error.logits";
        /// Largest difference of an element of a gradient, relative to the largest element of the same gradient; the
        /// maximum over parameters. From the first step that is not skipped.
        ERROR_GRADIENTS: One = "error.gradients";
        /// Largest difference of a training loss.
        ERROR_LOSS: Nats = "error.loss";
        /// Largest difference in the output of a block that gets the reference's input, relative to the largest
        /// element; the maximum over blocks.
        ERROR_MODULES: One = "error.modules";
        /// Fraction of the prunable weights that only one of the two prunes. Requires `prune`.
        ERROR_MASKS: Fraction = "error.masks";
        /// Steps that both skip because the backend's gradients overflowed in half precision; 0 unless `precision:
        /// f16`.
        STEPS_SKIPPED: Count = "steps.skipped";
    }
}

impl TaskSpec for Parity {
    const NAME: &'static str = "parity";
    const REVISION: u32 = 2;
    const ABOUT: &'static str = "asserts that a backend computes the same results as plain operations on the CPU, and reports the first difference";
    const HEADLINE: &'static [&'static str] = &["error.logits", "error.gradients", "error.loss"];

    const GROUPS: &'static [&'static [Param]] = &[
        Model::PARAMS,
        Architecture::PARAMS,
        Data::PARAMS,
        Comparing::PARAMS,
        Computing::PARAMS,
        Optimizer::PARAMS,
        Prune::PARAMS,
    ];

    const METRICS: &'static [&'static [MetricInfo]] = &[Self::DECLARED, &[NetworkMetrics::PARAMETERS]];

    fn build(values: &Values) -> Option<Self> {
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

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(parity) = Self::build(values) else { return Vec::new() };
        let dims = parity.model.dims();
        let mut conflicts = parity.model.conflicts();
        conflicts.extend(parity.architecture.conflicts(dims, parity.model.init.is_some()));
        conflicts.extend(parity.optimizer.conflicts());
        conflicts.extend(parity.prune.score_conflicts());
        let block = parity.architecture.block(dims);
        let block = parity.model.init.is_none().then_some(&block);
        conflicts.extend(block.iter().flat_map(|block| parity.optimizer.conflicts_with(block)));
        conflicts.extend(parity.computing.conflicts(block.map(|block| (dims.n_layer, block))));
        conflicts
    }
}

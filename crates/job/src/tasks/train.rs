//! `uses: train`.

use super::{Architecture, Coupling, Data, GatePool, Model, Optimizer, Prune, data::held_out_conflict};
use crate::{Conflict, Group, MetricInfo, Param, Unit, Value, Values, params::params};

params! {
    /// The loop: how long, how much at a time, how often to look.
    pub struct Training {
        /// Optimizer steps.
        iters: usize = 200, in 1..=100_000_000, unit "iterations";
        /// Sequences in one forward pass.
        batch_size: usize = 8, in 1..=1_000_000, unit "sequences";
        /// Forward and backward passes whose gradients are averaged into one optimizer step.
        grad_accumulation: usize = 1, in 1..=1_000_000;
        /// Seed of the weights, of the order of the data and of dropout; each has its own stream.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// Iterations between two readings of the training loss.
        log_every: usize = 10, in 1..=100_000_000, unit "iterations";
        /// Iterations between two evaluations on held-out tokens; 0 evaluates at the end only.
        eval_every: usize = 0, in 0..=100_000_000, unit "iterations";
        /// Batches of held-out tokens in one evaluation, spread evenly over them; the same for every seed.
        eval_batches: usize = 16, in 1..=1_000_000;
        /// Iterations between two checkpoints, from which a job that failed or was interrupted goes on when it runs again;
        /// 0 saves none. The result is the same.
        checkpoint_every: usize = 0, in 0..=100_000_000, unit "iterations", cosmetic true;
        /// Whether to keep the trained network as the artifact `checkpoint`, in the Hub's layout.
        save: bool = false;
        /// Whether to measure where the time of the steps goes, as `time.forward` and so on. This waits for the device after
        /// every part, so it makes steps slower where the device works on its own.
        breakdown: bool = false;
    }
}

/// Trains a GPT-2.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Train {
    /// The network.
    pub model: Model,
    /// What its blocks are made of.
    pub architecture: Architecture,
    /// How its mechanisms fade in.
    pub coupling: Coupling,
    /// The tokens.
    pub data: Data,
    /// The loop.
    pub training: Training,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// The pruning.
    pub prune: Prune,
}

impl Train {
    pub(crate) const GROUPS: &'static [&'static [Param]] = &[
        Model::PARAMS,
        Architecture::PARAMS,
        Coupling::PARAMS,
        Data::PARAMS,
        Training::PARAMS,
        Optimizer::PARAMS,
        Prune::PARAMS,
    ];

    pub(crate) const METRICS: &'static [MetricInfo] = &[
        MetricInfo { name: "loss", unit: Unit::Nats, doc: "mean cross-entropy on the held-out tokens at the end" },
        MetricInfo { name: "perplexity", unit: Unit::One, doc: "exp(loss)" },
        MetricInfo { name: "train_loss", unit: Unit::Nats, doc: "mean training loss since the last but one reading" },
        MetricInfo { name: "sparsity", unit: Unit::Fraction, doc: "part of the prunable weights that is exactly zero" },
        MetricInfo {
            name: "throughput.tokens_per_s",
            unit: Unit::TokensPerSecond,
            doc: "trained tokens over the time of the training steps, evaluation and the first step left out",
        },
        MetricInfo { name: "time.step", unit: Unit::Seconds, doc: "median time of an optimizer step" },
        MetricInfo { name: "time.prune", unit: Unit::Seconds, doc: "time spent choosing masks, in all" },
        MetricInfo {
            name: "time.forward",
            unit: Unit::Seconds,
            doc: "mean time of a step's forward passes; with `breakdown` only, like the rest of its kind; first step left out",
        },
        MetricInfo { name: "time.backward", unit: Unit::Seconds, doc: "mean time of a step's backward passes" },
        MetricInfo {
            name: "time.optimizer",
            unit: Unit::Seconds,
            doc: "mean time that a step spends on clipping by the global norm and on the optimizer",
        },
        MetricInfo { name: "time.spam", unit: Unit::Seconds, doc: "mean time that a step spends on SPAM's guards" },
        MetricInfo {
            name: "time.masking",
            unit: Unit::Seconds,
            doc: "mean time that a step spends on masking gradients, and weights and moments by new masks (by old ones the optimizer does that)",
        },
        MetricInfo {
            name: "time.score",
            unit: Unit::Seconds,
            doc: "mean time that a step spends on scores; those of the steps that choose no mask are 0",
        },
        MetricInfo {
            name: "time.threshold",
            unit: Unit::Seconds,
            doc: "mean time that a step spends on finding thresholds and making masks",
        },
        MetricInfo { name: "time.train", unit: Unit::Seconds, doc: "time of the whole loop, evaluation included" },
        MetricInfo { name: "memory.peak", unit: Unit::Bytes, doc: "largest resident memory of the worker process" },
        MetricInfo { name: "parameters", unit: Unit::Count, doc: "trained numbers, tied ones counted once" },
    ];

    pub(crate) fn from_values(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            coupling: Coupling::from_values(values)?,
            data: Data::from_values(values)?,
            training: Training::from_values(values)?,
            optimizer: Optimizer::from_values(values)?,
            prune: Prune::from_values(values)?,
        })
    }

    pub(crate) const CURVES: &'static [&'static str] = &["loss", "val_loss", "lr", "sparsity", "grad_norm", "spikes"];

    /// The name of the artifact that `save` keeps.
    pub const CHECKPOINT: &'static str = "checkpoint";

    pub(crate) fn artifacts(values: &Values) -> Vec<String> {
        let saves = values.get("save") == Some(&Value::Bool(true));
        saves.then(|| Self::CHECKPOINT.to_owned()).into_iter().collect()
    }

    pub(crate) fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(train) = Self::from_values(values) else { return Vec::new() };
        let mut conflicts = train.model.conflicts();
        conflicts.extend(train.architecture.conflicts(train.model.dims(), train.model.init.is_some()));
        if train.architecture.gate_pool == Some(GatePool::SequenceMean) {
            conflicts.push(Conflict {
                params: vec!["gate_pool"],
                message: "a head gate pooled over the whole sequence sees the tokens that are to be predicted".into(),
                advice: "set `gate_pool` to `prefix_mean` or `token`".into(),
            });
        }
        let Training { eval_batches, batch_size, .. } = train.training;
        conflicts.extend(held_out_conflict(eval_batches, batch_size, train.model.dims().block_size));
        conflicts.extend(train.prune.conflicts(train.training.iters));
        conflicts
    }
}

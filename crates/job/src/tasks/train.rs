//! `uses: train`.

use super::{Architecture, Computing, Coupling, Data, GatePool, Model, Optimizer, Prune, data::held_out_conflict};
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
        /// 0 saves none. The last two are kept, in case that one is damaged. The result is the same.
        checkpoint_every: usize = 0, in 0..=100_000_000, unit "iterations", cosmetic true;
        /// Whether to keep the trained network as the artifact `checkpoint`, in the Hub's layout.
        save: bool = false;
        /// Whether to measure where the time of the steps goes, as `time.forward` and so on. This waits for the device after
        /// every part, so it makes steps slower where the device works on its own.
        breakdown: bool = false;
        /// Whether to keep what the first 200 steps did, and when, as the artifact `trace`: trace-event JSON, which Perfetto
        /// opens. It measures as `breakdown` does.
        trace: bool = false;
        /// Whether to measure at the end how fast the device multiplies and copies, so that `compute.mfu` can be told; that
        /// takes about a second.
        ceiling: bool = false;
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
    /// How it computes.
    pub computing: Computing,
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
        Computing::PARAMS,
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
            doc: "trained tokens over the time of the training steps, evaluation and the first two steps of each attempt left out (the first alone where there are no more than two)",
        },
        MetricInfo {
            name: "time.step",
            unit: Unit::Seconds,
            doc: "median time of an optimizer step, of those that count for `throughput.tokens_per_s`",
        },
        MetricInfo {
            name: "time.step.p5",
            unit: Unit::Seconds,
            doc: "time below which 5 % of the optimizer steps lie; where the device works on its own, of means between readings",
        },
        MetricInfo { name: "time.step.p95", unit: Unit::Seconds, doc: "time below which 95 % of them lie" },
        MetricInfo {
            name: "time.first_step",
            unit: Unit::Seconds,
            doc: "time of the very first optimizer step, which compiles kernels, chooses among them and fills caches; where a training went on from a checkpoint, of the attempt that began it",
        },
        MetricInfo { name: "time.prune", unit: Unit::Seconds, doc: "time spent choosing masks, in all" },
        MetricInfo {
            name: "time.data",
            unit: Unit::Seconds,
            doc: "mean time that a step waits for its batches; with `breakdown` only, like the rest of its kind, and of the last attempt; first two steps left out",
        },
        MetricInfo { name: "time.forward", unit: Unit::Seconds, doc: "mean time of a step's forward passes" },
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
        MetricInfo {
            name: "time.train",
            unit: Unit::Seconds,
            doc: "time of the whole loop, evaluation included, of the work that counts: up to the checkpoints that later attempts went on from, and of the last attempt",
        },
        MetricInfo {
            name: "time.lost",
            unit: Unit::Seconds,
            doc: "time of the loop that earlier attempts spent on work that no checkpoint has; up to the last sign of each, which is a log point about a second before its end or later",
        },
        MetricInfo {
            name: "attempts",
            unit: Unit::Count,
            doc: "attempts that began to train, this one included; the record's `attempt.N` says what each has done",
        },
        MetricInfo {
            name: "memory.peak",
            unit: Unit::Bytes,
            doc: "largest resident memory of the worker process, until the network is saved, without what `ceiling` takes; the largest over all attempts, of one that was killed up to its last sign",
        },
        MetricInfo {
            name: "memory.mean",
            unit: Unit::Bytes,
            doc: "mean resident memory of the worker process, looked at ten times a second while the last attempt trains",
        },
        MetricInfo {
            name: "memory.device.peak",
            unit: Unit::Bytes,
            doc: "most memory in tensors on the device, after each part of the first steps",
        },
        MetricInfo { name: "memory.device.mean", unit: Unit::Bytes, doc: "mean of the same readings" },
        MetricInfo {
            name: "memory.device.reserved",
            unit: Unit::Bytes,
            doc: "most that was taken from the driver for it",
        },
        MetricInfo {
            name: "memory.device.used",
            unit: Unit::Bytes,
            doc: "most memory of the device in use by everybody, as its driver says while it trains",
        },
        MetricInfo {
            name: "utilization.compute",
            unit: Unit::Fraction,
            doc: "part of the time in which the device was computing, as its driver says",
        },
        MetricInfo {
            name: "utilization.memory",
            unit: Unit::Fraction,
            doc: "part of the time in which the device's memory was being read or written, as its driver says",
        },
        MetricInfo {
            name: "utilization.cpu",
            unit: Unit::Fraction,
            doc: "processor time of the worker process over that of all cores, while it trains",
        },
        MetricInfo {
            name: "fusion.operations",
            unit: Unit::Count,
            doc: "operations of the first step that ran in fused kernels, as Burn's fusion reports; 0 without `fusion`",
        },
        MetricInfo { name: "fusion.kernels", unit: Unit::Count, doc: "fused kernels that they ran in" },
        MetricInfo {
            name: "fusion.unfused",
            unit: Unit::Count,
            doc: "operations of the first step that went through the fusing backend and ran by themselves",
        },
        MetricInfo {
            name: "compute.flops",
            unit: Unit::FlopsPerSecond,
            doc: "floating-point operations a second: 2 for each multiplication in a matrix product, forward and for every gradient that is needed, without what checkpointing computes again",
        },
        MetricInfo {
            name: "peak.compute",
            unit: Unit::FlopsPerSecond,
            doc: "the same of one large matrix product on this device; with `ceiling` only, like the next three",
        },
        MetricInfo { name: "compute.mfu", unit: Unit::Fraction, doc: "`compute.flops` over `peak.compute`" },
        MetricInfo {
            name: "peak.bandwidth",
            unit: Unit::BytesPerSecond,
            doc: "bytes that a copy reads and writes a second",
        },
        MetricInfo {
            name: "bandwidth.optimizer",
            unit: Unit::Fraction,
            doc: "bytes that AdamW has to read and write (28 for each weight, 36 with `amsgrad`) over the time that it takes and what a copy reaches; with `breakdown`",
        },
        MetricInfo {
            name: "steps.skipped",
            unit: Unit::Count,
            doc: "steps left out because gradients in half precision overflowed; with `precision: f16` only",
        },
        MetricInfo { name: "parameters", unit: Unit::Count, doc: "trained numbers, tied ones counted once" },
    ];

    pub(crate) fn from_values(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            coupling: Coupling::from_values(values)?,
            data: Data::from_values(values)?,
            training: Training::from_values(values)?,
            computing: Computing::from_values(values)?,
            optimizer: Optimizer::from_values(values)?,
            prune: Prune::from_values(values)?,
        })
    }

    pub(crate) const CURVES: &'static [&'static str] = &["loss", "val_loss", "lr", "sparsity", "grad_norm", "spikes"];

    /// The name of the artifact that `save` keeps.
    pub const CHECKPOINT: &'static str = "checkpoint";

    /// The name of the artifact that `trace` keeps.
    pub const TRACE: &'static str = "trace";

    /// The metrics that it may measure.
    pub fn metric_names() -> impl Iterator<Item = &'static str> {
        Self::METRICS.iter().map(|metric| metric.name)
    }

    pub(crate) fn artifacts(values: &Values) -> Vec<String> {
        let kept = [("save", Self::CHECKPOINT), ("trace", Self::TRACE)];
        let kept = kept.into_iter().filter(|(param, _)| values.get(*param) == Some(&Value::Bool(true)));
        kept.map(|(_, artifact)| artifact.to_owned()).collect()
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
        let dims = train.model.dims();
        let block = train.architecture.block(dims);
        conflicts.extend(train.computing.conflicts(train.model.init.is_none().then_some((dims.n_layer, &block))));
        conflicts
    }
}

//! `uses: train`.

mod prefix;

use std::collections::BTreeMap;

use super::{
    Architecture, ComputeMetrics, Computing, Coupling, Data, FusionMetrics, GatePool, LoopMetrics, LossMetrics, Model,
    NetworkMetrics, Optimizer, OptimizerKind, PeakMetrics, Prune, SampledMetrics, ScoreInput, Ticket,
    data::held_out_conflict,
};
use crate::{
    Conflict, Group, MetricInfo, Param, TaskSpec, Value, Values, metric::metrics, params::params, task::Reach,
};

params! {
    /// The training loop: length, batches, logging, evaluation and checkpoints.
    pub struct Training {
        /// Optimizer steps.
        iters: usize = 200, in 1..=100_000_000, unit "iterations";
        /// Iterations after which the training ends, with an evaluation; a longer training continues from its state.
        /// The schedules of the learning rate and of pruning still extend over `iters`. Default: `iters`.
        until: Option<usize> = None, in 1..=100_000_000, unit "iterations";
        /// Sequences per forward pass.
        batch_size: usize = 8, in 1..=1_000_000, unit "sequences";
        /// Forward and backward passes per optimizer step; their gradients are averaged.
        grad_accumulation: usize = 1, in 1..=1_000_000;
        /// Seed of weights, data order and dropout, which use separate random streams.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// Iterations between two log points, at which the training loss is read.
        log_every: usize = 10, in 1..=100_000_000, unit "iterations";
        /// Iterations between two evaluations on held-out tokens; 0 evaluates only at the end.
        eval_every: usize = 0, in 0..=100_000_000, unit "iterations";
        /// Batches per evaluation, spread evenly over the held-out tokens; the same for every seed.
        eval_batches: usize = 16, in 1..=1_000_000;
        /// Iterations between two checkpoints, from which a failed or interrupted job resumes; 0 saves none. The last
        /// two are kept, in case one is damaged. Does not change the result.
        checkpoint_every: usize = 0, in 0..=100_000_000, unit "iterations", cosmetic true;
        /// Keep the trained network as the artifact `checkpoint`, in the layout of the Hugging Face Hub.
        save: bool = false;
        /// Measure the time of the parts of a step, such as `time.forward`. Synchronizes with the device after every
        /// part, which slows down asynchronous devices.
        breakdown: bool = false;
        /// Keep a timeline of the first 200 steps as the artifact `trace`, in the trace-event JSON format that Perfetto
        /// reads. Implies the synchronization of `breakdown`.
        trace: bool = false;
        /// Measure the device's peak compute throughput and bandwidth after the training, as `compute.mfu` requires.
        /// Takes about one second.
        ceiling: bool = false;
    }
}

impl Training {
    /// Iterations after which the training ends.
    pub fn end(&self) -> usize {
        self.until.unwrap_or(self.iters).min(self.iters)
    }

    /// True if the training leaves a state from which a longer one continues.
    pub fn leaves_state(&self) -> bool {
        self.end() < self.iters
    }

    /// True if the whole training reads its loss after `done` iterations.
    pub fn logs_after(&self, done: usize) -> bool {
        done.is_multiple_of(self.log_every) || done == self.iters
    }

    /// True if the whole training is evaluated after `done` iterations.
    pub fn evaluates_after(&self, done: usize) -> bool {
        (self.eval_every > 0 && done.is_multiple_of(self.eval_every)) || done == self.iters
    }
}

/// Trains a GPT-2.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Train {
    /// The network.
    pub model: Model,
    /// The structure of its blocks.
    pub architecture: Architecture,
    /// The schedule of its mechanisms' strength.
    pub coupling: Coupling,
    /// The tokens.
    pub data: Data,
    /// The loop.
    pub training: Training,
    /// Computing options.
    pub computing: Computing,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// The pruning.
    pub prune: Prune,
    /// The mask of another network.
    pub ticket: Ticket,
}

metrics! {
    impl Train {
        /// Fraction of the prunable weights that are exactly zero at the end.
        SPARSITY: Fraction = "sparsity", Deterministic;
        /// Training tokens per second. Excludes evaluation and the warm-up steps: the first two steps of each attempt,
        /// or the first step if there are at most two. Excludes the steps of a state that another job has left.
        TOKENS_PER_S: TokensPerSecond = "throughput.tokens_per_s";
        /// Total time spent on computing masks.
        TIME_PRUNE: Seconds = "time.prune";
        /// Mean time per step of SPAM's clipping and resets. Requires `breakdown`.
        TIME_SPAM: Seconds = "time.spam";
        /// Mean time per step spent on masking gradients, and on masking weights and moments by new masks. The
        /// optimizer applies old masks. Requires `breakdown`.
        TIME_MASKING: Seconds = "time.masking";
        /// Mean time per step spent on scores, over all steps, including those without a mask update. Requires
        /// `breakdown`. Absent if the pass that finds thresholds computes the scores, as `prune_update: fused` does.
        TIME_SCORE: Seconds = "time.score";
        /// Mean time per step spent on thresholds and masks. Requires `breakdown`.
        TIME_THRESHOLD: Seconds = "time.threshold";
        /// `time.spam` as a fraction of the mean time of a step. Requires `breakdown`, as do the other fractions.
        SHARE_SPAM: Fraction = "share.spam";
        /// `time.masking` as a fraction of the mean time of a step.
        SHARE_MASKING: Fraction = "share.masking";
        /// `time.score` as a fraction of the mean time of a step.
        SHARE_SCORE: Fraction = "share.score";
        /// `time.threshold` as a fraction of the mean time of a step.
        SHARE_THRESHOLD: Fraction = "share.threshold";
        /// Number of weights that may be pruned.
        PRUNABLE: Count = "prunable";
        /// Number of weight matrices that may be pruned: the masked modules.
        PRUNABLE_MATRICES: Count = "prunable.matrices";
        /// Time of earlier attempts that was lost because no checkpoint covers it. For each attempt, counted up to its
        /// last log point.
        TIME_LOST: Seconds = "time.lost";
        /// Attempts that began to train, including this one. The record's facts `attempt.N` describe each.
        ATTEMPTS: Count = "attempts";
        /// Peak resident memory of the worker process, up to and including the saving of the network but excluding the
        /// measurement of `ceiling`. The maximum over all attempts; for a killed attempt, up to its last log point.
        MEMORY_PEAK: Bytes = "memory.peak", Resolution(4096.0);
        /// Peak device memory in tensors, read after each part of the first steps, and then after a step at most ten
        /// times per second.
        MEMORY_DEVICE_PEAK: Bytes = "memory.device.peak";
        /// Mean device memory in tensors over the readings after the first steps; over the readings of the first
        /// steps if there are no others.
        MEMORY_DEVICE_MEAN: Bytes = "memory.device.mean";
        /// Peak device memory that the allocator reserved from the driver.
        MEMORY_DEVICE_RESERVED: Bytes = "memory.device.reserved";
        /// `compute.flops` divided by `peak.compute`. Requires `ceiling`.
        MFU: Fraction = "compute.mfu";
        /// Bandwidth of the optimizer relative to a copy: the bytes that AdamW must read and write (28 per parameter,
        /// 36 with `amsgrad`) per second, divided by `peak.bandwidth`. Requires `breakdown`, `ceiling`, and `adamw` or
        /// `adamwspam` as optimizer.
        BANDWIDTH_OPTIMIZER: Fraction = "bandwidth.optimizer";
        /// Steps that were skipped because gradients overflowed in half precision. For `precision: f16` only.
        STEPS_SKIPPED: Count = "steps.skipped";
    }
}

impl TaskSpec for Train {
    const NAME: &'static str = "train";
    const REVISION: u32 = 4;
    const ABOUT: &'static str = "trains a GPT-2 on tokens, with optional pruning, and measures loss, speed and memory";
    const HEADLINE: &'static [&'static str] = &["loss", "sparsity", "throughput.tokens_per_s"];

    const GROUPS: &'static [&'static [Param]] = &[
        Model::PARAMS,
        Architecture::PARAMS,
        Coupling::PARAMS,
        Data::PARAMS,
        Training::PARAMS,
        Computing::PARAMS,
        Optimizer::PARAMS,
        Prune::PARAMS,
        Ticket::PARAMS,
    ];

    const METRICS: &'static [&'static [MetricInfo]] = &[
        LossMetrics::DECLARED,
        LoopMetrics::DECLARED,
        Self::DECLARED,
        SampledMetrics::DECLARED,
        FusionMetrics::DECLARED,
        ComputeMetrics::DECLARED,
        PeakMetrics::DECLARED,
        NetworkMetrics::DECLARED,
    ];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            coupling: Coupling::from_values(values)?,
            data: Data::from_values(values)?,
            training: Training::from_values(values)?,
            computing: Computing::from_values(values)?,
            optimizer: Optimizer::from_values(values)?,
            prune: Prune::from_values(values)?,
            ticket: Ticket::from_values(values)?,
        })
    }

    const CURVES: &'static [&'static str] = &["loss", "val_loss", "lr", "sparsity", "grad_norm", "spikes"];

    fn artifacts(values: &Values) -> Vec<String> {
        let kept = [("save", Self::CHECKPOINT), ("trace", Self::TRACE)];
        let kept = kept.into_iter().filter(|(param, _)| values.get(param) == Some(&Value::Bool(true)));
        kept.map(|(_, artifact)| artifact.to_owned()).collect()
    }

    fn reach(values: &Values) -> Option<Reach> {
        let Self { training, .. } = Self::build(values)?;
        let leaves_state = training.leaves_state();
        Some(Reach { end: Some(training.end() as u64), leaves_state, may_only_evaluate: leaves_state })
    }

    fn acts_from(values: &Values) -> BTreeMap<String, u64> {
        Self::build(values).map(|train| prefix::acts_from(&train)).unwrap_or_default()
    }

    fn prefix(values: &Values, step: u64) -> Option<Values> {
        prefix::prefix(values, step)
    }

    fn redundant(values: &Values) -> Vec<&'static str> {
        let is_whole = |until: &Value| *until != Value::Null && Some(until) == values.get("iters");
        if values.get("until").is_some_and(is_whole) { vec!["until"] } else { Vec::new() }
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(train) = Self::build(values) else { return Vec::new() };
        let mut conflicts = train.model.conflicts();
        conflicts.extend(train.architecture.conflicts(train.model.dims(), train.model.init.is_some()));
        if train.architecture.gate_pool == Some(GatePool::SequenceMean) {
            conflicts.push(Conflict {
                params: vec!["gate_pool"],
                message: "`gate_pool: sequence_mean` lets the head gate see the tokens to predict".into(),
                advice: "write `gate_pool: prefix_mean` or `gate_pool: token`".into(),
            });
        }
        let Training { eval_batches, batch_size, until, iters, .. } = train.training;
        if let Some(until) = until.filter(|until| *until > iters) {
            conflicts.push(Conflict {
                params: vec!["until", "iters"],
                message: format!("`until: {until}` is beyond the end of the training, `iters: {iters}`"),
                advice: "increase `iters`, over which the schedules extend, or reduce `until`".into(),
            });
        }
        conflicts.extend(held_out_conflict(eval_batches, batch_size, train.model.dims().block_size));
        conflicts.extend(train.prune.conflicts(iters));
        conflicts.extend(train.ticket.conflicts(&train.prune, &train.model));
        conflicts.extend(train.optimizer.conflicts());
        conflicts.extend(moments_conflict(&train));
        let dims = train.model.dims();
        let block = train.architecture.block(dims);
        let block = train.model.init.is_none().then_some(&block);
        conflicts.extend(block.iter().flat_map(|block| train.optimizer.conflicts_with(block)));
        conflicts.extend(train.computing.conflicts(block.map(|block| (dims.n_layer, block))));
        conflicts
    }
}

/// A score of moments that the optimizer does not have.
fn moments_conflict(train: &Train) -> Option<Conflict> {
    let Train { prune: Prune { prune, .. }, optimizer: Optimizer { optimizer, .. }, .. } = train;
    let has_moments = matches!(optimizer, OptimizerKind::AdamW | OptimizerKind::AdamWSpam);
    let needs_moments = prune.score().inputs().iter().any(|input| *input != ScoreInput::Origin);
    (needs_moments && !has_moments).then(|| Conflict {
        params: vec!["prune", "optimizer"],
        message: format!(
            "the scores of `prune: {prune}` need Adam's moments, which `optimizer: {optimizer}` does not have"
        ),
        advice: "write `prune: magnitude` or `prune: movement`, or `optimizer: adamw`".into(),
    })
}

impl Train {
    /// The name of the artifact that `save` keeps.
    pub const CHECKPOINT: &'static str = "checkpoint";

    /// The name of the artifact that `trace` keeps.
    pub const TRACE: &'static str = "trace";

    /// True if the gradients of pruned weights are masked in iteration `iter`, counted from 0.
    pub fn masks_gradients_at(&self, iter: usize) -> bool {
        (self.prune.prune.masks_state() || self.ticket.mask.is_some()) && iter.is_multiple_of(self.prune.mask_every)
    }

    /// The names of its metrics.
    pub fn metric_names() -> impl Iterator<Item = &'static str> {
        Self::METRICS.iter().copied().flatten().map(|metric| metric.name)
    }
}

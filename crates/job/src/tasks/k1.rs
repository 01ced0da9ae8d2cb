//! `uses: k1`: the hierarchy of paper 002, a tree of transformer blocks, some of which are updated in each step.
//!
//! Each bottleneck that the paper names is a parameter, so that it can be measured separately: the frequency of loss
//! readings, the construction of the causal mask, the selection of the nodes to update, the batch size. Where the
//! original has a defect, the default is the correct behavior and the defect is an option.

mod params;

pub use params::{
    AttentionForm, CausalMask, GradientNorm, K1Computing, K1Data, K1Loop, K1Model, K1Optimizer, K1Precision, K1Update,
    LossReads, LossScaling, NetworkShape, NormScope, SelectionWay, Shift, Unchosen, UpdateRule, Words,
};

use super::{FusionMetrics, LoopMetrics, LossMetrics, NetworkMetrics, SampledMetrics, WorkerMetrics};
use crate::{Conflict, Group, MetricInfo, Param, TaskSpec, Values, metric::metrics};

/// Trains a tree of transformer blocks and updates some of them in each step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct K1 {
    /// The network.
    pub model: K1Model,
    /// The tokens.
    pub data: K1Data,
    /// The loop.
    pub training: K1Loop,
    /// The selection of nodes to update.
    pub update: K1Update,
    /// The optimizer.
    pub optimizer: K1Optimizer,
    /// Computing options.
    pub computing: K1Computing,
}

/// Maximum number of nodes of a network.
const MAX_NODES: usize = 4096;
/// Maximum number of held-out tokens per evaluation; all are in memory at once.
const MAX_HELD_OUT: usize = 1 << 30;

metrics! {
    impl K1 {
        /// Training sequences per second. Excludes evaluation and the warm-up steps: the first two steps, or the first
        /// step if there are at most two.
        SEQUENCES_PER_S: SequencesPerSecond = "throughput.sequences_per_s";
        /// Optimizer steps per second, without evaluation and the warm-up steps. Not comparable between batch sizes.
        STEPS_PER_S: StepsPerSecond = "throughput.steps_per_s";
        /// Sequences per second over the last logging interval: the recent speed of the progress line.
        RECENT: SequencesPerSecond = "throughput.recent";
        /// Sequences per second since the start, including the first step and evaluation: the mean of the progress
        /// line.
        CUMULATIVE: SequencesPerSecond = "throughput.cumulative";
        /// `throughput.recent` divided by `throughput.cumulative`.
        RECENT_OVER_CUMULATIVE: One = "throughput.recent_over_cumulative";
        /// Mean time per step of gradient norms and the selection of nodes. On asynchronous devices, requires
        /// `breakdown`.
        TIME_SELECTION: Seconds = "time.selection";
        /// Mean time per step that the host waits for readings of losses and norms.
        TIME_BLOCKED: Seconds = "time.blocked";
        /// Fraction of the training time that the host waits for readings.
        BLOCKED_PART: Fraction = "time.blocked_part";
        /// Time of the last evaluation, after one forward pass that is not timed.
        TIME_EVAL: Seconds = "time.eval";
        /// Mean number of device-to-host readings per step, excluding evaluation.
        READS_PER_STEP: One = "reads.per_step", Deterministic;
        /// Mean number of device-to-host readings per step for the selection of nodes.
        READS_SELECTION: One = "reads.selection", Deterministic;
        /// Fraction of the selected nodes that the other `norm` would also select. Requires `agreement`.
        AGREEMENT: Fraction = "selection.agreement", Deterministic;
        /// Number of steps that were skipped because their gradients were not finite. Requires `precision: mixed_f16`
        /// and `loss_scaling: dynamic`.
        STEPS_SKIPPED: Count = "steps.skipped";
        /// Factor of the loss at the end. Requires `precision: mixed_f16` and `loss_scaling: dynamic`.
        LOSS_SCALE: One = "loss_scale", Deterministic;
        /// Fraction of the gradients' elements that are exactly 0 in the last step. Requires a `precision` other than
        /// `f32`.
        ZERO_GRADIENTS: Fraction = "gradients.zero", Deterministic;
        /// Mean fraction of the parameters that get a gradient in a step: the parameters of the selected nodes, and
        /// the parameters that belong to no node. Skipped steps do not count.
        UPDATED: Fraction = "parameters.updated", Deterministic;
        /// Number of nodes of the network.
        NODES: Count = "nodes";
    }
}

impl TaskSpec for K1 {
    const NAME: &'static str = "k1";
    const ABOUT: &'static str =
        "trains a tree of transformer blocks, updates some of them in each step, and measures the cost";
    const HEADLINE: &'static [&'static str] = &["loss", "throughput.sequences_per_s"];

    const GROUPS: &'static [&'static [Param]] =
        &[K1Model::PARAMS, K1Data::PARAMS, K1Loop::PARAMS, K1Update::PARAMS, K1Optimizer::PARAMS, K1Computing::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] = &[
        LossMetrics::DECLARED,
        LoopMetrics::DECLARED,
        Self::DECLARED,
        &[NetworkMetrics::PARAMETERS, WorkerMetrics::MEMORY_PEAK],
        SampledMetrics::DECLARED,
        FusionMetrics::DECLARED,
    ];

    const CURVES: &'static [&'static str] = &["loss", "val_loss", "sequences_per_s", "mean_sequences_per_s"];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            model: K1Model::from_values(values)?,
            data: K1Data::from_values(values)?,
            training: K1Loop::from_values(values)?,
            update: K1Update::from_values(values)?,
            optimizer: K1Optimizer::from_values(values)?,
            computing: K1Computing::from_values(values)?,
        })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(Self { model, training, update, .. }) = Self::build(values) else { return Vec::new() };
        let mut conflicts = Vec::new();
        let mut conflict = |params: &[&'static str], message: String, advice: String| {
            conflicts.push(Conflict { params: params.to_vec(), message, advice });
        };
        if !model.d_model.is_multiple_of(model.n_head) {
            let message = format!("`d_model: {}` is not a multiple of `n_head: {}`", model.d_model, model.n_head);
            conflict(&["n_head", "d_model"], message, "choose an `n_head` that divides `d_model`".into());
        }
        if model.network == NetworkShape::Blocks && model.branching.is_some_and(|branching| branching != 1) {
            let message = "`network: blocks` has no branches".into();
            conflict(&["branching", "network"], message, "write `network: tree`, or remove `branching`".into());
        }
        let nodes = model.nodes().filter(|nodes| *nodes <= MAX_NODES);
        match nodes {
            None => {
                let [depth, branching] = model.depth_and_branching();
                let message = format!("a tree with `depth: {depth}` and `branching: {branching}` has too many nodes");
                conflict(
                    &["depth", "branching"],
                    message,
                    format!("reduce them; at most {MAX_NODES} nodes are allowed"),
                );
            }
            Some(nodes) if update.update == UpdateRule::TopK && update.top_k > nodes => {
                let message = format!("`top_k: {}` exceeds the number of nodes, {nodes}", update.top_k);
                conflict(&["top_k", "network"], message, "reduce `top_k`, or write `update: all`".into());
            }
            Some(_) => {}
        }
        let chooses = update.update != UpdateRule::All;
        if chooses && update.selection == SelectionWay::Device && update.unchosen == Unchosen::Frozen {
            let message = "with `selection: device`, the host cannot freeze the nodes that are not selected".into();
            let advice = "write `selection: one_read`, or `unchosen: zeroed`".into();
            conflict(&["unchosen", "selection"], message, advice);
        }
        if !chooses && update.agreement {
            let message = "`update: all` selects no nodes, so there is no agreement to measure".into();
            conflict(&["agreement", "update"], message, "remove `agreement`".into());
        }
        let tokens = training.eval_sequences.checked_mul(model.block_size);
        if tokens.is_none_or(|tokens| tokens > MAX_HELD_OUT) {
            let message = format!("an evaluation would use {} x {} tokens", training.eval_sequences, model.block_size);
            let advice = format!("reduce their product to at most {MAX_HELD_OUT}");
            conflict(&["eval_sequences", "block_size"], message, advice);
        }
        conflicts
    }
}

impl K1 {
    /// True for metrics that it declares.
    pub fn measures(metric: &MetricInfo) -> bool {
        Self::METRICS.iter().any(|group| group.contains(metric))
    }

    /// The names of its metrics.
    pub fn metric_names() -> impl Iterator<Item = &'static str> {
        Self::METRICS.iter().copied().flatten().map(|metric| metric.name)
    }
}

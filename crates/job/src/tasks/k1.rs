//! `uses: k1`: the hierarchy of paper 002, a tree of transformer blocks of which a part is updated in each step.
//!
//! Everything that the paper calls a bottleneck is a parameter, so that it can be measured on its own: how often the loss is
//! read, when the causal mask is made, how the nodes to update are found, how large a batch is. Where the original has a
//! defect, the right way is the default and the defect an option.

use std::path::PathBuf;

use super::{Autotune, Computing, DecayOn, Optimizer, Switch, TuningCache};
use crate::{
    Conflict, Group, Kind, MetricInfo, Param, ParamType, Unit, Value, Values,
    params::{choice, params},
};

choice! {
    /// How the nodes are joined.
    pub enum NetworkShape {
        /// A node's output goes to all its children; its result is the mean of theirs.
        Tree = "tree",
        /// One after the other: the paper's baseline.
        Blocks = "blocks",
    }
}

choice! {
    /// What computes attention.
    pub enum AttentionForm {
        /// Scores, mask, softmax and products, one operation after the other.
        Explicit = "explicit",
        /// The backend's own kernel, where it has one and nothing is dropped; on the CPU.
        Fused = "fused",
    }
}

choice! {
    /// When the causal mask is made.
    pub enum CausalMask {
        /// In every forward pass.
        Rebuilt = "rebuilt",
        /// Once.
        Cached = "cached",
    }
}

choice! {
    /// When the host learns a step's loss.
    pub enum LossReads {
        /// In every step, for which it waits.
        EveryStep = "every_step",
        /// Losses are added on the device, and read at log points.
        Accumulated = "accumulated",
    }
}

choice! {
    /// Which token a position predicts.
    pub enum Shift {
        /// The next one.
        One = "one",
        /// The one after the next: targets that are shifted already are shifted once more, as the original does.
        Two = "two",
    }
}

choice! {
    /// Which nodes a step updates.
    pub enum UpdateRule {
        /// All.
        All = "all",
        /// Those with the largest gradients.
        TopK = "top_k",
        /// Those on the way from the root to a leaf that follows the child with the largest gradient.
        Path = "path",
    }
}

choice! {
    /// What becomes of the gradients of the other nodes.
    pub enum Unchosen {
        /// They are left out: weights and moments stay.
        Frozen = "frozen",
        /// They are 0: AdamW's moments and weight decay still move the weights.
        Zeroed = "zeroed",
    }
}

choice! {
    /// The norm of a node's gradients.
    pub enum GradientNorm {
        /// The root of the sum of the squares of all its numbers (the original, before).
        RootOfSquares = "root_of_squares",
        /// The sum of the norms of its tensors (the original, after).
        SumOfNorms = "sum_of_norms",
    }
}

choice! {
    /// What belongs to a node.
    pub enum NormScope {
        /// Its own tensors.
        Own = "own",
        /// Those of its descendants, too; what a parent's gradients are multiplied with, theirs are as well.
        Subtree = "subtree",
    }
}

choice! {
    /// How the nodes are found.
    pub enum SelectionWay {
        /// A number is read for every tensor; the host sorts the nodes.
        ReadsSort = "reads_sort",
        /// A number is read for every tensor; the host puts the nodes on a heap.
        ReadsHeap = "reads_heap",
        /// One vector with a norm for each node is read.
        OneRead = "one_read",
        /// Nothing is read: the device chooses.
        Device = "device",
    }
}

/// What to train on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Words {
    /// Generated tokens.
    Zipf,
    /// A text file.
    Path(PathBuf),
}

impl ParamType for Words {
    const KIND: Kind = Kind::Path(&["zipf"]);

    fn to_value(&self) -> Value {
        match self {
            Self::Zipf => Value::Text("zipf".into()),
            Self::Path(path) => Value::Text(path.to_string_lossy().into_owned()),
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        Some(match value.as_text()? {
            "zipf" => Self::Zipf,
            path => Self::Path(path.into()),
        })
    }
}

params! {
    /// Nodes, each a post-norm transformer block, between a token table and an output layer that all of them share.
    pub struct K1Model {
        /// `tree`: each node's output goes to all its children, and its result is the mean of theirs. `blocks`: one node
        /// after the other, the paper's baseline.
        network: NetworkShape = NetworkShape::Tree;
        /// Nodes from the root to a leaf, both counted; 3 for `tree` and 4 for `blocks` when not given.
        depth: Option<usize> = None, in 1..=64;
        /// Children of a node; 3 when not given. For `tree` only.
        branching: Option<usize> = None, in 1..=16;
        /// Width of the residual stream.
        d_model: usize = 128, in 1..=65_536;
        /// Attention heads.
        n_head: usize = 4, in 1..=1024;
        /// Width of the feed-forward layer.
        d_ff: usize = 256, in 1..=1_048_576;
        /// Rows of the token table and of the output layer.
        vocab_size: usize = 10_000, in 2..=1_000_000;
        /// Tokens in a sequence.
        block_size: usize = 64, in 2..=65_536, unit "tokens";
        /// Probability of dropout on attention weights and on what attention and feed-forward layer add.
        dropout: f64 = 0.1, in 0.0..=0.9;
        /// `explicit` computes scores, mask, softmax and products one after the other; `fused` takes the backend's own kernel
        /// where there is one (on the CPU) and nothing is dropped.
        attention: AttentionForm = AttentionForm::Fused;
        /// Whether the causal mask is made in every forward pass or once. Fused attention needs none.
        causal_mask: CausalMask = CausalMask::Cached;
    }
}

params! {
    /// Words as tokens. The last tenth is held out; it is never trained on.
    pub struct K1Data {
        /// `zipf` (generated tokens, see the next three), or a UTF-8 file: lower-cased words between white space, the most
        /// frequent of which are tokens and the rest one token together.
        data: Words = Words::Zipf;
        /// Generated tokens.
        zipf_tokens: usize = 2_000_000, in 1..=1_000_000_000, unit "tokens";
        /// How fast their frequency falls: the token of rank `r` is drawn with a probability proportional to `r` to the minus
        /// this.
        zipf_exponent: f64 = 1.1, in 0.0..=10.0;
        /// The part of the tokens that follow from the one before, each token having one successor: what can be learnt.
        markov: f64 = 0.5, in 0.0..=1.0;
    }
}

params! {
    /// The loop: how long, how much at a time, how often to look.
    pub struct K1Loop {
        /// Optimizer steps.
        iters: usize = 500, in 1..=100_000_000, unit "iterations";
        /// Sequences in a step.
        batch_size: usize = 256, in 1..=1_000_000, unit "sequences";
        /// Seed of the weights, of the order of the data and of dropout; each has its own stream. The generated tokens are the
        /// same for every seed.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// Iterations between two lines of progress.
        log_every: usize = 500, in 1..=100_000_000, unit "iterations";
        /// Whether the host reads the loss in every step, or at log points the sum that the device has kept.
        loss_reads: LossReads = LossReads::Accumulated;
        /// Which token is predicted: the next, or as in the original, whose targets are shifted twice, the one after.
        shift: Shift = Shift::One;
        /// Iterations between two evaluations on held-out tokens; 0 evaluates at the end only.
        eval_every: usize = 0, in 0..=100_000_000, unit "iterations";
        /// Sequences in one forward pass of an evaluation.
        eval_batch_size: usize = 256, in 1..=1_000_000, unit "sequences";
        /// Held-out sequences in one evaluation, spread evenly; the same for every seed and every `eval_batch_size`.
        eval_sequences: usize = 512, in 1..=10_000_000, unit "sequences";
        /// Whether to measure where the time of the steps goes, as `time.forward` and so on. This waits for the device after
        /// every part, so it makes steps slower where the device works on its own.
        breakdown: bool = false;
    }
}

params! {
    /// Which nodes a step updates, and how they are found.
    pub struct K1Update {
        /// `all` nodes; those with the `top_k` largest gradients; or those on the `path` from the root along the largest
        /// gradients, the leaf's gradients whole, its parent's times 0.15, those above times 0.05.
        update: UpdateRule = UpdateRule::TopK;
        /// Nodes that `update: top_k` updates.
        top_k: usize = 5, in 1..=4096, unit "nodes";
        /// What becomes of the other nodes' gradients: with `zeroed` moments and weight decay still move the weights.
        unchosen: Unchosen = Unchosen::Zeroed;
        /// The norm of a node's gradients: the root of the sum of all squares, or the sum of its tensors' norms.
        norm: GradientNorm = GradientNorm::RootOfSquares;
        /// Whether a node's gradients are those of its own tensors, or of its descendants', too.
        scope: NormScope = NormScope::Own;
        /// How the nodes are found: by reading a number for every tensor and sorting or with a heap, by reading one vector,
        /// or on the device, without reading.
        selection: SelectionWay = SelectionWay::Device;
        /// Whether to measure in every step what part of the chosen nodes the other `norm` would have chosen, too.
        agreement: bool = false;
    }
}

params! {
    /// AdamW with a constant learning rate.
    pub struct K1Optimizer {
        /// Learning rate.
        lr: f64 = 1e-3, in 0.0..=10.0;
        /// Decay of the first moment.
        beta_1: f64 = 0.9, in 0.0..=0.999_999;
        /// Decay of the second moment.
        beta_2: f64 = 0.999, in 0.0..=0.999_999_9;
        /// Added to the root of the second moment.
        epsilon: f64 = 1e-8, in 0.0..=1.0;
        /// Decoupled weight decay, of every tensor.
        weight_decay: f64 = 0.01, in 0.0..=10.0;
        /// Largest global L2 norm of the gradients, before nodes are chosen; 0 does not clip.
        grad_clip: f64 = 1.0, in 0.0..=1e9;
    }
}

params! {
    /// How it computes.
    pub struct K1Computing {
        /// Whether operations are fused to kernels that are compiled at run time. The CPU backend compiles no kernels, so
        /// that there both words compute the same.
        fusion: Switch = Switch::Off;
        /// How many kernels are timed to choose one; Burn cannot do without timing some. The CPU backend has no choice.
        autotune: Autotune = Autotune::Balanced;
        /// Whether a job begins with what earlier ones have found out about kernels, or finds it all out again.
        autotune_cache: TuningCache = TuningCache::Warm;
        /// Batches that a thread of its own prepares ahead; 0 prepares each when it is needed.
        prefetch: usize = 0, in 0..=1024, unit "batches";
    }
}

/// Trains a tree of transformer blocks, of which a part is updated in each step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct K1 {
    /// The network.
    pub model: K1Model,
    /// The tokens.
    pub data: K1Data,
    /// The loop.
    pub training: K1Loop,
    /// Which nodes are updated.
    pub update: K1Update,
    /// The optimizer.
    pub optimizer: K1Optimizer,
    /// How it computes.
    pub computing: K1Computing,
}

/// Most nodes of a network.
const MOST_NODES: usize = 4096;
/// Held-out tokens that one evaluation may use; all of them are in memory at once.
const MOST_HELD_OUT: usize = 1 << 30;

impl K1Model {
    /// Nodes from the root to a leaf, and children of a node: blocks in a row are a tree of single children.
    pub fn depth_and_branching(&self) -> [usize; 2] {
        match self.network {
            NetworkShape::Tree => [self.depth.unwrap_or(3), self.branching.unwrap_or(3)],
            NetworkShape::Blocks => [self.depth.unwrap_or(4), 1],
        }
    }

    /// All nodes; `None` if there are more than can be counted.
    pub fn nodes(&self) -> Option<usize> {
        let [depth, branching] = self.depth_and_branching();
        (0..depth)
            .try_fold((0_usize, 1_usize), |(sum, level), _| {
                Some((sum.checked_add(level)?, level.checked_mul(branching)?))
            })
            .map(|(sum, _)| sum)
    }
}

impl K1Optimizer {
    /// As the settings of any training.
    pub fn settings(&self) -> Optimizer {
        let Self { lr, beta_1, beta_2, epsilon, weight_decay, grad_clip } = *self;
        let decay_on = DecayOn::All;
        Optimizer { lr, beta_1, beta_2, epsilon, weight_decay, decay_on, grad_clip, ..Optimizer::default() }
    }
}

impl K1Computing {
    /// As the settings of any training.
    pub fn settings(&self) -> Computing {
        let Self { fusion, autotune, autotune_cache, prefetch } = *self;
        Computing { fusion, autotune, autotune_cache, prefetch, ..Computing::default() }
    }
}

impl K1 {
    pub(crate) const GROUPS: &'static [&'static [Param]] =
        &[K1Model::PARAMS, K1Data::PARAMS, K1Loop::PARAMS, K1Update::PARAMS, K1Optimizer::PARAMS, K1Computing::PARAMS];

    pub(crate) const METRICS: &'static [MetricInfo] = &[
        MetricInfo { name: "loss", unit: Unit::Nats, doc: "mean cross-entropy on the held-out tokens at the end" },
        MetricInfo { name: "perplexity", unit: Unit::One, doc: "exp(loss)" },
        MetricInfo { name: "train_loss", unit: Unit::Nats, doc: "mean training loss since the last but one log point" },
        MetricInfo {
            name: "throughput.sequences_per_s",
            unit: Unit::SequencesPerSecond,
            doc: "trained sequences over the time of the training steps, evaluation and the first two steps left out (the first alone where there are no more than two)",
        },
        MetricInfo {
            name: "throughput.steps_per_s",
            unit: Unit::StepsPerSecond,
            doc: "the same in steps, which says little where batches differ",
        },
        MetricInfo {
            name: "throughput.recent",
            unit: Unit::SequencesPerSecond,
            doc: "sequences a second since the last but one log point: the recent speed of the progress line",
        },
        MetricInfo {
            name: "throughput.cumulative",
            unit: Unit::SequencesPerSecond,
            doc: "sequences a second since the start, the first step and evaluations included: the mean of the progress line",
        },
        MetricInfo {
            name: "throughput.recent_over_cumulative",
            unit: Unit::One,
            doc: "the recent speed of the last progress line over its mean",
        },
        MetricInfo { name: "time.step", unit: Unit::Seconds, doc: "median time of an optimizer step" },
        MetricInfo {
            name: "time.step.p5",
            unit: Unit::Seconds,
            doc: "time below which 5 % of the steps lie; where the device works on its own, of means between readings",
        },
        MetricInfo { name: "time.step.p95", unit: Unit::Seconds, doc: "time below which 95 % of them lie" },
        MetricInfo {
            name: "time.first_step",
            unit: Unit::Seconds,
            doc: "time of the first step, which compiles kernels, chooses among them and fills caches",
        },
        MetricInfo {
            name: "time.selection",
            unit: Unit::Seconds,
            doc: "mean time that a step spends on norms and on choosing nodes; where the device works on its own, with `breakdown` only",
        },
        MetricInfo {
            name: "time.blocked",
            unit: Unit::Seconds,
            doc: "mean time that a step's host waits in readings of losses and norms",
        },
        MetricInfo {
            name: "time.blocked_part",
            unit: Unit::Fraction,
            doc: "the part of the time of the training steps that the host waits so",
        },
        MetricInfo {
            name: "time.data",
            unit: Unit::Seconds,
            doc: "mean time that a step waits for its batch; with `breakdown` only, like the next three",
        },
        MetricInfo { name: "time.forward", unit: Unit::Seconds, doc: "mean time of a step's forward pass" },
        MetricInfo { name: "time.backward", unit: Unit::Seconds, doc: "mean time of a step's backward pass" },
        MetricInfo {
            name: "time.optimizer",
            unit: Unit::Seconds,
            doc: "mean time that a step spends on clipping and on the optimizer",
        },
        MetricInfo {
            name: "time.eval",
            unit: Unit::Seconds,
            doc: "time of the last evaluation, one forward pass before it that is not timed",
        },
        MetricInfo { name: "time.train", unit: Unit::Seconds, doc: "time of the whole loop, evaluation included" },
        MetricInfo {
            name: "reads.per_step",
            unit: Unit::One,
            doc: "readings from the device in a step, on average, those of evaluations left out",
        },
        MetricInfo { name: "reads.selection", unit: Unit::One, doc: "those of them that choose nodes" },
        MetricInfo {
            name: "selection.agreement",
            unit: Unit::Fraction,
            doc: "part of the chosen nodes that the other norm would have chosen, too; with `agreement` only",
        },
        MetricInfo { name: "parameters", unit: Unit::Count, doc: "trained numbers" },
        MetricInfo {
            name: "parameters.updated",
            unit: Unit::Fraction,
            doc: "the part of them with a gradient in a step, on average: those of the chosen nodes, and all that belong to no node",
        },
        MetricInfo { name: "nodes", unit: Unit::Count, doc: "nodes of the network" },
        MetricInfo { name: "memory.peak", unit: Unit::Bytes, doc: "largest resident memory of the worker process" },
        MetricInfo {
            name: "memory.mean",
            unit: Unit::Bytes,
            doc: "mean resident memory of the worker process, looked at ten times a second while it trains",
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
    ];

    pub(crate) const CURVES: &'static [&'static str] = &["loss", "val_loss", "sequences_per_s", "mean_sequences_per_s"];

    pub(crate) fn from_values(values: &Values) -> Option<Self> {
        Some(Self {
            model: K1Model::from_values(values)?,
            data: K1Data::from_values(values)?,
            training: K1Loop::from_values(values)?,
            update: K1Update::from_values(values)?,
            optimizer: K1Optimizer::from_values(values)?,
            computing: K1Computing::from_values(values)?,
        })
    }

    /// The metrics that it may measure.
    pub fn metric_names() -> impl Iterator<Item = &'static str> {
        Self::METRICS.iter().map(|metric| metric.name)
    }

    pub(crate) fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(Self { model, training, update, .. }) = Self::from_values(values) else { return Vec::new() };
        let mut conflicts = Vec::new();
        let mut conflict = |params: &[&'static str], message: String, advice: String| {
            conflicts.push(Conflict { params: params.to_vec(), message, advice });
        };
        if !model.d_model.is_multiple_of(model.n_head) {
            let message = format!("`d_model: {}` cannot be shared by {} heads", model.d_model, model.n_head);
            conflict(&["n_head", "d_model"], message, "choose a number of heads that divides `d_model`".into());
        }
        if model.network == NetworkShape::Blocks && model.branching.is_some_and(|branching| branching != 1) {
            let message = "blocks in a row have no branches".into();
            conflict(&["branching", "network"], message, "choose `network: tree`, or leave `branching` out".into());
        }
        let nodes = model.nodes().filter(|nodes| *nodes <= MOST_NODES);
        match nodes {
            None => {
                let [depth, branching] = model.depth_and_branching();
                let message = format!("a tree of depth {depth} with {branching} children has too many nodes");
                conflict(&["depth", "branching"], message, format!("keep it at {MOST_NODES} nodes or fewer"));
            }
            Some(nodes) if update.update == UpdateRule::TopK && update.top_k > nodes => {
                let message = format!("`top_k: {}` is more than the {nodes} nodes that there are", update.top_k);
                conflict(&["top_k", "network"], message, "lower it, or choose `update: all`".into());
            }
            Some(_) => {}
        }
        let chooses = update.update != UpdateRule::All;
        if chooses && update.selection == SelectionWay::Device && update.unchosen == Unchosen::Frozen {
            let message =
                "the host leaves the gradients of other nodes out, and does not know which the device chose".into();
            let advice = "choose `selection: one_read`, or `unchosen: zeroed`".into();
            conflict(&["unchosen", "selection"], message, advice);
        }
        if !chooses && update.agreement {
            let message = "`update: all` chooses no nodes, so norms cannot agree on them".into();
            conflict(&["agreement", "update"], message, "leave `agreement` out".into());
        }
        let tokens = training.eval_sequences.checked_mul(model.block_size);
        if tokens.is_none_or(|tokens| tokens > MOST_HELD_OUT) {
            let message =
                format!("one evaluation would need {} x {} tokens", training.eval_sequences, model.block_size);
            let advice = format!("keep their product at or below {MOST_HELD_OUT}");
            conflict(&["eval_sequences", "block_size"], message, advice);
        }
        conflicts
    }
}

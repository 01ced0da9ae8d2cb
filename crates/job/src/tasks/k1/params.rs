//! The parameters of `k1`.

use std::path::PathBuf;

use crate::{
    Kind, ParamType, Value,
    params::{choice, params},
    tasks::{Autotune, Computing, DecayOn, Optimizer, Switch, TuningCache},
};

choice! {
    /// Connections between nodes.
    pub enum NetworkShape {
        /// A tree: a node passes its output to all its children, and returns the mean of their results.
        Tree = "tree",
        /// A sequence of nodes: the paper's baseline.
        Blocks = "blocks",
    }
}

choice! {
    /// Implementation of attention.
    pub enum AttentionForm {
        /// Scores, mask, softmax and products as separate operations.
        Explicit = "explicit",
        /// The backend's fused kernel, if it has one and dropout is off; CPU only.
        Kernel = "fused",
    }
}

choice! {
    /// Construction of the causal mask.
    pub enum CausalMask {
        /// In every forward pass.
        Rebuilt = "rebuilt",
        /// Once.
        Cached = "cached",
    }
}

choice! {
    /// Frequency of loss readings by the host.
    pub enum LossReads {
        /// In every step, waiting for the device.
        EveryStep = "every_step",
        /// At log points; the device accumulates the losses in between.
        Accumulated = "accumulated",
    }
}

choice! {
    /// The token that a position predicts.
    pub enum Shift {
        /// The next one.
        One = "one",
        /// The token after the next: shifted targets are shifted once more, as in the original.
        Two = "two",
    }
}

choice! {
    /// The nodes that a step updates.
    pub enum UpdateRule {
        /// All nodes.
        All = "all",
        /// The nodes with the largest gradient norms.
        TopK = "top_k",
        /// The nodes on a path from the root to a leaf that follows the child with the largest gradient norm.
        Path = "path",
    }
}

choice! {
    /// Treatment of the nodes that are not selected.
    pub enum Unchosen {
        /// They are skipped: weights and moments do not change.
        Frozen = "frozen",
        /// Their gradients are set to 0: AdamW's moments and weight decay still change the weights.
        Zeroed = "zeroed",
    }
}

choice! {
    /// Definition of a node's gradient norm.
    pub enum GradientNorm {
        /// The L2 norm over all elements (the original, before).
        RootOfSquares = "root_of_squares",
        /// The sum of the L2 norms of its tensors (the original, after).
        SumOfNorms = "sum_of_norms",
    }
}

choice! {
    /// The tensors that belong to a node.
    pub enum NormScope {
        /// Its own tensors.
        Own = "own",
        /// Its own tensors and those of its descendants. Factors on a node's gradients also apply to its descendants.
        Subtree = "subtree",
    }
}

choice! {
    /// Method to select nodes.
    pub enum SelectionWay {
        /// The host reads one number per tensor and sorts the nodes.
        ReadsSort = "reads_sort",
        /// The host reads one number per tensor and uses a heap.
        ReadsHeap = "reads_heap",
        /// The host reads one vector with the norms of all nodes.
        OneRead = "one_read",
        /// The device selects the nodes; the host reads nothing.
        Device = "device",
    }
}

choice! {
    /// Number formats of a training. Weights, moments, the loss and the optimizer's gradients are in single precision.
    pub enum K1Precision {
        /// Single precision.
        F32 = "f32",
        /// Matrix products and attention in half precision, forward and backward, with scaling of the loss: the
        /// original's autocast and `GradScaler`.
        MixedF16 = "mixed_f16",
        /// Matrix products and attention in bfloat16, whose range needs no scaling. On the CPU attention is in single
        /// precision.
        MixedBf16 = "mixed_bf16",
    }
}

choice! {
    /// Scaling of the loss with `precision: mixed_f16`.
    pub enum LossScaling {
        /// By a factor that halves when gradients are not finite, and doubles after a number of steps with finite
        /// gradients.
        Dynamic = "dynamic",
        /// None: small gradients become 0, and steps whose gradients are not finite are made.
        Off = "off",
    }
}

/// The source of the training data.
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
    /// Nodes, each a post-norm transformer block, between a shared token embedding and a shared output layer.
    pub struct K1Model {
        /// Connections between nodes. `tree`: a node passes its output to all its children and returns the mean of
        /// their results. `blocks`: a sequence of nodes, the paper's baseline.
        network: NetworkShape = NetworkShape::Tree;
        /// Number of nodes from the root to a leaf, inclusive; by default 3 for `tree` and 4 for `blocks`.
        depth: Option<usize> = None, in 1..=64;
        /// Number of children of a node; by default 3. For `tree` only.
        branching: Option<usize> = None, in 1..=16;
        /// Width of the residual stream.
        d_model: usize = 128, in 1..=65_536;
        /// Number of attention heads; must divide `d_model`.
        n_head: usize = 4, in 1..=1024;
        /// Hidden width of the feed-forward layer.
        d_ff: usize = 256, in 1..=1_048_576;
        /// Vocabulary size: rows of the token embedding and of the output layer.
        vocab_size: usize = 10_000, in 2..=1_000_000;
        /// Tokens per sequence.
        block_size: usize = 64, in 2..=65_536, unit "tokens";
        /// Dropout probability on the attention weights and on the outputs of attention and feed-forward layer.
        dropout: f64 = 0.1, in 0.0..=0.9;
        /// Implementation of attention. `explicit` computes scores, mask, softmax and products as separate operations.
        /// `fused` uses the backend's fused kernel if it has one (CPU only) and dropout is off.
        attention: AttentionForm = AttentionForm::Kernel;
        /// Construction of the causal mask: in every forward pass, or once. Fused attention needs no mask.
        causal_mask: CausalMask = CausalMask::Cached;
    }
}

params! {
    /// Words as tokens. The last tenth is held out and never used for training.
    pub struct K1Data {
        /// Source of the tokens: `zipf` for generated tokens (see the next three parameters), or the path of a UTF-8
        /// file. A file is split at white space into lower-case words. The most frequent words are tokens; all others
        /// share one token.
        data: Words = Words::Zipf;
        /// Number of generated tokens.
        zipf_tokens: usize = 2_000_000, in 1..=1_000_000_000, unit "tokens";
        /// Exponent `s` of the Zipf distribution: the token of rank `r` has a probability proportional to `r^-s`.
        zipf_exponent: f64 = 1.1, in 0.0..=10.0;
        /// Fraction of the tokens that are determined by the previous token, since each token has one fixed successor.
        /// This is the learnable part of the data.
        markov: f64 = 0.5, in 0.0..=1.0;
    }
}

params! {
    /// The training loop: length, batches, logging and evaluation.
    pub struct K1Loop {
        /// Optimizer steps.
        iters: usize = 500, in 1..=100_000_000, unit "iterations";
        /// Sequences per step.
        batch_size: usize = 256, in 1..=1_000_000, unit "sequences";
        /// Seed of weights, data order and dropout, which use separate random streams. Generated tokens are the same
        /// for every seed.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// Iterations between two log points, which print a progress line.
        log_every: usize = 500, in 1..=100_000_000, unit "iterations";
        /// Frequency of loss readings: in every step, or at log points as a sum that the device accumulates.
        loss_reads: LossReads = LossReads::Accumulated;
        /// Token to predict: the next token, or the token after it, as in the original, which shifts targets twice.
        shift: Shift = Shift::One;
        /// Iterations between two evaluations on held-out tokens; 0 evaluates only at the end.
        eval_every: usize = 0, in 0..=100_000_000, unit "iterations";
        /// Sequences per forward pass of an evaluation.
        eval_batch_size: usize = 256, in 1..=1_000_000, unit "sequences";
        /// Sequences per evaluation, spread evenly over the held-out tokens; the same for every seed and
        /// `eval_batch_size`.
        eval_sequences: usize = 512, in 1..=10_000_000, unit "sequences";
        /// Measure the time of the parts of a step, such as `time.forward`. Synchronizes with the device after every
        /// part, which slows down asynchronous devices.
        breakdown: bool = false;
    }
}

params! {
    /// The nodes that a step updates, and their selection.
    pub struct K1Update {
        /// Nodes to update: `all`, those with the `top_k` largest gradient norms, or those on the `path` from the root
        /// along the largest gradient norms. With `path`, gradients are multiplied by 1 for the leaf, 0.15 for its
        /// parent and 0.05 for the nodes above.
        update: UpdateRule = UpdateRule::TopK;
        /// Number of nodes that `update: top_k` updates.
        top_k: usize = 5, in 1..=4096, unit "nodes";
        /// Treatment of the other nodes. `frozen` skips them; `zeroed` sets their gradients to 0, so that moments and
        /// weight decay still change their weights.
        unchosen: Unchosen = Unchosen::Zeroed;
        /// Gradient norm of a node: the L2 norm over all its elements, or the sum of the L2 norms of its tensors.
        norm: GradientNorm = GradientNorm::RootOfSquares;
        /// Tensors that belong to a node: its own, or also those of its descendants.
        scope: NormScope = NormScope::Own;
        /// Method to select nodes. `reads_sort` and `reads_heap` read one number per tensor and sort or use a heap;
        /// `one_read` reads one vector; `device` selects on the device and reads nothing.
        selection: SelectionWay = SelectionWay::Device;
        /// Measure in every step the fraction of the selected nodes that the other `norm` would also select.
        agreement: bool = false;
    }
}

params! {
    /// AdamW with a constant learning rate.
    pub struct K1Optimizer {
        /// Learning rate.
        lr: f64 = 1e-3, in 0.0..=10.0;
        /// Decay rate of the first moment.
        beta_1: f64 = 0.9, in 0.0..=0.999_999;
        /// Decay rate of the second moment.
        beta_2: f64 = 0.999, in 0.0..=0.999_999_9;
        /// Term added to the square root of the second moment.
        epsilon: f64 = 1e-8, in 0.0..=1.0;
        /// Decoupled weight decay, applied to every tensor.
        weight_decay: f64 = 0.01, in 0.0..=10.0;
        /// Maximum global L2 norm of the gradients, applied before nodes are selected; 0 disables clipping.
        grad_clip: f64 = 1.0, in 0.0..=1e9;
    }
}

params! {
    /// Computing options.
    pub struct K1Computing {
        /// Fuse operations into kernels that are compiled at run time. No effect on the CPU backend, which compiles no
        /// kernels.
        fusion: Switch = Switch::Off;
        /// Number of candidate kernels that are timed for each operation. No effect on the CPU backend.
        autotune: Autotune = Autotune::Balanced;
        /// Autotuning results at the start: `warm` reuses those of earlier jobs on this machine, `cold` starts without
        /// any.
        autotune_cache: TuningCache = TuningCache::Warm;
        /// Batches that a separate thread prepares in advance; 0 prepares each batch when it is needed.
        prefetch: usize = 0, in 0..=1024, unit "batches";
        /// Copy batches to the device from pinned memory, as PyTorch's `pin_memory`. No effect on backends that have
        /// none, among them the CPU.
        pinned: bool = false;
        /// Format of matrix products and attention. The rest is in single precision, evaluations entirely.
        precision: K1Precision = K1Precision::F32;
        /// Scaling of the loss with `precision: mixed_f16`. `dynamic` skips steps whose gradients are not finite, and
        /// reads one number in every step to detect them.
        loss_scaling: LossScaling = LossScaling::Dynamic;
        /// First factor of the loss with `loss_scaling: dynamic`.
        loss_scale: f64 = 65_536.0, in 0.001..=1e30;
        /// Consecutive steps with finite gradients after which the factor of the loss doubles.
        loss_scale_interval: usize = 2000, in 1..=100_000_000, unit "iterations";
    }
}

impl K1Model {
    /// Number of nodes from the root to a leaf, and number of children of a node; 1 child for `blocks`.
    pub fn depth_and_branching(&self) -> [usize; 2] {
        match self.network {
            NetworkShape::Tree => [self.depth.unwrap_or(3), self.branching.unwrap_or(3)],
            NetworkShape::Blocks => [self.depth.unwrap_or(4), 1],
        }
    }

    /// Number of nodes; `None` on overflow.
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
    /// The same, as settings of any training.
    pub fn settings(&self) -> Optimizer {
        let Self { lr, beta_1, beta_2, epsilon, weight_decay, grad_clip } = *self;
        let decay_on = DecayOn::All;
        Optimizer { lr, beta_1, beta_2, epsilon, weight_decay, decay_on, grad_clip, ..Optimizer::default() }
    }
}

impl K1Computing {
    /// True if the loss is multiplied by a factor that adapts.
    pub fn scales_loss(&self) -> bool {
        self.precision == K1Precision::MixedF16 && self.loss_scaling == LossScaling::Dynamic
    }

    /// The same, as settings of any training.
    pub fn settings(&self) -> Computing {
        let Self { fusion, autotune, autotune_cache, prefetch, .. } = *self;
        Computing { fusion: fusion.into(), autotune, autotune_cache, prefetch, ..Computing::default() }
    }
}

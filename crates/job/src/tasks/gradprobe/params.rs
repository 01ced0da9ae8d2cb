//! The parameters of `gradprobe`.

use crate::{
    Path,
    params::{choice, params},
    tasks::{Checkpointing, Computing, Precision},
};

choice! {
    /// The network to prune.
    pub enum Subject {
        /// The language model that `model`, `init` and related parameters describe, on the tokens of `data`.
        Gpt = "gpt",
        /// An MLP classifier with layers 100-128-64-10, which the job first trains on 1000 random points (GradProbe's
        /// `SimpleMLP`).
        Mlp = "mlp",
    }
}

choice! {
    /// The tensors that are shrunk at the same time (paper 003).
    pub enum ProbeMode {
        /// All tensors, with two passes per batch.
        Simultaneous = "simultaneous",
        /// One tensor at a time, from first to last, with candidates selected once. Weights that are pruned stay pruned
        /// while later tensors are probed.
        Streaming = "streaming",
        /// Like `streaming`, but in `order`, and with candidates selected again before each tensor.
        LayerWise = "layer_wise",
        /// Rounds of `round_mode` with sparsity increasing by `step`, until the quality has changed by more than
        /// `limit`.
        Iterative = "iterative",
    }
}

choice! {
    /// The procedure of a round of `mode: iterative`.
    pub enum RoundMode {
        /// All tensors at the same time.
        Simultaneous = "simultaneous",
        /// One tensor at a time.
        LayerWise = "layer_wise",
    }
}

choice! {
    /// The order in which tensors are visited.
    pub enum ProbeOrder {
        /// From the last to the first.
        Reverse = "reverse",
        /// By size, largest first.
        Size = "size",
        /// From the first to the last.
        Forward = "forward",
    }
}

choice! {
    /// The score of a weight. The weights with the smallest scores are candidates.
    pub enum Strategy {
        /// `|w|`.
        Magnitude = "magnitude",
        /// `|w|` times the L2 norm of the weight's input over all rows of a batch, maximum over batches. Embedding
        /// tables have no input; their norm is 1.
        Wanda = "wanda",
    }
}

choice! {
    /// A method to find the threshold: the largest score of a candidate.
    pub enum ProbeThreshold {
        /// Selection of the k-th smallest among all scores, concatenated: GradProbe's original.
        Exact = "exact",
        /// The same score, in one pass over the weights with almost no memory.
        Bracket = "bracket",
        /// An estimate by histograms and bisection: GradProbe's default.
        Streaming = "streaming",
    }
}

choice! {
    /// The weights that share a threshold.
    pub enum ThresholdScope {
        /// All prunable weights.
        Global = "global",
        /// The weights of a tensor.
        Tensor = "tensor",
    }
}

choice! {
    /// The source of gradients when tensors are visited one at a time.
    pub enum GradientSource {
        /// A backward pass that tracks only one tensor and ends there.
        Freeze = "freeze",
        /// A full backward pass, of which one gradient is kept.
        Extract = "extract",
        /// Reference gradients of all tensors from one full pass at the start, and probe gradients as with `freeze`.
        /// Reference gradients do not reflect earlier pruning.
        Amortized = "amortised",
    }
}

choice! {
    /// The search for another tolerance when a round of `mode: iterative` exceeds the limit.
    pub enum Tuning {
        /// No search.
        None = "none",
        /// Repeats the decisions of the round with its gradients.
        OneStep = "one_step",
        /// Repeats the previous round and this one.
        TwoStep = "two_step",
    }
}

choice! {
    /// The data on which `limit` is judged.
    pub enum Judge {
        /// The calibration batches, as in GradProbe.
        InSample = "in_sample",
        /// Held-out data.
        HeldOut = "held_out",
    }
}

choice! {
    /// A format for stored numbers.
    pub enum Storage {
        /// Single precision.
        F32 = "f32",
        /// Half precision; values below 6e-8 become 0.
        F16 = "f16",
        /// bfloat16.
        Bf16 = "bf16",
    }
}

params! {
    /// Shrinks candidates, compares their gradients before and after, and prunes those whose gradient does not grow.
    pub struct Probing {
        /// Network to prune: a language model, or a small classifier that the job trains first.
        network: Subject = Subject::Gpt;
        /// Tensors that are shrunk at the same time: `simultaneous` shrinks all, `streaming` and `layer_wise` one at a
        /// time; `iterative` runs rounds of `round_mode` with increasing sparsity.
        mode: ProbeMode = ProbeMode::Simultaneous;
        /// Procedure of a round of `mode: iterative`.
        round_mode: RoundMode = RoundMode::Simultaneous;
        /// Order in which `layer_wise` visits tensors.
        order: ProbeOrder = ProbeOrder::Reverse;
        /// Score of a weight: its magnitude, or its magnitude times the norm of its input.
        strategy: Strategy = Strategy::Magnitude;
        /// Method to find the threshold, the largest score of a candidate. `exact` and `bracket` give the same
        /// threshold.
        threshold: ProbeThreshold = ProbeThreshold::Streaming;
        /// Weights that share a threshold: all of them, or those of each tensor.
        scope: ThresholdScope = ThresholdScope::Global;
        /// Fraction of the prunable weights that are candidates; with `mode: iterative`, in the first round.
        sparsity: f64 = 0.5, in 0.0..=1.0;
        /// Increase of `sparsity` from round to round.
        step: f64 = 0.1, in 1e-6..=1.0;
        /// Maximum increase of perplexity, or maximum decrease of accuracy as a fraction, before the rounds end.
        limit: f64 = 3.0, in 0.0..=1e9;
        /// Data on which `limit` is judged.
        judge: Judge = Judge::InSample;
        /// Search for another tolerance when a round exceeds the limit.
        tuning: Tuning = Tuning::None;
        /// Maximum number of tolerances to try, after the first two.
        tuning_steps: usize = 20, in 0..=1000;
        /// Factor by which candidates are shrunk.
        reduction: f64 = 0.1, in 0.0..=1.0;
        /// Maximum relative growth of the gradient of a candidate that is pruned.
        tolerance: f64 = 0.0, in 0.0..=1e30;
        /// Number of calibration batches, drawn once. The largest gradient over them counts.
        num_batches: usize = 1, in 1..=1_000_000;
        /// Sequences, or points, per forward and backward pass.
        batch_size: usize = 1, in 1..=1_000_000;
        /// Forward and backward passes per calibration batch, each with `batch_size` sequences. Their gradients are
        /// averaged before the largest is taken, as in one pass with all of these sequences.
        grad_accumulation: usize = 1, in 1..=1_000_000;
        /// Number of calibration batches for the norms of `wanda`; by default `num_batches`.
        norm_batches: Option<usize> = None, in 1..=1_000_000;
        /// Format of stored gradients. They are computed and compared in single precision.
        grad_storage: Storage = Storage::F32;
        /// Format of the weights that are stored while their tensor is probed, and restored afterwards.
        weight_storage: Storage = Storage::F32;
        /// Source of gradients when tensors are visited one at a time. No effect with `mode: simultaneous`.
        gradients: GradientSource = GradientSource::Freeze;
        /// Number of tensors that are probed together when tensors are visited one at a time. Their candidates are
        /// selected and shrunk at the same time, and a pass gives the gradients of all of them. No effect with `mode:
        /// simultaneous`.
        parallel: usize = 1, in 1..=1_000_000;
        /// Activation checkpointing: the activations that the backward pass recomputes; see `train`.
        checkpointing: Checkpointing = Checkpointing::Off;
        /// Format of activations and gradients in the passes; see `train`. Weights, stored gradients and evaluations do
        /// not depend on it. With `f16`, the loss is scaled, and a pass whose gradients overflow is repeated.
        precision: Precision = Precision::F32;
        /// Name of the only tensor to prune, such as `h.0.mlp.c_fc.weight`.
        only: Option<String> = None;
        /// Include the token and position embeddings in the prunable weights. The token embedding is also the output
        /// layer.
        prune_tables: bool = true;
        /// Also measure two baselines without gradients: all candidates pruned, and the smallest scores pruned to the
        /// same sparsity.
        baseline: bool = true;
        /// Batches of held-out tokens per evaluation.
        eval_batches: usize = 16, in 1..=1_000_000;
        /// Sequences per batch of an evaluation.
        eval_batch_size: usize = 8, in 1..=1_000_000, unit "sequences";
        /// Epochs of the classifier's training at learning rate 1e-3; the same number follows at 1e-4.
        epochs: usize = 100, in 1..=1_000_000;
        /// Epochs of fine-tuning the classifier after pruning, with masked gradients.
        tune_epochs: usize = 0, in 0..=1_000_000;
        /// Seed of weights, the classifier's data and calibration batches.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// Keep the pruned network as the artifact `checkpoint`, in the layout of the Hugging Face Hub.
        save: bool = false;
        /// Keep the masks as the artifact `masks`: a safetensors file with 1 for each pruned weight.
        save_masks: bool = false;
        /// Keep a timeline of the first 200 visits as the artifact `trace`, in the trace-event JSON format that
        /// Perfetto reads. A visit concerns one tensor, or the tensors that are probed together; with `mode:
        /// simultaneous`, a visit is a pass.
        trace: bool = false;
        /// Artifact `masks` of another job, for the metric `agreement`.
        against: Option<Path> = None;
    }
}

impl Probing {
    /// Computing options of its passes.
    pub fn computing(&self) -> Computing {
        Computing { checkpointing: self.checkpointing, precision: self.precision, ..Computing::default() }
    }
}

//! `uses: gradprobe`.

use super::{Architecture, Checkpointing, Data, Model, data::held_out_conflict};
use crate::{
    Conflict, Group, MetricInfo, Param, Path, Unit, Value, Values,
    params::{choice, params},
};

choice! {
    /// What is pruned.
    pub enum Subject {
        /// The network that `model`, `init` and their like describe, on the tokens of `data`.
        Gpt = "gpt",
        /// A classifier 100-128-64-10 that the job trains first, on 1000 random points (GradProbe's `SimpleMLP`).
        Mlp = "mlp",
    }
}

choice! {
    /// What is shrunk at once (paper 003).
    pub enum ProbeMode {
        /// All tensors: two passes for each batch.
        Simultaneous = "simultaneous",
        /// One tensor after the other, from the first to the last; candidates are chosen once. What is pruned of a tensor
        /// stays pruned while later ones are probed.
        Streaming = "streaming",
        /// As `streaming`, in `order`, and candidates are chosen again before every tensor.
        LayerWise = "layer_wise",
        /// Rounds of `round_mode` with a sparsity that grows by `step`, until the metric has changed by more than `limit`.
        Iterative = "iterative",
    }
}

choice! {
    /// What a round of `mode: iterative` does.
    pub enum RoundMode {
        /// Shrinks all tensors at once.
        Simultaneous = "simultaneous",
        /// Goes from tensor to tensor.
        LayerWise = "layer_wise",
    }
}

choice! {
    /// In which order tensors are visited.
    pub enum ProbeOrder {
        /// From the last to the first.
        Reverse = "reverse",
        /// The largest first.
        Size = "size",
        /// From the first to the last.
        Forward = "forward",
    }
}

choice! {
    /// How candidates are scored: those with the smallest scores are candidates.
    pub enum Strategy {
        /// `|w|`.
        Magnitude = "magnitude",
        /// `|w|` times the Euclidean norm of what the weight multiplies, over all rows of a batch, the largest over batches.
        /// Tables have no input, so there the norm is 1.
        Wanda = "wanda",
    }
}

choice! {
    /// How the largest score of a candidate is found.
    pub enum ProbeThreshold {
        /// The k-th smallest of all scores, laid side by side: GradProbe's original.
        Exact = "exact",
        /// The same score, in one pass over the weights that stores next to nothing.
        Bracket = "bracket",
        /// An estimate from histograms and bisection: GradProbe's default.
        Streaming = "streaming",
    }
}

choice! {
    /// Which weights share a threshold.
    pub enum ThresholdScope {
        /// All.
        Global = "global",
        /// Those of a tensor.
        Tensor = "tensor",
    }
}

choice! {
    /// Where gradients come from when tensors are visited one by one.
    pub enum GradientSource {
        /// A backward pass that tracks one tensor only, and ends there.
        Freeze = "freeze",
        /// A whole backward pass, of which one gradient is kept.
        Extract = "extract",
        /// Reference gradients of all tensors from one whole pass at the start; probes as `freeze`. Reference gradients then
        /// do not know what was pruned before.
        Amortised = "amortised",
    }
}

choice! {
    /// How `mode: iterative` looks for another tolerance when a round misses the limit.
    pub enum Tuning {
        /// It does not.
        None = "none",
        /// It decides the round anew from the gradients that it has.
        OneStep = "one_step",
        /// It makes the round before and this one again.
        TwoStep = "two_step",
    }
}

choice! {
    /// On what `limit` is judged.
    pub enum Judge {
        /// The calibration batches, as GradProbe does.
        InSample = "in_sample",
        /// Held-out data.
        HeldOut = "held_out",
    }
}

choice! {
    /// A format in which numbers are kept meanwhile.
    pub enum Storage {
        /// Single precision.
        F32 = "f32",
        /// Half precision: below 6e-8 it is 0.
        F16 = "f16",
        /// bfloat16.
        Bf16 = "bf16",
    }
}

params! {
    /// Shrink candidates, see whether the loss pulls harder at them, and prune those at which it does not.
    pub struct Probing {
        /// What is pruned: a language model, or a small classifier that the job trains first.
        network: Subject = Subject::Gpt;
        /// What is shrunk at once: `simultaneous` all tensors, `streaming` and `layer_wise` one after the other; `iterative`
        /// makes rounds of `round_mode` with rising sparsity.
        mode: ProbeMode = ProbeMode::Simultaneous;
        /// What a round of `mode: iterative` does.
        round_mode: RoundMode = RoundMode::Simultaneous;
        /// In which order `layer_wise` visits tensors.
        order: ProbeOrder = ProbeOrder::Reverse;
        /// How candidates are scored: by size, or by size times the norm of what they multiply.
        strategy: Strategy = Strategy::Magnitude;
        /// How the largest score of a candidate is found. `exact` and `bracket` find the same.
        threshold: ProbeThreshold = ProbeThreshold::Streaming;
        /// Whether all weights share a threshold, or those of each tensor.
        scope: ThresholdScope = ThresholdScope::Global;
        /// The part of the prunable weights that are candidates; in `mode: iterative`, of the first round.
        sparsity: f64 = 0.5, in 0.0..=1.0;
        /// By how much `sparsity` grows from round to round.
        step: f64 = 0.1, in 1e-6..=1.0;
        /// By how much perplexity may rise, or accuracy may fall as a part of 1, before rounds end.
        limit: f64 = 3.0, in 0.0..=1e9;
        /// On what `limit` is judged.
        judge: Judge = Judge::InSample;
        /// Whether and how another tolerance is looked for when a round misses the limit.
        tuning: Tuning = Tuning::None;
        /// Tolerances that are tried at most, beyond the first two.
        tuning_steps: usize = 20, in 0..=1000;
        /// What candidates are multiplied by.
        reduction: f64 = 0.1, in 0.0..=1.0;
        /// A candidate goes if its gradient grows by at most this part.
        tolerance: f64 = 0.0, in 0.0..=1e30;
        /// Calibration batches; the largest gradient over them counts. They are drawn once.
        num_batches: usize = 1, in 1..=1_000_000;
        /// Sequences, or points, in one forward and backward pass.
        batch_size: usize = 1, in 1..=1_000_000;
        /// Calibration batches for the norms of `wanda`; `num_batches` when not given.
        norm_batches: Option<usize> = None, in 1..=1_000_000;
        /// The format in which gradients are kept. They are computed, and compared, in single precision.
        grad_storage: Storage = Storage::F32;
        /// The format in which weights are kept while their tensor is probed; weights that stay come back in it.
        weight_storage: Storage = Storage::F32;
        /// Where gradients come from when tensors are visited one by one; `simultaneous` needs all of them anyway.
        gradients: GradientSource = GradientSource::Freeze;
        /// What the backward pass computes again instead of keeping it; see `train`.
        checkpointing: Checkpointing = Checkpointing::Off;
        /// The only tensor to prune, by its name, such as `h.0.mlp.c_fc.weight`.
        only: Option<String> = None;
        /// Whether the tables of tokens and positions are prunable. The former is also the output layer.
        prune_tables: bool = true;
        /// Whether to measure the strategy alone as well: all candidates pruned, and as many pruned as the gradients let go.
        baseline: bool = true;
        /// Batches of held-out tokens in one evaluation.
        eval_batches: usize = 16, in 1..=1_000_000;
        /// Sequences in each of them.
        eval_batch_size: usize = 8, in 1..=1_000_000, unit "sequences";
        /// Epochs of the classifier's training with learning rate 1e-3, and again with 1e-4.
        epochs: usize = 100, in 1..=1_000_000;
        /// Epochs of the classifier's training after pruning, with masked gradients.
        tune_epochs: usize = 0, in 0..=1_000_000;
        /// Seed of what is drawn: weights, classifier's data, calibration batches.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// Whether to keep the pruned network as the artifact `checkpoint`, in the Hub's layout.
        save: bool = false;
        /// Whether to keep what was pruned as the artifact `masks`: a safetensors file with 1 where a weight went.
        save_masks: bool = false;
        /// The artifact `masks` of another job, to compare with.
        against: Option<Path> = None;
    }
}

/// Prunes a trained network by candidates and gradients.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GradProbe {
    /// How.
    pub probing: Probing,
    /// The network.
    pub model: Model,
    /// What its blocks are made of.
    pub architecture: Architecture,
    /// The tokens.
    pub data: Data,
}

impl GradProbe {
    pub(crate) const GROUPS: &'static [&'static [Param]] =
        &[Probing::PARAMS, Model::PARAMS, Architecture::PARAMS, Data::PARAMS];

    pub(crate) const METRICS: &'static [MetricInfo] = &[
        MetricInfo { name: "sparsity", unit: Unit::Fraction, doc: "part of the prunable weights that was pruned" },
        MetricInfo {
            name: "sparsity.candidates",
            unit: Unit::Fraction,
            doc: "part of the prunable weights that were candidates, in the last round",
        },
        MetricInfo {
            name: "sparsity.zeros",
            unit: Unit::Fraction,
            doc: "part of the prunable weights that is exactly 0 at the end, whoever made it so",
        },
        MetricInfo { name: "survival", unit: Unit::Fraction, doc: "part of the candidates that was pruned" },
        MetricInfo {
            name: "spread",
            unit: Unit::Fraction,
            doc: "standard deviation over tensors of the part that are candidates",
        },
        MetricInfo { name: "loss", unit: Unit::Nats, doc: "mean cross-entropy on held-out data, pruned" },
        MetricInfo { name: "perplexity", unit: Unit::One, doc: "exp(loss)" },
        MetricInfo { name: "perplexity.dense", unit: Unit::One, doc: "the same before pruning" },
        MetricInfo { name: "perplexity.in_sample", unit: Unit::One, doc: "on the calibration batches, pruned" },
        MetricInfo {
            name: "perplexity.in_sample.dense",
            unit: Unit::One,
            doc: "on the calibration batches, before pruning",
        },
        MetricInfo {
            name: "perplexity.strategy",
            unit: Unit::One,
            doc: "on held-out data with all candidates pruned, without asking the gradients",
        },
        MetricInfo {
            name: "perplexity.matched",
            unit: Unit::One,
            doc: "on held-out data with as many of the smallest scores pruned as the gradients let go",
        },
        MetricInfo { name: "accuracy", unit: Unit::Fraction, doc: "of the classifier on its training set, pruned" },
        MetricInfo { name: "accuracy.dense", unit: Unit::Fraction, doc: "the same before pruning" },
        MetricInfo { name: "accuracy.held_out", unit: Unit::Fraction, doc: "on points that it never saw, pruned" },
        MetricInfo { name: "accuracy.held_out.dense", unit: Unit::Fraction, doc: "the same before pruning" },
        MetricInfo {
            name: "accuracy.strategy",
            unit: Unit::Fraction,
            doc: "on the training set with all candidates pruned, without asking the gradients",
        },
        MetricInfo {
            name: "accuracy.matched",
            unit: Unit::Fraction,
            doc: "on the training set with as many of the smallest scores pruned as the gradients let go",
        },
        MetricInfo {
            name: "gain",
            unit: Unit::One,
            doc: "by how much `perplexity` is lower, or `accuracy` higher, than with all candidates pruned",
        },
        MetricInfo {
            name: "gain.matched",
            unit: Unit::One,
            doc: "the same against as many of the smallest scores pruned as the gradients let go",
        },
        MetricInfo { name: "accuracy.tuned", unit: Unit::Fraction, doc: "on the training set after `tune_epochs`" },
        MetricInfo { name: "sparsity.tuned", unit: Unit::Fraction, doc: "`sparsity.zeros` after `tune_epochs`" },
        MetricInfo { name: "passes", unit: Unit::Count, doc: "forward and backward passes" },
        MetricInfo { name: "choices", unit: Unit::Count, doc: "how often candidates were chosen" },
        MetricInfo { name: "rounds", unit: Unit::Count, doc: "rounds that were within the limit" },
        MetricInfo {
            name: "tolerance",
            unit: Unit::One,
            doc: "the tolerance at the end, which tuning may have changed",
        },
        MetricInfo {
            name: "time.pass",
            unit: Unit::Seconds,
            doc: "median time of a forward and backward pass, the first left out if there are more",
        },
        MetricInfo { name: "time.sequence", unit: Unit::Seconds, doc: "`time.pass` over `batch_size`" },
        MetricInfo { name: "time.layer", unit: Unit::Seconds, doc: "`time.prune` over the number of tensors" },
        MetricInfo {
            name: "time.candidates",
            unit: Unit::Seconds,
            doc: "median time of choosing candidates, norms of inputs left out",
        },
        MetricInfo {
            name: "time.prune",
            unit: Unit::Seconds,
            doc: "time of candidates, gradients and decisions; loading and evaluation left out",
        },
        MetricInfo {
            name: "memory.gradients",
            unit: Unit::Bytes,
            doc: "most that kept gradients take at a time, reference and probe together",
        },
        MetricInfo { name: "memory.weights", unit: Unit::Bytes, doc: "most that kept weights take at a time" },
        MetricInfo { name: "memory.masks", unit: Unit::Bytes, doc: "what the candidates take, a byte for each weight" },
        MetricInfo {
            name: "memory.extra",
            unit: Unit::Bytes,
            doc: "by how much choosing candidates raised the worker's resident memory at most, in whole pages",
        },
        MetricInfo {
            name: "memory.pass",
            unit: Unit::Bytes,
            doc: "by how much a whole pass, before anything else is computed, raises the worker's resident memory at most; it does not count in `passes`",
        },
        MetricInfo { name: "memory.peak", unit: Unit::Bytes, doc: "largest resident memory of the worker process" },
        MetricInfo {
            name: "memory.device.peak",
            unit: Unit::Bytes,
            doc: "most memory in tensors on the device, between forward and backward pass and after it",
        },
        MetricInfo {
            name: "memory.mean",
            unit: Unit::Bytes,
            doc: "mean resident memory of the worker process, looked at ten times a second while it prunes",
        },
        MetricInfo {
            name: "memory.device.used",
            unit: Unit::Bytes,
            doc: "most memory of the device in use by everybody, as its driver says while it prunes",
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
            doc: "processor time of the worker process over that of all cores, while it prunes",
        },
        MetricInfo {
            name: "agreement",
            unit: Unit::Fraction,
            doc: "part of the prunable weights for which this job and the one of `against` decided alike",
        },
        MetricInfo { name: "tensors", unit: Unit::Count, doc: "prunable tensors" },
        MetricInfo { name: "weights", unit: Unit::Count, doc: "prunable weights" },
    ];

    pub(crate) const CURVES: &'static [&'static str] = &["sparsity", "perplexity", "accuracy", "seconds"];

    /// The name of the artifact that `save` keeps.
    pub const CHECKPOINT: &'static str = "checkpoint";

    /// The name of the artifact that `save_masks` keeps.
    pub const MASKS: &'static str = "masks";

    /// The metrics that it may measure.
    pub fn metric_names() -> impl Iterator<Item = &'static str> {
        Self::METRICS.iter().map(|metric| metric.name)
    }

    pub(crate) fn from_values(values: &Values) -> Option<Self> {
        Some(Self {
            probing: Probing::from_values(values)?,
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            data: Data::from_values(values)?,
        })
    }

    pub(crate) fn artifacts(values: &Values) -> Vec<String> {
        let kept = [("save", Self::CHECKPOINT), ("save_masks", Self::MASKS)];
        let kept = kept.into_iter().filter(|(param, _)| values.get(*param) == Some(&Value::Bool(true)));
        kept.map(|(_, artifact)| artifact.to_owned()).collect()
    }

    pub(crate) fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(task) = Self::from_values(values) else { return Vec::new() };
        let probing = &task.probing;
        let mut conflicts = match probing.network {
            Subject::Gpt => task.of_a_gpt(),
            Subject::Mlp => task.of_a_classifier(),
        };
        let iterative = probing.mode == ProbeMode::Iterative;
        if iterative && probing.tuning == Tuning::OneStep && probing.round_mode == RoundMode::LayerWise {
            conflicts.push(Conflict {
                params: vec!["tuning", "round_mode"],
                message: "a round that goes from tensor to tensor has no gradients that hold for another tolerance"
                    .into(),
                advice: "write `tuning: two_step`, which makes rounds again, or `round_mode: simultaneous`".into(),
            });
        }
        if iterative && probing.tuning != Tuning::None && probing.tolerance == 0.0 {
            conflicts.push(Conflict {
                params: vec!["tuning", "tolerance"],
                message: "tuning multiplies the tolerance, which is 0".into(),
                advice: "give a `tolerance` above 0, or remove `tuning`".into(),
            });
        }
        conflicts
    }

    fn of_a_gpt(&self) -> Vec<Conflict> {
        let Self { probing, model, architecture, .. } = self;
        let mut conflicts = model.conflicts();
        conflicts.extend(architecture.conflicts(model.dims(), model.init.is_some()));
        let Probing { eval_batches, eval_batch_size, num_batches, batch_size, .. } = *probing;
        let block_size = model.dims().block_size;
        conflicts.extend(
            held_out_conflict(eval_batches, eval_batch_size, block_size)
                .map(|conflict| Conflict { params: vec!["eval_batches", "eval_batch_size", "block_size"], ..conflict }),
        );
        conflicts.extend(held_out_conflict(num_batches, batch_size, block_size).map(|conflict| Conflict {
            params: vec!["num_batches", "batch_size", "block_size"],
            message: conflict.message.replace("one evaluation", "calibration"),
            ..conflict
        }));
        if let Some(blocks) =
            probing.checkpointing.segment().filter(|blocks| model.init.is_none() && *blocks > model.dims().n_layer)
        {
            conflicts.push(Conflict {
                params: vec!["checkpointing", "n_layer"],
                message: format!(
                    "a segment of {blocks} blocks is longer than the network, which has {}",
                    model.dims().n_layer
                ),
                advice: "choose shorter segments".into(),
            });
        }
        if probing.tune_epochs > 0 {
            conflicts.push(Conflict {
                params: vec!["tune_epochs", "network"],
                message: "only the classifier is trained by this task".into(),
                advice: "remove `tune_epochs`; a pruned language model goes on in `train` with `init`".into(),
            });
        }
        conflicts
    }

    fn of_a_classifier(&self) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        let mut refuse = |params: Vec<&'static str>, message: &str, advice: &str| {
            conflicts.push(Conflict { params, message: message.into(), advice: advice.into() });
        };
        if self.probing.checkpointing != Checkpointing::Off {
            refuse(
                vec!["checkpointing", "network"],
                "the classifier has no blocks to compute again",
                "remove `checkpointing`, or write `network: gpt`",
            );
        }
        if self.probing.save {
            refuse(
                vec!["save", "network"],
                "the Hub's layout has no place for the classifier",
                "remove `save`, or write `network: gpt`",
            );
        }
        if self.model.init.is_some() {
            refuse(
                vec!["init", "network"],
                "the classifier is trained by the job itself",
                "remove `init`, or write `network: gpt`",
            );
        }
        if self.probing.num_batches.saturating_mul(self.probing.batch_size) > Self::POINTS {
            refuse(
                vec!["num_batches", "batch_size"],
                "the classifier's training set has 1000 points",
                "keep their product at or below 1000",
            );
        }
        conflicts
    }

    /// Points that the classifier is trained on.
    pub const POINTS: usize = 1000;
}

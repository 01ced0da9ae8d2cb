//! `uses: gradprobe`.

mod params;

pub use params::{
    GradientSource, Judge, ProbeMode, ProbeOrder, ProbeThreshold, Probing, RoundMode, Storage, Strategy, Subject,
    ThresholdScope, Tuning,
};

use super::{
    Architecture, Checkpointing, Data, Model, Precision, SampledMetrics, WorkerMetrics, data::held_out_conflict,
};
use crate::{Conflict, Group, MetricInfo, Param, TaskSpec, Value, Values, metric::metrics};

/// Prunes a trained network by probing gradients.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GradProbe {
    /// The probing.
    pub probing: Probing,
    /// The network.
    pub model: Model,
    /// The structure of its blocks.
    pub architecture: Architecture,
    /// The tokens.
    pub data: Data,
}

metrics! {
    impl GradProbe {
        /// Fraction of the prunable weights that were pruned.
        SPARSITY: Fraction = "sparsity", Deterministic;
        /// Fraction of the prunable weights that were candidates in the last round.
        SPARSITY_CANDIDATES: Fraction = "sparsity.candidates", Deterministic;
        /// Fraction of the prunable weights that are exactly 0 at the end, for any reason.
        SPARSITY_ZEROS: Fraction = "sparsity.zeros", Deterministic;
        /// Fraction of the candidates that were pruned.
        SURVIVAL: Fraction = "survival", Deterministic;
        /// Standard deviation over tensors of the fraction of candidates.
        SPREAD: Fraction = "spread", Deterministic;
        /// Mean cross-entropy per token on held-out data after pruning.
        LOSS: Nats = "loss";
        /// `exp(loss)`.
        PERPLEXITY: One = "perplexity";
        /// Perplexity on held-out data before pruning.
        PERPLEXITY_DENSE: One = "perplexity.dense";
        /// Perplexity on the calibration batches after pruning.
        PERPLEXITY_IN_SAMPLE: One = "perplexity.in_sample";
        /// Perplexity on the calibration batches before pruning.
        PERPLEXITY_IN_SAMPLE_DENSE: One = "perplexity.in_sample.dense";
        /// Perplexity on held-out data with all candidates pruned, regardless of gradients.
        PERPLEXITY_STRATEGY: One = "perplexity.strategy";
        /// Perplexity on held-out data at the same sparsity, with the weights of the smallest scores pruned.
        PERPLEXITY_MATCHED: One = "perplexity.matched";
        /// Accuracy of the classifier on its training set after pruning.
        ACCURACY: Fraction = "accuracy";
        /// Accuracy on the training set before pruning.
        ACCURACY_DENSE: Fraction = "accuracy.dense";
        /// Accuracy on held-out points after pruning.
        ACCURACY_HELD_OUT: Fraction = "accuracy.held_out";
        /// Accuracy on held-out points before pruning.
        ACCURACY_HELD_OUT_DENSE: Fraction = "accuracy.held_out.dense";
        /// Accuracy on the training set with all candidates pruned, regardless of gradients.
        ACCURACY_STRATEGY: Fraction = "accuracy.strategy";
        /// Accuracy on the training set at the same sparsity, with the weights of the smallest scores pruned.
        ACCURACY_MATCHED: Fraction = "accuracy.matched";
        /// Improvement over pruning all candidates: decrease of `perplexity`, or increase of `accuracy`.
        GAIN: One = "gain";
        /// Improvement over pruning the weights of the smallest scores to the same sparsity.
        GAIN_MATCHED: One = "gain.matched";
        /// Accuracy on the training set after `tune_epochs`.
        ACCURACY_TUNED: Fraction = "accuracy.tuned";
        /// `sparsity.zeros` after `tune_epochs`.
        SPARSITY_TUNED: Fraction = "sparsity.tuned";
        /// Number of forward and backward passes.
        PASSES: Count = "passes";
        /// Number of passes that were repeated because their gradients overflowed, including the pass of
        /// `memory.pass`.
        PASSES_REPEATED: Count = "passes.repeated";
        /// Number of times that candidates were selected.
        CHOICES: Count = "choices";
        /// Number of rounds within the limit.
        ROUNDS: Count = "rounds";
        /// Tolerance at the end, which tuning may have changed.
        TOLERANCE: One = "tolerance", Deterministic;
        /// Median time of a forward and backward pass, excluding the first pass if there are more.
        TIME_PASS: Seconds = "time.pass";
        /// `time.pass` divided by `batch_size`.
        TIME_SEQUENCE: Seconds = "time.sequence";
        /// `time.prune` divided by the number of tensors.
        TIME_LAYER: Seconds = "time.layer";
        /// Total time of forward and backward passes.
        TIME_PASSES: Seconds = "time.passes";
        /// Median time to select candidates, excluding the norms of inputs.
        TIME_CANDIDATES: Seconds = "time.candidates";
        /// Time of candidates, gradients and decisions, excluding loading and evaluation.
        TIME_PRUNE: Seconds = "time.prune";
        /// Peak size of the stored gradients, reference and probe together.
        MEMORY_GRADIENTS: Bytes = "memory.gradients", Deterministic;
        /// Peak size of the stored weights.
        MEMORY_WEIGHTS: Bytes = "memory.weights", Deterministic;
        /// Size of the candidate masks, one byte per weight.
        MEMORY_MASKS: Bytes = "memory.masks", Deterministic;
        /// Maximum increase of the worker's resident memory by the selection of candidates, in whole pages.
        MEMORY_EXTRA: Bytes = "memory.extra", Resolution(4096.0);
        /// Maximum increase of the worker's resident memory by one full pass before any other computation. This pass
        /// does not count in `passes`.
        MEMORY_PASS: Bytes = "memory.pass", Resolution(4096.0);
        /// Peak device memory in tensors, read after each forward and each backward pass.
        MEMORY_DEVICE_PEAK: Bytes = "memory.device.peak";
        /// Fraction of the prunable weights on which this job and the job of `against` agree.
        AGREEMENT: Fraction = "agreement", Deterministic;
        /// Number of prunable tensors.
        TENSORS: Count = "tensors";
        /// Number of prunable weights.
        WEIGHTS: Count = "weights";
    }
}

impl TaskSpec for GradProbe {
    const NAME: &'static str = "gradprobe";
    const ABOUT: &'static str = "prunes a trained network: shrinks the weights with the smallest scores, keeps weights whose gradient grows when they are shrunk, and prunes the others";
    const HEADLINE: &'static [&'static str] = &["sparsity", "perplexity", "accuracy"];

    const GROUPS: &'static [&'static [Param]] = &[Probing::PARAMS, Model::PARAMS, Architecture::PARAMS, Data::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] =
        &[Self::DECLARED, &[WorkerMetrics::MEMORY_PEAK], SampledMetrics::DECLARED];

    const CURVES: &'static [&'static str] = &["sparsity", "perplexity", "accuracy", "seconds"];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            probing: Probing::from_values(values)?,
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            data: Data::from_values(values)?,
        })
    }

    fn artifacts(values: &Values) -> Vec<String> {
        let kept = [("save", Self::CHECKPOINT), ("save_masks", Self::MASKS), ("trace", Self::TRACE)];
        let kept = kept.into_iter().filter(|(param, _)| values.get(param) == Some(&Value::Bool(true)));
        kept.map(|(_, artifact)| artifact.to_owned()).collect()
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(task) = Self::build(values) else { return Vec::new() };
        let probing = &task.probing;
        let mut conflicts = match probing.network {
            Subject::Gpt => task.of_a_gpt(),
            Subject::Mlp => task.of_a_classifier(),
        };
        let iterative = probing.mode == ProbeMode::Iterative;
        if iterative && probing.tuning == Tuning::OneStep && probing.round_mode == RoundMode::LayerWise {
            conflicts.push(Conflict {
                params: vec!["tuning", "round_mode"],
                message: "`round_mode: layer_wise` keeps no gradients that are valid for another tolerance".into(),
                advice: "write `tuning: two_step`, which repeats rounds, or `round_mode: simultaneous`".into(),
            });
        }
        if iterative && probing.tuning != Tuning::None && probing.tolerance == 0.0 {
            conflicts.push(Conflict {
                params: vec!["tuning", "tolerance"],
                message: "tuning multiplies the tolerance and cannot change `tolerance: 0`".into(),
                advice: "set a `tolerance` above 0, or remove `tuning`".into(),
            });
        }
        conflicts
    }
}

impl GradProbe {
    /// The name of the artifact that `save` keeps.
    pub const CHECKPOINT: &'static str = "checkpoint";

    /// The name of the artifact that `save_masks` keeps.
    pub const MASKS: &'static str = "masks";

    /// The name of the artifact that `trace` keeps.
    pub const TRACE: &'static str = "trace";

    /// The names of its metrics.
    pub fn metric_names() -> impl Iterator<Item = &'static str> {
        Self::METRICS.iter().copied().flatten().map(|metric| metric.name)
    }

    fn of_a_gpt(&self) -> Vec<Conflict> {
        let Self { probing, model, architecture, .. } = self;
        let mut conflicts = model.conflicts();
        conflicts.extend(architecture.conflicts(model.dims(), model.init.is_some()));
        let Probing { eval_batches, eval_batch_size, num_batches, batch_size, grad_accumulation, .. } = *probing;
        let sequences = batch_size.saturating_mul(grad_accumulation);
        let block_size = model.dims().block_size;
        conflicts.extend(
            held_out_conflict(eval_batches, eval_batch_size, block_size)
                .map(|conflict| Conflict { params: vec!["eval_batches", "eval_batch_size", "block_size"], ..conflict }),
        );
        conflicts.extend(held_out_conflict(num_batches, sequences, block_size).map(|conflict| Conflict {
            params: vec!["num_batches", "batch_size", "grad_accumulation", "block_size"],
            message: conflict.message.replace("an evaluation", "calibration"),
            ..conflict
        }));
        let dims = model.dims();
        let block = architecture.block(dims);
        let computing = probing.computing();
        conflicts.extend(computing.conflicts(model.init.is_none().then_some((dims.n_layer, &block))));
        if probing.tune_epochs > 0 {
            conflicts.push(Conflict {
                params: vec!["tune_epochs", "network"],
                message: "`tune_epochs` applies only to the classifier".into(),
                advice: "remove `tune_epochs`; to continue training a pruned language model, use `train` with `init`"
                    .into(),
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
                "the classifier has no blocks to recompute",
                "remove `checkpointing`, or write `network: gpt`",
            );
        }
        if self.probing.precision != Precision::F32 {
            refuse(
                vec!["precision", "network"],
                "the classifier computes in single precision",
                "remove `precision`, or write `network: gpt`",
            );
        }
        if self.probing.save {
            refuse(
                vec!["save", "network"],
                "the classifier cannot be saved in the layout of the Hugging Face Hub",
                "remove `save`, or write `network: gpt`",
            );
        }
        if self.model.init.is_some() {
            refuse(
                vec!["init", "network"],
                "the classifier cannot be initialized from a folder",
                "remove `init`, or write `network: gpt`",
            );
        }
        let Probing { num_batches, batch_size, grad_accumulation, .. } = self.probing;
        if num_batches.saturating_mul(batch_size).saturating_mul(grad_accumulation) > Self::POINTS {
            refuse(
                vec!["num_batches", "batch_size", "grad_accumulation"],
                "the classifier's training set has 1000 points",
                "reduce their product to at most 1000",
            );
        }
        conflicts
    }

    /// Number of points in the classifier's training set.
    pub const POINTS: usize = 1000;
}

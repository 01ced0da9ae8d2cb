//! `uses: eval`.

use super::{
    Architecture, Data, LossMetrics, Model, NetworkMetrics, Prune, PruneMethod, PrunePattern, WorkerMetrics,
    data::held_out_conflict,
};
use crate::{
    Conflict, Group, MetricInfo, Param, TaskSpec, Values,
    metric::metrics,
    params::{choice, params},
};

choice! {
    /// The part of the held-out tokens that an evaluation reads.
    pub enum Coverage {
        /// `eval_batches` batches of windows, spread evenly. Windows may overlap.
        Sampled = "sampled",
        /// All held-out tokens but the first, each predicted once.
        Whole = "whole",
    }
}

choice! {
    /// A score by which a trained network is pruned in one shot. The weights of linear layers with the smallest
    /// scores are pruned.
    pub enum OneShot {
        /// No pruning.
        None = "none",
        /// The magnitude of a weight, compared over all layers.
        Magnitude = "magnitude",
        /// The magnitude times the norm of the weight's input over `calibration_batches`, compared output by output (Wanda, Sun
        /// et al. 2023).
        Wanda = "wanda",
        /// The error that the removal of a weight causes in the outputs of its layer over `calibration_batches`,
        /// compared over 128 inputs at a time; the other weights are adjusted to compensate (SparseGPT, Frantar and
        /// Alistarh 2023).
        SparseGpt = "sparsegpt",
    }
}

choice! {
    /// The number format of the weights of linear layers: rounded to a multiple of a scale, the same for a group of inputs of an
    /// output, and multiplied by it before the evaluation.
    pub enum Quantize {
        /// Single precision.
        None = "none",
        /// Whole numbers from -127 to 127; the scale is the largest magnitude divided by 127.
        Int8 = "int8",
        /// Whole numbers from -7 to 7; the scale is the largest magnitude divided by 7.
        Int4 = "int4",
    }
}

choice! {
    /// The choice of the multiple of a scale to which a weight is rounded.
    pub enum Rounding {
        /// The nearest.
        Nearest = "nearest",
        /// The nearest, input by input: the weights of the later inputs are adjusted to compensate for the error in
        /// the outputs of their layer over `calibration_batches` (GPTQ, Frantar et al. 2022).
        Gptq = "gptq",
    }
}

impl Quantize {
    /// Bits of a weight; `None` for single precision.
    pub const fn bits(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Int8 => Some(8),
            Self::Int4 => Some(4),
        }
    }
}

params! {
    /// Compression of the network before the evaluation, without training: pruning, then quantization.
    pub struct Compression {
        /// Score by which weights of linear layers are pruned before the evaluation.
        post_prune: OneShot = OneShot::None;
        /// Fraction of the weights that `post_prune` prunes; with `wanda`, of the inputs of each output, with `sparsegpt`, of each 128
        /// inputs of a layer.
        post_sparsity: f64 = 0.5, in 0.0..=0.99;
        /// Structure of the weights that `post_prune` prunes, which determines the sparsity: `2:4` prunes two of each four neighboring
        /// inputs of an output.
        post_pattern: PrunePattern = PrunePattern::None;
        /// Batches of `batch_size` sequences, spread evenly over the training tokens, from which `post_prune: wanda` takes the norms of
        /// inputs, and `post_prune: sparsegpt` and `rounding: gptq` their products, block by block.
        calibration_batches: usize = 4, in 1..=1_000_000;
        /// Number format of the weights of linear layers. Embeddings, the output layer, biases and gains stay in single precision, as do
        /// all activations.
        quantize: Quantize = Quantize::None;
        /// Rounding of the weights that `quantize` rounds.
        rounding: Rounding = Rounding::Nearest;
        /// Number of neighboring inputs of an output that share a scale; by default all inputs of an output.
        group_size: Option<usize> = None, in 1..=65_536, unit "inputs";
    }
}

impl Compression {
    /// The pruning by scores, as the settings of a training. That of SparseGPT is none.
    pub fn pruning(&self) -> Prune {
        Prune {
            prune: match self.post_prune {
                OneShot::None | OneShot::SparseGpt => PruneMethod::None,
                OneShot::Magnitude => PruneMethod::Magnitude,
                OneShot::Wanda => PruneMethod::Wanda,
            },
            sparsity: self.post_sparsity,
            prune_pattern: self.post_pattern,
            calibration_batches: self.calibration_batches,
            ..Prune::default()
        }
    }

    /// True if something depends on the inputs of linear layers.
    fn calibrates(&self) -> bool {
        matches!(self.post_prune, OneShot::Wanda | OneShot::SparseGpt) || self.rounding == Rounding::Gptq
    }

    /// Settings that have no effect, or contradict each other.
    fn conflicts(&self) -> Vec<Conflict> {
        let default = Self::default();
        let prunes = self.post_prune != OneShot::None;
        let has_pattern = self.post_pattern != PrunePattern::None;
        let target = self.pruning().target();
        let given = [
            ("post_sparsity", self.post_sparsity != default.post_sparsity && !prunes, "post_prune: magnitude"),
            ("post_pattern", has_pattern && !prunes, "post_prune: magnitude"),
            (
                "calibration_batches",
                self.calibration_batches != default.calibration_batches && !self.calibrates(),
                "post_prune: wanda",
            ),
            ("rounding", self.rounding != default.rounding && self.quantize == Quantize::None, "quantize: int4"),
            ("group_size", self.group_size.is_some() && self.quantize == Quantize::None, "quantize: int4"),
        ];
        let idle = given.into_iter().filter(|(_, idle, _)| *idle).map(|(name, _, need)| Conflict {
            params: vec![name],
            message: format!("`{name}` has no effect here"),
            advice: format!("write `{need}`, or remove `{name}`"),
        });
        let mut conflicts: Vec<Conflict> = idle.collect();
        if prunes && has_pattern && self.post_sparsity != default.post_sparsity && self.post_sparsity != target {
            conflicts.push(Conflict {
                params: vec!["post_sparsity", "post_pattern"],
                message: format!(
                    "`post_sparsity` conflicts with `post_pattern: {}`, which prunes {target}",
                    self.post_pattern
                ),
                advice: "remove `post_sparsity`, or write `post_pattern: none`".into(),
            });
        }
        conflicts
    }
}

params! {
    /// Held-out tokens and seed of an evaluation.
    pub struct Evaluation {
        /// Sequences per forward pass.
        batch_size: usize = 8, in 1..=1_000_000, unit "sequences";
        /// Number of batches, spread evenly over the held-out tokens.
        eval_batches: usize = 16, in 1..=1_000_000;
        /// Evaluated part of the held-out tokens: windows spread over them, or the whole text, each token once.
        coverage: Coverage = Coverage::Sampled;
        /// Distance between the starts of neighboring windows of `coverage: whole`; by default the context length. After
        /// the first window, each token is predicted from at least the context length minus `stride` tokens before it.
        stride: Option<usize> = None, in 1..=16_384, unit "tokens";
        /// Seed of the weights, unless `init` provides them.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

/// Measures a network's loss on held-out tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Eval {
    /// The network.
    pub model: Model,
    /// The structure of its blocks.
    pub architecture: Architecture,
    /// The tokens.
    pub data: Data,
    /// The held-out tokens.
    pub evaluation: Evaluation,
    /// The compression before the evaluation.
    pub compression: Compression,
}

metrics! {
    impl Eval {
        /// Evaluated tokens per second, excluding the first batch.
        TOKENS_PER_S: TokensPerSecond = "throughput.tokens_per_s";
        /// `loss / ln 2`, times the tokens per byte of the held-out text: comparable between tokenizers. For bytes, `kjv`,
        /// and folders of `tokenize`.
        BITS_PER_BYTE: One = "bits_per_byte";
        /// Predicted tokens.
        TOKENS: Count = "tokens";
        /// Fraction of the weights of linear layers that are exactly zero. Requires `post_prune` or `quantize`.
        SPARSITY: Fraction = "sparsity", Deterministic;
        /// Size of the parameters: four bytes each, but with `quantize` 8 or 4 bits for each weight of a linear layer, and four
        /// bytes for each scale. Pruned weights count like others.
        MEMORY_WEIGHTS: Bytes = "memory.weights", Deterministic;
    }
}

impl TaskSpec for Eval {
    const NAME: &'static str = "eval";
    const ABOUT: &'static str = "measures a network's loss on held-out tokens";
    const HEADLINE: &'static [&'static str] = &["loss", "perplexity"];

    const GROUPS: &'static [&'static [Param]] =
        &[Model::PARAMS, Architecture::PARAMS, Data::PARAMS, Evaluation::PARAMS, Compression::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] =
        &[LossMetrics::DECLARED, Self::DECLARED, &[WorkerMetrics::MEMORY_PEAK, NetworkMetrics::PARAMETERS]];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            data: Data::from_values(values)?,
            evaluation: Evaluation::from_values(values)?,
            compression: Compression::from_values(values)?,
        })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(eval) = Self::build(values) else { return Vec::new() };
        let mut conflicts = eval.model.conflicts();
        conflicts.extend(eval.architecture.conflicts(eval.model.dims(), eval.model.init.is_some()));
        let Evaluation { eval_batches, batch_size, .. } = eval.evaluation;
        conflicts.extend(held_out_conflict(eval_batches, batch_size, eval.model.dims().block_size));
        conflicts.extend(eval.coverage_conflict());
        conflicts.extend(eval.compression.conflicts());
        conflicts
    }
}

impl Eval {
    /// A setting that the other coverage has, or a stride that leaves tokens out.
    fn coverage_conflict(&self) -> Option<Conflict> {
        let context = self.model.dims().block_size;
        let has_other_batches = self.evaluation.eval_batches != Evaluation::default().eval_batches;
        let (name, advice) = match (self.evaluation.coverage, self.evaluation.stride) {
            (Coverage::Sampled, Some(_)) => ("stride", "write `coverage: whole`, or remove `stride`"),
            (Coverage::Whole, _) if has_other_batches => {
                ("eval_batches", "write `coverage: sampled`, or remove `eval_batches`")
            }
            (Coverage::Whole, Some(stride)) if self.model.init.is_none() && stride > context => {
                return Some(Conflict {
                    params: vec!["stride", "block_size"],
                    message: format!("`stride: {stride}` is longer than a window of `block_size: {context}` tokens"),
                    advice: format!("write a `stride` of at most {context}"),
                });
            }
            _ => return None,
        };
        Some(Conflict {
            params: vec![name, "coverage"],
            message: format!("`{name}` has no effect with `coverage: {}`", self.evaluation.coverage),
            advice: advice.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Task, Value};

    #[test]
    fn compression_that_has_no_effect_or_contradicts_itself() {
        let conflicts = |given: &[(&str, Value)]| -> Vec<String> {
            let info = Task::info("eval").unwrap();
            let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            let found = info.conflicts(&info.complete(given.collect::<Values>()));
            found.into_iter().map(|Conflict { message, advice, .. }| format!("{message}; {advice}")).collect()
        };
        let text = |text: &str| Value::Text(text.into());
        let whole = [
            ("post_prune", text("wanda")),
            ("post_pattern", text("2:4")),
            ("calibration_batches", Value::Int(2)),
            ("quantize", text("int4")),
            ("group_size", Value::Int(16)),
        ];
        assert_eq!(conflicts(&whole), [""; 0]);
        let batches = ("calibration_batches", Value::Int(2));
        for by_inputs in [
            vec![("post_prune", text("sparsegpt")), ("post_pattern", text("2:4")), batches.clone()],
            vec![("quantize", text("int8")), ("rounding", text("gptq")), batches],
        ] {
            assert_eq!(conflicts(&by_inputs), [""; 0]);
        }
        for (given, wanted) in [
            (
                vec![("post_sparsity", Value::Float(0.7))],
                "`post_sparsity` has no effect here; write `post_prune: magnitude`, or remove `post_sparsity`",
            ),
            (
                vec![("post_prune", text("magnitude")), ("calibration_batches", Value::Int(2))],
                "`calibration_batches` has no effect here; write `post_prune: wanda`, or remove `calibration_batches`",
            ),
            (
                vec![("rounding", text("gptq"))],
                "`rounding` has no effect here; write `quantize: int4`, or remove `rounding`",
            ),
            (
                vec![("group_size", Value::Int(16))],
                "`group_size` has no effect here; write `quantize: int4`, or remove `group_size`",
            ),
            (
                vec![
                    ("post_prune", text("wanda")),
                    ("post_pattern", text("1:4")),
                    ("post_sparsity", Value::Float(0.6)),
                ],
                "`post_sparsity` conflicts with `post_pattern: 1:4`, which prunes 0.75; remove `post_sparsity`, or write \
                 `post_pattern: none`",
            ),
        ] {
            assert_eq!(conflicts(&given), [wanted]);
        }
    }
}

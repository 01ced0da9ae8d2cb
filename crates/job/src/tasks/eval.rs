//! `uses: eval`.

use super::{Architecture, Data, LossMetrics, Model, NetworkMetrics, WorkerMetrics, data::held_out_conflict};
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
    }
}

impl TaskSpec for Eval {
    const NAME: &'static str = "eval";
    const ABOUT: &'static str = "measures a network's loss on held-out tokens";
    const HEADLINE: &'static [&'static str] = &["loss", "perplexity"];

    const GROUPS: &'static [&'static [Param]] =
        &[Model::PARAMS, Architecture::PARAMS, Data::PARAMS, Evaluation::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] =
        &[LossMetrics::DECLARED, Self::DECLARED, &[WorkerMetrics::MEMORY_PEAK, NetworkMetrics::PARAMETERS]];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            data: Data::from_values(values)?,
            evaluation: Evaluation::from_values(values)?,
        })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(eval) = Self::build(values) else { return Vec::new() };
        let mut conflicts = eval.model.conflicts();
        conflicts.extend(eval.architecture.conflicts(eval.model.dims(), eval.model.init.is_some()));
        let Evaluation { eval_batches, batch_size, .. } = eval.evaluation;
        conflicts.extend(held_out_conflict(eval_batches, batch_size, eval.model.dims().block_size));
        conflicts.extend(eval.coverage_conflict());
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

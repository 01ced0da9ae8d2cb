//! `uses: generate`.

use super::{Architecture, Model, NetworkMetrics, WorkerMetrics};
use crate::{Conflict, Group, MetricInfo, Param, Path, TaskSpec, Values, metric::metrics, params::params};

params! {
    /// Prompt and sampling.
    pub struct Generating {
        /// Beginning of the text. Without a `tokenizer`, the prompt of a network with 256 tokens is read as bytes,
        /// and the prompt of other networks as token ids separated by spaces.
        prompt: String = "In the beginning ".to_owned();
        /// Tokenizer of the network: a file `tokenizer.json` in the format of Hugging Face's `tokenizers`, or a folder with
        /// one, such as the artifact of `tokenize`.
        tokenizer: Option<Path> = None;
        /// Number of tokens to generate.
        max_new_tokens: usize = 200, in 1..=1_000_000, unit "tokens";
        /// Sampling temperature, by which logits are divided; 0 always chooses the most likely token.
        temperature: f64 = 0.8, in 0.0..=1000.0;
        /// Number of most likely tokens to sample from; by default all.
        top_k: Option<usize> = None, in 1..=1_000_000;
        /// Seed of the sampling, and of the weights unless `init` provides them.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

/// Generates text, token by token.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Generate {
    /// The network.
    pub model: Model,
    /// The structure of its blocks.
    pub architecture: Architecture,
    /// Prompt and sampling.
    pub generating: Generating,
}

metrics! {
    impl Generate {
        /// Generated tokens per second, excluding the first token.
        TOKENS_PER_S: TokensPerSecond = "throughput.tokens_per_s";
        /// Median time per generated token.
        TIME_TOKEN: Seconds = "time.token";
        /// Time from the prompt to the first token.
        TIME_PROMPT: Seconds = "time.prompt";
        /// Size of the key-value cache at the end.
        MEMORY_CACHE: Bytes = "memory.cache", Deterministic;
    }
}

impl TaskSpec for Generate {
    const NAME: &'static str = "generate";
    const ABOUT: &'static str = "generates text with a network, token by token";
    const HEADLINE: &'static [&'static str] = &["throughput.tokens_per_s", "time.token"];

    const GROUPS: &'static [&'static [Param]] = &[Model::PARAMS, Architecture::PARAMS, Generating::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] =
        &[Self::DECLARED, &[WorkerMetrics::MEMORY_PEAK, NetworkMetrics::PARAMETERS]];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            generating: Generating::from_values(values)?,
        })
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(generate) = Self::build(values) else { return Vec::new() };
        let mut conflicts = generate.model.conflicts();
        conflicts.extend(generate.architecture.conflicts(generate.model.dims(), generate.model.init.is_some()));
        conflicts
    }

    fn artifacts(_: &Values) -> Vec<String> {
        vec![Self::TEXT.to_owned()]
    }
}

impl Generate {
    /// The name of the artifact with the text, including the prompt.
    pub const TEXT: &'static str = "text";
}

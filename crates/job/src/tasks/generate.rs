//! `uses: generate`.

use super::{Architecture, Model};
use crate::{Conflict, Group, MetricInfo, Param, TaskSpec, Unit, Values, params::params};

params! {
    /// The generated text.
    pub struct Generating {
        /// Beginning of the text. A network of 256 tokens reads bytes; another one reads the numbers of tokens, with
        /// blanks between them.
        prompt: String = "In the beginning ".to_owned();
        /// Tokens to write.
        max_new_tokens: usize = 200, in 1..=1_000_000, unit "tokens";
        /// Divisor of the logits before a token is drawn; 0 always takes the likeliest.
        temperature: f64 = 0.8, in 0.0..=1000.0;
        /// Only so many of the likeliest tokens are drawn from; all when not given.
        top_k: Option<usize> = None, in 1..=1_000_000;
        /// Seed of the draws, and of the weights where `init` does not give them.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

/// Writes text, token by token.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Generate {
    /// The network.
    pub model: Model,
    /// Architecture of its blocks.
    pub architecture: Architecture,
    /// The generated text.
    pub generating: Generating,
}

impl TaskSpec for Generate {
    const NAME: &'static str = "generate";
    const ABOUT: &'static str = "writes text with a network, token by token";
    const HEADLINE: &'static [&'static str] = &["throughput.tokens_per_s", "time.token"];

    const GROUPS: &'static [&'static [Param]] = &[Model::PARAMS, Architecture::PARAMS, Generating::PARAMS];

    const METRICS: &'static [MetricInfo] = &[
        MetricInfo {
            name: "throughput.tokens_per_s",
            unit: Unit::TokensPerSecond,
            doc: "written tokens over the time of writing them, the first left out",
        },
        MetricInfo { name: "time.token", unit: Unit::Seconds, doc: "median time of writing a token" },
        MetricInfo { name: "time.prompt", unit: Unit::Seconds, doc: "time from the prompt to the first token" },
        MetricInfo {
            name: "memory.cache",
            unit: Unit::Bytes,
            doc: "what the cache of keys and values takes at the end",
        },
        MetricInfo { name: "memory.peak", unit: Unit::Bytes, doc: "largest resident memory of the worker process" },
        MetricInfo { name: "parameters", unit: Unit::Count, doc: "numbers in the network, tied ones counted once" },
    ];

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
    /// The name of the artifact that has the text, prompt included.
    pub const TEXT: &'static str = "text";
}

//! `uses: pair/attention`.

use super::Declared;
use crate::{
    MetricInfo,
    metric::metrics,
    params::{choice, params},
};

choice! {
    /// An implementation of attention.
    pub enum AttentionVariant {
        /// All scores, then all probabilities, then the result.
        Naive = "naive",
        /// Block by block, with a running softmax.
        Flash = "flash",
        /// Block by block, with a running softmax and scores that a function modifies; fully masked blocks are
        /// skipped. As `FlexAttention`.
        Flex = "flex",
    }
}

choice! {
    /// A modification of the scores of attention.
    pub enum AttentionScore {
        /// None: every token sees every other.
        None = "none",
        /// A bias that decreases with the distance of the tokens, with another slope in every head (`ALiBi`).
        RelativeBias = "relative_bias",
        /// A token sees itself and the tokens before it, up to `window` in all.
        SlidingWindow = "sliding_window",
    }
}

params! {
    /// Attention over whole sequences, for inference.
    pub struct Attention {
        /// Implementation; the baseline is `naive`.
        variant: AttentionVariant = AttentionVariant::Naive;
        /// Sequences per batch.
        batch_size: usize = 1, in 1..=65_536, unit "sequences";
        /// Number of heads.
        n_head: usize = 4, in 1..=1024;
        /// Tokens per sequence.
        length: usize = 1536, in 4..=1_048_576, unit "tokens";
        /// Width of a head.
        head_dim: usize = 64, in 1..=1024;
        /// Modification of the scores. `naive` and `flash` read it from a matrix of all scores, `flex` computes it for each
        /// block.
        score: AttentionScore = AttentionScore::None;
        /// Number of tokens that a token sees with `sliding_window`.
        window: usize = 128, in 1..=1_048_576, unit "tokens";
        /// Queries and keys of a block with `flex`.
        block: usize = 128, in 1..=65_536, unit "tokens";
    }
}

metrics! {
    impl Attention {
        /// Slope of log `memory.call` over log `length`, from calls with 50 %, 75 % and 100 % of the tokens.
        EXPONENT: One = "memory.exponent", Deterministic;
        /// Fraction of the scores of all pairs of tokens that are computed.
        VISITED: Fraction = "scores.visited", Deterministic;
    }
}

impl Declared for Attention {
    const NAME: &'static str = "pair/attention";
    const ABOUT: &'static str =
        "computes attention with all scores in memory, or block by block, with modified scores or without";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;
}

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
    }
}

params! {
    /// Attention over whole sequences, without a mask, for inference.
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
    }
}

metrics! {
    impl Attention {
        /// Slope of log `memory.call` over log `length`, from calls with 50 %, 75 % and 100 % of the tokens.
        EXPONENT: One = "memory.exponent", Deterministic;
    }
}

impl Declared for Attention {
    const NAME: &'static str = "pair/attention";
    const ABOUT: &'static str = "computes attention with all scores in memory, or block by block";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;
}

//! `uses: pair/kv-cache`.

use super::Declared;
use crate::{
    MetricInfo,
    metric::metrics,
    params::{choice, params},
};

choice! {
    /// The layout of the key-value cache.
    pub enum KvCacheVariant {
        /// A tensor that is copied to a longer one for every token.
        Concatenate = "concatenate",
        /// A tensor that is allocated for all tokens in advance.
        Preallocate = "preallocate",
        /// Pages that are allocated when needed.
        Paged = "paged",
    }
}

params! {
    /// Attention, token by token, with a key-value cache. A call decodes a sequence.
    pub struct KvCache {
        /// Layout of the cache; the baseline is `concatenate`.
        variant: KvCacheVariant = KvCacheVariant::Concatenate;
        /// Sequences per batch.
        batch_size: usize = 1, in 1..=65_536, unit "sequences";
        /// Number of layers.
        n_layer: usize = 2, in 1..=1024;
        /// Number of heads.
        n_head: usize = 4, in 1..=1024;
        /// Width of a head.
        head_dim: usize = 64, in 1..=1024;
        /// Tokens to decode.
        length: usize = 256, in 4..=1_048_576, unit "tokens";
        /// Tokens per page.
        page: usize = 64, in 1..=65_536, unit "tokens";
    }
}

metrics! {
    impl KvCache {
        /// Median time per token.
        TIME_TOKEN: Seconds = "time.token";
        /// Median time per token in the first quarter of the sequence.
        TIME_TOKEN_FIRST: Seconds = "time.token.first";
        /// Median time per token in the last quarter of the sequence.
        TIME_TOKEN_LAST: Seconds = "time.token.last";
    }
}

impl Declared for KvCache {
    const NAME: &'static str = "pair/kv-cache";
    const ABOUT: &'static str =
        "decodes token by token with a key-value cache in a growing tensor, in a preallocated tensor, or in pages";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;
}

//! `uses: pair/kv-cache`.

use super::{Declared, conflict};
use crate::{
    Conflict, MetricInfo,
    metric::metrics,
    params::{choice, params},
};

choice! {
    /// The layout of the key-value cache.
    pub enum KvCacheVariant {
        /// A tensor that is copied to a longer tensor for every token.
        Concatenate = "concatenate",
        /// A tensor that is allocated in advance, for the maximum number of tokens of a request.
        Preallocate = "preallocate",
        /// Pages that are allocated when needed.
        Paged = "paged",
    }
}

params! {
    /// Attention, token by token, with a key-value cache. A call decodes all requests.
    pub struct KvCache {
        /// Layout of the cache; the baseline is `concatenate`.
        variant: KvCacheVariant = KvCacheVariant::Concatenate;
        /// Sequences per request.
        batch_size: usize = 1, in 1..=65_536, unit "sequences";
        /// Number of layers.
        n_layer: usize = 2, in 1..=1024;
        /// Number of heads.
        n_head: usize = 4, in 1..=1024;
        /// Width of a head.
        head_dim: usize = 64, in 1..=1024;
        /// Tokens of the longest request.
        length: usize = 256, in 4..=1_048_576, unit "tokens";
        /// Requests that are decoded at the same time, each with a cache. Request `i` of `n`, from 0, has the
        /// fraction `(n - i) / n` of `length`, and keeps its cache until the last request has ended.
        requests: usize = 1, in 1..=1024;
        /// Tokens for which `preallocate` reserves memory in each request; by default `length`.
        capacity: Option<usize> = None, in 4..=1_048_576, unit "tokens";
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
        /// Measured size of the keys and values of all requests at the end of a call.
        MEMORY_CACHE: Bytes = "memory.cache", Deterministic;
        /// Size of the keys and values of the decoded tokens, divided by `memory.cache`.
        CACHE_USED: Fraction = "cache.used", Deterministic;
    }
}

impl Declared for KvCache {
    const NAME: &'static str = "pair/kv-cache";
    const ABOUT: &'static str =
        "decodes token by token with a key-value cache in a growing tensor, in a preallocated tensor, or in pages";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;

    fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        if let Some(capacity) = self.capacity.filter(|capacity| *capacity < self.length) {
            let message = format!("`capacity: {capacity}` is less than `length: {}`", self.length);
            conflicts.push(conflict(vec!["capacity", "length"], message, "increase `capacity`, or remove it"));
        }
        if self.requests > self.length {
            let message = format!("`requests: {}` exceeds `length: {}`", self.requests, self.length);
            conflicts.push(conflict(vec!["requests", "length"], message, "give every request at least one token"));
        }
        conflicts
    }
}

//! `uses: pair/training`.

use super::{Declared, undivided_heads};
use crate::{Conflict, MetricInfo, metric::metrics, params::params, tasks::Checkpointing};

params! {
    /// The forward and backward pass of a GPT-2.
    pub struct Checkpoints {
        /// Activation checkpointing; the baseline is `off`.
        variant: Checkpointing = Checkpointing::Off;
        /// Number of blocks.
        n_layer: usize = 8, in 1..=1024;
        /// Number of attention heads; must divide `d_model`.
        n_head: usize = 4, in 1..=1024;
        /// Width of the residual stream.
        d_model: usize = 128, in 1..=65_536;
        /// Tokens per sequence.
        block_size: usize = 128, in 1..=16_384, unit "tokens";
        /// Vocabulary size: rows of the token embedding.
        vocab_size: usize = 256, in 2..=1_000_000;
        /// Sequences per batch.
        batch_size: usize = 4, in 1..=1_000_000, unit "sequences";
    }
}

metrics! {
    impl Checkpoints {
        /// Loss of the first call.
        LOSS: Nats = "loss";
    }
}

impl Declared for Checkpoints {
    const NAME: &'static str = "pair/training";
    const ABOUT: &'static str = "trains a GPT-2 that stores its activations or recomputes them";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;

    fn conflicts(&self) -> Vec<Conflict> {
        undivided_heads(self.n_head, self.d_model).into_iter().collect()
    }
}

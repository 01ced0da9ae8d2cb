//! `uses: pair/regional-compile`.

use super::{Declared, conflict, undivided_heads};
use crate::{
    Conflict,
    params::{choice, params},
};

choice! {
    /// A method to process sequences of varying length.
    pub enum RegionalVariant {
        /// Separate operations, at the sequence's length.
        Eager = "eager",
        /// Fused operations, at the sequence's length: every new length is compiled and tuned.
        Fused = "fused",
        /// Fused operations, with every sequence padded to the maximum length: one length is compiled.
        Padded = "padded",
        /// Separate operations at the sequence's length, and the MLP fused: one region is compiled.
        Regional = "regional",
    }
}

params! {
    /// A transformer block on sequences of varying length, for inference. A call is one batch of sequences.
    pub struct Regional {
        /// Method to process the sequences; the baseline is `fused`. The CPU backend compiles nothing; there, `fused`
        /// and `regional` equal `eager`.
        variant: RegionalVariant = RegionalVariant::Fused;
        /// Width of the residual stream.
        d_model: usize = 128, in 1..=65_536;
        /// Number of attention heads; must divide `d_model`.
        n_head: usize = 4, in 1..=1024;
        /// Hidden width of the MLP.
        hidden: usize = 512, in 1..=262_144;
        /// Sequences per batch.
        batch_size: usize = 2, in 1..=65_536, unit "sequences";
        /// Maximum length. Calls cycle through 25 %, 50 %, 75 % and 100 % of it.
        length: usize = 128, in 4..=1_048_576, unit "tokens";
    }
}

impl Declared for Regional {
    const NAME: &'static str = "pair/regional-compile";
    const ABOUT: &'static str =
        "runs a transformer block on sequences of varying length, compiled for each length, for one, or in a region";

    fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts: Vec<Conflict> = undivided_heads(self.n_head, self.d_model).into_iter().collect();
        if !self.length.is_multiple_of(4) {
            let message = format!("`length: {}` is not a multiple of 4", self.length);
            conflicts.push(conflict(vec!["length"], message, "choose a multiple of 4"));
        }
        conflicts
    }
}

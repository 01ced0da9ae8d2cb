//! `uses: pair/accumulation`.

use super::Declared;
use crate::params::{choice, params};

choice! {
    /// A method to accumulate gradients.
    pub enum AccumulationVariant {
        /// One backward pass through the graphs of all micro-batches, from the sum of their losses.
        OneGraph = "one_graph",
        /// A backward pass for each micro-batch, adding up the gradients.
        Each = "each",
    }
}

params! {
    /// The gradients of an MLP over several micro-batches.
    pub struct Accumulation {
        /// Method to accumulate gradients; the baseline is `one_graph`.
        variant: AccumulationVariant = AccumulationVariant::OneGraph;
        /// Number of micro-batches.
        micro_batches: usize = 8, in 1..=10_000;
        /// Rows of a micro-batch.
        batch_size: usize = 256, in 1..=1_000_000;
        /// Width of all layers.
        width: usize = 128, in 1..=65_536;
        /// Number of layers.
        n_layer: usize = 4, in 1..=1024;
    }
}

impl Declared for Accumulation {
    const NAME: &'static str = "pair/accumulation";
    const ABOUT: &'static str =
        "accumulates the gradients of micro-batches, keeping the graphs of all of them or of one at a time";
}

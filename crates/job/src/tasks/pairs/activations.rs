//! `uses: pair/memory-profiling`.

use super::Declared;
use crate::{
    MetricInfo,
    metric::metrics,
    params::{choice, params},
};

choice! {
    /// The source of the hidden activations in the backward pass of an MLP.
    pub enum ActivationsVariant {
        /// Stored by the forward pass.
        Kept = "kept",
        /// Recomputed in the backward pass.
        Recomputed = "recomputed",
    }
}

params! {
    /// The forward and backward pass of an MLP with one hidden layer.
    pub struct Activations {
        /// Source of the hidden activations in the backward pass; the baseline is `kept`.
        variant: ActivationsVariant = ActivationsVariant::Kept;
        /// Width of inputs and outputs.
        width: usize = 256, in 1..=65_536;
        /// Hidden width.
        hidden: usize = 512, in 1..=65_536;
        /// Rows of the batch.
        batch_size: usize = 32, in 1..=1_000_000;
    }
}

metrics! {
    impl Activations {
        /// Size of the hidden activations.
        MEMORY: Bytes = "memory.activations", Deterministic;
    }
}

impl Declared for Activations {
    const NAME: &'static str = "pair/memory-profiling";
    const ABOUT: &'static str = "stores the hidden activations of an MLP for the backward pass, or recomputes them";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;
}

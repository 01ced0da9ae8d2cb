//! `uses: pair/leak`.

use super::Declared;
use crate::{
    MetricInfo,
    metric::metrics,
    params::{choice, params},
};

choice! {
    /// The kind of memory leak.
    pub enum LeakPattern {
        /// Tensors that are appended to a list.
        Tensors = "tensors",
        /// Losses that are summed with their graphs, instead of as numbers after the backward pass.
        Losses = "losses",
        /// Inference that records a graph.
        Inference = "inference",
    }
}

choice! {
    /// Presence of the leak.
    pub enum LeakVariant {
        /// With the leak.
        Leaking = "leaking",
        /// Without the leak: every tensor is dropped when it is no longer needed.
        Fixed = "fixed",
    }
}

params! {
    /// Iterations after each of which memory use should be unchanged.
    pub struct Leak {
        /// With or without the leak; the baseline is `leaking`.
        variant: LeakVariant = LeakVariant::Leaking;
        /// Kind of leak.
        pattern: LeakPattern = LeakPattern::Tensors;
        /// Iterations per call.
        iterations: usize = 20, in 2..=100_000;
        /// Rows and columns of the tensors.
        width: usize = 256, in 1..=65_536;
    }
}

metrics! {
    impl Leak {
        /// Memory leaked per iteration: the slope of the bytes in use over the iterations.
        SLOPE: Bytes = "memory.slope", Deterministic;
    }
}

impl Declared for Leak {
    const NAME: &'static str = "pair/leak";
    const ABOUT: &'static str = "repeats a computation with and without a memory leak";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;
}

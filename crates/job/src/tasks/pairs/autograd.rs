//! `uses: pair/autograd`.

use super::Declared;
use crate::params::{choice, params};

choice! {
    /// A method to run operations as kernels.
    pub enum FusingVariant {
        /// One kernel per operation.
        Eager = "eager",
        /// Sequences of operations fused into one kernel, by Burn, on GPUs.
        Fused = "fused",
    }
}

params! {
    /// A training step of an MLP: forward and backward pass, and SGD.
    pub struct Autograd {
        /// Method to run operations as kernels; the baseline is `eager`. The CPU backend does not fuse.
        variant: FusingVariant = FusingVariant::Eager;
        /// Width of inputs.
        width: usize = 256, in 1..=1_000_000;
        /// Width of outputs; by default `width`.
        outputs: Option<usize> = None, in 1..=65_536;
        /// Hidden width.
        hidden: usize = 512, in 1..=65_536;
        /// Rows of the batch.
        batch_size: usize = 16, in 1..=1_000_000;
    }
}

impl Declared for Autograd {
    const NAME: &'static str = "pair/autograd";
    const ABOUT: &'static str = "runs training steps of an MLP with separate or fused operations";
}

//! `uses: pair/custom-backward`.

use super::Declared;
use crate::params::{choice, params};

choice! {
    /// The origin of an operation's backward pass.
    pub enum CustomVariant {
        /// The operation is composed of operations of the framework, each of which has a backward pass and keeps the
        /// tensors that this pass needs.
        Composed = "composed",
        /// The operation has its own backward pass, which keeps only the inputs and recomputes all other tensors.
        Custom = "custom",
    }
}

params! {
    /// Forward and backward pass of a stack of gates `x ← x σ(x) y` (`SwiGLU` without its products), in which both factors
    /// get a gradient.
    pub struct Custom {
        /// Origin of the backward pass; the baseline is `composed`.
        variant: CustomVariant = CustomVariant::Composed;
        /// Number of gates.
        n_layer: usize = 4, in 1..=1024;
        /// Rows of the batch.
        batch_size: usize = 1024, in 1..=1_000_000;
        /// Width.
        width: usize = 256, in 1..=65_536;
    }
}

impl Declared for Custom {
    const NAME: &'static str = "pair/custom-backward";
    const ABOUT: &'static str =
        "differentiates gates that are composed of operations, or have a backward pass of their own";
}

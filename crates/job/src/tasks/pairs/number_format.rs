//! `uses: pair/precision`.

use super::Declared;
use crate::{
    MetricInfo,
    metric::metrics,
    params::{choice, params},
};

choice! {
    /// Formats of weights, activations and gradients.
    pub enum FormatVariant {
        /// Single precision.
        F32 = "f32",
        /// Matrix products in bfloat16, everything else in single precision.
        Mixed = "mixed",
        /// bfloat16, with master weights in single precision.
        Bf16 = "bf16",
        /// Half precision, with master weights in single precision.
        F16 = "f16",
        /// Matrix products of numbers that are rounded to 8 bits, with a scale for each tensor: weights and
        /// activations to e4m3, gradients to e5m2; everything else in single precision. The products themselves are
        /// computed in single precision, on the CPU only, so the times do not represent hardware with such products.
        Fp8 = "fp8",
    }
}

params! {
    /// Training an MLP by SGD. A call is a step.
    pub struct NumberFormat {
        /// Format of numbers; the baseline is `f32`.
        variant: FormatVariant = FormatVariant::F32;
        /// Width of inputs and outputs.
        width: usize = 256, in 1..=65_536;
        /// Hidden width.
        hidden: usize = 512, in 1..=65_536;
        /// Rows of a micro-batch.
        batch_size: usize = 128, in 1..=1_000_000;
        /// Micro-batches per step.
        micro_batches: usize = 4, in 1..=10_000;
    }
}

metrics! {
    impl NumberFormat {
        /// Loss of the first call: mean squared error.
        LOSS: One = "loss";
        /// Norm of the difference of the first call's gradients from those in `f32`, divided by the norm of the latter.
        GRADIENTS: Fraction = "error.gradients";
        /// Relative rounding error of normally distributed numbers in the format of products, as a root mean square; with
        /// `fp8`, that of e4m3.
        ROUNDING: Fraction = "error.rounding", Deterministic;
        /// Relative rounding error of normally distributed numbers in the format of gradients; with `fp8`, that of
        /// e5m2.
        ROUNDING_GRADIENTS: Fraction = "error.rounding.gradients", Deterministic;
    }
}

impl Declared for NumberFormat {
    const NAME: &'static str = "pair/precision";
    const ABOUT: &'static str = "trains an MLP in single, mixed, half or 8-bit precision";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;
}

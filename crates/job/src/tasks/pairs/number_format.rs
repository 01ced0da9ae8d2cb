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
    }
}

impl Declared for NumberFormat {
    const NAME: &'static str = "pair/precision";
    const ABOUT: &'static str = "trains an MLP in single, mixed or half precision";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;
}

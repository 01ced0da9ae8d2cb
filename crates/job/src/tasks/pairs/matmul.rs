//! `uses: pair/matmul`.

use super::Declared;
use crate::{
    MetricInfo,
    params::{choice, params},
    tasks::ComputeMetrics,
};

choice! {
    /// An implementation of a matrix product with epilogue.
    pub enum MatmulVariant {
        /// Three loops over rows, columns and the inner dimension; CPU only.
        Naive = "naive",
        /// Tiles that fit into the cache, on all cores; CPU only.
        Tiled = "tiled",
        /// The backend's product, followed by separate operations for the epilogue.
        Library = "library",
        /// The backend's product, with the epilogue in one pass: a loop on the CPU, Burn's fusion on GPUs.
        Fused = "fused",
    }
}

params! {
    /// `((A B + bias)₊ + residual) · 0.125`.
    pub struct Matmul {
        /// Implementation; the baseline is `library`.
        variant: MatmulVariant = MatmulVariant::Library;
        /// Rows and columns of all five matrices.
        size: usize = 512, in 1..=65_536;
    }
}

impl Declared for Matmul {
    const NAME: &'static str = "pair/matmul";
    const ABOUT: &'static str = "multiplies matrices by loops, by tiles or by the library, followed by an epilogue";
    const SHARED_METRICS: &'static [MetricInfo] = ComputeMetrics::DECLARED;
}

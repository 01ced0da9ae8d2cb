//! `uses: pair/arithmetic-intensity`.

use super::{Declared, conflict};
use crate::{
    Conflict, MetricInfo,
    metric::metrics,
    params::params,
    tasks::{ComputeMetrics, PeakMetrics},
};

params! {
    /// A matrix product in tiles of the inner dimension.
    pub struct Intensity {
        /// Columns of A per tile, whose product is added to C; 0 multiplies the whole matrices at once.
        k_tile: usize = 0, in 0..=65_536;
        /// Rows and columns of the matrices.
        size: usize = 512, in 1..=65_536;
    }
}

metrics! {
    impl Intensity {
        /// Floating-point operations per byte that must be read or written.
        INTENSITY: One = "intensity", Deterministic;
    }
}

impl Declared for Intensity {
    const NAME: &'static str = "pair/arithmetic-intensity";
    const ABOUT: &'static str = "multiplies matrices at once, or in tiles that read and write the result repeatedly";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;
    const SHARED_METRICS: &'static [MetricInfo] = &[ComputeMetrics::FLOPS, PeakMetrics::FLOPS, PeakMetrics::BANDWIDTH];

    fn conflicts(&self) -> Vec<Conflict> {
        if self.k_tile == 0 || self.size.is_multiple_of(self.k_tile) {
            return Vec::new();
        }
        let message = format!("`size: {}` is not a multiple of `k_tile: {}`", self.size, self.k_tile);
        vec![conflict(vec!["k_tile", "size"], message, "choose a `k_tile` that divides `size`")]
    }
}

//! `uses: pair/bandwidth`.

use super::{Declared, conflict};
use crate::{
    Conflict, MetricInfo,
    metric::metrics,
    params::{choice, params},
    tasks::PeakMetrics,
};

choice! {
    /// An order of memory accesses.
    pub enum BandwidthVariant {
        /// With a stride, modulo the length.
        Strided = "strided",
        /// Sequential.
        Contiguous = "contiguous",
    }
}

params! {
    /// `c[j] = (a[j] + b[j]) / 2` for every `j`, in two orders.
    pub struct Bandwidth {
        /// Order of memory accesses; the baseline is `strided`.
        variant: BandwidthVariant = BandwidthVariant::Strided;
        /// Elements of each array.
        numbers: usize = 4_194_304, in 1..=1_073_741_824;
        /// Distance between consecutive accesses, in elements.
        stride: usize = 8191, in 1..=1_073_741_824;
        /// Passes over all elements per call.
        passes: usize = 2, in 1..=10_000;
    }
}

metrics! {
    impl Bandwidth {
        /// Bytes that the computation must read and write, per second.
        ACHIEVED: BytesPerSecond = "bandwidth";
        /// `bandwidth` divided by `peak.bandwidth`.
        RATIO: Fraction = "peak.ratio";
    }
}

impl Declared for Bandwidth {
    const NAME: &'static str = "pair/bandwidth";
    const ABOUT: &'static str =
        "reads and writes memory with a stride or sequentially, by a loop on the CPU and by Burn's `select` on GPUs";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;
    const SHARED_METRICS: &'static [MetricInfo] = &[PeakMetrics::BANDWIDTH];

    fn conflicts(&self) -> Vec<Conflict> {
        let (mut a, mut b) = (self.numbers, self.stride);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        if a == 1 {
            return Vec::new();
        }
        let message = format!("`stride: {}` does not reach all of {} elements", self.stride, self.numbers);
        vec![conflict(vec!["stride", "numbers"], message, "choose an odd `stride` and a power of 2 for `numbers`")]
    }
}

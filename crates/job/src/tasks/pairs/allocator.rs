//! `uses: pair/allocator`.

use super::{Declared, conflict};
use crate::{
    Conflict, MetricInfo,
    metric::metrics,
    params::{choice, params},
};

choice! {
    /// The source of memory.
    pub enum AllocatorVariant {
        /// The system's allocator.
        System = "system",
        /// A pool of freed blocks, in size classes that are powers of two.
        Pool = "pool",
    }
}

params! {
    /// Allocating, touching and freeing blocks of host memory.
    pub struct Allocator {
        /// Source of memory; the baseline is `system`.
        variant: AllocatorVariant = AllocatorVariant::System;
        /// Number of blocks per call, allocated and freed one after another.
        blocks: usize = 1000, in 1..=10_000_000;
        /// Minimum size of a block.
        least: usize = 524_288, in 1..=1_073_741_824, unit "B";
        /// Maximum size of a block.
        most: usize = 1_048_576, in 1..=1_073_741_824, unit "B";
    }
}

metrics! {
    impl Allocator {
        /// Fraction of the blocks that the pool served from freed blocks.
        HIT_RATE: Fraction = "hit_rate";
        /// Requested bytes divided by allocated bytes.
        EFFICIENCY: Fraction = "efficiency";
    }
}

impl Declared for Allocator {
    const NAME: &'static str = "pair/allocator";
    const ABOUT: &'static str = "allocates and frees host memory, from the system or from a pool";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;

    fn conflicts(&self) -> Vec<Conflict> {
        if self.least <= self.most {
            return Vec::new();
        }
        let message = format!("`least: {}` exceeds `most: {}`", self.least, self.most);
        vec![conflict(vec!["least", "most"], message, "swap the two values")]
    }
}

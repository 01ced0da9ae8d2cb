//! `uses: pair/sharding`.

use super::{Declared, conflict};
use crate::{
    Conflict, MetricInfo,
    metric::metrics,
    params::{choice, params},
};

choice! {
    /// The placement of weights, gradients and moments.
    pub enum ShardingVariant {
        /// All on the device.
        Whole = "whole",
        /// A shard of each on every rank, which gathers the weights of one layer at a time.
        Sharded = "sharded",
        /// Weights and gradients on the device, moments on the host.
        Offloaded = "offloaded",
    }
}

params! {
    /// A step of Adam on a stack of square layers. Ranks are logical: one device does the work of all in sequence.
    pub struct Sharding {
        /// Placement of weights, gradients and moments; the baseline is `whole`.
        variant: ShardingVariant = ShardingVariant::Whole;
        /// Number of ranks with `sharded`.
        shards: usize = 4, in 1..=4096;
        /// Number of layers.
        n_layer: usize = 8, in 1..=1024;
        /// Width of all layers.
        width: usize = 256, in 1..=65_536;
        /// Rows of the batch.
        batch_size: usize = 16, in 1..=1_000_000;
    }
}

metrics! {
    impl Sharding {
        /// Measured size of weights, gradients and moments on the device, per rank.
        MEMORY_STATE: Bytes = "memory.state", Deterministic;
        /// Calculated size of weights, gradients and moments on the device: 16 bytes per weight, divided by the number
        /// of ranks.
        MEMORY_MODEL: Bytes = "memory.model", Deterministic;
        /// Bytes per call of weights that ranks gather from others, or of moments that move between host and device.
        GATHERED: Bytes = "bytes.gathered", Deterministic;
    }
}

impl Declared for Sharding {
    const NAME: &'static str = "pair/sharding";
    const ABOUT: &'static str =
        "runs a step of Adam with all state on the device, sharded over logical ranks, or with the moments on the host";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;

    fn conflicts(&self) -> Vec<Conflict> {
        let weights = self.width * self.width;
        if weights.is_multiple_of(self.shards) {
            return Vec::new();
        }
        let message = format!("the {weights} weights of a layer are not a multiple of `shards: {}`", self.shards);
        vec![conflict(vec!["shards", "width"], message, "choose a power of 2 for both")]
    }
}

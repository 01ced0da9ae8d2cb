//! `uses: pair/sharding`.

use super::{Declared, conflict};
use crate::{
    Conflict, MetricInfo,
    metric::metrics,
    params::{choice, params},
};

/// The most ranks that are processes.
const MAX_PROCESSES: usize = 64;

choice! {
    /// The placement of weights, gradients and moments.
    pub enum ShardingVariant {
        /// All on the device.
        Whole = "whole",
        /// A shard of each on every logical rank, which gathers the weights of one layer at a time. One process does the
        /// work of all ranks in sequence.
        Sharded = "sharded",
        /// Weights and gradients on the device, moments on the host.
        Offloaded = "offloaded",
        /// A shard of each on every rank, each of which is a process with a part of the batch. Ranks gather the weights of
        /// one layer at a time, and scatter the sum of its gradients, in a ring.
        Processes = "processes",
        /// Weights, gradients and moments away from the device: in the memory of the host, or, where the device is the host,
        /// in a file. The weights of one layer at a time are on the device.
        OffloadedParameters = "offloaded_parameters",
    }
}

params! {
    /// A step of Adam on a stack of square layers.
    pub struct Sharding {
        /// Placement of weights, gradients and moments; the baseline is `whole`.
        variant: ShardingVariant = ShardingVariant::Whole;
        /// Number of ranks with `sharded` and `processes`.
        shards: usize = 4, in 1..=4096;
        /// Number of layers.
        n_layer: usize = 8, in 1..=1024;
        /// Width of all layers.
        width: usize = 256, in 1..=65_536;
        /// Rows of the batch, of all ranks together.
        batch_size: usize = 16, in 1..=1_000_000;
    }
}

metrics! {
    impl Sharding {
        /// Measured size of weights, gradients and moments on the device, per rank.
        MEMORY_STATE: Bytes = "memory.state", Deterministic;
        /// Calculated size of weights, gradients and moments on the device: 16 bytes per weight, divided by the
        /// number of ranks, minus the parts that are elsewhere.
        MEMORY_MODEL: Bytes = "memory.model", Deterministic;
        /// Bytes per call of weights that ranks gather from others, or of moments that move between host and device.
        GATHERED: Bytes = "bytes.gathered", Deterministic;
        /// Measured peak memory of a rank in a training of two steps: its state, gathered weights, gradients and
        /// activations. The largest of all ranks.
        MEMORY_RANK: Bytes = "memory.rank", Resolution(4096.0);
        /// Bytes per call that a rank sends to its neighbor, counted. `processes` only.
        SENT: Bytes = "bytes.sent", Deterministic;
        /// Median time per call that the first rank spends in collective operations, including waiting for other
        /// ranks. `processes` only.
        TIME_COLLECTIVES: Seconds = "time.collectives";
        /// Median time per call of copies between the device and the place of the state. `offloaded_parameters` only.
        TIME_COPIES: Seconds = "time.copies";
    }
}

impl Declared for Sharding {
    const NAME: &'static str = "pair/sharding";
    const ABOUT: &'static str =
        "runs a step of Adam with all state on the device, sharded over logical ranks or processes, or offloaded";
    const OWN_METRICS: &'static [MetricInfo] = Self::DECLARED;

    fn conflicts(&self) -> Vec<Conflict> {
        let weights = self.width * self.width;
        let mut conflicts = Vec::new();
        if !weights.is_multiple_of(self.shards) {
            let message = format!("the {weights} weights of a layer are not a multiple of `shards: {}`", self.shards);
            conflicts.push(conflict(vec!["shards", "width"], message, "choose a power of 2 for both"));
        }
        if self.variant == ShardingVariant::Processes {
            if self.shards > MAX_PROCESSES {
                let message = format!("`shards: {}` exceeds the {MAX_PROCESSES} processes of a job", self.shards);
                conflicts.push(conflict(vec!["shards"], message, "choose fewer"));
            }
            if !self.batch_size.is_multiple_of(self.shards) {
                let (rows, ranks) = (self.batch_size, self.shards);
                let message = format!("`batch_size: {rows}` is not a multiple of `shards: {ranks}`");
                conflicts.push(conflict(
                    vec!["batch_size", "shards"],
                    message,
                    "give every rank the same number of \
                    rows",
                ));
            }
        }
        conflicts
    }
}

//! Computing options of a training: fusion, autotuning, activation checkpointing, precision.

use super::BlockSpec;
use crate::{
    Conflict,
    params::{choice, params},
};

choice! {
    /// On or off.
    pub enum Switch {
        /// Disabled.
        Off = "off",
        /// Enabled.
        On = "on",
    }
}

choice! {
    /// The part of a training whose operations are fused into kernels that are compiled at run time.
    pub enum Fusing {
        /// None: one kernel for each operation, and one for a parameter's step of AdamW.
        Off = "off",
        /// Everything: forward and backward passes, optimizer, scores.
        On = "on",
        /// Forward and backward passes and scores. The optimizer's step is one kernel for each parameter.
        Network = "network",
        /// The optimizer's step.
        Optimizer = "optimizer",
        /// The scores of pruning, where `prune_update` and the format of scores store them.
        Scores = "scores",
    }
}

choice! {
    /// The number of candidate kernels that are timed for each operation.
    pub enum Autotune {
        /// One for each group of kernels: the minimum that Burn supports.
        Minimal = "minimal",
        /// Burn's default.
        Balanced = "balanced",
        /// More than Burn's default.
        Extensive = "extensive",
        /// All candidates.
        Full = "full",
    }
}

choice! {
    /// Autotuning results at the start of a job.
    pub enum TuningCache {
        /// Those of earlier jobs on this machine.
        Warm = "warm",
        /// None.
        Cold = "cold",
    }
}

choice! {
    /// Activation checkpointing: the activations that the backward pass recomputes.
    pub enum Checkpointing {
        /// None: the forward pass stores all activations that the backward pass needs.
        Off = "off",
        /// Results of element-wise operations whose inputs are stored anyway (Burn's balanced strategy).
        Balanced = "balanced",
        /// Each block, from its stored input.
        Segment1 = "segment:1",
        /// Segments of two blocks, from the stored input of the first.
        Segment2 = "segment:2",
        /// Segments of three blocks.
        Segment3 = "segment:3",
        /// Segments of four blocks.
        Segment4 = "segment:4",
        /// Segments of six blocks.
        Segment6 = "segment:6",
        /// Segments of eight blocks.
        Segment8 = "segment:8",
        /// Segments of twelve blocks.
        Segment12 = "segment:12",
    }
}

choice! {
    /// Number formats of a training. Weights, moments, scores and masks are always in single precision.
    pub enum Precision {
        /// Single precision.
        F32 = "f32",
        /// Activations and gradients in bfloat16; the loss in single precision.
        Bf16 = "bf16",
        /// Activations and gradients in half precision; the loss in single precision, with loss scaling.
        F16 = "f16",
        /// Matrix products and attention in bfloat16, everything else in single precision. On the CPU attention is in
        /// single precision, too.
        Mixed = "mixed",
    }
}

params! {
    /// Computing options.
    pub struct Computing {
        /// Fuse operations into kernels that are compiled at run time: all operations (`on`), or the operations of
        /// one part. No effect on the CPU backend, which compiles no kernels.
        fusion: Fusing = Fusing::Off;
        /// Number of candidate kernels that are timed for each operation. No effect on the CPU backend.
        autotune: Autotune = Autotune::Balanced;
        /// Autotuning results at the start: `warm` reuses those of earlier jobs on this machine, `cold` starts without
        /// any.
        autotune_cache: TuningCache = TuningCache::Warm;
        /// Activation checkpointing: the backward pass recomputes activations instead of storing them. `segment:k`
        /// recomputes `k` blocks at a time from their stored input. On the CPU in `precision: f32`, training a GPT-2
        /// gives bit-identical results; in other formats, gradients differ by rounding. With dropout, segments use
        /// other random numbers.
        checkpointing: Checkpointing = Checkpointing::Off;
        /// Format of activations and gradients; weights, moments and the loss are always in single precision. With
        /// `f16`, the loss is scaled, and a step is skipped if its gradients overflow.
        precision: Precision = Precision::F32;
        /// Batches that a separate thread prepares in advance; 0 prepares each batch when it is needed.
        prefetch: usize = 0, in 0..=1024, unit "batches";
    }
}

impl Checkpointing {
    /// The number of blocks per segment, if it works by segments.
    pub const fn segment(self) -> Option<usize> {
        match self {
            Self::Off | Self::Balanced => None,
            Self::Segment1 => Some(1),
            Self::Segment2 => Some(2),
            Self::Segment3 => Some(3),
            Self::Segment4 => Some(4),
            Self::Segment6 => Some(6),
            Self::Segment8 => Some(8),
            Self::Segment12 => Some(12),
        }
    }
}

impl Switch {
    /// True for `on`.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

impl From<Switch> for Fusing {
    fn from(switch: Switch) -> Self {
        if switch.is_on() { Self::On } else { Self::Off }
    }
}

impl Fusing {
    /// True if forward and backward passes are fused.
    pub const fn fuses_network(self) -> bool {
        matches!(self, Self::On | Self::Network)
    }

    /// True if the optimizer's step is fused.
    pub const fn fuses_optimizer(self) -> bool {
        matches!(self, Self::On | Self::Optimizer)
    }
}

impl Computing {
    /// Conflicts with a network, given by its number of blocks and their structure, if these are known.
    pub(crate) fn conflicts(&self, network: Option<(usize, &BlockSpec)>) -> Vec<Conflict> {
        let Some((layers, block)) = network else { return Vec::new() };
        let mut conflicts = Vec::new();
        if let Some(blocks) = self.checkpointing.segment().filter(|blocks| *blocks > layers) {
            conflicts.push(Conflict {
                params: vec!["checkpointing", "n_layer"],
                message: format!("a segment of {blocks} blocks exceeds `n_layer: {layers}`"),
                advice: "choose a shorter segment".into(),
            });
        }
        if matches!(self.precision, Precision::Bf16 | Precision::F16) && !block.is_plain() {
            conflicts.push(Conflict {
                params: vec!["precision"],
                message: format!("the mechanisms of this architecture do not support `precision: {}`", self.precision),
                advice: "write `precision: mixed`, which computes them in single precision, or `ablation: 0`".into(),
            });
        }
        conflicts
    }
}

//! Computing options of a training: fusion, tuning, recomputation, precision.

use super::BlockSpec;
use crate::{
    Conflict,
    params::{choice, params},
};

choice! {
    /// On or off.
    pub enum Switch {
        /// Not.
        Off = "off",
        /// Yes.
        On = "on",
    }
}

choice! {
    /// Number of kernels that are timed to choose one.
    pub enum Autotune {
        /// As few as there are groups of them: Burn cannot do without.
        Minimal = "minimal",
        /// Burn's own choice.
        Balanced = "balanced",
        /// More.
        Extensive = "extensive",
        /// All.
        Full = "full",
    }
}

choice! {
    /// Knowledge of kernels at the start.
    pub enum TuningCache {
        /// Results of earlier jobs on this machine.
        Warm = "warm",
        /// Nothing.
        Cold = "cold",
    }
}

choice! {
    /// Values that the backward pass recomputes instead of keeping.
    pub enum Checkpointing {
        /// Nothing: everything that the backward pass needs is kept.
        Off = "off",
        /// Element-wise operations, where their inputs are kept anyway (Burn's balanced strategy).
        Balanced = "balanced",
        /// Every block, from its kept input.
        Segment1 = "segment:1",
        /// Two blocks at a time, from the first one's kept input.
        Segment2 = "segment:2",
        /// Three blocks at a time.
        Segment3 = "segment:3",
        /// Four blocks at a time.
        Segment4 = "segment:4",
        /// Six blocks at a time.
        Segment6 = "segment:6",
        /// Eight blocks at a time.
        Segment8 = "segment:8",
        /// Twelve blocks at a time.
        Segment12 = "segment:12",
    }
}

choice! {
    /// The formats that numbers have. Weights, moments, scores and masks are in single precision always.
    pub enum Precision {
        /// Single precision everywhere.
        F32 = "f32",
        /// Activations and gradients in bfloat16; the loss in single precision.
        Bf16 = "bf16",
        /// Activations and gradients in half precision; the loss in single precision, and scaled.
        F16 = "f16",
        /// Matrix products and attention in bfloat16, everything else in single precision.
        Mixed = "mixed",
    }
}

params! {
    /// Computation settings.
    pub struct Computing {
        /// Fuse operations to kernels that are compiled at run time. The CPU backend compiles no kernels, so that there
        /// both words compute the same.
        fusion: Switch = Switch::Off;
        /// Number of kernels that are timed to choose one. The CPU backend has no choice.
        autotune: Autotune = Autotune::Balanced;
        /// Use the kernel timings of earlier jobs, or repeat them.
        autotune_cache: TuningCache = TuningCache::Warm;
        /// Values that the backward pass recomputes instead of keeping: `segment:k` recomputes `k` blocks at a time
        /// from their kept input. A GPT-2 in `precision: f32` trains the same to the bit on the CPU; in the other
        /// formats gradients differ by their rounding. With dropout the segments draw other numbers than the rest does.
        checkpointing: Checkpointing = Checkpointing::Off;
        /// The format of activations and gradients; weights, moments and the loss are in single precision always. With
        /// `f16` the loss is scaled, and a step whose gradients overflow is left out.
        precision: Precision = Precision::F32;
        /// Batches that a thread of its own prepares ahead; 0 prepares each when it is needed.
        prefetch: usize = 0, in 0..=1024, unit "batches";
    }
}

impl Checkpointing {
    /// The blocks of a segment, if it works by segments.
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

impl Computing {
    /// `network` is the number of blocks and what they are made of, if that is known.
    pub(crate) fn conflicts(&self, network: Option<(usize, &BlockSpec)>) -> Vec<Conflict> {
        let Some((layers, block)) = network else { return Vec::new() };
        let mut conflicts = Vec::new();
        if let Some(blocks) = self.checkpointing.segment().filter(|blocks| *blocks > layers) {
            conflicts.push(Conflict {
                params: vec!["checkpointing", "n_layer"],
                message: format!("a segment of {blocks} blocks is longer than the network, which has {layers}"),
                advice: "choose shorter segments; one as long as the network keeps everything at once, as `off` does"
                    .into(),
            });
        }
        if matches!(self.precision, Precision::Bf16 | Precision::F16) && *block != BlockSpec::GPT2 {
            conflicts.push(Conflict {
                params: vec!["precision"],
                message: format!("the mechanisms of this architecture cannot compute in `{}` alone", self.precision),
                advice: "choose `mixed`, which keeps single precision for them, or `ablation: 0`".into(),
            });
        }
        conflicts
    }
}

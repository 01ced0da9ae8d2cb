//! GPU kernels in addition to Burn's: exact selection of the weights to prune, and the step of AdamW, in `CubeCL`, one
//! source for CUDA and Vulkan.
//!
//! Selection on the device corresponds to `sweep_cpu_kernels::selection` on the CPU. Scores are computed in registers
//! from weights and moments, in the pass that needs them, and never stored. Decisions are made on the device: the host
//! launches the kernels in sequence and reads once, at the end.
//!
//! - [`bracket`]: a sample gives two scores between which the threshold almost certainly lies. One pass counts the scores below, writes the
//!   masks, and stores the few scores in between, which contain the threshold; then their masks are corrected. If the counts show that the
//!   bracket missed the threshold, or that its scores exceed the buffer, radix selection reads the scores again.
//! - [`radix`]: three passes count scores by 11, 11 and 10 of their bits; a fourth writes the masks.
//!
//! [`adamw_step`] changes weights and moments in place, in one pass, with the gradient's factor and the mask.
//!
//! It is a separate package so that its kernels are compiled and tested without the lab. `docs/selection.md` has the
//! algorithm and its cost.

#![expect(
    clippy::cast_possible_truncation,
    clippy::manual_range_contains,
    clippy::trivially_copy_pass_by_ref,
    reason = "kernels are written in a part of Rust that has no other way, and count in 32 bits"
)]

mod adamw;
mod bins;
mod bracket;
mod formula;
mod launch;
mod order;
mod radix;

pub use adamw::{Tensors, adamw_step};
pub use bracket::{Reach, bracket};
use cubecl::server::Handle;
pub use launch::{scores, stream};
pub use radix::radix;
pub use sweep_job::tasks::{AdamWFactors, Formula, PRUNED};

/// Weights of a layer that kernels can count through: 2^31.
pub const MAX_LAYER_WEIGHTS: usize = 1 << 31;
/// Weights of all layers together that can be counted in 32 bits.
pub const MAX_WEIGHTS: usize = u32::MAX as usize;

/// A layer's numbers on the device: dense buffers of `length` numbers of 32 bits each.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Number of weights.
    pub length: usize,
    /// The weights.
    pub weights: Handle,
    /// Adam's first and second moment.
    pub moments: Option<[Handle; 2]>,
    /// The weights at the start.
    pub origin: Option<Handle>,
    /// 0 where a weight is pruned for good: its score is below all others.
    pub mask: Option<Handle>,
}

/// A threshold to find.
#[derive(Debug, Clone, Copy)]
pub struct Goal<'a> {
    /// The layers that share the threshold.
    pub layers: &'a [Layer],
    /// Their scores.
    pub formula: Formula,
    /// The threshold is the `k`-th smallest of all scores, `k` being at most their number; with 0 nothing is pruned.
    pub k: usize,
}

impl Goal<'_> {
    /// All weights.
    pub fn weights(&self) -> usize {
        self.layers.iter().map(|layer| layer.length).sum()
    }

    /// Rejects goals that the kernels do not support.
    fn check(&self) -> Result<(), SelectError> {
        let weights = self.weights();
        if let Some(layer) = self.layers.iter().position(|layer| layer.length > MAX_LAYER_WEIGHTS) {
            return Err(SelectError::LongLayer { layer, weights: self.layers[layer].length });
        }
        if weights > MAX_WEIGHTS {
            return Err(SelectError::TooMany { weights });
        }
        if self.k > weights {
            return Err(SelectError::Rank { k: self.k, weights });
        }
        Ok(())
    }
}

/// Result of a search.
#[derive(Debug, Clone)]
pub struct Found {
    /// The largest score that is pruned, never -0; `None` where nothing is to be pruned.
    pub threshold: Option<f32>,
    /// Weights that are pruned, by layer: those whose score is at most the threshold.
    pub pruned: Vec<usize>,
    /// Masks by layer, one number of 32 bits per weight: 1 where the weight stays, else 0. A layer without weights has a
    /// handle that is never read.
    pub masks: Vec<Handle>,
    /// Passes over all layers.
    pub passes: usize,
    /// Number of scores that were examined individually.
    pub candidates: usize,
    /// Readings from the device.
    pub readings: usize,
    /// Bytes that were allocated on the device besides the masks.
    pub extra: usize,
}

/// Error of a selection.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// A score is not a number, so nothing can be ordered.
    #[error("a score of layer {layer} is NaN")]
    NotANumber {
        /// The first such layer.
        layer: usize,
    },
    /// A layer is too long for the kernels.
    #[error("layer {layer} has {weights} weights; on a GPU at most {MAX_LAYER_WEIGHTS} can be compared")]
    LongLayer {
        /// Index of the layer.
        layer: usize,
        /// Its weights.
        weights: usize,
    },
    /// All layers together are too long for counts in 32 bits.
    #[error("the layers have {weights} weights; on a GPU at most {MAX_WEIGHTS} can be compared")]
    TooMany {
        /// Their weights.
        weights: usize,
    },
    /// There are fewer scores than are to be pruned.
    #[error("cannot prune {k} of {weights} weights")]
    Rank {
        /// Number of weights to prune.
        k: usize,
        /// Number of weights.
        weights: usize,
    },
    /// The device failed.
    #[error("{0}")]
    Device(String),
}

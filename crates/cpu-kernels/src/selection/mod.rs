//! Exact selection at memory bandwidth: the k-th smallest of all scores of many layers, and the resulting masks.
//!
//! Scores are computed in registers from weights and moments, in the pass that needs them, and never stored.
//!
//! - [`bracket`]: a sample gives two scores between which the threshold almost certainly lies (Floyd and Rivest, 1975). One pass counts the
//!   scores below and above, writes the mask, and collects the few scores in between, which contain the threshold; then the mask is corrected
//!   at their positions. If the counts show that the threshold is not in between, the bracket is moved and the pass repeated.
//! - [`radix`]: three passes count scores by their leading bits, then by the bits that follow; a fourth writes the mask.
//!   It takes the same time whatever the scores are.
//! - [`by_bins`]: GradProbe's estimate, for comparison.
//!
//! `docs/selection.md` has the cost of each in bytes.

#![expect(
    clippy::inline_always,
    reason = "a body has an instruction set only where it is inlined into a function of it"
)]

mod bins;
mod bracket;
mod floor;
mod formula;
mod lanes;
mod mask;
mod order;
mod pass;
mod radix;
#[cfg(test)]
mod tests;

pub use bins::by_bins;
pub use bracket::bracket;
pub use floor::stream;
pub use mask::Mask;
pub use pass::apply;
pub use radix::radix;
pub use sweep_job::tasks::{Formula, PRUNED};

/// A layer's numbers; slices of one length.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// The weights.
    pub weights: &'a [f32],
    /// Adam's first and second moment.
    pub moments: Option<[&'a [f32]; 2]>,
    /// The weights at the start.
    pub origin: Option<&'a [f32]>,
    /// 0 where a weight is pruned for good: its score is below all others.
    pub mask: Option<&'a [f32]>,
}

impl<'a> Layer<'a> {
    /// A layer whose weights are its scores, or are all that its scores are computed from.
    pub fn of(weights: &'a [f32]) -> Self {
        Self { weights, moments: None, origin: None, mask: None }
    }

    /// The part from `start` to `end`.
    #[inline(always)]
    fn part(&self, start: usize, end: usize) -> Self {
        Self {
            weights: &self.weights[start..end],
            moments: self.moments.map(|moments| moments.map(|moment| &moment[start..end])),
            origin: self.origin.map(|origin| &origin[start..end]),
            mask: self.mask.map(|mask| &mask[start..end]),
        }
    }
}

/// A threshold to find.
#[derive(Debug, Clone, Copy)]
pub struct Goal<'a> {
    /// The layers that share the threshold.
    pub layers: &'a [Layer<'a>],
    /// Their scores.
    pub formula: Formula,
    /// The threshold is the `k`-th smallest of all scores, `k` being at least 1 and at most their number.
    pub k: usize,
}

impl Goal<'_> {
    /// All weights.
    pub fn weights(&self) -> usize {
        self.layers.iter().map(|layer| layer.weights.len()).sum()
    }

    /// Bytes that one pass over the layers reads.
    pub fn bytes(&self) -> usize {
        self.layers.iter().flat_map(|layer| layer.reads(&self.formula)).map(size_of_val).sum()
    }
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The largest score that is pruned; never -0.
    pub threshold: f32,
    /// Weights that are pruned, by layer: those whose score is at most the threshold.
    pub pruned: Vec<usize>,
    /// Passes over all layers.
    pub passes: usize,
    /// Number of scores that were examined individually.
    pub candidates: usize,
    /// Maximum number of bytes that were allocated at the same time, without the masks.
    pub extra: usize,
}

/// A score is not a number, so nothing can be ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a score of layer {layer} is NaN")]
pub struct NotANumber {
    /// Index of the layer.
    pub layer: usize,
}

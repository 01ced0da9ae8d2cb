//! The structure of a block, with all defaults resolved.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ExpertsSpec, GatePool, Parts, RaCtApply, RaCtStatistic, RecipTying, SizeDims, scaled, scaled_window};

/// The structure of a block. The default is GPT-2's block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockSpec {
    /// The kind of attention.
    pub attention: AttentionKind,
    /// Hidden width of the MLP; `None` is four times `d_model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mlp_hidden: Option<usize>,
    /// A reciprocal MLP in place of GPT-2's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r_mlp: Option<RMlpSpec>,
    /// Reciprocal attention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reciprocal: Option<ReciprocalSpec>,
    /// The gate from an MLP to the heads of the next block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateSpec>,
    /// Cross-token aggregation in the MLP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross: Option<CrossSpec>,
    /// Latent reciprocity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recip: Option<RecipSpec>,
    /// RA-CT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ra_ct: Option<RaCtSpec>,
    /// Pruning of keys and values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_prune: Option<KvPruneSpec>,
    /// A mixture of experts in place of the MLP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<ExpertsSpec>,
    /// The parts in which decoders differ.
    #[serde(default, skip_serializing_if = "Parts::is_gpt2")]
    pub parts: Parts,
}

/// A kind of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKind {
    /// Separate queries, keys and values for each head.
    #[default]
    Standard,
    /// Multi-head latent attention: keys and values of all heads from latent vectors of width `dim` (ratio-ablation,
    /// section 4.2).
    Latent {
        /// Width of a latent vector.
        dim: usize,
    },
    /// Standard attention without biases, in which the last `rank` elements of queries and keys are swapped, so that
    /// they score the reverse pair (ratio-ablation, section 9.1).
    Folded {
        /// Swapped elements per head.
        rank: usize,
        /// Weigh the two scores per head.
        per_head: bool,
        /// Mix a head's output with the value at the query's own position.
        restart: bool,
    },
}

/// An MLP in two parts with separate weights (ratio-ablation, section 9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RMlpSpec {
    /// Hidden width of the reciprocal part, out of the MLP's.
    pub low: usize,
    /// Mix the reciprocal part by a square matrix.
    pub mixer: bool,
    /// Scale the reciprocal part by a learned number.
    pub gate: bool,
}

/// Pruning of keys and values by the attention that they received from queries so far (ratio-ablation, section 9.4).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KvPruneSpec {
    /// The number of visible keys that a query keeps.
    pub keep: Keep,
    /// Number of most recent keys that are always kept.
    pub recency: usize,
}

/// The number of keys to keep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// An absolute number.
    Count(usize),
    /// A fraction of the visible keys.
    Part(f64),
}

/// Reciprocal attention (ratio-ablation, section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReciprocalSpec {
    /// Initial weight of the reverse score.
    pub alpha: f64,
    /// Width of the band in tokens before the query; the query's own token is always included.
    pub window: usize,
}

/// The head gate (ratio-ablation, section 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GateSpec {
    /// Initial strength.
    pub alpha: f64,
    /// Width.
    pub dim: usize,
    /// Tokens over which its input is averaged.
    pub pool: GatePool,
}

/// Cross-token aggregation (ratio-ablation, section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CrossSpec {
    /// Initial strength.
    pub alpha: f64,
    /// The attention weights to keep.
    pub select: Selection,
    /// Normalize the kept weights to a sum of 1; never with [`Selection::All`].
    #[serde(rename = "normalise")]
    pub normalize: bool,
    /// Projection of the gathered values.
    pub projection: CrossProjection,
}

/// The attention weights of a row to keep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// The `k` largest weights.
    TopK {
        /// Number of weights.
        k: usize,
    },
    /// Weights of at least `tau` times the root mean square of the visible weights.
    Rms {
        /// The factor.
        tau: f64,
    },
    /// All.
    All,
}

/// The projection in cross-token aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossProjection {
    /// A square matrix of the MLP's hidden width.
    Full,
    /// A bottleneck of width `dim`.
    Bottleneck {
        /// Width of the bottleneck.
        dim: usize,
    },
}

/// Latent reciprocity (ratio-ablation, section 4.6).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RecipSpec {
    /// Initial strength in both directions.
    pub alpha: f64,
    /// Weight sharing between the two directions.
    pub tying: RecipTying,
}

/// RA-CT (ratio-ablation, section 4.7).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RaCtSpec {
    /// Statistic from which the gate is computed; never [`RaCtStatistic::None`].
    pub statistic: RaCtStatistic,
    /// Target of the gate.
    pub apply: RaCtApply,
    /// Fraction of the weights or of the output that the gate scales.
    pub alpha: f64,
    /// Number of weights that `topk` sums.
    pub k: usize,
    /// Compute the statistic on the mean over heads.
    pub head_average: bool,
    /// Stop the gradient at the statistic.
    pub detach: bool,
    /// Blend `output` by `alpha`, too.
    pub output_mix: bool,
}

impl ReciprocalSpec {
    /// The value in the ablation's steps, for a network of this size.
    pub(super) fn scaled(size: SizeDims) -> Self {
        Self { alpha: 0.3, window: scaled_window(size.block_size) }
    }
}

impl GateSpec {
    /// The value in the ablation's steps, with a width of `dim` at `d_model` 768.
    pub(super) fn scaled(dim: usize, size: SizeDims) -> Self {
        Self { alpha: 0.1, dim: scaled(dim, size.d_model), pool: GatePool::PrefixMean }
    }
}

impl CrossSpec {
    /// The value in the ablation's steps, for a network of this size.
    pub(super) fn scaled(size: SizeDims) -> Self {
        Self {
            alpha: 0.3,
            select: Selection::TopK { k: 8 },
            normalize: true,
            projection: CrossProjection::Bottleneck { dim: scaled(96, size.d_model) },
        }
    }
}

impl Default for RecipSpec {
    fn default() -> Self {
        Self { alpha: 0.2, tying: RecipTying::TiedTranspose }
    }
}

impl Default for RaCtSpec {
    fn default() -> Self {
        Self {
            statistic: RaCtStatistic::Topk,
            apply: RaCtApply::Output,
            alpha: 0.2,
            k: 8,
            head_average: false,
            detach: false,
            output_mix: false,
        }
    }
}

/// A part of a block that can be omitted without changing the shapes of the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Reciprocal attention.
    Reciprocal,
    /// The head gate.
    Gate,
    /// Cross-token aggregation.
    Cross,
    /// Latent reciprocity.
    Recip,
    /// RA-CT.
    RaCt,
    /// The reciprocal part of folded attention.
    Folded,
    /// The value at the query's own position in a head's output.
    Restart,
    /// The reciprocal part of the MLP.
    RMlp,
    /// Pruning of keys and values.
    KvPrune,
}

impl Mechanism {
    /// True if the coupling scale applies to it: at scale 0, the network computes as if it were absent.
    pub fn is_coupled(self) -> bool {
        !matches!(self, Self::RaCt | Self::Restart | Self::KvPrune)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reciprocal => "reciprocal attention",
            Self::Gate => "the head gate",
            Self::Cross => "cross-token aggregation",
            Self::Recip => "latent reciprocity",
            Self::RaCt => "RA-CT",
            Self::Folded => "the reciprocal part of attention",
            Self::Restart => "self-restart",
            Self::RMlp => "the reciprocal part of the MLP",
            Self::KvPrune => "pruning of keys and values",
        })
    }
}

impl Default for BlockSpec {
    fn default() -> Self {
        Self::GPT2
    }
}

impl BlockSpec {
    /// GPT-2's block.
    pub const GPT2: Self = Self {
        attention: AttentionKind::Standard,
        mlp_hidden: None,
        r_mlp: None,
        reciprocal: None,
        gate: None,
        cross: None,
        recip: None,
        ra_ct: None,
        kv_prune: None,
        experts: None,
        parts: Parts::GPT2,
    };

    /// True if the block has standard attention and a plain MLP, of any width and made of any parts, without mechanisms.
    pub fn is_plain(&self) -> bool {
        Self { mlp_hidden: None, parts: Parts::GPT2, ..*self } == Self::GPT2
    }

    /// The mechanisms of the block.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        let all = [
            (Mechanism::Reciprocal, self.reciprocal.is_some()),
            (Mechanism::Gate, self.gate.is_some()),
            (Mechanism::Cross, self.cross.is_some()),
            (Mechanism::Recip, self.recip.is_some()),
            (Mechanism::RaCt, self.ra_ct.is_some()),
            (Mechanism::Folded, matches!(self.attention, AttentionKind::Folded { .. })),
            (Mechanism::Restart, matches!(self.attention, AttentionKind::Folded { restart: true, .. })),
            (Mechanism::RMlp, self.r_mlp.is_some()),
            (Mechanism::KvPrune, self.kv_prune.is_some()),
        ];
        all.into_iter().filter_map(|(mechanism, on)| on.then_some(mechanism)).collect()
    }
}

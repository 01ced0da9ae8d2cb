//! The parts in which decoders differ: normalization, positions, heads of keys, biases, the form of the MLP and of the
//! output layer. All defaults give GPT-2; [`Parts::LLAMA`] gives Llama.

use serde::{Deserialize, Serialize};

use super::{Architecture, AttentionKind, BlockSpec, SizeDims};
use crate::{Conflict, params::choice};

choice! {
    /// A normalization of the residual stream.
    pub enum NormKind {
        /// LayerNorm: subtracts the mean, divides by the standard deviation, multiplies by a gain and adds a bias.
        LayerNorm = "layernorm",
        /// RMSNorm (Zhang and Sennrich 2019): divides by the root mean square and multiplies by a gain.
        RmsNorm = "rmsnorm",
    }
}

choice! {
    /// The position embeddings of a network.
    pub enum PositionKind {
        /// A learned table, added to the token embeddings.
        Learned = "learned",
        /// Rotary position embeddings (Su et al. 2021): rotates queries and keys by angles proportional to the position.
        Rope = "rope",
        /// No position embeddings: the network gets the order of tokens only from the causal mask.
        None = "none",
    }
}

choice! {
    /// A scaling of RoPE's frequencies for contexts that are longer than the training context.
    pub enum RopeScalingKind {
        /// No scaling.
        None = "none",
        /// Divides all frequencies by `rope_factor` (Chen et al. 2023).
        Linear = "linear",
        /// Divides low frequencies by `rope_factor`, keeps high ones, and interpolates between them, as Llama 3.1 does.
        Llama3 = "llama3",
    }
}

/// The parts in which decoders differ. The default is GPT-2's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Parts {
    /// The normalization before attention, before the MLP and before the output layer.
    pub norm: NormKind,
    /// Number added to the variance or to the mean square.
    pub norm_epsilon: f64,
    /// The representation of positions.
    pub position: Position,
    /// Heads of keys and values; `None` is one for each head of queries.
    pub kv_heads: Option<usize>,
    /// Normalize the queries and the keys of each head by RMSNorm with a gain.
    pub qk_norm: bool,
    /// Blocks at each end whose attention mixes a table of the input tokens with its values.
    #[serde(skip_serializing_if = "is_zero")]
    pub value_embeddings: usize,
    /// Biases in linear layers and LayerNorms.
    pub bias: bool,
    /// A gated linear unit as MLP.
    pub glu: bool,
    /// Use the token table as output layer.
    pub tie: bool,
    /// Limit of the logits' magnitude; 0 is no limit.
    pub logit_cap: f64,
    /// The maximal update parametrization, by the width at which it has the standard one's weights and learning rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mup_base_width: Option<usize>,
}

/// A representation of the positions of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// A learned table.
    Learned,
    /// Rotary position embeddings.
    Rope {
        /// Base of the wavelengths.
        theta: f64,
        /// Scaling of the frequencies.
        scaling: Option<RopeScaling>,
    },
    /// None.
    None,
}

/// A scaling of RoPE's frequencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RopeScaling {
    /// Divides all frequencies.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Divides frequencies of long wavelengths.
    Llama3 {
        /// The divisor.
        factor: f64,
        /// Wavelengths above `original / low` are divided.
        low: f64,
        /// Wavelengths below `original / high` are kept.
        high: f64,
        /// Context of the training in tokens.
        original: f64,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Default for Parts {
    fn default() -> Self {
        Self::GPT2
    }
}

impl Parts {
    /// GPT-2's parts.
    pub const GPT2: Self = Self {
        norm: NormKind::LayerNorm,
        norm_epsilon: 1e-5,
        position: Position::Learned,
        kv_heads: None,
        qk_norm: false,
        value_embeddings: 0,
        bias: true,
        glu: false,
        tie: true,
        logit_cap: 0.0,
        mup_base_width: None,
    };

    /// Llama's parts (Touvron et al. 2023), of which `kv_heads`, `theta`, `norm_epsilon` and `tie` differ by size and version.
    pub const LLAMA: Self = Self {
        norm: NormKind::RmsNorm,
        position: Position::Rope { theta: 10_000.0, scaling: None },
        bias: false,
        glu: true,
        tie: false,
        ..Self::GPT2
    };

    /// True for GPT-2's parts.
    pub fn is_gpt2(&self) -> bool {
        *self == Self::GPT2
    }

    /// Heads of keys and values, for `n_head` heads of queries.
    pub fn kv_heads(&self, n_head: usize) -> usize {
        self.kv_heads.unwrap_or(n_head)
    }

    /// True if block `block` of `n_layer` mixes the table of value embeddings with its values.
    pub fn mixes_values(&self, block: usize, n_layer: usize) -> bool {
        let at_each_end = self.value_embeddings;
        block < at_each_end || block.saturating_add(at_each_end) >= n_layer
    }

    /// Hidden width of a gated MLP in a network of width `d_model`: two thirds of `4 d_model`, so that its three matrices
    /// have about as many weights as two, rounded to a multiple of 8.
    pub(super) fn gated_width(d_model: usize) -> usize {
        (((8 * d_model).div_ceil(3) + 4) / 8 * 8).max(8)
    }
}

impl Architecture {
    /// The parts that the parameters select in a network of size `size`.
    pub(super) fn parts(&self, size: SizeDims) -> Parts {
        let factor = self.rope_factor.unwrap_or(8.0);
        let scaling = match self.rope_scaling {
            RopeScalingKind::None => None,
            RopeScalingKind::Linear => Some(RopeScaling::Linear { factor }),
            RopeScalingKind::Llama3 => {
                let original = self.rope_original.unwrap_or(8192) as f64;
                Some(RopeScaling::Llama3 { factor, low: 1.0, high: 4.0, original })
            }
        };
        Parts {
            norm: self.norm,
            norm_epsilon: self.norm_epsilon,
            position: match self.position {
                PositionKind::Learned => Position::Learned,
                PositionKind::Rope => Position::Rope { theta: self.rope_theta.unwrap_or(10_000.0), scaling },
                PositionKind::None => Position::None,
            },
            kv_heads: self.kv_heads.filter(|heads| *heads != size.n_head),
            qk_norm: self.qk_norm,
            value_embeddings: self.value_embeddings,
            bias: self.bias,
            glu: self.glu,
            tie: self.tie,
            logit_cap: self.logit_cap,
            mup_base_width: self.mup_base_width(),
        }
    }

    /// The parameters of parts that have no effect here, each with the setting that they need.
    pub(super) fn ineffective_parts(&self) -> Vec<(&'static str, &'static str)> {
        let rope = self.position == PositionKind::Rope;
        let scaled = rope && self.rope_scaling != RopeScalingKind::None;
        let given = [
            ("rope_theta", self.rope_theta.is_some() && !rope, "position: rope"),
            ("rope_scaling", self.rope_scaling != RopeScalingKind::None && !rope, "position: rope"),
            ("rope_factor", self.rope_factor.is_some() && !scaled, "rope_scaling: llama3"),
            (
                "rope_original",
                self.rope_original.is_some() && !(scaled && self.rope_scaling == RopeScalingKind::Llama3),
                "rope_scaling: llama3",
            ),
        ];
        given.into_iter().filter(|(_, idle, _)| *idle).map(|(name, _, need)| (name, need)).collect()
    }
}

impl BlockSpec {
    /// The first reason why a network of `n_head` heads and width `d_model` cannot have these parts.
    pub fn misfit(&self, n_head: usize, d_model: usize) -> Option<Conflict> {
        let parts = &self.parts;
        let rope = matches!(parts.position, Position::Rope { .. });
        let kv_heads = parts.kv_heads(n_head);
        let conflict = |params: &[&'static str], message: String, advice: &str| {
            Some(Conflict { params: params.to_vec(), message, advice: advice.to_owned() })
        };
        if kv_heads == 0 || !n_head.is_multiple_of(kv_heads) {
            let message = format!("`kv_heads: {kv_heads}` does not divide `n_head: {n_head}`");
            return conflict(&["kv_heads", "n_head"], message, "choose a `kv_heads` that divides `n_head`");
        }
        let width = d_model / n_head.max(1);
        if rope && !width.is_multiple_of(2) {
            let message = format!("`position: rope` rotates pairs of numbers, but a head has a width of {width}");
            return conflict(&["position", "n_head"], message, "choose `d_model` and `n_head` with an even quotient");
        }
        if self.attention != AttentionKind::Standard {
            let parts = [
                ("position", rope, "position: rope"),
                ("kv_heads", parts.kv_heads.is_some(), "kv_heads"),
                ("qk_norm", parts.qk_norm, "qk_norm: true"),
                ("value_embeddings", parts.value_embeddings > 0, "value_embeddings"),
            ];
            if let Some((name, _, setting)) = parts.into_iter().find(|(_, on, _)| *on) {
                let kind = match self.attention {
                    AttentionKind::Latent { .. } => "multi-head latent attention",
                    _ => "the reciprocal attention of the unified series",
                };
                let message = format!("`{setting}` is not supported in {kind}");
                let advice = format!("remove `{name}`, or write `attention: standard`");
                return conflict(&[name, "attention"], message, &advice);
            }
        }
        if let Some(conflict) = self.misfit_of_experts().or_else(|| self.misfit_of_parametrization()) {
            return Some(conflict);
        }
        if self.r_mlp.is_some() && parts.glu {
            let message = "`glu: true` is not supported in the MLP with a reciprocal part".to_owned();
            return conflict(&["glu", "ablation"], message, "remove `glu`, or choose another `ablation`");
        }
        None
    }
}

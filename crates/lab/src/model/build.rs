//! Construction of a network's parameters, in order, from named values.

use burn::{
    module::Param,
    tensor::{Tensor, TensorData, backend::Backend},
};
use sweep_job::tasks::{
    AttentionKind, CrossProjection, CrossSpec, ExpertsSpec, GateSpec, NormKind, Parts, RMlpSpec, RaCtSpec, RecipSpec,
    RecipTying, ReciprocalSpec,
};

use super::{
    attention::{FoldedAttention, LatentAttention, TokenMixer},
    block::Block,
    dims::GptDims,
    experts::Experts,
    feed_forward::{FeedForward, ReciprocalMlp},
    layers::{Attention, Linear, Mlp, Norm},
    mechanisms::{CrossToken, HeadGate, LatentReciprocity, RaCt, Reciprocal},
    param_info::ParamInfo,
};
use crate::LabError;

/// Makes parameters from named values.
pub(crate) struct Builder<'a, B: Backend> {
    pub(crate) dims: GptDims,
    pub(crate) device: &'a B::Device,
    pub(crate) values_of: &'a mut dyn FnMut(&ParamInfo) -> Result<Vec<f32>, LabError>,
    /// Prefix of the names, such as `h.3.`.
    pub(crate) prefix: String,
}

impl<B: Backend> Builder<'_, B> {
    pub(crate) fn tensor<const D: usize>(
        &mut self,
        name: &str,
        shape: [usize; D],
    ) -> Result<Param<Tensor<B, D>>, LabError> {
        let info = ParamInfo { name: format!("{}{name}", self.prefix), shape: shape.to_vec() };
        let values = (self.values_of)(&info)?;
        Ok(Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), self.device)))
    }

    /// A layer that always has a bias.
    fn biased(&mut self, name: &str, input: usize, output: usize) -> Result<Linear<B>, LabError> {
        Ok(Linear {
            weight: self.tensor(&format!("{name}.weight"), [input, output])?,
            bias: Some(self.tensor(&format!("{name}.bias"), [output])?),
        })
    }

    fn unbiased(&mut self, name: &str, input: usize, output: usize) -> Result<Linear<B>, LabError> {
        Ok(Linear { weight: self.tensor(&format!("{name}.weight"), [input, output])?, bias: None })
    }

    /// A layer that has a bias if the network has biases.
    fn linear(&mut self, name: &str, input: usize, output: usize) -> Result<Linear<B>, LabError> {
        if self.dims.block.parts.bias { self.biased(name, input, output) } else { self.unbiased(name, input, output) }
    }

    /// A normalization of the residual stream.
    pub(crate) fn norm(&mut self, name: &str, width: usize) -> Result<Norm<B>, LabError> {
        self.norm_of(self.dims.block.parts.norm, name, width)
    }

    fn norm_of(&mut self, kind: NormKind, name: &str, width: usize) -> Result<Norm<B>, LabError> {
        let Parts { norm_epsilon: epsilon, bias, .. } = self.dims.block.parts;
        let weight = self.tensor(&format!("{name}.weight"), [width])?;
        let has_bias = bias && kind == NormKind::LayerNorm;
        let bias = if has_bias { Some(self.tensor(&format!("{name}.bias"), [width])?) } else { None };
        Ok(Norm { weight, bias, kind, epsilon })
    }

    /// Block `index`.
    pub(crate) fn block(&mut self, index: usize) -> Result<Block<B>, LabError> {
        self.prefix = format!("h.{index}.");
        let d = self.dims.d_model;
        let spec = self.dims.block;
        let block = Block {
            ln_1: self.norm("ln_1", d)?,
            attn: self.attention(index)?,
            ln_2: self.norm("ln_2", d)?,
            mlp: self.feed_forward()?,
            ra: spec.reciprocal.map(|spec| self.reciprocal(spec)).transpose()?,
            gate: spec.gate.map(|spec| self.gate(spec)).transpose()?,
            cross: spec.cross.map(|spec| self.cross(spec)).transpose()?,
            recip: match (spec.recip, spec.attention) {
                (Some(recip), AttentionKind::Latent { dim }) => Some(self.recip(recip, dim)?),
                _ => None,
            },
            ra_ct: spec.ra_ct.map(|spec| self.ra_ct(spec)).transpose()?,
            kv_prune: spec.kv_prune.is_some(),
        };
        self.prefix.clear();
        Ok(block)
    }

    fn attention(&mut self, index: usize) -> Result<TokenMixer<B>, LabError> {
        let GptDims { d_model: d, n_head, .. } = self.dims;
        let width = d / n_head;
        Ok(match self.dims.block.attention {
            AttentionKind::Standard => {
                let Parts { qk_norm, mup_base_width, .. } = self.dims.block.parts;
                let kv_heads = self.dims.block.parts.kv_heads(n_head);
                let mixes_values = self.dims.block.parts.mixes_values(index, self.dims.n_layer);
                TokenMixer::Standard(Attention {
                    c_attn: self.linear("attn.c_attn", d, d + 2 * self.dims.shared_width())?,
                    c_proj: self.linear("attn.c_proj", d, d)?,
                    q_norm: qk_norm.then(|| self.norm_of(NormKind::RmsNorm, "attn.q_norm", width)).transpose()?,
                    k_norm: qk_norm.then(|| self.norm_of(NormKind::RmsNorm, "attn.k_norm", width)).transpose()?,
                    value_mix: mixes_values.then(|| self.tensor("attn.value_mix", [2])).transpose()?,
                    n_head,
                    kv_heads,
                    // With the parametrization, scores are divided by the width.
                    score_factor: if mup_base_width.is_some() { (width as f64).sqrt().recip() } else { 1.0 },
                })
            }
            AttentionKind::Latent { dim } => TokenMixer::Latent(LatentAttention {
                q: self.unbiased("attn.q", d, d)?,
                k_down: self.unbiased("attn.k_down", d, dim)?,
                v_down: self.unbiased("attn.v_down", d, dim)?,
                q_latent: self.tensor("attn.q_latent", [n_head, width, dim])?,
                v_up: self.tensor("attn.v_up", [n_head, dim, width])?,
                c_proj: self.unbiased("attn.c_proj", d, d)?,
            }),
            AttentionKind::Folded { rank, per_head, restart } => TokenMixer::Folded(FoldedAttention {
                c_attn: self.unbiased("attn.c_attn", d, 3 * d)?,
                c_proj: self.unbiased("attn.c_proj", d, d)?,
                w_std: self.tensor("attn.w_std", [if per_head { n_head } else { 1 }])?,
                w_rec: self.tensor("attn.w_rec", [if per_head { n_head } else { 1 }])?,
                restart: if restart { Some(self.tensor("attn.restart", [n_head])?) } else { None },
                n_head,
                rank,
                live: true,
            }),
        })
    }

    /// The MLP whose parameters have names that begin with `name`.
    fn mlp(&mut self, name: &str) -> Result<Mlp<B>, LabError> {
        let (d, hidden) = (self.dims.d_model, self.dims.mlp_hidden());
        let is_gated = self.dims.block.parts.glu;
        Ok(Mlp {
            c_fc: self.linear(&format!("{name}.c_fc"), d, hidden)?,
            c_gate: is_gated.then(|| self.linear(&format!("{name}.c_gate"), d, hidden)).transpose()?,
            c_proj: self.linear(&format!("{name}.c_proj"), hidden, d)?,
        })
    }

    fn feed_forward(&mut self) -> Result<FeedForward<B>, LabError> {
        let (d, hidden) = (self.dims.d_model, self.dims.mlp_hidden());
        if let Some(ExpertsSpec { count, per_token }) = self.dims.block.experts {
            return Ok(FeedForward::Experts(Experts {
                router: self.unbiased("mlp.router", d, count)?,
                experts: (0..count).map(|index| self.mlp(&format!("mlp.experts.{index}"))).collect::<Result<_, _>>()?,
                per_token,
                logit_factor: self.dims.width_ratio().recip(),
            }));
        }
        let Some(RMlpSpec { low, mixer, gate }) = self.dims.block.r_mlp else {
            return Ok(FeedForward::Plain(self.mlp("mlp")?));
        };
        Ok(FeedForward::Reciprocal(ReciprocalMlp {
            up_std: self.unbiased("mlp.up_std", d, hidden - low)?,
            up_low: self.unbiased("mlp.up_low", d, low)?,
            mixer: if mixer { Some(self.unbiased("mlp.mixer", low, low)?) } else { None },
            gate_low: if gate { Some(self.tensor("mlp.gate_low", [1])?) } else { None },
            w_std: self.tensor("mlp.w_std", [1])?,
            w_rec: self.tensor("mlp.w_rec", [1])?,
            c_proj: self.unbiased("mlp.c_proj", hidden, d)?,
            live: true,
        }))
    }

    fn reciprocal(&mut self, spec: ReciprocalSpec) -> Result<Reciprocal<B>, LabError> {
        Ok(Reciprocal { alpha: self.tensor("ra.alpha", [1])?, spec })
    }

    fn gate(&mut self, spec: GateSpec) -> Result<HeadGate<B>, LabError> {
        Ok(HeadGate {
            alpha: self.tensor("gate.alpha", [1])?,
            pool: self.biased("gate.pool", self.dims.mlp_hidden(), spec.dim)?,
            heads: self.biased("gate.heads", spec.dim, self.dims.n_head)?,
            spec,
        })
    }

    fn cross(&mut self, spec: CrossSpec) -> Result<CrossToken<B>, LabError> {
        let hidden = self.dims.mlp_hidden();
        let alpha = self.tensor("cross.alpha", [1])?;
        let (down, up) = match spec.projection {
            CrossProjection::Full => (self.unbiased("cross.down", hidden, hidden)?, None),
            CrossProjection::Bottleneck { dim } => {
                (self.unbiased("cross.down", hidden, dim)?, Some(self.unbiased("cross.up", dim, hidden)?))
            }
        };
        Ok(CrossToken { alpha, down, up, spec })
    }

    fn recip(&mut self, spec: RecipSpec, latent: usize) -> Result<LatentReciprocity<B>, LabError> {
        let hidden = self.dims.mlp_hidden();
        Ok(LatentReciprocity {
            alpha_mlp: self.tensor("recip.alpha_mlp", [1])?,
            alpha_attn: self.tensor("recip.alpha_attn", [1])?,
            back: self.unbiased("recip.back", hidden, latent)?,
            enrich: match spec.tying {
                RecipTying::TiedTranspose => None,
                RecipTying::Untied => Some(self.unbiased("recip.enrich", latent, hidden)?),
            },
        })
    }

    fn ra_ct(&mut self, spec: RaCtSpec) -> Result<RaCt<B>, LabError> {
        let heads = self.dims.n_head;
        Ok(RaCt { scale: self.tensor("ra_ct.scale", [heads])?, bias: self.tensor("ra_ct.bias", [heads])?, spec })
    }
}

//! The layers of decoders, with nanoGPT's names.

#![expect(clippy::struct_field_names, reason = "fields have the names of the tensors in published networks")]

use burn::{
    module::{Module, Param},
    tensor::{Int, Tensor, backend::Backend},
};
use sweep_job::tasks::{Activation, NormKind};

use super::{inputs, rope::Rope};
use crate::ops::{Ops, autocast, plain::dropout};

/// Added to the variance in a LayerNorm.
pub const LAYER_NORM_EPSILON: f64 = 1e-5;

/// A table with a row per token or position.
#[derive(Module, Debug)]
pub struct Embedding<B: Backend> {
    /// `[rows, d_model]`.
    pub weight: Param<Tensor<B, 2>>,
}

impl<B: Ops> Embedding<B> {
    /// The rows of `ids` `[batch, length]`, as `[batch, length, d_model]`.
    pub fn forward(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        Ops::embedding(self.weight.val(), ids)
    }
}

/// `x W + b`, or `x W`.
#[derive(Module, Debug)]
pub struct Linear<B: Backend> {
    /// `[in, out]`.
    pub weight: Param<Tensor<B, 2>>,
    /// `[out]`.
    pub bias: Option<Param<Tensor<B, 1>>>,
}

impl<B: Ops> Linear<B> {
    /// `[rows, in]` to `[rows, out]`.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        inputs::saw(&self.weight, &x);
        match &self.bias {
            Some(bias) => Ops::linear(x, self.weight.val(), bias.val()),
            None => autocast::product(x, self.weight.val()),
        }
    }

    /// The activation function of [`forward`](Self::forward).
    pub(crate) fn forward_activated(&self, x: Tensor<B, 2>, activation: Activation) -> Tensor<B, 2> {
        let Some(bias) = &self.bias else { return Ops::activation(self.forward(x), activation) };
        inputs::saw(&self.weight, &x);
        B::linear_activation(x, self.weight.val(), bias.val(), activation)
    }
}

/// A normalization of rows.
#[derive(Module, Debug)]
pub struct Norm<B: Backend> {
    /// The gain `[width]`.
    pub weight: Param<Tensor<B, 1>>,
    /// `[width]`; of a LayerNorm only.
    pub bias: Option<Param<Tensor<B, 1>>>,
    #[module(skip)]
    pub(crate) kind: NormKind,
    /// Added to the variance or to the mean square.
    pub(crate) epsilon: f64,
}

impl<B: Backend> Norm<B> {
    /// A LayerNorm.
    pub fn layer_norm(weight: Param<Tensor<B, 1>>, bias: Param<Tensor<B, 1>>) -> Self {
        Self { weight, bias: Some(bias), kind: NormKind::LayerNorm, epsilon: LAYER_NORM_EPSILON }
    }
}

impl<B: Ops> Norm<B> {
    /// Normalizes the rows of `[rows, width]`.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let gain = self.weight.val();
        match self.kind {
            NormKind::RmsNorm => Ops::rms_norm(x, gain, self.epsilon),
            NormKind::LayerNorm => {
                let bias = match &self.bias {
                    Some(bias) => bias.val(),
                    None => Tensor::zeros(gain.dims(), (&gain.device(), gain.dtype())),
                };
                Ops::layer_norm(x, gain, bias, self.epsilon)
            }
        }
    }
}

/// Causal self-attention with queries, keys and values from one product. Heads of queries may share heads of keys and
/// values.
#[derive(Module, Debug)]
pub struct Attention<B: Backend> {
    /// Projection to queries, keys and values, `[d_model, d_model + 2 kv_heads width]`.
    pub c_attn: Linear<B>,
    /// Back to the residual stream, `[d_model, d_model]`.
    pub c_proj: Linear<B>,
    /// Normalization of the queries of a head, over its width.
    pub q_norm: Option<Norm<B>>,
    /// Normalization of the keys of a head, over its width.
    pub k_norm: Option<Norm<B>>,
    /// Factors of the values and of their embeddings, `[2]`, where these are mixed.
    pub value_mix: Option<Param<Tensor<B, 1>>>,
    /// Heads of queries.
    pub n_head: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Factor of the scores in addition to the reciprocal root of a head's width: 1, or that root once more.
    pub score_factor: f64,
}

impl<B: Ops> Attention<B> {
    /// Mixes the tokens of every sequence in `x` `[batch * length, d_model]`.
    ///
    /// `mask` `[1, length * length]` is added to the scores: 0 where a query may look, a large negative number where
    /// it may not. `rope` rotates queries and keys. `embedded` `[batch * length, kv_heads width]` are the tokens' value
    /// embeddings. `dropout` applies to the probabilities and to the output.
    pub fn forward(
        &self,
        x: Tensor<B, 2>,
        batch: usize,
        mask: &Tensor<B, 2>,
        rope: Option<&Rope<B>>,
        embedded: Option<&Tensor<B, 2>>,
        dropout_p: f64,
    ) -> Tensor<B, 2> {
        let qkv = self.c_attn.forward(x);
        let is_plain = rope.is_none()
            && self.q_norm.is_none()
            && self.value_mix.is_none()
            && self.kv_heads == self.n_head
            && self.score_factor == 1.0;
        let qkv = if is_plain { qkv } else { self.joined(&qkv, batch, rope, embedded) };
        let context = match autocast::cast_format::<B>() {
            None => B::causal_attention(qkv, batch, self.n_head, mask, dropout_p),
            // Scores and probabilities are the largest tensors of a block, so they keep the short format, too.
            Some(format) => {
                let original_format = qkv.dtype();
                let mask = mask.clone().cast(format);
                B::causal_attention(qkv.cast(format), batch, self.n_head, &mask, dropout_p).cast(original_format)
            }
        };
        dropout(self.c_proj.forward(context), dropout_p)
    }

    /// Scaled queries `[batch, heads, length, width]`, and keys and values `[batch, kv_heads, length, width]`, of `x`
    /// `[batch * length, d_model]`.
    pub(crate) fn project(
        &self,
        x: Tensor<B, 2>,
        batch: usize,
        rope: Option<&Rope<B>>,
        embedded: Option<&Tensor<B, 2>>,
    ) -> [Tensor<B, 4>; 3] {
        let [rows, d_model] = x.dims();
        let (length, width) = (rows / batch, d_model / self.n_head);
        let [queries, keys, values] = self.rotated(&self.c_attn.forward(x), batch, rope, embedded);
        let split = |part: Tensor<B, 2>, heads: usize| part.reshape([batch, length, heads, width]).swap_dims(1, 2);
        // Scaling the queries touches fewer numbers than scaling the scores.
        let queries = split(queries * (width as f64).sqrt().recip(), self.n_head);
        [queries, split(keys, self.kv_heads), split(values, self.kv_heads)]
    }

    /// The queries `[rows, d_model]`, keys and values `[rows, kv_heads width]` in `qkv`, normalized and rotated; queries times
    /// the factor of the scores, and values mixed with `embedded`.
    fn rotated(
        &self,
        qkv: &Tensor<B, 2>,
        batch: usize,
        rope: Option<&Rope<B>>,
        embedded: Option<&Tensor<B, 2>>,
    ) -> [Tensor<B, 2>; 3] {
        let [rows, _] = qkv.dims();
        let d_model = self.c_attn.weight.dims()[0];
        let shared = d_model / self.n_head * self.kv_heads;
        // Columns of part 0, 1, 2 are queries, keys, values.
        let part = |start: usize, columns: usize| qkv.clone().slice([0..rows, start..start + columns]);
        let prepare = |part: Tensor<B, 2>, norm: &Option<Norm<B>>| {
            let [rows, columns] = part.dims();
            let part = match norm {
                Some(norm) => {
                    let width = norm.weight.dims()[0];
                    norm.forward(part.reshape([rows * (columns / width), width])).reshape([rows, columns])
                }
                None => part,
            };
            match rope {
                Some(rope) => rope.rotate(&part, batch),
                None => part,
            }
        };
        let queries = prepare(part(0, d_model), &self.q_norm);
        let queries = if self.score_factor == 1.0 { queries } else { queries * self.score_factor };
        let keys = prepare(part(d_model, shared), &self.k_norm);
        let values = part(d_model + shared, shared);
        let values = match (&self.value_mix, embedded) {
            (Some(mix), Some(embedded)) => {
                let factor = |index: usize| mix.val().narrow(0, index, 1).unsqueeze::<2>();
                values * factor(0) + embedded.clone() * factor(1)
            }
            _ => values,
        };
        [queries, keys, values]
    }

    /// `qkv` after [`rotated`](Self::rotated), `[rows, 3 d_model]`, with a copy of shared keys and values for each head.
    fn joined(
        &self,
        qkv: &Tensor<B, 2>,
        batch: usize,
        rope: Option<&Rope<B>>,
        embedded: Option<&Tensor<B, 2>>,
    ) -> Tensor<B, 2> {
        let [queries, keys, values] = self.rotated(qkv, batch, rope, embedded);
        let [rows, d_model] = queries.dims();
        let (width, copies) = (d_model / self.n_head, self.n_head / self.kv_heads);
        let spread = |part: Tensor<B, 2>| {
            if copies == 1 {
                return part;
            }
            let part = part.reshape([rows, self.kv_heads, 1, width]).expand([rows, self.kv_heads, copies, width]);
            part.reshape([rows, d_model])
        };
        Tensor::cat(vec![queries, spread(keys), spread(values)], 1)
    }
}

/// Two linear layers with an activation function between them, and a gate if it is a gated linear unit.
#[derive(Module, Debug)]
pub struct Mlp<B: Backend> {
    /// `[d_model, hidden]`.
    pub c_fc: Linear<B>,
    /// `[d_model, hidden]`: the activation function applies to its output, which multiplies the output of `c_fc`.
    pub c_gate: Option<Linear<B>>,
    /// `[hidden, d_model]`.
    pub c_proj: Linear<B>,
}

impl<B: Ops> Mlp<B> {
    /// Applies the MLP to every row of `x` `[rows, d_model]` independently.
    pub fn forward(&self, x: Tensor<B, 2>, activation: Activation, dropout_p: f64) -> Tensor<B, 2> {
        dropout(self.c_proj.forward(self.hidden(x, activation)), dropout_p)
    }

    /// The hidden activations `[rows, hidden]`.
    pub(crate) fn hidden(&self, x: Tensor<B, 2>, activation: Activation) -> Tensor<B, 2> {
        match &self.c_gate {
            None => self.c_fc.forward_activated(x, activation),
            Some(gate) => gate.forward_activated(x.clone(), activation) * self.c_fc.forward(x),
        }
    }
}

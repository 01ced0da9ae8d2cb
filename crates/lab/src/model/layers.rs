//! The layers of GPT-2, with nanoGPT's names.

use burn::{
    module::{Module, Param},
    tensor::{Int, Tensor, backend::Backend},
};
use sweep_job::tasks::Activation;

use super::inputs;
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

/// `x W + b`.
#[derive(Module, Debug)]
pub struct Linear<B: Backend> {
    /// `[in, out]`.
    pub weight: Param<Tensor<B, 2>>,
    /// `[out]`.
    pub bias: Param<Tensor<B, 1>>,
}

impl<B: Ops> Linear<B> {
    /// `[rows, in]` to `[rows, out]`.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        inputs::saw(&self.weight, &x);
        Ops::linear(x, self.weight.val(), self.bias.val())
    }

    /// The GELU of [`forward`](Self::forward).
    pub(crate) fn forward_gelu(&self, x: Tensor<B, 2>, activation: Activation) -> Tensor<B, 2> {
        inputs::saw(&self.weight, &x);
        B::linear_gelu(x, self.weight.val(), self.bias.val(), activation)
    }
}

/// `x W`.
#[derive(Module, Debug)]
pub struct Unbiased<B: Backend> {
    /// `[in, out]`.
    pub weight: Param<Tensor<B, 2>>,
}

impl<B: Ops> Unbiased<B> {
    /// `[rows, in]` to `[rows, out]`.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        inputs::saw(&self.weight, &x);
        autocast::product(x, self.weight.val())
    }
}

/// Layer normalization with gain and bias.
#[derive(Module, Debug)]
pub struct LayerNorm<B: Backend> {
    /// The gain `[d_model]`.
    pub weight: Param<Tensor<B, 1>>,
    /// `[d_model]`.
    pub bias: Param<Tensor<B, 1>>,
}

impl<B: Ops> LayerNorm<B> {
    /// Normalizes the rows of `[rows, d_model]`.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        Ops::layer_norm(x, self.weight.val(), self.bias.val(), LAYER_NORM_EPSILON)
    }
}

/// Causal self-attention with queries, keys and values from one product.
#[derive(Module, Debug)]
pub struct Attention<B: Backend> {
    /// To queries, keys and values, `[d_model, 3 d_model]`.
    pub c_attn: Linear<B>,
    /// Back to the residual stream, `[d_model, d_model]`.
    pub c_proj: Linear<B>,
    /// Heads.
    pub n_head: usize,
}

impl<B: Ops> Attention<B> {
    /// Mixes the tokens of every sequence in `x` `[batch * length, d_model]`.
    ///
    /// `mask` `[1, length * length]` is added to the scores: 0 where a query may look, a large negative number where
    /// it may not. `dropout` applies to the probabilities and to the output.
    pub fn forward(&self, x: Tensor<B, 2>, batch: usize, mask: &Tensor<B, 2>, dropout_p: f64) -> Tensor<B, 2> {
        let qkv = self.c_attn.forward(x);
        let context = match autocast::cast_format::<B>() {
            None => B::causal_attention(qkv, batch, self.n_head, mask, dropout_p),
            // Scores and probabilities are the largest tensors of a block, so they stay short as well.
            Some(format) => {
                let original_format = qkv.dtype();
                let mask = mask.clone().cast(format);
                B::causal_attention(qkv.cast(format), batch, self.n_head, &mask, dropout_p).cast(original_format)
            }
        };
        dropout(self.c_proj.forward(context), dropout_p)
    }

    /// Scaled queries, keys and values of `x` `[batch * length, d_model]`, each `[batch, heads, length, width]`.
    pub(crate) fn project(&self, x: Tensor<B, 2>, batch: usize) -> [Tensor<B, 4>; 3] {
        let [rows, d_model] = x.dims();
        let (heads, length, width) = (self.n_head, rows / batch, d_model / self.n_head);
        let qkv = self.c_attn.forward(x);
        // Columns of part 0, 1, 2 are queries, keys, values.
        let part = |index: usize| qkv.clone().slice([0..rows, index * d_model..(index + 1) * d_model]);
        let split = |part: Tensor<B, 2>| part.reshape([batch, length, heads, width]).swap_dims(1, 2);
        // Scaling the queries touches fewer numbers than scaling the scores.
        let queries = split(part(0) * (width as f64).sqrt().recip());
        [queries, split(part(1)), split(part(2))]
    }
}

/// Two linear layers with a GELU between them.
#[derive(Module, Debug)]
pub struct Mlp<B: Backend> {
    /// `[d_model, hidden]`.
    pub c_fc: Linear<B>,
    /// `[hidden, d_model]`.
    pub c_proj: Linear<B>,
}

impl<B: Ops> Mlp<B> {
    /// Changes every row of `x` `[rows, d_model]` on its own.
    pub fn forward(&self, x: Tensor<B, 2>, activation: Activation, dropout_p: f64) -> Tensor<B, 2> {
        let hidden = self.c_fc.forward_gelu(x, activation);
        dropout(self.c_proj.forward(hidden), dropout_p)
    }
}

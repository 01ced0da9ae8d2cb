//! The layers of GPT-2, with nanoGPT's names.

use burn::{
    module::{Module, Param},
    tensor::{Int, Tensor, backend::Backend},
};
use sweep_job::tasks::Activation;

use crate::ops::{Ops, plain::dropout};

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
        Ops::linear(x, self.weight.val(), self.bias.val())
    }

    /// The GELU of [`forward`](Self::forward).
    fn forward_gelu(&self, x: Tensor<B, 2>, activation: Activation) -> Tensor<B, 2> {
        B::linear_gelu(x, self.weight.val(), self.bias.val(), activation)
    }
}

/// Layer normalisation with gain and bias.
#[derive(Module, Debug)]
pub struct LayerNorm<B: Backend> {
    /// The gain `[d_model]`.
    pub weight: Param<Tensor<B, 1>>,
    /// `[d_model]`.
    pub bias: Param<Tensor<B, 1>>,
}

impl<B: Ops> LayerNorm<B> {
    /// Normalises the rows of `[rows, d_model]`.
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
        let context = B::causal_attention(self.c_attn.forward(x), batch, self.n_head, mask, dropout_p);
        dropout(self.c_proj.forward(context), dropout_p)
    }
}

/// Two linear layers with a GELU between them.
#[derive(Module, Debug)]
pub struct Mlp<B: Backend> {
    /// `[d_model, 4 d_model]`.
    pub c_fc: Linear<B>,
    /// `[4 d_model, d_model]`.
    pub c_proj: Linear<B>,
}

impl<B: Ops> Mlp<B> {
    /// Changes every row of `x` `[rows, d_model]` on its own.
    pub fn forward(&self, x: Tensor<B, 2>, activation: Activation, dropout_p: f64) -> Tensor<B, 2> {
        let hidden = self.c_fc.forward_gelu(x, activation);
        dropout(self.c_proj.forward(hidden), dropout_p)
    }
}

/// Attention and MLP, each on a normalised copy of the residual stream, each added to it.
#[derive(Module, Debug)]
pub struct Block<B: Backend> {
    /// Before the attention.
    pub ln_1: LayerNorm<B>,
    /// The attention.
    pub attn: Attention<B>,
    /// Before the MLP.
    pub ln_2: LayerNorm<B>,
    /// The MLP.
    pub mlp: Mlp<B>,
}

impl<B: Ops> Block<B> {
    /// The residual stream `[batch * length, d_model]` after this block; see [`Attention::forward`].
    pub fn forward(
        &self,
        x: Tensor<B, 2>,
        batch: usize,
        mask: &Tensor<B, 2>,
        activation: Activation,
        dropout_p: f64,
    ) -> Tensor<B, 2> {
        let mixed = self.attn.forward(self.ln_1.forward(x.clone()), batch, mask, dropout_p);
        let x = B::add(x, mixed);
        let changed = self.mlp.forward(self.ln_2.forward(x.clone()), activation, dropout_p);
        B::add(x, changed)
    }
}

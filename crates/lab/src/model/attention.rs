//! The kinds of attention, taken apart where mechanisms reach in: projection, scores, weights, context, output.

use burn::{
    module::{Module, Param},
    tensor::{Tensor, activation, backend::Backend},
};

use super::{
    cache::{BlockCache, append},
    fault::{self, Fault},
    layers::{Attention, Unbiased},
    sight::Rows,
};

/// One kind of attention.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "a network has a handful of them, and a module is not boxed")]
pub enum TokenMixer<B: Backend> {
    /// Queries, keys and values for every head.
    Standard(Attention<B>),
    /// MLA.
    Latent(LatentAttention<B>),
}

/// Attention whose heads share one latent key and one latent value per token (ratio-ablation, section 4.2).
#[derive(Module, Debug)]
pub struct LatentAttention<B: Backend> {
    /// To queries, `[d_model, d_model]`.
    pub q: Unbiased<B>,
    /// To latent keys, `[d_model, latent]`.
    pub k_down: Unbiased<B>,
    /// To latent values, `[d_model, latent]`.
    pub v_down: Unbiased<B>,
    /// From a head's query to a latent one, `[heads, width, latent]`.
    pub q_latent: Param<Tensor<B, 3>>,
    /// From a latent value to a head's, `[heads, latent, width]`.
    pub v_up: Param<Tensor<B, 3>>,
    /// Back to the residual stream, `[d_model, d_model]`.
    pub c_proj: Unbiased<B>,
}

/// What scores and context are computed from. Keys and values have one head where all heads share them.
#[derive(Debug)]
pub(crate) struct Heads<B: Backend> {
    /// Scaled, `[batch, heads, length, width]`.
    pub(crate) queries: Tensor<B, 4>,
    /// `[batch, heads or 1, length, width]`.
    pub(crate) keys: Tensor<B, 4>,
    /// `[batch, heads or 1, length, any]`.
    pub(crate) values: Tensor<B, 4>,
}

impl<B: Backend> TokenMixer<B> {
    /// Queries, keys and values of `x` `[batch * length, d_model]`.
    pub(crate) fn project(&self, x: Tensor<B, 2>, batch: usize) -> Heads<B> {
        match self {
            Self::Standard(attention) => {
                let [queries, keys, values] = attention.project(x, batch);
                Heads { queries, keys, values }
            }
            Self::Latent(attention) => attention.project(&x, batch),
        }
    }

    /// What the heads have gathered, `[batch, heads, length, any]`, at the width of the heads.
    pub(crate) fn lift(&self, context: Tensor<B, 4>) -> Tensor<B, 4> {
        match self {
            Self::Standard(_) => context,
            Self::Latent(attention) => by_head(context, attention.v_up.val()),
        }
    }

    /// `[rows, d_model]`, the heads side by side, back to the residual stream.
    pub(crate) fn output(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        match self {
            Self::Standard(attention) => attention.c_proj.forward(x),
            Self::Latent(attention) => attention.c_proj.forward(x),
        }
    }
}

impl<B: Backend> LatentAttention<B> {
    fn project(&self, x: &Tensor<B, 2>, batch: usize) -> Heads<B> {
        let [heads, width, latent] = self.q_latent.dims();
        let length = x.dims()[0] / batch;
        let queries = self.q.forward(x.clone()).reshape([batch, length, heads, width]).swap_dims(1, 2);
        // The scale is of the latent width, over which scores sum.
        let queries = by_head(queries, self.q_latent.val()) * (latent as f64).sqrt().recip();
        let shared = |down: &Unbiased<B>| down.forward(x.clone()).reshape([batch, 1, length, latent]);
        Heads { queries, keys: shared(&self.k_down), values: shared(&self.v_down) }
    }
}

/// `x` `[batch, heads, length, in]` times a matrix for each head, `[heads, in, out]`.
fn by_head<B: Backend>(x: Tensor<B, 4>, maps: Tensor<B, 3>) -> Tensor<B, 4> {
    let [batch, heads, length, input] = x.dims();
    let output = maps.dims()[2];
    let rows = x.swap_dims(0, 1).reshape([heads, batch * length, input]);
    rows.matmul(maps).reshape([heads, batch, length, output]).swap_dims(0, 1)
}

/// `left` `[batch, heads, rows, inner]` times `right` `[batch, heads or 1, inner, columns]`.
fn times<B: Backend>(left: Tensor<B, 4>, right: Tensor<B, 4>) -> Tensor<B, 4> {
    let [batch, heads, rows, inner] = left.dims();
    let [_, groups, _, columns] = right.dims();
    // Heads that share a right side are rows of one product.
    let left = left.reshape([batch, groups, heads / groups * rows, inner]);
    left.matmul(right).reshape([batch, heads, rows, columns])
}

/// Scores and the means to turn weights into context.
#[derive(Debug)]
pub(crate) struct Scores<B: Backend> {
    /// Scores before the mask, `[batch, heads, length, seen]`.
    pub(crate) raw: Tensor<B, 4>,
    /// Values of everything seen, `[batch, heads or 1, seen, any]`.
    values: Tensor<B, 4>,
    /// Queries and keys of the tokens at hand.
    queries: Tensor<B, 4>,
    keys: Tensor<B, 4>,
}

impl<B: Backend> Scores<B> {
    /// The scores of `heads`' queries with the keys in `cache` and their own.
    pub(crate) fn new(heads: Heads<B>, cache: Option<&mut BlockCache<B>>) -> Self {
        let Heads { queries, keys, values } = heads;
        let (all_keys, values) = match cache {
            Some(cache) => (append(&mut cache.keys, keys.clone(), 2), append(&mut cache.values, values, 2)),
            None => (keys.clone(), values),
        };
        Self { raw: times(queries.clone(), all_keys.swap_dims(2, 3)), values, queries, keys }
    }

    /// The score of every pair the other way round, where it lies in the band of `window` tokens; 0 elsewhere
    /// (ratio-ablation, section 4.3).
    pub(crate) fn reverse(
        &self,
        window: usize,
        rows: &Rows<B>,
        cache: Option<&mut BlockCache<B>>,
    ) -> Option<Tensor<B, 4>> {
        let [batch, heads, length, seen] = self.raw.dims();
        if let Some(cache) = cache {
            return Some(self.reverse_of_last(window, cache));
        }
        let band = rows.band.clone()?;
        let reverse = if fault::active(Fault::ReverseNotTransposed) {
            self.raw.clone()
        } else {
            self.raw.clone().swap_dims(2, 3)
        };
        let reverse = reverse.reshape([batch * heads, length * seen]) * band;
        Some(reverse.reshape([batch, heads, length, seen]))
    }

    /// The reverse scores of the last token: earlier tokens' queries, as far as the band reaches, with its key.
    fn reverse_of_last(&self, window: usize, cache: &mut BlockCache<B>) -> Tensor<B, 4> {
        let [batch, heads, _, seen] = self.raw.dims();
        let queries = append(&mut cache.queries, self.queries.clone(), 2);
        let kept = queries.dims()[2];
        let reach = kept.min(window + usize::from(!fault::active(Fault::ShortQueryRing)));
        let queries = queries.narrow(2, kept - reach, reach);
        cache.queries = Some(queries.clone());
        let scores = times(queries, self.keys.clone().swap_dims(2, 3)).swap_dims(2, 3);
        if reach == seen {
            return scores;
        }
        let beyond = Tensor::zeros([batch, heads, 1, seen - reach], &scores.device());
        Tensor::cat(vec![beyond, scores], 3)
    }

    /// The attention weights of `logits`, one row per head and query, `[batch * heads * length, seen]`.
    pub(crate) fn weights(logits: Tensor<B, 4>, rows: &Rows<B>) -> Tensor<B, 2> {
        let [batch, heads, length, seen] = logits.dims();
        let logits = logits.reshape([batch * heads, length * seen]);
        let logits = match &rows.mask {
            Some(mask) => logits + mask.clone(),
            None => logits,
        };
        activation::softmax(logits.reshape([batch * heads * length, seen]), 1)
    }

    /// The values that `weights` gather, `[batch, heads, length, any]`.
    pub(crate) fn context(self, weights: Tensor<B, 2>) -> Tensor<B, 4> {
        let dims = self.raw.dims();
        times(weights.reshape(dims), self.values)
    }
}

//! The kinds of attention, split where mechanisms act: projection, scores, weights, context, output.

use burn::{
    module::{Module, Param},
    tensor::{Tensor, backend::Backend},
};

use super::{
    attention_masks::Rows,
    cache::{BlockCache, append},
    layers::{Attention, Linear},
    mechanisms::Pass,
    mutants::{self, Mutant},
};
use crate::ops::Ops;

/// A layer of attention, by its kind.
#[derive(Module, Debug)]
pub enum TokenMixer<B: Backend> {
    /// Queries, keys and values for every head.
    Standard(Attention<B>),
    /// MLA.
    Latent(LatentAttention<B>),
    /// Folded reciprocal attention.
    Folded(FoldedAttention<B>),
}

/// Attention without biases in which the last elements of a head's queries and keys are swapped, so that they score the reverse pair
/// (ratio-ablation, section 9.1).
#[derive(Module, Debug)]
pub struct FoldedAttention<B: Backend> {
    /// Projection to queries, keys and values, `[d_model, 3 d_model]`.
    pub c_attn: Linear<B>,
    /// Back to the residual stream, `[d_model, d_model]`.
    pub c_proj: Linear<B>,
    /// Weight of the score, `[1]` or `[heads]`.
    pub w_std: Param<Tensor<B, 1>>,
    /// Weight of the reverse score, `[1]` or `[heads]`.
    pub w_rec: Param<Tensor<B, 1>>,
    /// Part of a head's output that is the value at the query's own place, `[heads]`, used between 0 and 0.5.
    pub restart: Option<Param<Tensor<B, 1>>>,
    /// Heads.
    pub n_head: usize,
    /// Elements of a head that score the reverse pair.
    pub(crate) rank: usize,
    /// True if these elements are swapped.
    pub(crate) live: bool,
}

/// Attention whose heads share one latent key and one latent value per token (ratio-ablation, section 4.2).
#[derive(Module, Debug)]
pub struct LatentAttention<B: Backend> {
    /// Projection to queries, `[d_model, d_model]`.
    pub q: Linear<B>,
    /// Projection to latent keys, `[d_model, latent]`.
    pub k_down: Linear<B>,
    /// Projection to latent values, `[d_model, latent]`.
    pub v_down: Linear<B>,
    /// Maps from each head's queries to latent queries, `[heads, width, latent]`.
    pub q_latent: Param<Tensor<B, 3>>,
    /// Maps from latent values to each head's values, `[heads, latent, width]`.
    pub v_up: Param<Tensor<B, 3>>,
    /// Back to the residual stream, `[d_model, d_model]`.
    pub c_proj: Linear<B>,
}

/// Inputs of scores and context. Keys and values have fewer heads if heads of queries share them.
#[derive(Debug)]
pub(crate) struct Heads<B: Backend> {
    /// Scaled, `[batch, heads, length, width]`.
    pub(crate) queries: Tensor<B, 4>,
    /// `[batch, heads or a divisor, length, width]`.
    pub(crate) keys: Tensor<B, 4>,
    /// `[batch, heads or a divisor, length, any]`.
    pub(crate) values: Tensor<B, 4>,
}

impl<B: Ops> TokenMixer<B> {
    /// Queries, keys and values of `x` `[batch * length, d_model]`.
    ///
    /// The coupling of `pass` is the strength of folded reciprocal attention; standard attention rotates queries and keys, and mixes its
    /// values with `embedded`.
    pub(crate) fn project(&self, x: Tensor<B, 2>, pass: &Pass<'_, B>, embedded: Option<&Tensor<B, 2>>) -> Heads<B> {
        let Pass { batch, rows, coupling } = *pass;
        match self {
            Self::Standard(attention) => {
                let [queries, keys, values] = attention.project(x, batch, rows.rope.as_ref(), embedded);
                Heads { queries, keys, values }
            }
            Self::Latent(attention) => attention.project(&x, batch),
            Self::Folded(attention) => attention.project(x, batch, coupling),
        }
    }

    /// Outputs of the heads, `[batch, heads, length, any]`, at the width of the heads.
    pub(crate) fn lift(&self, context: Tensor<B, 4>) -> Tensor<B, 4> {
        match self {
            Self::Standard(_) | Self::Folded(_) => context,
            Self::Latent(attention) => by_head(context, attention.v_up.val()),
        }
    }

    /// `[rows, d_model]`, the heads side by side, back to the residual stream.
    pub(crate) fn output(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        match self {
            Self::Standard(attention) => attention.c_proj.forward(x),
            Self::Latent(attention) => attention.c_proj.forward(x),
            Self::Folded(attention) => attention.c_proj.forward(x),
        }
    }

    /// Outputs of the heads, `[batch, heads, length, width]`, mixed with `own_values`, the values at the queries' positions.
    pub(crate) fn restarted(&self, context: Tensor<B, 4>, own_values: Tensor<B, 4>) -> Tensor<B, 4> {
        let Self::Folded(FoldedAttention { restart: Some(restart), n_head, .. }) = self else { return context };
        let part = restart.val().clamp(0.0, 0.5).reshape([1, *n_head, 1, 1]);
        context.clone() + (own_values - context) * part
    }
}

impl<B: Ops> FoldedAttention<B> {
    fn project(&self, x: Tensor<B, 2>, batch: usize, coupling: f64) -> Heads<B> {
        let [rows, d_model] = x.dims();
        let (heads, length, width) = (self.n_head, rows / batch, d_model / self.n_head);
        let qkv = self.c_attn.forward(x);
        let split = |index: usize| {
            let part = qkv.clone().slice([0..rows, index * d_model..(index + 1) * d_model]);
            part.reshape([batch, length, heads, width]).swap_dims(1, 2)
        };
        let (queries, keys) = (split(0), split(1));
        let standard_part = |x: &Tensor<B, 4>| x.clone().narrow(3, 0, width - self.rank);
        let reverse_part = |x: &Tensor<B, 4>| x.clone().narrow(3, width - self.rank, self.rank);
        // A weight that is not positive is replaced by a tiny positive weight.
        let weight = |param: &Param<Tensor<B, 1>>, scale: f64| {
            let weights = param.dims()[0];
            param.val().clamp_min(1e-8).reshape([1, weights, 1, 1]) * (scale / (width as f64).sqrt())
        };
        let coupling = if self.live { coupling } else { 0.0 };
        let join = |standard_part, reverse_part| Tensor::cat(vec![standard_part, reverse_part], 3);
        Heads {
            queries: join(
                standard_part(&queries) * weight(&self.w_std, 1.0),
                reverse_part(&keys) * weight(&self.w_rec, coupling),
            ),
            keys: join(standard_part(&keys), reverse_part(&queries)),
            values: split(2),
        }
    }
}

impl<B: Ops> LatentAttention<B> {
    fn project(&self, x: &Tensor<B, 2>, batch: usize) -> Heads<B> {
        let [heads, width, latent] = self.q_latent.dims();
        let length = x.dims()[0] / batch;
        let queries = self.q.forward(x.clone()).reshape([batch, length, heads, width]).swap_dims(1, 2);
        // Scores sum over the latent width, so the scale depends on it.
        let queries = by_head(queries, self.q_latent.val()) * (latent as f64).sqrt().recip();
        let latents = |down: &Linear<B>| down.forward(x.clone()).reshape([batch, 1, length, latent]);
        Heads { queries, keys: latents(&self.k_down), values: latents(&self.v_down) }
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

impl<B: Ops> Scores<B> {
    /// The scores of `heads`' queries with the keys in `cache` and their own.
    pub(crate) fn new(heads: Heads<B>, cache: Option<&mut BlockCache<B>>) -> Self {
        let Heads { queries, keys, values } = heads;
        let (all_keys, values) = match cache {
            Some(cache) => (append(&mut cache.keys, keys.clone(), 2), append(&mut cache.values, values, 2)),
            None => (keys.clone(), values),
        };
        Self { raw: times(queries.clone(), all_keys.swap_dims(2, 3)), values, queries, keys }
    }

    /// The reverse score of every pair in the band of `window` tokens; 0 elsewhere (ratio-ablation, section 4.3).
    pub(crate) fn reverse(
        &self,
        window: usize,
        rows: &Rows<B>,
        cache: Option<&mut BlockCache<B>>,
    ) -> Option<Tensor<B, 4>> {
        let [batch, heads, length, key_count] = self.raw.dims();
        if let Some(cache) = cache {
            return Some(self.reverse_of_last(window, cache));
        }
        let band = rows.band.clone()?;
        let reverse = if mutants::active(Mutant::ReverseNotTransposed) {
            self.raw.clone()
        } else {
            self.raw.clone().swap_dims(2, 3)
        };
        let reverse = reverse.reshape([batch * heads, length * key_count]) * band;
        Some(reverse.reshape([batch, heads, length, key_count]))
    }

    /// The reverse scores of the last token: earlier tokens' queries, as far as the band reaches, with its key.
    fn reverse_of_last(&self, window: usize, cache: &mut BlockCache<B>) -> Tensor<B, 4> {
        let [batch, heads, _, key_count] = self.raw.dims();
        let queries = append(&mut cache.queries, self.queries.clone(), 2);
        let query_count = queries.dims()[2];
        let reach = query_count.min(window + usize::from(!mutants::active(Mutant::ShortQueryRing)));
        let queries = queries.narrow(2, query_count - reach, reach);
        cache.queries = Some(queries.clone());
        let scores = times(queries, self.keys.clone().swap_dims(2, 3)).swap_dims(2, 3);
        if reach == key_count {
            return scores;
        }
        let padding = Tensor::zeros([batch, heads, 1, key_count - reach], &scores.device());
        Tensor::cat(vec![padding, scores], 3)
    }

    /// The attention weights of `logits`, one row per head and query, `[batch * heads * length, seen]`.
    pub(crate) fn weights(logits: Tensor<B, 4>, rows: &Rows<B>) -> Tensor<B, 2> {
        let [batch, heads, length, key_count] = logits.dims();
        let logits = logits.reshape([batch * heads, length * key_count]);
        let mask = rows.mask.as_ref().filter(|_| !mutants::active(Mutant::MaskDropped));
        B::softmax_rows(logits, mask, key_count)
    }

    /// The values that `weights` gather, `[batch, heads, length, any]`.
    pub(crate) fn context(self, weights: Tensor<B, 2>) -> Tensor<B, 4> {
        let dims = self.raw.dims();
        times(weights.reshape(dims), self.values)
    }
}

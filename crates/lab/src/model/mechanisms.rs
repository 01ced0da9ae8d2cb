//! The mechanisms that a block may have besides attention and MLP (ratio-ablation, section 4). Each keeps its
//! parameters and settings; the block decides the order.

use burn::{
    module::{Module, Param},
    tensor::{Tensor, activation, backend::Backend},
};
use sweep_job::tasks::{CrossSpec, GatePool, GateSpec, RaCtApply, RaCtSpec, RaCtStatistic, ReciprocalSpec, Selection};

use super::{
    attention_masks::Rows,
    cache::{BlockCache, append},
    layers::Linear,
    mutants::{self, Mutant},
};
use crate::ops::Ops;

/// State of a computation: the number of sequences, and the coupling scale of the mechanisms.
#[derive(Debug)]
pub(crate) struct Pass<'a, B: Backend> {
    pub(crate) batch: usize,
    pub(crate) rows: &'a Rows<B>,
    /// Strength of all mechanisms, from 0 to 1.
    pub(crate) coupling: f64,
}

/// A learned strength times the coupling scale, `[1; D]`.
fn strength<B: Backend, const D: usize>(alpha: &Param<Tensor<B, 1>>, coupling: f64) -> Tensor<B, D> {
    (alpha.val() * coupling).reshape([1; D])
}

/// Reciprocal attention (section 4.3).
#[derive(Module, Debug)]
pub struct Reciprocal<B: Backend> {
    /// Weight of the reverse score, `[1]`.
    pub alpha: Param<Tensor<B, 1>>,
    #[module(skip)]
    pub(crate) spec: ReciprocalSpec,
}

impl<B: Ops> Reciprocal<B> {
    /// `raw` scores with the `reverse` ones added, both `[batch, heads, length, seen]`.
    pub(crate) fn add(&self, raw: Tensor<B, 4>, reverse: Tensor<B, 4>, coupling: f64) -> Tensor<B, 4> {
        if mutants::active(Mutant::ReverseSkipped) {
            return raw;
        }
        raw + reverse * strength(&self.alpha, coupling)
    }
}

/// The gate from an MLP to the heads of the next block (section 4.4).
#[derive(Module, Debug)]
pub struct HeadGate<B: Backend> {
    /// Strength of the gate that comes in, `[1]`.
    pub alpha: Param<Tensor<B, 1>>,
    /// From the MLP's hidden numbers, `[hidden, dim]`.
    pub pool: Linear<B>,
    /// To the heads, `[dim, heads]`.
    pub heads: Linear<B>,
    #[module(skip)]
    pub(crate) spec: GateSpec,
}

impl<B: Ops> HeadGate<B> {
    /// The gate for the next block, `[batch, length, heads]`, from hidden numbers `[batch * length, hidden]`.
    pub(crate) fn produce(
        &self,
        hidden: Tensor<B, 2>,
        pass: &Pass<'_, B>,
        cache: Option<&mut BlockCache<B>>,
        position: usize,
    ) -> Tensor<B, 3> {
        let [rows, _] = hidden.dims();
        let (length, dim) = (rows / pass.batch, self.spec.dim);
        let pooled = self.pool.forward(hidden).reshape([pass.batch, length, dim]);
        let pooled = match (cache, &pass.rows.mean) {
            (_, _) if self.spec.pool == GatePool::Token => pooled,
            // A cache contains no later token, so a mean over all its tokens is a mean over the tokens so far.
            (Some(cache), _) => {
                if mutants::active(Mutant::ForgetfulGate) {
                    cache.pooled = None;
                }
                let sum = match cache.pooled.take() {
                    Some(sum) => sum + pooled,
                    None => pooled,
                };
                cache.pooled.insert(sum).clone() / (position as f64 + 1.0)
            }
            (None, Some(mean)) => mean.clone().unsqueeze::<3>().expand([pass.batch, length, length]).matmul(pooled),
            (None, None) => pooled,
        };
        let gate = activation::sigmoid(self.heads.forward(pooled.reshape([rows, dim])));
        let heads = gate.dims()[1];
        gate.reshape([pass.batch, length, heads])
    }

    /// Factor of every head's attention weights, `[batch * heads * length, 1]`, for a `gate` from the block before,
    /// `[batch, length, heads]`.
    pub(crate) fn factor(&self, gate: Tensor<B, 3>, coupling: f64) -> Tensor<B, 2> {
        let [batch, length, heads] = gate.dims();
        let coupling = if mutants::active(Mutant::GateUncoupled) { 1.0 } else { coupling };
        let reduction =
            (gate.swap_dims(1, 2).reshape([batch * heads * length, 1]) - 1.0) * strength(&self.alpha, coupling);
        reduction + 1.0
    }
}

/// Cross-token aggregation in the MLP (section 4.5).
#[derive(Module, Debug)]
pub struct CrossToken<B: Backend> {
    /// Strength, `[1]`.
    pub alpha: Param<Tensor<B, 1>>,
    /// `[hidden, dim]`, or `[hidden, hidden]` where there is no bottleneck.
    pub down: Linear<B>,
    /// `[dim, hidden]`; `None` without a bottleneck.
    pub up: Option<Linear<B>>,
    #[module(skip)]
    pub(crate) spec: CrossSpec,
}

impl<B: Ops> CrossToken<B> {
    /// `hidden` `[batch * length, hidden]` with the sum that it gathers along `weights` `[batch, length, seen]`, through
    /// which no gradient flows.
    ///
    /// The projection down comes first, because the sum over tokens then has fewer columns, and a cache fewer numbers.
    pub(crate) fn gather(
        &self,
        hidden: Tensor<B, 2>,
        weights: Tensor<B, 3>,
        pass: &Pass<'_, B>,
        cache: Option<&mut BlockCache<B>>,
    ) -> Tensor<B, 2> {
        let [rows, _] = hidden.dims();
        let [batch, length, key_count] = weights.dims();
        let weights = self.select(weights.reshape([rows, key_count]), pass.rows).reshape([batch, length, key_count]);
        let source = self.down.forward(hidden.clone());
        let dim = source.dims()[1];
        let source = source.reshape([batch, length, dim]);
        let source = match cache {
            Some(cache) if !mutants::active(Mutant::CrossWithoutCache) => append(&mut cache.gathered, source, 1),
            Some(_) => source.expand([batch, key_count, dim]),
            None => source,
        };
        let context = weights.matmul(source).reshape([rows, dim]);
        let context = match &self.up {
            Some(up) => up.forward(context),
            None => context,
        };
        hidden + context * strength(&self.alpha, pass.coupling)
    }

    /// The weights that are kept, `[rows, seen]`.
    fn select(&self, weights: Tensor<B, 2>, rows: &Rows<B>) -> Tensor<B, 2> {
        let selection = match self.spec.select {
            Selection::All => return weights,
            Selection::TopK { k } => weights.clone() * B::largest(weights, k),
            Selection::Rms { tau } => {
                let threshold = root_mean_square(weights.clone(), rows) * tau;
                let mask = weights.clone().lower(threshold.expand(weights.dims()));
                weights.mask_fill(mask, 0.0)
            }
        };
        if self.spec.normalize { selection.clone() / selection.sum_dim(1).clamp_min(1e-8) } else { selection }
    }
}

/// Latent reciprocity between latent keys and hidden numbers (section 4.6).
#[derive(Module, Debug)]
pub struct LatentReciprocity<B: Backend> {
    /// Strength of the summand of the hidden numbers, `[1]`.
    pub alpha_mlp: Param<Tensor<B, 1>>,
    /// Strength of the summand of the next block's keys, `[1]`.
    pub alpha_attn: Param<Tensor<B, 1>>,
    /// The map from hidden numbers to keys, `[hidden, latent]`; its transpose maps back, unless `enrich` is present.
    pub back: Linear<B>,
    /// From keys to hidden numbers, `[latent, hidden]`.
    pub enrich: Option<Linear<B>>,
}

impl<B: Ops> LatentReciprocity<B> {
    /// Adds the feedback of the previous MLP, `back` `[batch * length, latent]`, to `keys` `[batch, 1, length, latent]`.
    pub(crate) fn add_to_keys(&self, keys: Tensor<B, 4>, back: Tensor<B, 2>, coupling: f64) -> Tensor<B, 4> {
        let dims = keys.dims();
        keys + back.reshape(dims) * strength(&self.alpha_attn, coupling)
    }

    /// `hidden` enriched by `keys` `[batch * length, latent]`, and the summand of the next block's keys.
    pub(crate) fn exchange(
        &self,
        hidden: Tensor<B, 2>,
        keys: Tensor<B, 2>,
        coupling: f64,
    ) -> (Tensor<B, 2>, Tensor<B, 2>) {
        let back = self.back.forward(hidden.clone());
        let enrichment = match &self.enrich {
            Some(enrich) => enrich.forward(keys),
            None => keys.matmul(self.back.weight.val().transpose()),
        };
        (hidden + enrichment * strength(&self.alpha_mlp, coupling), back)
    }
}

/// RA-CT: a gate for each head from a statistic of a query's attention weights (section 4.7).
#[derive(Module, Debug)]
pub struct RaCt<B: Backend> {
    /// Scale of the statistic, `[heads]`.
    pub scale: Param<Tensor<B, 1>>,
    /// `[heads]`.
    pub bias: Param<Tensor<B, 1>>,
    #[module(skip)]
    pub(crate) spec: RaCtSpec,
}

impl<B: Ops> RaCt<B> {
    /// Factor of attention weights or outputs, `[batch * heads * length, 1]`, for `weights` `[batch * heads * length,
    /// seen]`.
    pub(crate) fn factor(&self, weights: Tensor<B, 2>, pass: &Pass<'_, B>) -> Tensor<B, 2> {
        let RaCtSpec { apply, alpha, head_average, detach, output_mix, .. } = self.spec;
        let [rows, key_count] = weights.dims();
        let heads = self.scale.dims()[0];
        let length = rows / pass.batch / heads;
        let weights = if detach { weights.detach() } else { weights };
        let statistic = if head_average {
            let mean = head_mean(weights, pass.batch, heads).reshape([pass.batch * length, key_count]);
            let statistic = self.statistic(mean, pass.rows).reshape([pass.batch, 1, length]);
            statistic.expand([pass.batch, heads, length])
        } else {
            self.statistic(weights, pass.rows).reshape([pass.batch, heads, length])
        };
        let by_head = |param: &Param<Tensor<B, 1>>| param.val().reshape([1, heads, 1]);
        let gate = activation::sigmoid(statistic * by_head(&self.scale) + by_head(&self.bias)).reshape([rows, 1]);
        if apply == RaCtApply::Weights || output_mix { gate * alpha + (1.0 - alpha) } else { gate }
    }

    /// The statistic of every row of `weights` `[batch * heads * length, seen]`, `[batch * heads * length, 1]`.
    fn statistic(&self, weights: Tensor<B, 2>, rows: &Rows<B>) -> Tensor<B, 2> {
        match self.spec.statistic {
            RaCtStatistic::Entropy => {
                // 0 ln 0 is 0, as the clamped logarithm is finite.
                let logarithm = weights.clone().clamp_min(1e-12).log();
                (weights * logarithm).sum_dim(1).neg()
            }
            RaCtStatistic::Rms => root_mean_square(weights, rows),
            RaCtStatistic::Max => (weights.clone() * B::largest(weights, 1)).sum_dim(1),
            RaCtStatistic::Topk | RaCtStatistic::None => {
                (weights.clone() * B::largest(weights, self.spec.k)).sum_dim(1)
            }
        }
    }
}

/// The mean over heads, `[batch, length, seen]`, of weights `[batch * heads * length, seen]`.
pub(crate) fn head_mean<B: Backend>(weights: Tensor<B, 2>, batch: usize, heads: usize) -> Tensor<B, 3> {
    let [rows, key_count] = weights.dims();
    let length = rows / batch / heads;
    weights.reshape([batch, heads, length * key_count]).mean_dim(1).reshape([batch, length, key_count])
}

/// Returns the root of the mean square over the visible numbers of each row of `weights` `[any * length, seen]`, as `[any *
/// length, 1]`. Masked numbers are 0, and do not count.
fn root_mean_square<B: Backend>(weights: Tensor<B, 2>, rows: &Rows<B>) -> Tensor<B, 2> {
    let [row_count, key_count] = weights.dims();
    let squares = (weights.clone() * weights).sum_dim(1);
    let mean = match &rows.visible {
        Some(visible) if !mutants::active(Mutant::RmsOverMasked) => {
            let length = visible.dims()[1];
            (squares.reshape([row_count / length, length]) / visible.clone()).reshape([row_count, 1])
        }
        _ => squares / key_count as f64,
    };
    // The root's slope at 0 is infinite.
    mean.clamp_min(1e-24).sqrt()
}

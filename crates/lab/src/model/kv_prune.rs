//! Pruning of keys and values, made causal (ratio-ablation, section 9.4): a query keeps the keys with the most attention from all queries
//! so far, including itself, and normalizes their weights again.

use burn::{
    module::Module,
    tensor::{Tensor, TensorData, backend::Backend},
};
use sweep_job::tasks::{Keep, KvPruneSpec};

use super::{
    cache::BlockCache,
    mutants::{self, Mutant},
};

/// Bisections of the threshold's interval; the remaining interval is 2e-7 wide.
const HALVINGS: usize = 24;
/// Above every importance, which is at most 1.
const RECENT: f32 = 2.0;
/// Below every importance.
const UNSEEN: f32 = -1.0;

/// Inputs of the importance of a pair besides the weights, for sequences of up to `n` tokens.
#[derive(Module, Debug)]
pub(crate) struct PruneMasks<B: Backend> {
    /// Sums over the queries so far, `[n, n]`.
    sums: Tensor<B, 2>,
    /// Reciprocal of the number of queries that have seen a key, `[n, n]`; 0 where the query does not see the key.
    exposure: Tensor<B, 2>,
    /// Added: [`RECENT`] where a key is always kept, [`UNSEEN`] where the query does not see it, `[n, n]`.
    always: Tensor<B, 2>,
    /// Keys that each query keeps, `[1, n]`.
    keep: Tensor<B, 2>,
}

/// The pruning for one length, or for one query behind a cache.
#[derive(Debug)]
pub(crate) struct PruneRows<B: Backend> {
    /// `[length, length]`; `None` behind a cache.
    sums: Option<Tensor<B, 2>>,
    /// `[1, length * seen]`.
    exposure: Tensor<B, 2>,
    /// `[1, length * seen]`.
    always: Tensor<B, 2>,
    /// `[1, length]`.
    keep: Tensor<B, 2>,
}

impl<B: Backend> PruneMasks<B> {
    pub(crate) fn new(spec: &KvPruneSpec, length: usize, device: &B::Device) -> Self {
        let square = |value: &dyn Fn(usize, usize) -> f32| {
            let values = (0..length * length).map(|index| value(index / length, index % length)).collect::<Vec<f32>>();
            Tensor::from_data(TensorData::new(values, [length, length]), device)
        };
        let keep: Vec<f32> = (0..length).map(|query| kept(spec, query + 1) as f32).collect();
        Self {
            sums: square(&|query, key| f32::from(u8::from(key <= query))),
            exposure: square(&|query, key| if key <= query { ((query - key + 1) as f32).recip() } else { 0.0 }),
            always: square(&|query, key| match query.checked_sub(key) {
                None => UNSEEN,
                Some(back) if back < spec.recency => RECENT,
                Some(_) => 0.0,
            }),
            keep: Tensor::from_data(TensorData::new(keep, [1, length]), device),
        }
    }

    /// For sequences of `length` tokens.
    pub(crate) fn rows(&self, length: usize) -> PruneRows<B> {
        let crop = |square: &Tensor<B, 2>| {
            let fits = square.dims()[0] == length;
            if fits { square.clone() } else { square.clone().slice([0..length, 0..length]) }
        };
        PruneRows {
            sums: Some(crop(&self.sums)),
            exposure: crop(&self.exposure).reshape([1, length * length]),
            always: crop(&self.always).reshape([1, length * length]),
            keep: self.keep.clone().slice([0..1, 0..length]),
        }
    }

    /// For the token at `position` behind a cache of all before it.
    pub(crate) fn next(&self, position: usize) -> PruneRows<B> {
        let row = |square: &Tensor<B, 2>| square.clone().slice([position..position + 1, 0..position + 1]);
        PruneRows {
            sums: None,
            exposure: row(&self.exposure),
            always: row(&self.always),
            keep: self.keep.clone().slice([0..1, position..position + 1]),
        }
    }
}

/// Number of keys that a query keeps that sees `visible`.
fn kept(spec: &KvPruneSpec, visible: usize) -> usize {
    let count = match spec.keep {
        Keep::Count(count) => count,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the visible keys")]
        Keep::Part(part) => (part * visible as f64).floor() as usize,
    };
    count.max(spec.recency)
}

/// `weights` `[batch * heads * length, seen]` of the kept keys, normalized to a sum of 1. Keys are chosen without gradient; where
/// importances are equal, more are kept.
pub(crate) fn prune<B: Backend>(
    weights: Tensor<B, 2>,
    rows: &PruneRows<B>,
    cache: Option<&mut BlockCache<B>>,
) -> Tensor<B, 2> {
    let [row_count, key_count] = weights.dims();
    let length = rows.keep.dims()[1];
    let heads = row_count / length;
    let attention_mass = weights.clone().detach().reshape([heads, length, key_count]);
    let mass = match (&rows.sums, cache) {
        (_, Some(cache)) => {
            let mass = match cache.mass.take() {
                Some(old_mass) => {
                    Tensor::cat(vec![old_mass, Tensor::zeros([heads, 1, 1], &attention_mass.device())], 2)
                        + attention_mass
                }
                None => attention_mass,
            };
            cache.mass.insert(mass).clone()
        }
        (Some(sums), None) if mutants::active(Mutant::PruneSeesFuture) => {
            sums.ones_like().unsqueeze::<3>().expand([heads, length, length]).matmul(attention_mass)
        }
        (Some(sums), None) => sums.clone().unsqueeze::<3>().expand([heads, length, length]).matmul(attention_mass),
        (None, None) => attention_mass,
    };
    let importance = mass.reshape([heads, length * key_count]) * rows.exposure.clone() + rows.always.clone();
    let importance = importance.reshape([row_count, key_count]);
    let keep = rows.keep.clone().expand([heads, length]).reshape([row_count, 1]);
    let threshold = threshold(&importance, &keep);
    let mask = importance.lower_equal(threshold.expand([row_count, key_count]));
    let kept_weights = weights.mask_fill(mask, 0.0);
    kept_weights.clone() / kept_weights.sum_dim(1).clamp_min(1e-8)
}

/// A number `[rows, 1]` that `keep` `[rows, 1]` of each row of `importance` `[rows, columns]` are above, by halving: no
/// sort leaves the device.
fn threshold<B: Backend>(importance: &Tensor<B, 2>, keep: &Tensor<B, 2>) -> Tensor<B, 2> {
    let dims = importance.dims();
    let (mut low, mut high) = (keep.full_like(UNSEEN / 2.0), keep.full_like(RECENT * 2.0));
    for _ in 0..HALVINGS {
        let middle = (low.clone() + high.clone()) * 0.5;
        let counts = importance.clone().greater(middle.clone().expand(dims)).float().sum_dim(1);
        let mask = counts.greater_equal(keep.clone());
        low = low.mask_where(mask.clone(), middle.clone());
        high = high.mask_where(mask.bool_not(), middle);
    }
    low
}

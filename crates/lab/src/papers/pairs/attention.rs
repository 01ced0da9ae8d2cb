//! `uses: pair/attention`: attention with all scores in memory, or block by block, with modified scores or without.

use burn::tensor::{
    Bool, Int, Tensor,
    backend::Backend,
    module::{attention, attention_fallback},
    ops::AttentionModuleOptions,
};
use sweep_job::{
    Outcome,
    tasks::{Attention, AttentionScore, AttentionVariant},
};

use super::{Call, Contender, Left, Meter, flat, tensor};
use crate::{LabError, backend::Compute, measure::heap};

/// Parts of the length with which memory is counted, in quarters.
const QUARTERS: [usize; 3] = [2, 3, 4];
/// A score that does not count.
const HIDDEN: f32 = -1e9;

impl Contender for Attention {
    fn reference(&self) -> Self {
        Self { variant: AttentionVariant::Naive, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let shape = [self.batch_size, self.n_head, self.length, self.head_dim];
        let [q, k, v] = ["q", "k", "v"].map(|name| tensor::<B, 4>(seed, name, 0, shape, 1.0, device));
        // Made once, as a training would.
        let has_bias = self.variant != AttentionVariant::Flex && self.score != AttentionScore::None;
        let bias = has_bias.then(|| self.bias::<B>(device));
        let blocks = (self.variant == AttentionVariant::Flex).then(|| Blocks::new(self, device));
        Ok(Box::new(move |_| {
            let (q, k, v) = (q.clone(), k.clone(), v.clone());
            let options = AttentionModuleOptions::default();
            let out: Tensor<B, 4> = match (self.variant, &blocks) {
                (_, Some(blocks)) => blocks.attend(&q, &k, &v),
                (AttentionVariant::Naive, None) => attention_fallback(q, k, v, None, bias.clone(), options),
                _ => attention(q, k, v, None, bias.clone(), options),
            };
            Ok(Left::Device(flat(out)))
        }))
    }

    fn describe(&self, _: &[f32], _: f64, outcome: &mut Outcome) {
        outcome.set(&Attention::VISITED, self.visited());
    }

    fn further<B: Compute>(&self, seed: u64, device: &B::Device, outcome: &mut Outcome) -> Result<(), LabError> {
        // A device's allocator reports the memory in use between operations, not the maximum within one.
        if B::device_memory(device).is_some() {
            return Ok(());
        }
        let mut points = Vec::new();
        for quarters in QUARTERS {
            let part = Self { length: (self.length * quarters / 4).max(1), ..self.clone() };
            let mut call = part.ready::<B>(seed, device)?;
            let (result, heap) = heap::counted(|| call(&mut Meter::new(None)));
            drop(result?);
            let Some(heap) = heap else { return Ok(()) };
            points.push(((part.length as f64).ln(), (heap.peak as f64).ln()));
        }
        outcome.set(&Attention::EXPONENT, slope(&points));
        Ok(())
    }
}

/// Modification of scores, as `Attention` declares it.
trait Modified {
    /// The slope of the bias in every head, `[1, heads, 1, 1]`: a geometric sequence that ends with 2^-8.
    fn slopes<B: Backend>(&self, device: &B::Device) -> Tensor<B, 4>;
    /// The bias of the scores of queries and keys whose positions differ by `distance` `[1, 1, queries, keys]`.
    fn added<B: Backend>(&self, distance: Tensor<B, 4, Int>) -> Tensor<B, 4>;
    /// The modification of all scores, `[batch, heads, length, length]`.
    fn bias<B: Backend>(&self, device: &B::Device) -> Tensor<B, 4>;
    /// The blocks of keys that a block of queries sees.
    fn keys(&self, queries: usize) -> std::ops::RangeInclusive<usize>;
    /// Fraction of the scores that are computed.
    fn visited(&self) -> f64;
}

impl Modified for Attention {
    #[expect(clippy::cast_precision_loss, reason = "a number of heads")]
    fn slopes<B: Backend>(&self, device: &B::Device) -> Tensor<B, 4> {
        let slopes: Vec<f32> =
            (1..=self.n_head).map(|head| 2_f32.powf(-8.0 * head as f32 / self.n_head as f32)).collect();
        Tensor::<B, 1>::from_floats(&slopes[..], device).reshape([1, self.n_head, 1, 1])
    }

    fn added<B: Backend>(&self, distance: Tensor<B, 4, Int>) -> Tensor<B, 4> {
        let device = distance.device();
        match self.score {
            AttentionScore::None => distance.float().zeros_like(),
            AttentionScore::RelativeBias => distance.abs().float() * -self.slopes(&device),
            AttentionScore::SlidingWindow => {
                let mask = outside(distance.clone(), self.window);
                distance.float().zeros_like().mask_fill(mask, HIDDEN)
            }
        }
    }

    fn bias<B: Backend>(&self, device: &B::Device) -> Tensor<B, 4> {
        let length = self.length;
        let bias = self.added(distances::<B>(length, device));
        bias.expand([self.batch_size, self.n_head, length, length])
    }

    fn keys(&self, queries: usize) -> std::ops::RangeInclusive<usize> {
        let last_block = (self.length - 1) / self.block;
        match self.score {
            AttentionScore::SlidingWindow => {
                let first = (queries * self.block).saturating_sub(self.window - 1) / self.block;
                first..=queries
            }
            AttentionScore::None | AttentionScore::RelativeBias => 0..=last_block,
        }
    }

    fn visited(&self) -> f64 {
        if self.variant != AttentionVariant::Flex {
            return 1.0;
        }
        let size = |block: usize| self.block.min(self.length - block * self.block);
        let row = |queries: usize| size(queries) * self.keys(queries).map(size).sum::<usize>();
        let scores: usize = (0..self.length.div_ceil(self.block)).map(row).sum();
        scores as f64 / (self.length as f64).powi(2)
    }
}

/// The position of every query minus the position of every key, `[1, 1, length, length]`.
fn distances<B: Backend>(length: usize, device: &B::Device) -> Tensor<B, 4, Int> {
    let end = i64::try_from(length).unwrap_or(i64::MAX);
    let positions = Tensor::<B, 1, Int>::arange(0..end, device);
    let difference = positions.clone().reshape([length, 1]).expand([length, length])
        - positions.reshape([1, length]).expand([length, length]);
    difference.reshape([1, 1, length, length])
}

/// True where a key is after the query, or `window` tokens or more before it.
fn outside<B: Backend>(distance: Tensor<B, 4, Int>, window: usize) -> Tensor<B, 4, Bool> {
    let window = i64::try_from(window).unwrap_or(i64::MAX);
    distance.clone().lower_elem(0).bool_or(distance.greater_equal_elem(window))
}

/// Attention block by block. Modifications of scores are stored for one block at each distance of blocks, because they depend only on the
/// difference of positions.
struct Blocks<'a, B: Backend> {
    attention: &'a Attention,
    /// Distances within a block.
    distances: Tensor<B, 4, Int>,
}

impl<'a, B: Backend> Blocks<'a, B> {
    fn new(attention: &'a Attention, device: &B::Device) -> Self {
        Self { attention, distances: distances::<B>(attention.block.min(attention.length), device) }
    }

    fn attend(&self, q: &Tensor<B, 4>, k: &Tensor<B, 4>, v: &Tensor<B, 4>) -> Tensor<B, 4> {
        let blocks = self.attention.length.div_ceil(self.attention.block);
        let rows = (0..blocks).map(|queries| self.row(queries, q, k, v)).collect();
        Tensor::cat(rows, 2)
    }

    /// The place of the first token of a block, and the tokens of it.
    fn place(&self, block: usize) -> (usize, usize) {
        let Attention { length, block: size, .. } = *self.attention;
        (block * size, size.min(length - block * size))
    }

    /// The output of a block of queries.
    fn row(&self, queries: usize, q: &Tensor<B, 4>, k: &Tensor<B, 4>, v: &Tensor<B, 4>) -> Tensor<B, 4> {
        let (first_query, rows) = self.place(queries);
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let scale = (self.attention.head_dim as f32).sqrt().recip();
        let q = q.clone().narrow(2, first_query, rows) * scale;
        let mut state: Option<[Tensor<B, 4>; 3]> = None;
        for keys in self.attention.keys(queries) {
            let (first_key, columns) = self.place(keys);
            let [k, v] = [k, v].map(|tensor| tensor.clone().narrow(2, first_key, columns));
            let scores = self.modified(q.clone().matmul(k.swap_dims(2, 3)), first_query, first_key);
            let max_score = scores.clone().max_dim(3);
            state = Some(match state {
                None => {
                    let weights = (scores - max_score.clone()).exp();
                    [max_score, weights.clone().sum_dim(3), weights.matmul(v)]
                }
                Some([old_max, sum, out]) => {
                    let max_score = old_max.clone().max_pair(max_score);
                    let factor = (old_max - max_score.clone()).exp();
                    let weights = (scores - max_score.clone()).exp();
                    [max_score, sum * factor.clone() + weights.clone().sum_dim(3), out * factor + weights.matmul(v)]
                }
            });
        }
        // Every token sees at least itself.
        state.map_or_else(|| q.zeros_like(), |[_, sum, out]| out / sum)
    }

    /// The scores of a block, modified.
    fn modified(&self, scores: Tensor<B, 4>, first_query: usize, first_key: usize) -> Tensor<B, 4> {
        let Attention { score, window, .. } = *self.attention;
        let [_, _, rows, columns] = scores.dims();
        let (min_distance, last_query) = ((first_query + 1).checked_sub(first_key + columns), first_query + rows - 1);
        let sees_all = min_distance.is_some() && last_query - first_key < window;
        if score == AttentionScore::None || (score == AttentionScore::SlidingWindow && sees_all) {
            return scores;
        }
        let offset = i64::try_from(first_query).unwrap_or(i64::MAX) - i64::try_from(first_key).unwrap_or(i64::MAX);
        let distances = self.distances.clone().narrow(2, 0, rows).narrow(3, 0, columns);
        scores + self.attention.added(distances + offset)
    }
}

/// The slope of the line through `points` that has the least squares.
pub(super) fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (sum_x, sum_y) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    covariance / variance
}

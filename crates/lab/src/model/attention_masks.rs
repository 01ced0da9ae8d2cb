//! Attention masks: the visible positions of every query of a sequence, and the angles of RoPE, as constants, computed once for a network's
//! longest sequence.

use burn::{
    module::Module,
    tensor::{DType, Tensor, TensorData, backend::Backend},
};
use sweep_job::tasks::{GatePool, RaCtStatistic, Selection};

use super::{
    dims::GptDims,
    kv_prune::{PruneMasks, PruneRows},
    mutants::{self, Mutant},
    rope::Rope,
};

/// Added to the score of a key that a query must not see. Finite, because shader languages promise nothing about
/// infinities; its exponential is exactly 0 in every format.
const HIDDEN: f32 = -1e30;

/// The constants for sequences of up to `n` tokens; only those that the blocks need.
#[derive(Module, Debug)]
pub(crate) struct AttentionMasks<B: Backend> {
    /// Summand of the scores `[n, n]`: 0 on and below the diagonal.
    pub(crate) mask: Tensor<B, 2>,
    /// Reciprocal attention's band `[n, n]`: 1 where it reaches, 0 elsewhere.
    band: Option<Tensor<B, 2>>,
    /// Takes numbers by token to their means `[n, n]`, over the tokens so far or over all.
    mean: Option<Tensor<B, 2>>,
    /// Number of keys that each query sees, `[1, n]`.
    visible: Option<Tensor<B, 2>>,
    /// For pruning of keys and values.
    pruning: Option<PruneMasks<B>>,
    /// RoPE's rotation of `n` tokens.
    rope: Option<Rope<B>>,
}

/// The constants for sequences of one length `t`, or for one token behind a cache.
#[derive(Debug)]
pub(crate) struct Rows<B: Backend> {
    /// `[1, t * t]`; `None` where every key is visible.
    pub(crate) mask: Option<Tensor<B, 2>>,
    /// `[1, t * t]`.
    pub(crate) band: Option<Tensor<B, 2>>,
    /// `[t, t]`.
    pub(crate) mean: Option<Tensor<B, 2>>,
    /// `[1, t]`.
    pub(crate) visible: Option<Tensor<B, 2>>,
    /// For pruning of keys and values.
    pub(crate) pruning: Option<PruneRows<B>>,
    /// RoPE's rotation of the `t` tokens.
    pub(crate) rope: Option<Rope<B>>,
}

impl<B: Backend> AttentionMasks<B> {
    /// The constants that a network of `dims` needs.
    pub(crate) fn new(dims: &GptDims, device: &B::Device) -> Self {
        let GptDims { block, block_size: length, .. } = *dims;
        let square = |value: &dyn Fn(usize, usize) -> f32| {
            let values = (0..length * length).map(|index| value(index / length, index % length)).collect::<Vec<f32>>();
            Tensor::from_data(TensorData::new(values, [length, length]), device)
        };
        let band = |window: usize| square(&|query, key| f32::from(u8::from(key <= query && query - key <= window)));
        let mean = |pool: GatePool| match pool {
            GatePool::Token => None,
            GatePool::PrefixMean => {
                Some(square(&|query, key| if key <= query { (query as f32 + 1.0).recip() } else { 0.0 }))
            }
            GatePool::SequenceMean => Some(square(&|_, _| (length as f32).recip())),
        };
        let rms = block.ra_ct.is_some_and(|spec| spec.statistic == RaCtStatistic::Rms)
            || block.cross.is_some_and(|spec| matches!(spec.select, Selection::Rms { .. }));
        let counts = || {
            let counts: Vec<f32> = (0..length).map(|query| query as f32 + 1.0).collect();
            Tensor::from_data(TensorData::new(counts, [1, length]), device)
        };
        Self {
            mask: square(&|query, key| if key > query { HIDDEN } else { 0.0 }),
            band: block.reciprocal.map(|spec| band(spec.window)),
            mean: block.gate.and_then(|spec| mean(spec.pool)),
            visible: rms.then(counts),
            pruning: block.kv_prune.map(|spec| PruneMasks::new(&spec, length, device)),
            rope: Rope::new(dims, device),
        }
    }

    /// These constants, with those that are added to or multiplied with activations in another format.
    pub(crate) fn in_format(self, dtype: DType) -> Self {
        Self { mask: self.mask.cast(dtype), rope: self.rope.map(|rope| rope.cast(dtype)), ..self }
    }

    /// For sequences of `length` tokens.
    pub(crate) fn rows(&self, length: usize, pool: Option<GatePool>) -> Rows<B> {
        let crop = |square: &Tensor<B, 2>| {
            let fits = square.dims()[0] == length;
            if fits { square.clone() } else { square.clone().slice([0..length, 0..length]) }
        };
        let row = |square: &Tensor<B, 2>| crop(square).reshape([1, length * length]);
        let mean = self.mean.as_ref().map(|square| match pool {
            // The mean over a shorter sequence divides by fewer tokens.
            Some(GatePool::SequenceMean) => crop(square) * (square.dims()[0] as f64 / length as f64),
            _ => crop(square),
        });
        Rows {
            mask: Some(row(&self.mask)),
            band: self.band.as_ref().map(row),
            mean,
            visible: self.visible.as_ref().map(|counts| counts.clone().slice([0..1, 0..length])),
            pruning: self.pruning.as_ref().map(|pruning| pruning.rows(length)),
            rope: self.rope.as_ref().map(|rope| rope.at(0..length)),
        }
    }

    /// For the token at `position` behind a cache of all before it.
    pub(crate) fn next(&self, position: usize) -> Rows<B> {
        let visible = self.visible.as_ref().map(|counts| counts.clone().slice([0..1, position..position + 1]));
        let pruning = self.pruning.as_ref().map(|pruning| pruning.next(position));
        let rope = self.rope.as_ref().map(|rope| {
            let start = if mutants::active(Mutant::CachedPosition) { 0 } else { position };
            rope.at(start..start + 1)
        });
        Rows { mask: None, band: None, mean: None, visible, pruning, rope }
    }
}

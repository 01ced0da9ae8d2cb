//! Thresholds by operations that materialize their inputs: the baseline for streaming methods.

use std::hint::black_box;

use burn::tensor::Tensor;
use sweep_job::tasks::ThresholdSearch;

use super::all_of;
use crate::{
    LabError,
    backend::Compute,
    device::read::{host, number},
    prune::kth_smallest,
};

/// The `k`-th smallest of `scores` by an operation over all of them; `sparsity` is the quantile that `k` stands for.
pub(super) fn by_operation<B: Compute>(
    scores: &[Tensor<B, 1>],
    method: ThresholdSearch,
    k: usize,
    sparsity: f64,
) -> Result<f32, LabError> {
    let total: usize = scores.iter().map(|scores| scores.dims()[0]).sum();
    match method {
        ThresholdSearch::Quickselect => Ok(kth_smallest(&mut all_of(scores)?, k)),
        ThresholdSearch::TopKIndices => with_indices(scores, k),
        ThresholdSearch::Quantile => quantile(&Tensor::cat(scores.to_vec(), 0).sort(0), sparsity),
        // The k smallest are the k largest with the other sign. Burn selects fewer than all.
        ThresholdSearch::TopK if k < total => Ok(-place(Tensor::cat(scores.to_vec(), 0).neg().topk(k, 0), k - 1)?),
        _ => place(Tensor::cat(scores.to_vec(), 0).sort(0), k - 1),
    }
}

/// The number at `place`.
fn place<B: Compute>(sorted: Tensor<B, 1>, place: usize) -> Result<f32, LabError> {
    #[expect(clippy::cast_possible_truncation, reason = "it was in single precision")]
    let score = number(sorted.slice(place..place + 1))? as f32;
    Ok(score)
}

/// The largest of the `k` smallest scores, of which values and indices are kept, as `torch.topk` keeps them.
fn with_indices<B: Compute>(scores: &[Tensor<B, 1>], k: usize) -> Result<f32, LabError> {
    let mut pairs: Vec<(f32, i64)> = Vec::with_capacity(scores.iter().map(|scores| scores.dims()[0]).sum());
    let mut indices = 0_i64..;
    for scores in scores {
        pairs.extend(host(scores.clone())?.into_iter().zip(indices.by_ref()));
    }
    let threshold = pairs.select_nth_unstable_by(k - 1, |left, right| left.0.total_cmp(&right.0)).1.0;
    let smallest: (Vec<f32>, Vec<i64>) = pairs[..k].iter().copied().unzip();
    black_box(&smallest);
    Ok(threshold)
}

/// The quantile `q` of the numbers in `sorted`, interpolated between the two nearest.
fn quantile<B: Compute>(sorted: &Tensor<B, 1>, q: f64) -> Result<f32, LabError> {
    let last_index = sorted.dims()[0] - 1;
    let position = q * last_index as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among the scores")]
    let floor = position.floor() as usize;
    let score = |index: usize| Ok::<_, LabError>(f64::from(place(sorted.clone(), index.min(last_index))?));
    let (low, high) = (score(floor)?, score(floor + 1)?);
    #[expect(clippy::cast_possible_truncation, reason = "between two numbers in single precision")]
    let value = (low + (high - low) * (position - floor as f64)) as f32;
    Ok(value)
}

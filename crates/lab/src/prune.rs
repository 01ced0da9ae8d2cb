//! Pruning to a global sparsity with an exact threshold (ratio-ablation, sections 8.2 and 8.4).
//!
//! At every update the mask is chosen anew over all prunable weights: with `K = floor(sparsity * total)`, the threshold
//! is the `K`-th smallest score, and a weight stays if its score is above it. Between updates the mask is applied after
//! every optimizer step, so pruned weights are exactly 0. With `bitter7` the gradients and both moments are masked too.

use burn::{
    module::Module,
    tensor::{
        Tensor, TensorData,
        backend::{AutodiffBackend, Backend},
    },
};
use sweep_job::tasks::{Prune, PruneMethod};

use crate::{
    LabError,
    model::{self, ParamInfo},
    optim::{AdamW, Gradients},
};

/// Added to the second moment in `bitter7`.
const EPSILON: f32 = 1e-8;

/// The importance of weight `w` with Adam's second moment `moment_2`: higher stays longer.
pub fn score(method: PruneMethod, w: f32, moment_2: f32) -> f32 {
    match method {
        PruneMethod::None | PruneMethod::Magnitude => w.abs(),
        PruneMethod::Bitter7 => w.abs() * (moment_2.abs() + EPSILON).powf(0.25),
    }
}

/// The largest score that is pruned to reach `sparsity`; `None` if nothing is. Reorders `scores`.
pub fn threshold(scores: &mut [f32], sparsity: f64) -> Option<f32> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the number of scores")]
    let pruned = (sparsity * scores.len() as f64).floor() as usize;
    let kth = pruned.checked_sub(1)?;
    Some(*scores.select_nth_unstable_by(kth, f32::total_cmp).1)
}

/// Chooses and applies masks.
#[derive(Debug)]
pub struct Pruner<B: Backend> {
    method: PruneMethod,
    /// Places of the prunable parameters in the network's order.
    prunable: Vec<usize>,
    /// By parameter: 1 where a weight stays, 0 where it is pruned.
    masks: Vec<Option<Tensor<B, 1>>>,
}

impl<B: Backend> Pruner<B> {
    /// A pruner for `parameters`, in the network's order, that prunes nothing yet.
    pub fn new(settings: &Prune, parameters: &[ParamInfo]) -> Self {
        Self {
            method: settings.prune,
            prunable: prunable_weights(settings, parameters),
            masks: parameters.iter().map(|_| None).collect(),
        }
    }

    fn masks_state(&self) -> bool {
        self.method == PruneMethod::Bitter7
    }

    /// The gradients, without those of pruned weights where the method asks for it.
    pub fn mask_gradients(&self, gradients: Gradients<B>) -> Gradients<B> {
        if !self.masks_state() {
            return gradients;
        }
        let masked = |(gradient, mask): (Option<Tensor<B, 1>>, &Option<Tensor<B, 1>>)| match (gradient, mask) {
            (Some(gradient), Some(mask)) => Some(gradient * mask.clone()),
            (gradient, _) => gradient,
        };
        gradients.into_iter().zip(&self.masks).map(masked).collect()
    }

    /// Sets the pruned weights to 0, and their moments where the method asks for it.
    pub fn apply<AB, M>(&self, network: M, optimizer: &mut AdamW<B>) -> M
    where
        AB: AutodiffBackend<InnerBackend = B>,
        M: Module<AB>,
    {
        if self.masks.iter().all(Option::is_none) {
            return network;
        }
        if self.masks_state() {
            optimizer.mask_moments(&self.masks);
        }
        model::map_values::<AB, M>(network, &mut |index, weight| match &self.masks[index] {
            Some(mask) => weight * mask.clone(),
            None => weight,
        })
    }

    /// Chooses the masks anew for `sparsity`; [`apply`](Self::apply) makes them felt.
    ///
    /// The scores are computed and selected on the host. Returns the part that is pruned now: at least the whole
    /// weights in `sparsity`, more where scores are equal.
    pub fn choose<AB, M>(&mut self, network: &M, optimizer: &AdamW<B>, sparsity: f64) -> Result<f64, LabError>
    where
        AB: AutodiffBackend<InnerBackend = B>,
        M: Module<AB>,
    {
        let values = model::values::<AB, M>(network);
        let mut scores: Vec<Vec<f32>> = Vec::with_capacity(self.prunable.len());
        for &index in &self.prunable {
            let weights = host(values[index].clone())?;
            let moments = match optimizer.state(index) {
                Some(state) if self.masks_state() => host(state.moment_2.clone())?,
                _ => vec![0.0; weights.len()],
            };
            scores.push(weights.iter().zip(&moments).map(|(w, v)| score(self.method, *w, *v)).collect());
        }
        let mut all = scores.concat();
        let limit = threshold(&mut all, sparsity);
        let pruned = limit.map_or(0, |limit| all.iter().filter(|score| **score <= limit).count());
        for (&index, scores) in self.prunable.iter().zip(scores) {
            self.masks[index] = limit.map(|limit| {
                let mask: Vec<f32> = scores.into_iter().map(|score| if score > limit { 1.0 } else { 0.0 }).collect();
                let shape = [mask.len()];
                Tensor::from_data(TensorData::new(mask, shape), &values[index].device())
            });
        }
        Ok(pruned as f64 / all.len().max(1) as f64)
    }
}

/// The part of the prunable weights of `network` that is exactly 0.
pub fn sparsity<AB: AutodiffBackend, M: Module<AB>>(settings: &Prune, network: &M) -> Result<f64, LabError> {
    let parameters = model::infos(network);
    let values = model::values::<AB, M>(network);
    let (mut zeros, mut total) = (0_usize, 0_usize);
    for index in prunable_weights(settings, &parameters) {
        let weights = host(values[index].clone())?;
        zeros += weights.iter().filter(|weight| **weight == 0.0).count();
        total += weights.len();
    }
    Ok(zeros as f64 / total.max(1) as f64)
}

/// Places of the parameters that may be pruned.
pub(crate) fn prunable_weights(settings: &Prune, parameters: &[ParamInfo]) -> Vec<usize> {
    let prunable = |(index, info): (usize, &ParamInfo)| info.prunable(settings.prune_tied_head).then_some(index);
    parameters.iter().enumerate().filter_map(prunable).collect()
}

/// The numbers of `tensor` on the host.
pub(crate) fn host<B: Backend>(tensor: Tensor<B, 1>) -> Result<Vec<f32>, LabError> {
    let data = tensor.try_into_data()?.convert::<f32>();
    data.into_vec().map_err(|error| LabError::Device(format!("{error:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_the_kth_smallest_score() {
        let scores = [5.0, 1.0, 4.0, 2.0, 3.0];
        for (sparsity, expected) in [(0.0, None), (0.19, None), (0.2, Some(1.0)), (0.5, Some(2.0)), (0.99, Some(4.0))] {
            assert_eq!(threshold(&mut scores.clone(), sparsity), expected, "at {sparsity}");
        }
        assert_eq!(threshold(&mut [], 0.5), None);
    }
}

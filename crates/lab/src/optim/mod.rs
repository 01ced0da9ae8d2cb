//! The optimizer, its learning-rate schedule, and clipping by the global norm.
//!
//! Everything works on flat tensors on the device; no step reads anything to the host, except for SOAP's bases.
//!
//! Defects of the reference (ratio-ablation, section 8) are not reproduced: SPAM counts an iteration once, corrects the bias
//! of the second moment before it clips by it, and does not clip in the first iterations after the start and after a reset; a
//! reset also clears AMSGrad's maximum. `spam_reference: true` reproduces the reference.

mod adafactor;
mod adamw;
mod bases;
pub mod gradient;
mod loss_scale;
mod rules;
mod schedule_free;
mod soap;
mod spam;

pub use adamw::{AdamW, StepContext};
use burn::tensor::{Tensor, backend::Backend};
pub use loss_scale::LossScale;
pub use spam::Reading;
use spam::Spam;
use sweep_job::tasks::{LrSchedule, Optimizer};

use crate::ops::Ops;

/// Gradients in the network's order of parameters, each `[numbers]`; `None` for a parameter without a gradient.
pub type Gradients<B> = Vec<Option<Tensor<B, 1>>>;

/// The learning rate of iteration `iter`, counted from 0, in a training of `iters` iterations (ratio-ablation, section 6):
/// `peak * iter / warmup` in the warm-up, then by the schedule, with a minimum that is reached at `iters`.
pub fn learning_rate(settings: &Optimizer, iter: usize, iters: usize) -> f64 {
    let (peak, warmup) = (settings.lr, settings.warmup_iters);
    if iter < warmup {
        return peak * iter as f64 / warmup as f64;
    }
    let min_rate = peak * settings.min_lr_ratio;
    let start = settings.decay_start(iters);
    let span = iters.saturating_sub(start).max(1);
    let progress = (iter.saturating_sub(start) as f64 / span as f64).min(1.0);
    match settings.lr_schedule {
        LrSchedule::Cosine => min_rate + 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()) * (peak - min_rate),
        LrSchedule::Linear | LrSchedule::Wsd => peak - progress * (peak - min_rate),
        LrSchedule::Constant => peak,
    }
}

/// Returns the L2 norm of all `gradients` taken as one vector, `[1]`; `None` if there are no gradients.
pub fn global_norm<B: Ops>(gradients: &Gradients<B>) -> Option<Tensor<B, 1>> {
    let squares = gradients.iter().flatten().cloned().map(B::sum_of_squares);
    squares.reduce(|sum, square| sum + square).map(Tensor::sqrt)
}

/// Scales all `gradients` by the same factor, so that their global norm is at most `max_norm`; 0 does not clip.
pub fn clip_global_norm<B: Ops>(gradients: Gradients<B>, max_norm: f64) -> Gradients<B> {
    if max_norm == 0.0 {
        return gradients;
    }
    match global_norm(&gradients) {
        Some(norm) => clip_norm(gradients, norm, max_norm),
        None => gradients,
    }
}

/// Clips `gradients` like [`clip_global_norm`], with the known global norm `norm`, `[1]`.
pub fn clip_norm<B: Ops>(gradients: Gradients<B>, norm: Tensor<B, 1>, max_norm: f64) -> Gradients<B> {
    let Some(factor) = clip_factor(norm, max_norm) else { return gradients };
    gradients.into_iter().map(|gradient| gradient.map(|gradient| B::scale(gradient, factor.clone()))).collect()
}

/// Factor of gradients with the global norm `norm`, `[1]`, that limits it to `max_norm`; 0 does not clip.
pub fn clip_factor<B: Backend>(norm: Tensor<B, 1>, max_norm: f64) -> Option<Tensor<B, 1>> {
    (max_norm != 0.0).then(|| ((norm + 1e-6).recip() * max_norm).clamp_max(1.0))
}

/// Adds `addend` to `sum`, parameter by parameter.
pub fn add_gradients<B: Backend>(sum: Gradients<B>, addend: Gradients<B>) -> Gradients<B> {
    sum.into_iter()
        .zip(addend)
        .map(|pair| match pair {
            (Some(left), Some(right)) => Some(left + right),
            (left, right) => left.or(right),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use burn::{
        backend::{Flex, flex::FlexDevice},
        tensor::Tensor,
    };

    use super::*;

    #[test]
    fn learning_rate_at_the_checkpoints_of_the_reference() {
        let settings = Optimizer { lr: 6e-4, min_lr_ratio: 0.1, warmup_iters: 2000, ..Optimizer::default() };
        for (iter, expected) in [(0, 0.0), (1000, 3e-4), (2000, 6e-4), (6200, 3.3e-4), (10_400, 6e-5), (20_000, 6e-5)] {
            let rate = learning_rate(&settings, iter, 10_400);
            assert!((rate - expected).abs() < 1e-12, "iteration {iter}: {rate}");
        }
        let at = |lr_schedule, lr_decay, iter| {
            let settings = Optimizer { lr_schedule, lr_decay, ..settings.clone() };
            learning_rate(&settings, iter, 10_400)
        };
        // PyTorch's LinearLR from 1 to 0.1 over the 8400 iterations after the warm-up, and over the last 4160.
        for (schedule, iter, expected) in [
            (LrSchedule::Linear, 1000, 3e-4),
            (LrSchedule::Linear, 6200, 3.3e-4),
            (LrSchedule::Linear, 10_400, 6e-5),
            (LrSchedule::Wsd, 6240, 6e-4),
            (LrSchedule::Wsd, 8320, 3.3e-4),
            (LrSchedule::Wsd, 10_400, 6e-5),
            (LrSchedule::Constant, 10_399, 6e-4),
        ] {
            let rate = at(schedule, 0.4, iter);
            assert!((rate - expected).abs() < 1e-12, "{schedule} at {iter}: {rate}");
        }
        assert!((at(LrSchedule::Wsd, 1.0, 6200) - 3.3e-4).abs() < 1e-12, "the decay begins after the warm-up");
        assert_eq!(at(LrSchedule::Wsd, 0.0, 10_399), 6e-4);
        let no_warmup = Optimizer { warmup_iters: 0, ..settings };
        assert!((learning_rate(&no_warmup, 0, 10) - 6e-4).abs() < 1e-12);
    }

    #[test]
    fn clipping_is_by_the_norm_of_all_tensors_together() {
        let tensor = |values: &[f32]| Some(Tensor::<Flex, 1>::from_floats(values, &FlexDevice));
        let clip = |max| -> Vec<Vec<f32>> {
            let gradients = vec![tensor(&[3.0, 0.0]), None, tensor(&[4.0])];
            let gradients = clip_global_norm(gradients, max);
            gradients.into_iter().flatten().map(|gradient| gradient.into_data().to_vec().unwrap()).collect()
        };
        assert_eq!(clip(0.0), [vec![3.0, 0.0], vec![4.0]]);
        assert_eq!(clip(6.0), [vec![3.0, 0.0], vec![4.0]], "a norm of 5 is below 6");
        let result = clip(1.0);
        assert!((result[0][0] - 0.6).abs() < 1e-6 && (result[1][0] - 0.8).abs() < 1e-6, "{result:?}");
    }
}

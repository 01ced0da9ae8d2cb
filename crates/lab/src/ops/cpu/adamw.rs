//! The step of AdamW over numbers in place.

use rayon::prelude::*;

use super::{
    elementwise::PIECE,
    math::{fma, versions},
};
use crate::ops::AdamWStep;

/// The factors of a step, in single precision.
#[derive(Debug, Clone, Copy)]
struct Factors {
    beta_1: f32,
    beta_2: f32,
    new_1: f32,
    new_2: f32,
    step_size: f32,
    root_correction: f32,
    epsilon: f32,
    keep: f32,
}

impl Factors {
    #[expect(clippy::cast_possible_truncation, reason = "the numbers that it multiplies are in single precision")]
    fn new(step: &AdamWStep) -> Self {
        Self {
            beta_1: step.beta_1 as f32,
            beta_2: step.beta_2 as f32,
            new_1: (1.0 - step.beta_1) as f32,
            new_2: (1.0 - step.beta_2) as f32,
            step_size: step.step_size as f32,
            root_correction: step.root_correction as f32,
            epsilon: step.epsilon as f32,
            keep: (1.0 - step.decay) as f32,
        }
    }
}

/// Changes `weights` and both moments by one step with `gradient`.
pub(super) fn step(
    step: &AdamWStep,
    weights: &mut [f32],
    gradient: &[f32],
    moment_1: &mut [f32],
    moment_2: &mut [f32],
) {
    let factors = Factors::new(step);
    let moments = moment_1.par_chunks_mut(PIECE).zip(moment_2.par_chunks_mut(PIECE));
    let pieces = weights.par_chunks_mut(PIECE).zip(gradient.par_chunks(PIECE)).zip(moments);
    pieces.for_each(|((weights, gradient), (moment_1, moment_2))| {
        piece(factors, weights, gradient, moment_1, moment_2);
    });
}

versions!(fn piece(
    factors: Factors, weights: &mut [f32], gradient: &[f32], moment_1: &mut [f32], moment_2: &mut [f32],
) = piece_body);

#[inline(always)]
fn piece_body<const FMA: bool>(
    factors: Factors,
    weights: &mut [f32],
    gradient: &[f32],
    moment_1: &mut [f32],
    moment_2: &mut [f32],
) {
    let moments = moment_1.iter_mut().zip(moment_2);
    for ((weight, gradient), (moment_1, moment_2)) in weights.iter_mut().zip(gradient).zip(moments) {
        *moment_1 = fma::<FMA>(*moment_1, factors.beta_1, gradient * factors.new_1);
        *moment_2 = fma::<FMA>(*moment_2, factors.beta_2, gradient * gradient * factors.new_2);
        let denominator = fma::<FMA>(moment_2.sqrt(), factors.root_correction, factors.epsilon);
        *weight = fma::<FMA>(*weight, factors.keep, -(*moment_1 * factors.step_size / denominator));
    }
}

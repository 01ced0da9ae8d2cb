//! The step of AdamW in place: all changes of a parameter in one pass over its memory.

use rayon::prelude::*;
use sweep_job::tasks::AdamWFactors;

use super::{
    elementwise::{PIECE, mask_piece},
    math::{fma, versions},
};

/// The factors of a step.
#[derive(Debug, Clone, Copy)]
pub struct Factors {
    /// Factor of the gradient.
    pub gradient: f32,
    /// All others.
    pub step: AdamWFactors,
}

/// The numbers of a parameter, or a piece of them.
#[derive(Debug)]
pub struct Slices<'a> {
    /// The tensors that change.
    pub weights: &'a mut [f32],
    /// Of the weights.
    pub gradient: &'a [f32],
    /// The mean of the gradient.
    pub moment_1: &'a mut [f32],
    /// The mean of its square.
    pub moment_2: &'a mut [f32],
    /// With AMSGrad.
    pub max_moment_2: Option<&'a mut [f32]>,
    /// 1 where a number stays, 0 where it is pruned.
    pub keep: Option<&'a [f32]>,
}

impl<'a> Slices<'a> {
    /// The first `length` numbers and the rest.
    fn split_at(self, length: usize) -> (Self, Self) {
        let (weights, more_weights) = self.weights.split_at_mut(length);
        let (gradient, more_gradient) = self.gradient.split_at(length);
        let (moment_1, more_moment_1) = self.moment_1.split_at_mut(length);
        let (moment_2, more_moment_2) = self.moment_2.split_at_mut(length);
        let (max_moment_2, more_max) = self.max_moment_2.map(|max| max.split_at_mut(length)).unzip();
        let (keep, more_keep) = self.keep.map(|keep| keep.split_at(length)).unzip();
        (
            Self { weights, gradient, moment_1, moment_2, max_moment_2, keep },
            Self {
                weights: more_weights,
                gradient: more_gradient,
                moment_1: more_moment_1,
                moment_2: more_moment_2,
                max_moment_2: more_max,
                keep: more_keep,
            },
        )
    }

    /// Pieces of a fixed size, so that the division of the work depends on the shape only.
    fn pieces(mut self) -> Vec<Slices<'a>> {
        let mut pieces = Vec::with_capacity(self.weights.len().div_ceil(PIECE));
        while self.weights.len() > PIECE {
            let (piece, remainder) = self.split_at(PIECE);
            pieces.push(piece);
            self = remainder;
        }
        pieces.push(self);
        pieces
    }
}

/// Changes a parameter and its moments by one step, and sets pruned weights to 0, with `mask_moments` also their moments.
pub fn step(factors: Factors, slices: Slices<'_>, mask_moments: bool) {
    slices.pieces().into_par_iter().for_each(|slices| {
        let Slices { weights, gradient, moment_1, moment_2, mut max_moment_2, keep } = slices;
        match &mut max_moment_2 {
            None => piece(factors, weights, gradient, moment_1, moment_2),
            Some(max) => piece_amsgrad(factors, weights, gradient, moment_1, moment_2, max),
        }
        // The piece is still in the cache.
        if let Some(keep) = keep {
            mask_piece(weights, keep);
            if mask_moments {
                mask_piece(moment_1, keep);
                mask_piece(moment_2, keep);
                if let Some(max) = max_moment_2 {
                    mask_piece(max, keep);
                }
            }
        }
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
        update_moments::<FMA>(factors, *gradient, moment_1, moment_2);
        *weight = updated::<FMA>(factors, *weight, *moment_1, *moment_2);
    }
}

versions!(fn piece_amsgrad(
    factors: Factors, weights: &mut [f32], gradient: &[f32], moment_1: &mut [f32], moment_2: &mut [f32],
    max_moment_2: &mut [f32],
) = piece_amsgrad_body);

#[inline(always)]
fn piece_amsgrad_body<const FMA: bool>(
    factors: Factors,
    weights: &mut [f32],
    gradient: &[f32],
    moment_1: &mut [f32],
    moment_2: &mut [f32],
    max_moment_2: &mut [f32],
) {
    let moments = moment_1.iter_mut().zip(moment_2).zip(max_moment_2);
    for ((weight, gradient), ((moment_1, moment_2), max)) in weights.iter_mut().zip(gradient).zip(moments) {
        update_moments::<FMA>(factors, *gradient, moment_1, moment_2);
        *max = max.max(*moment_2);
        *weight = updated::<FMA>(factors, *weight, *moment_1, *max);
    }
}

#[inline(always)]
fn update_moments<const FMA: bool>(factors: Factors, gradient: f32, moment_1: &mut f32, moment_2: &mut f32) {
    let gradient = gradient * factors.gradient;
    *moment_1 = fma::<FMA>(*moment_1, factors.step.keep[0], gradient * factors.step.new[0]);
    *moment_2 = fma::<FMA>(*moment_2, factors.step.keep[1], gradient * gradient * factors.step.new[1]);
}

/// A weight after the step.
#[inline(always)]
fn updated<const FMA: bool>(factors: Factors, weight: f32, moment_1: f32, moment_2: f32) -> f32 {
    let denominator = fma::<FMA>(moment_2.sqrt(), factors.step.root_correction, factors.step.epsilon);
    fma::<FMA>(weight, factors.step.weight, -(moment_1 * factors.step.step_size / denominator))
}

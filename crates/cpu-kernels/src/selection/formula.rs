//! Scores from a layer's numbers, in registers: the formulas that the lab has in tensor operations, over slices.
//!
//! Every operation is rounded separately, as tensor operations are, so that all instruction sets and tensor operations
//! give the same bits. A score is never -0, so that bits order scores as `<` does.

use sweep_job::tasks::{Formula, ScoreInput, ScoreKind};

use super::{Layer, PRUNED};

impl<'a> Layer<'a> {
    /// The score that can be computed for it.
    fn kind(&self, formula: &Formula) -> ScoreKind {
        formula.kind.available(self.moments.is_some(), self.origin.is_some())
    }

    /// The numbers that its scores are computed from.
    pub(super) fn reads(&self, formula: &Formula) -> Vec<&'a [f32]> {
        let input = |input: &ScoreInput| match input {
            ScoreInput::Origin => self.origin,
            ScoreInput::Moment1 => self.moments.map(|[m, _]| m),
            ScoreInput::Moment2 => self.moments.map(|[_, v]| v),
        };
        let mut reads = vec![self.weights];
        reads.extend(self.kind(formula).inputs().iter().filter_map(input));
        reads.extend(self.mask);
        reads
    }

    /// Writes the scores of all its weights to `scores`, which must have the length of the weights.
    #[inline(always)]
    pub(super) fn fill(&self, formula: &Formula, scores: &mut [f32]) {
        let w = self.weights;
        let [m, v] = self.moments.unwrap_or([&[], &[]]);
        let (e, correction) = (formula.epsilon, formula.bias_correction_1);
        let momentum = |m: f32| (m.abs() + e).sqrt();
        // Positive where Adam's steps lead toward zero.
        let shrinking = |w: f32, m: f32, v: f32| sign(w) * m / (v.sqrt() + e);
        match self.kind(formula) {
            ScoreKind::Given => map(w, scores, |w| w),
            ScoreKind::Size => map(w, scores, f32::abs),
            ScoreKind::Movement => map_2(w, self.origin.unwrap_or(w), scores, |w, origin| w * (w - origin)),
            ScoreKind::Unmoved => map_2(w, w, scores, |w, origin| w * (w - origin)),
            ScoreKind::Bitter0 => map_3(w, m, v, scores, |w, m, v| (w * m).abs() * (w.abs() / (v.sqrt() + e))),
            ScoreKind::Bitter3 => map_2(w, m, scores, |w, m| w.abs() * momentum(m)),
            ScoreKind::Bitter5 => map_3(w, m, v, scores, |w, m, v| w.abs() * 0.1 - shrinking(w, m, v)),
            ScoreKind::Bitter6 => map_3(w, m, v, scores, |w, m, v| w.abs() * momentum(m) * (m * m / (v + e)).sqrt()),
            ScoreKind::Bitter7 => map_2(w, v, scores, |w, v| w.abs() * (v.abs() + e).sqrt().sqrt()),
            ScoreKind::Bitter8 => map_2(w, m, scores, |w, m| w.abs() * momentum(m / correction)),
            ScoreKind::Bitter9 => {
                map_3(w, m, v, scores, |w, m, v| w.abs() * momentum(m) - shrinking(w, m, v) * 0.1);
            }
        }
        if let Some(mask) = self.mask {
            for (score, mask) in scores.iter_mut().zip(mask) {
                *score = if *mask == 0.0 { PRUNED } else { *score };
            }
        }
    }
}

/// -1, 0 or 1.
#[inline(always)]
fn sign(x: f32) -> f32 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        // NaN stays NaN.
        x
    }
}

// Adding 0 makes 0 of -0.

#[inline(always)]
fn map(a: &[f32], scores: &mut [f32], score: impl Fn(f32) -> f32) {
    for (out, a) in scores.iter_mut().zip(a) {
        *out = score(*a) + 0.0;
    }
}

#[inline(always)]
fn map_2(a: &[f32], b: &[f32], scores: &mut [f32], score: impl Fn(f32, f32) -> f32) {
    for ((out, a), b) in scores.iter_mut().zip(a).zip(b) {
        *out = score(*a, *b) + 0.0;
    }
}

#[inline(always)]
fn map_3(a: &[f32], b: &[f32], c: &[f32], scores: &mut [f32], score: impl Fn(f32, f32, f32) -> f32) {
    for (((out, a), b), c) in scores.iter_mut().zip(a).zip(b).zip(c) {
        *out = score(*a, *b, *c) + 0.0;
    }
}

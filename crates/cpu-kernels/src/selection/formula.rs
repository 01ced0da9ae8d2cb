//! Scores from a layer's numbers, in registers: the formulas that the lab has in tensor operations, over slices.
//!
//! Every operation is rounded separately, as tensor operations are, so that all instruction sets and tensor operations
//! give the same bits. A score is never -0, so that bits order scores as `<` does.

use sweep_job::tasks::{Prune, PruneMethod};

use super::Layer;
use super::PRUNED;

/// Formula of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Formula {
    kind: Kind,
    /// Bias correction of the first moment: its divisor.
    bias_correction_1: f32,
    epsilon: f32,
}

/// A formula; those with the same score are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The weights are the scores.
    Given,
    /// `|w|`
    Size,
    /// `w (w - w0)`
    Movement,
    /// `|w m| |w| / (sqrt(v) + e)`
    Bitter0,
    /// `|w| sqrt(|m| + e)`
    Bitter3,
    /// `0.1 |w| - sign(w) m / (sqrt(v) + e)`
    Bitter5,
    /// `|w| sqrt(|m| + e) sqrt(m^2 / (v + e))`
    Bitter6,
    /// `|w| sqrt(sqrt(|v| + e))`
    Bitter7,
    /// `|w| sqrt(|m / c| + e)`
    Bitter8,
    /// `|w| sqrt(|m| + e) - 0.1 sign(w) m / (sqrt(v) + e)`
    Bitter9,
}

impl Formula {
    /// The weights are the scores.
    pub const GIVEN: Self = Self { kind: Kind::Given, bias_correction_1: 1.0, epsilon: 0.0 };

    /// The formula that `settings` select, in 32 bits.
    #[expect(clippy::cast_possible_truncation, reason = "they meet numbers in single precision")]
    pub fn new(settings: &Prune, bias_correction_1: f64) -> Self {
        let kind = match settings.prune {
            PruneMethod::None | PruneMethod::Magnitude | PruneMethod::Bitter1 | PruneMethod::Bitter2 => Kind::Size,
            PruneMethod::Movement => Kind::Movement,
            PruneMethod::Bitter0 => Kind::Bitter0,
            PruneMethod::Bitter3 | PruneMethod::Bitter4 => Kind::Bitter3,
            PruneMethod::Bitter5 => Kind::Bitter5,
            PruneMethod::Bitter6 => Kind::Bitter6,
            PruneMethod::Bitter7 => Kind::Bitter7,
            PruneMethod::Bitter8 => Kind::Bitter8,
            PruneMethod::Bitter9 => Kind::Bitter9,
        };
        Self { kind, bias_correction_1: bias_correction_1 as f32, epsilon: settings.score_epsilon as f32 }
    }

    /// The numbers that the scores of `layer` are computed from.
    pub(super) fn reads<'a>(&self, layer: &Layer<'a>) -> Vec<&'a [f32]> {
        let [m, v] = layer.moments.unwrap_or([&[], &[]]);
        let mut reads = match self.of(layer) {
            Kind::Given | Kind::Size => vec![],
            Kind::Movement => layer.origin.into_iter().collect(),
            Kind::Bitter3 | Kind::Bitter8 => vec![m],
            Kind::Bitter7 => vec![v],
            Kind::Bitter0 | Kind::Bitter5 | Kind::Bitter6 | Kind::Bitter9 => vec![m, v],
        };
        reads.insert(0, layer.weights);
        reads.extend(layer.mask);
        reads
    }

    /// The formula for such a layer: without moments the size counts.
    fn of(&self, layer: &Layer<'_>) -> Kind {
        match self.kind {
            kind @ (Kind::Given | Kind::Size | Kind::Movement) => kind,
            kind if layer.moments.is_some() => kind,
            _ => Kind::Size,
        }
    }

    /// Computes the scores of all weights of `layer` to `scores`, of as many numbers.
    #[inline(always)]
    pub(super) fn fill(&self, layer: &Layer<'_>, scores: &mut [f32]) {
        let w = layer.weights;
        let [m, v] = layer.moments.unwrap_or([&[], &[]]);
        let (e, correction) = (self.epsilon, self.bias_correction_1);
        let momentum = |m: f32| (m.abs() + e).sqrt();
        // Positive where Adam's steps lead toward zero.
        let shrinking = |w: f32, m: f32, v: f32| sign(w) * m / (v.sqrt() + e);
        match self.of(layer) {
            Kind::Given => map(w, scores, |w| w),
            Kind::Size => map(w, scores, f32::abs),
            // Without a start nothing has moved.
            Kind::Movement => map_2(w, layer.origin.unwrap_or(w), scores, |w, origin| w * (w - origin)),
            Kind::Bitter0 => map_3(w, m, v, scores, |w, m, v| (w * m).abs() * (w.abs() / (v.sqrt() + e))),
            Kind::Bitter3 => map_2(w, m, scores, |w, m| w.abs() * momentum(m)),
            Kind::Bitter5 => map_3(w, m, v, scores, |w, m, v| w.abs() * 0.1 - shrinking(w, m, v)),
            Kind::Bitter6 => map_3(w, m, v, scores, |w, m, v| w.abs() * momentum(m) * (m * m / (v + e)).sqrt()),
            Kind::Bitter7 => map_2(w, v, scores, |w, v| w.abs() * (v.abs() + e).sqrt().sqrt()),
            Kind::Bitter8 => map_2(w, m, scores, |w, m| w.abs() * momentum(m / correction)),
            Kind::Bitter9 => {
                map_3(w, m, v, scores, |w, m, v| w.abs() * momentum(m) - shrinking(w, m, v) * 0.1);
            }
        }
        if let Some(mask) = layer.mask {
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

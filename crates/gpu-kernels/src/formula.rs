//! Scores from a layer's numbers, in registers: the formulas that the lab has in tensor operations.

use cubecl::{prelude::*, server::Handle};
use sweep_job::tasks::{Prune, PruneMethod};

use crate::Layer;

/// The score of pruned weights where they must not come back: below every score of a weight that is still there.
pub const PRUNED: f32 = -1e30;

/// Formula of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Formula {
    kind: Kind,
    /// Bias correction of the first moment: its divisor.
    pub(crate) bias_correction_1: f32,
    pub(crate) epsilon: f32,
}

/// A formula; those with the same score are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The weights are the scores.
    Given,
    /// `|w|`
    Size,
    /// `w (w - w0)`
    Movement,
    /// `w (w - w)`: without a start nothing has moved.
    Unmoved,
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

    /// The formula for such a layer: without moments the size counts.
    pub(crate) fn of(&self, layer: &Layer) -> Kind {
        match self.kind {
            Kind::Movement if layer.origin.is_none() => Kind::Unmoved,
            kind @ (Kind::Given | Kind::Size | Kind::Movement | Kind::Unmoved) => kind,
            kind if layer.moments.is_some() => kind,
            _ => Kind::Size,
        }
    }

    /// The numbers that the scores of `layer` are computed from, in the order in which [`score`] takes them.
    pub(crate) fn reads(&self, layer: &Layer) -> Vec<Handle> {
        let mut reads = vec![layer.weights.clone()];
        match (self.of(layer), &layer.moments) {
            (Kind::Movement, _) => reads.extend(layer.origin.clone()),
            (Kind::Bitter3 | Kind::Bitter8, Some([m, _])) => reads.push(m.clone()),
            (Kind::Bitter7, Some([_, v])) => reads.push(v.clone()),
            (Kind::Bitter0 | Kind::Bitter5 | Kind::Bitter6 | Kind::Bitter9, Some([m, v])) => {
                reads.extend([m.clone(), v.clone()]);
            }
            _ => {}
        }
        reads.extend(layer.mask.clone());
        reads
    }
}

/// The score of the weight at `at`. A GPU may round roots and quotients otherwise than the processor does, and take denormal
/// numbers for 0.
#[cube]
pub(crate) fn score(
    inputs: &Sequence<Array<f32>>,
    at: usize,
    epsilon: f32,
    bias_correction_1: f32,
    #[comptime] kind: Kind,
    #[comptime] masked: bool,
) -> f32 {
    let w = inputs[0][at];
    let score = match kind {
        Kind::Given => w,
        Kind::Size => w.abs(),
        Kind::Movement => w * (w - inputs[1][at]),
        Kind::Unmoved => {
            let origin = w;
            w * (w - origin)
        }
        Kind::Bitter0 => (w * inputs[1][at]).abs() * (w.abs() / (inputs[2][at].sqrt() + epsilon)),
        Kind::Bitter3 => w.abs() * momentum(inputs[1][at], epsilon),
        Kind::Bitter5 => w.abs() * 0.1f32 - shrinking(w, inputs[1][at], inputs[2][at], epsilon),
        Kind::Bitter6 => {
            let m = inputs[1][at];
            w.abs() * momentum(m, epsilon) * (m * m / (inputs[2][at] + epsilon)).sqrt()
        }
        Kind::Bitter7 => w.abs() * (inputs[1][at].abs() + epsilon).sqrt().sqrt(),
        Kind::Bitter8 => w.abs() * momentum(inputs[1][at] / bias_correction_1, epsilon),
        Kind::Bitter9 => {
            let m = inputs[1][at];
            w.abs() * momentum(m, epsilon) - shrinking(w, m, inputs[2][at], epsilon) * 0.1f32
        }
    };
    if masked {
        let last = comptime!(inputs.len() - 1);
        select(inputs[last][at] == 0.0f32, PRUNED, score)
    } else {
        score
    }
}

#[cube]
fn momentum(m: f32, epsilon: f32) -> f32 {
    (m.abs() + epsilon).sqrt()
}

/// Positive where Adam's steps lead toward zero.
#[cube]
fn shrinking(w: f32, m: f32, v: f32, epsilon: f32) -> f32 {
    // NaN stays NaN.
    let sign = select(w > 0.0f32, 1.0f32, select(w < 0.0f32, -1.0f32, w));
    sign * m / (v.sqrt() + epsilon)
}

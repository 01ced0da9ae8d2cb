//! Scores from a layer's numbers, in registers: the formulas that the lab has in tensor operations.

use cubecl::{prelude::*, server::Handle};
use sweep_job::tasks::{Formula, PRUNED, ScoreInput, ScoreKind as Kind};

use crate::Layer;

impl Layer {
    /// The score that can be computed for it.
    pub(crate) fn kind(&self, formula: &Formula) -> Kind {
        formula.kind.available(self.moments.is_some(), self.origin.is_some())
    }

    /// The numbers that its scores are computed from, in the order in which [`score`] takes them.
    pub(crate) fn reads(&self, formula: &Formula) -> Vec<Handle> {
        let input = |input: &ScoreInput| match input {
            ScoreInput::Origin => self.origin.clone(),
            ScoreInput::Moment1 => self.moments.as_ref().map(|[m, _]| m.clone()),
            ScoreInput::Moment2 => self.moments.as_ref().map(|[_, v]| v.clone()),
        };
        let mut reads = vec![self.weights.clone()];
        reads.extend(self.kind(formula).inputs().iter().filter_map(input));
        reads.extend(self.mask.clone());
        reads
    }
}

/// The score of the weight at `index`. A GPU may round roots and quotients otherwise than the processor does, and take
/// denormal numbers for 0.
#[cube]
pub(crate) fn score(
    inputs: &Sequence<Array<f32>>,
    index: usize,
    epsilon: f32,
    bias_correction_1: f32,
    #[comptime] kind: Kind,
    #[comptime] masked: bool,
) -> f32 {
    let w = inputs[0][index];
    let score = match kind {
        Kind::Given => w,
        Kind::Size => w.abs(),
        Kind::Movement => w * (w - inputs[1][index]),
        Kind::Unmoved => {
            let origin = w;
            w * (w - origin)
        }
        Kind::Bitter0 => (w * inputs[1][index]).abs() * (w.abs() / (inputs[2][index].sqrt() + epsilon)),
        Kind::Bitter3 => w.abs() * momentum(inputs[1][index], epsilon),
        Kind::Bitter5 => w.abs() * 0.1f32 - shrinking(w, inputs[1][index], inputs[2][index], epsilon),
        Kind::Bitter6 => {
            let m = inputs[1][index];
            w.abs() * momentum(m, epsilon) * (m * m / (inputs[2][index] + epsilon)).sqrt()
        }
        Kind::Bitter7 => w.abs() * (inputs[1][index].abs() + epsilon).sqrt().sqrt(),
        Kind::Bitter8 => w.abs() * momentum(inputs[1][index] / bias_correction_1, epsilon),
        Kind::Bitter9 => {
            let m = inputs[1][index];
            w.abs() * momentum(m, epsilon) - shrinking(w, m, inputs[2][index], epsilon) * 0.1f32
        }
    };
    if masked {
        let last = comptime!(inputs.len() - 1);
        select(inputs[last][index] == 0.0f32, PRUNED, score)
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

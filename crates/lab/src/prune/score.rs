//! The importance of weights: weights with higher scores are kept longer (ratio-ablation, sections 8.2, 8.4 and 8.5).

use burn::tensor::{FloatDType, Tensor, backend::Backend};
use sweep_job::tasks::{Prune, ScoreKind, ScorePrecision};

/// Adam's moments of a parameter.
#[derive(Debug, Clone)]
pub struct Moments<B: Backend> {
    /// The first moment, `[numbers]`.
    pub first: Tensor<B, 1>,
    /// The second moment, `[numbers]`.
    pub second: Tensor<B, 1>,
    /// Bias correction of the first moment: its divisor.
    pub bias_correction_1: f64,
}

/// The scores, `[numbers]` in 32 bits, of a layer's weights `[numbers]`.
///
/// Methods that use the moments fall back to `|w|` without them. `origin` has the weights at the start, for
/// [`ScoreKind::Movement`]; without it, all movements are 0.
///
/// The sign of `bitter5` and `bitter9` is not the reference's. Adam moves a weight by `-m`, so `sign(w) m > 0` means
/// that it moves toward zero, which makes it less important; the reference scores it as more important.
pub fn scores<B: Backend>(
    settings: &Prune,
    weights: Tensor<B, 1>,
    moments: Option<Moments<B>>,
    origin: Option<Tensor<B, 1>>,
) -> Tensor<B, 1> {
    let to_precision = |tensor: Tensor<B, 1>| match settings.score_precision {
        ScorePrecision::F32 => tensor,
        ScorePrecision::F16 => tensor.cast(FloatDType::F16),
    };
    let w = to_precision(weights);
    let scores = match settings.prune.score().available(moments.is_some(), origin.is_some()) {
        ScoreKind::Given => w,
        ScoreKind::Size => w.abs(),
        ScoreKind::Movement | ScoreKind::Unmoved => {
            let origin = origin.map_or_else(|| w.clone(), to_precision);
            w.clone() * (w - origin)
        }
        kind => match moments {
            Some(Moments { first, second, bias_correction_1 }) => {
                let [m, v] = [first, second].map(to_precision);
                from_moments(kind, &w, m, v, bias_correction_1, settings.score_epsilon)
            }
            None => w.abs(),
        },
    };
    match settings.score_precision {
        ScorePrecision::F32 => scores,
        ScorePrecision::F16 => scores.cast(FloatDType::F32),
    }
}

fn from_moments<B: Backend>(
    kind: ScoreKind,
    w: &Tensor<B, 1>,
    m: Tensor<B, 1>,
    v: Tensor<B, 1>,
    bias_correction_1: f64,
    epsilon: f64,
) -> Tensor<B, 1> {
    let size = w.clone().abs();
    let momentum = |m: Tensor<B, 1>| (m.abs() + epsilon).sqrt();
    // Positive where Adam's steps lead toward zero.
    let shrinking = |m: Tensor<B, 1>, v: Tensor<B, 1>| w.clone().sign() * m / (v.sqrt() + epsilon);
    match kind {
        ScoreKind::Given | ScoreKind::Size | ScoreKind::Movement | ScoreKind::Unmoved => size,
        ScoreKind::Bitter0 => (w.clone() * m).abs() * (size / (v.sqrt() + epsilon)),
        ScoreKind::Bitter3 => size * momentum(m),
        ScoreKind::Bitter5 => size * 0.1 - shrinking(m, v),
        ScoreKind::Bitter6 => size * momentum(m.clone()) * (m.clone() * m / (v + epsilon)).sqrt(),
        ScoreKind::Bitter7 => size * (v.abs() + epsilon).sqrt().sqrt(),
        ScoreKind::Bitter8 => size * momentum(m / bias_correction_1),
        ScoreKind::Bitter9 => size * momentum(m.clone()) - shrinking(m, v) * 0.1,
    }
}

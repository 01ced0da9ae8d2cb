//! The importance of weights: weights with higher scores are kept longer (ratio-ablation, sections 8.2, 8.4 and 8.5).

use burn::tensor::{FloatDType, Tensor, backend::Backend};
use sweep_job::tasks::{Prune, PruneMethod, ScorePrecision};

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
/// Methods that look at the moments fall back to `|w|` without them. `origin` is the weights at the start, for
/// [`PruneMethod::Movement`]; without it nothing has moved.
///
/// The sign of `bitter5` and `bitter9` is not the reference's. Adam moves a weight by `-m`, so `sign(w) m > 0` means
/// that it moves toward zero, which makes it less important; the reference scores it as more important.
pub fn scores<B: Backend>(
    settings: &Prune,
    weights: Tensor<B, 1>,
    moments: Option<Moments<B>>,
    origin: Option<Tensor<B, 1>>,
) -> Tensor<B, 1> {
    let precise = |tensor: Tensor<B, 1>| match settings.score_precision {
        ScorePrecision::F32 => tensor,
        ScorePrecision::F16 => tensor.cast(FloatDType::F16),
    };
    let w = precise(weights);
    let scores = match (settings.prune, moments) {
        (PruneMethod::Movement, _) => {
            let origin = origin.map_or_else(|| w.clone(), precise);
            w.clone() * (w - origin)
        }
        (method, Some(moments)) if method.masks_state() => {
            let [m, v] = [moments.first, moments.second].map(precise);
            from_moments(method, &w, m, v, moments.bias_correction_1, settings.score_epsilon)
        }
        (_, _) => w.abs(),
    };
    match settings.score_precision {
        ScorePrecision::F32 => scores,
        ScorePrecision::F16 => scores.cast(FloatDType::F32),
    }
}

fn from_moments<B: Backend>(
    method: PruneMethod,
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
    match method {
        PruneMethod::None
        | PruneMethod::Magnitude
        | PruneMethod::Movement
        | PruneMethod::Bitter1
        | PruneMethod::Bitter2 => size,
        PruneMethod::Bitter0 => (w.clone() * m).abs() * (size / (v.sqrt() + epsilon)),
        PruneMethod::Bitter3 | PruneMethod::Bitter4 => size * momentum(m),
        PruneMethod::Bitter5 => size * 0.1 - shrinking(m, v),
        PruneMethod::Bitter6 => size * momentum(m.clone()) * (m.clone() * m / (v + epsilon)).sqrt(),
        PruneMethod::Bitter7 => size * (v.abs() + epsilon).sqrt().sqrt(),
        PruneMethod::Bitter8 => size * momentum(m / bias_correction_1),
        PruneMethod::Bitter9 => size * momentum(m.clone()) - shrinking(m, v) * 0.1,
    }
}

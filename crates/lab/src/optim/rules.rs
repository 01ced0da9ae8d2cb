//! The steps of optimizers with one running mean per weight: Lion, SGD with momentum, and Muon.
//!
//! Everything is computed in single precision, in Burn's operations.

use burn::tensor::{Tensor, backend::Backend};
use sweep_job::tasks::{MuonScale, Optimizer, OptimizerKind};

use crate::{
    StateError,
    files::Snapshot,
    model::{ParamInfo, Role},
    ops::{Mask, Ops},
};

/// Coefficients of the Newton-Schulz iteration that orthogonalizes a matrix (Jordan et al., "Muon", 2024).
const NEWTON_SCHULZ: [f64; 3] = [3.4445, -4.7750, 2.0315];
/// Its iterations.
const NEWTON_SCHULZ_STEPS: usize = 5;
/// Smallest norm that a matrix is divided by before the iteration.
const NEWTON_SCHULZ_EPSILON: f64 = 1e-7;

/// The rule of a parameter.
#[derive(Debug, Clone, PartialEq)]
enum Rule {
    /// The sign of a mean of gradients (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023).
    Lion { beta_1: f64, beta_2: f64 },
    /// Stochastic gradient descent.
    Sgd { momentum: f64, nesterov: bool },
    /// The mean of the gradients of a matrix `[inputs, any]`, orthogonalized. `widths` are the columns of the matrices that
    /// stand side by side in the parameter.
    Muon { momentum: f64, nesterov: bool, scale: MuonScale, inputs: usize, widths: Vec<usize> },
}

/// The rules by parameter, and their means.
#[derive(Debug)]
pub(super) struct Rules<B: Backend> {
    rules: Vec<Option<Rule>>,
    /// Mean of the gradients, `[numbers]`; `None` before a parameter's first gradient.
    means: Vec<Option<Tensor<B, 1>>>,
}

/// A parameter before a step.
pub(super) struct Before<'a, B: Backend> {
    /// `[numbers]`.
    pub(super) weights: Tensor<B, 1>,
    /// `[numbers]`.
    pub(super) gradient: Tensor<B, 1>,
    /// The learning rate.
    pub(super) rate: f64,
    /// The part of a weight that decays.
    pub(super) decay: f64,
    /// Weights that are set to 0 after the step.
    pub(super) mask: Option<Mask<'a, B>>,
}

impl<B: Ops> Rules<B> {
    /// The rules of `parameters`; AdamW updates those without one.
    pub(super) fn new(settings: &Optimizer, parameters: &[ParamInfo]) -> Self {
        Self {
            rules: parameters.iter().map(|info| rule(settings, info)).collect(),
            means: parameters.iter().map(|_| None).collect(),
        }
    }

    /// The weights of parameter `index` after its step along its gradient times `factor`, `[1]`; `before` itself if it has
    /// no rule.
    pub(super) fn step<'a>(
        &mut self,
        index: usize,
        before: Before<'a, B>,
        factor: Option<&Tensor<B, 1>>,
    ) -> Result<Tensor<B, 1>, Before<'a, B>> {
        let Some(rule) = &self.rules[index] else { return Err(before) };
        let Before { weights, gradient, rate, decay, mask } = before;
        let gradient = match factor {
            Some(factor) => B::scale(gradient, factor.clone()),
            None => gradient,
        };
        let mean = self.means[index].take().unwrap_or_else(|| gradient.zeros_like());
        let (mean, change) = rule.change(mean, gradient, rate);
        let decayed = if decay == 0.0 { weights } else { weights * (1.0 - decay) };
        let (mut weights, mut mean) = (decayed - change, mean);
        if let Some(Mask { keep, moments }) = mask {
            weights = B::masked(weights, keep);
            if moments {
                mean = B::masked(mean, keep);
            }
        }
        self.means[index] = Some(mean);
        Ok(weights)
    }

    /// Multiplies the means of the parameters that have a mask with it.
    pub(super) fn mask(&mut self, masks: &[Option<Tensor<B, 1>>]) {
        for (mean, mask) in self.means.iter_mut().zip(masks) {
            if let Some(mask) = mask {
                *mean = mean.take().map(|mean| B::masked(mean, mask));
            }
        }
    }

    /// Adds the means to `snapshot`.
    pub(super) fn store(&self, snapshot: &mut Snapshot<B>, parameters: &[ParamInfo]) {
        for (info, mean) in parameters.iter().zip(&self.means) {
            if let Some(mean) = mean {
                snapshot.put(format!("mean.{}", info.name), mean.clone());
            }
        }
    }

    /// Takes the means that [`store`](Self::store) has put into `snapshot`.
    pub(super) fn restore(&mut self, snapshot: &mut Snapshot<B>, parameters: &[ParamInfo]) -> Result<(), StateError> {
        for ((info, rule), mean) in parameters.iter().zip(&self.rules).zip(&mut self.means) {
            if rule.is_some() {
                *mean = snapshot.take(&format!("mean.{}", info.name), info.len())?;
            }
        }
        Ok(())
    }
}

/// The rule of a parameter; `None` for AdamW.
fn rule(settings: &Optimizer, info: &ParamInfo) -> Option<Rule> {
    let (momentum, nesterov) = (settings.momentum(), settings.uses_nesterov());
    match (settings.optimizer, &info.shape[..]) {
        (OptimizerKind::Lion, _) => Some(Rule::Lion { beta_1: settings.beta_1, beta_2: settings.beta_2 }),
        (OptimizerKind::Sgd, _) => Some(Rule::Sgd { momentum, nesterov }),
        (OptimizerKind::Muon, [inputs, outputs]) if info.role() == Role::Linear => {
            // Queries, keys and values are three matrices.
            let widths = if info.name.ends_with("attn.c_attn.weight") {
                let shared = outputs.saturating_sub(*inputs) / 2;
                vec![outputs - 2 * shared, shared, shared]
            } else {
                vec![*outputs]
            };
            Some(Rule::Muon { momentum, nesterov, scale: settings.muon_scale, inputs: *inputs, widths })
        }
        (OptimizerKind::AdamW | OptimizerKind::AdamWSpam | OptimizerKind::Muon, _) => None,
    }
}

impl Rule {
    /// The mean after `gradient`, and the change that is subtracted from the weights, at the learning rate `rate`.
    fn change<B: Backend>(
        &self,
        mean: Tensor<B, 1>,
        gradient: Tensor<B, 1>,
        rate: f64,
    ) -> (Tensor<B, 1>, Tensor<B, 1>) {
        match self {
            Self::Lion { beta_1, beta_2 } => {
                let direction = (mean.clone() * *beta_1 + gradient.clone() * (1.0 - beta_1)).sign();
                (mean * *beta_2 + gradient * (1.0 - beta_2), direction * rate)
            }
            Self::Sgd { momentum, nesterov } => {
                let mean = mean * *momentum + gradient.clone();
                let direction = if *nesterov { gradient + mean.clone() * *momentum } else { mean.clone() };
                (mean, direction * rate)
            }
            Self::Muon { momentum, nesterov, scale, inputs, widths } => {
                let mean = mean * *momentum + gradient.clone() * (1.0 - momentum);
                let direction =
                    if *nesterov { gradient * (1.0 - momentum) + mean.clone() * *momentum } else { mean.clone() };
                let columns = widths.iter().sum::<usize>();
                let direction = direction.reshape([*inputs, columns]);
                let mut start = 0;
                let parts = widths.iter().map(|width| {
                    let part = direction.clone().narrow(1, start, *width);
                    start += width;
                    orthogonal(part) * (rate * scale.factor(*inputs, *width))
                });
                (mean, Tensor::cat(parts.collect(), 1).reshape([inputs * columns]))
            }
        }
    }
}

/// A matrix near the orthogonal one that is nearest to `matrix`: its singular values come to lie around 1.
fn orthogonal<B: Backend>(matrix: Tensor<B, 2>) -> Tensor<B, 2> {
    let [rows, columns] = matrix.dims();
    let is_tall = rows > columns;
    let mut x = if is_tall { matrix.transpose() } else { matrix };
    let norm = (x.clone() * x.clone()).sum().sqrt().clamp_min(NEWTON_SCHULZ_EPSILON);
    x = x / norm.unsqueeze::<2>();
    let [a, b, c] = NEWTON_SCHULZ;
    for _ in 0..NEWTON_SCHULZ_STEPS {
        let gram = x.clone().matmul(x.clone().transpose());
        let update = gram.clone() * b + gram.clone().matmul(gram) * c;
        x = x.clone() * a + update.matmul(x);
    }
    if is_tall { x.transpose() } else { x }
}

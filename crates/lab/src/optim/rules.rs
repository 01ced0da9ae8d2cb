//! The steps of optimizers other than AdamW: Lion, SGD with momentum and Muon, which keep one running mean per weight, Adafactor,
//! Schedule-Free AdamW and SOAP.
//!
//! Everything is computed in single precision, in Burn's operations.

use burn::tensor::{Tensor, backend::Backend};
use sweep_job::tasks::{MuonScale, Optimizer, OptimizerKind};

use super::{adafactor::Adafactor, schedule_free::ScheduleFree, soap::Soap};
use crate::{
    LabError, StateError,
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
    /// A rule with one mean per weight.
    Mean(MeanRule),
    /// Second moments by row and column.
    Adafactor(Adafactor),
    /// The rule of [`Rules::free`], which all parameters share.
    ScheduleFree,
    /// Adam in the eigenbases of preconditioners.
    Soap(Soap),
}

/// A rule with one running mean per weight.
#[derive(Debug, Clone, PartialEq)]
enum MeanRule {
    /// The sign of a mean of gradients (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023).
    Lion { beta_1: f64, beta_2: f64 },
    /// Stochastic gradient descent.
    Sgd { momentum: f64, nesterov: bool },
    /// The mean of the gradients of a matrix `[inputs, any]`, orthogonalized. `widths` are the columns of the matrices that
    /// stand side by side in the parameter.
    Muon { momentum: f64, nesterov: bool, scale: MuonScale, inputs: usize, widths: Vec<usize> },
}

/// The rules by parameter, and their state.
#[derive(Debug)]
pub(super) struct Rules<B: Backend> {
    by_parameter: Vec<Option<Rule>>,
    /// The tensors that [`Rule::state`] names; none before a parameter's first gradient.
    states: Vec<Vec<Tensor<B, 1>>>,
    /// Schedule-Free AdamW.
    free: Option<ScheduleFree>,
    /// By parameter: SOAP's steps, not counting the first gradient.
    soap_steps: Vec<i32>,
    /// The first error of the current step.
    failure: Option<LabError>,
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
    /// Number of the step, counted from 1.
    pub(super) step: i32,
    /// Weights that are set to 0 after the step.
    pub(super) mask: Option<Mask<'a, B>>,
}

impl<B: Ops> Rules<B> {
    /// The rules of `parameters`; AdamW updates those without one.
    pub(super) fn new(settings: &Optimizer, parameters: &[ParamInfo]) -> Self {
        Self {
            by_parameter: parameters.iter().map(|info| rule(settings, info)).collect(),
            states: parameters.iter().map(|_| Vec::new()).collect(),
            free: (settings.optimizer == OptimizerKind::ScheduleFree).then(|| ScheduleFree::new(settings)),
            soap_steps: vec![0; parameters.len()],
            failure: None,
        }
    }

    /// Begins a step of all parameters with the learning rate `rate`.
    pub(super) fn begin(&mut self, rate: f64) {
        if let Some(free) = &mut self.free {
            free.begin(rate);
        }
    }

    /// Ends a step of all parameters. Fails if the device failed in it.
    pub(super) fn end(&mut self) -> Result<(), LabError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// The weights of parameter `index` after its step along its gradient times `factor`, `[1]`; `before` itself if it has
    /// no rule.
    pub(super) fn step<'a>(
        &mut self,
        index: usize,
        before: Before<'a, B>,
        factor: Option<&Tensor<B, 1>>,
    ) -> Result<Tensor<B, 1>, Before<'a, B>> {
        let Some(rule) = &self.by_parameter[index] else { return Err(before) };
        let Before { weights, gradient, rate, decay, step, mask } = before;
        let gradient = match factor {
            Some(factor) => B::scale(gradient, factor.clone()),
            None => gradient,
        };
        let state = &mut self.states[index];
        let is_first = state.is_empty();
        if is_first {
            *state = rule.first_state(&weights);
        }
        let decayed = |weights: Tensor<B, 1>| if decay == 0.0 { weights } else { weights * (1.0 - decay) };
        let mut weights = match (rule, &self.free, &mut state[..]) {
            (Rule::Mean(rule), _, [mean]) => {
                let (new_mean, change) = rule.change(mean.clone(), gradient, rate);
                *mean = new_mean;
                decayed(weights) - change
            }
            (Rule::Adafactor(rule), _, moments) => {
                let change = rule.change(moments, &weights, gradient, rate, step);
                decayed(weights) - change
            }
            (Rule::ScheduleFree, Some(free), [z, squares]) => {
                free.step([z, squares], weights, gradient, [rate, decay], step)
            }
            (Rule::Soap(rule), ..) => {
                let steps = &mut self.soap_steps[index];
                let stepped = if is_first {
                    rule.begin(state, gradient).map(|()| weights.clone())
                } else {
                    *steps = steps.saturating_add(1);
                    rule.step(state, weights.clone(), gradient, [rate, decay], *steps)
                };
                stepped.unwrap_or_else(|error| {
                    self.failure.get_or_insert(error);
                    weights
                })
            }
            // The first state and a restored one have the tensors of their rule.
            _ => weights,
        };
        if let Some(Mask { keep, moments }) = mask {
            weights = B::masked(weights, keep);
            self.mask_one(index, keep, moments);
        }
        Ok(weights)
    }

    /// The state of the parameters that have a mask, set to 0 by it: that by which pruned weights could return, and with
    /// `moments` everything that has a number for each weight.
    pub(super) fn mask(&mut self, masks: &[Option<Tensor<B, 1>>], moments: bool) {
        for (index, mask) in masks.iter().enumerate() {
            if let Some(mask) = mask {
                self.mask_one(index, mask, moments);
            }
        }
    }

    fn mask_one(&mut self, index: usize, mask: &Tensor<B, 1>, moments: bool) {
        let Some(rule) = &self.by_parameter[index] else { return };
        // SOAP's moments belong to rotated weights, and pruned weights are set to 0 after each step anyway.
        if matches!(rule, Rule::Soap(_)) {
            return;
        }
        // Adafactor's sums over rows and columns belong to no single weight.
        let by_weight = self.states[index].iter_mut().filter(|tensor| tensor.dims() == mask.dims());
        // The weights before the mean come first.
        let limit = if moments { usize::MAX } else { usize::from(*rule == Rule::ScheduleFree) };
        for tensor in by_weight.take(limit) {
            *tensor = B::masked(tensor.clone(), mask);
        }
    }

    /// True if the network is evaluated with other weights than those at which gradients are taken.
    pub(super) fn has_means(&self) -> bool {
        self.free.is_some()
    }

    /// The weights of parameter `index` with which the network is evaluated, where `weights` are the weights of the training.
    pub(super) fn mean(&self, index: usize, weights: Tensor<B, 1>) -> Tensor<B, 1> {
        match (&self.free, self.states.get(index).and_then(|state| state.first())) {
            (Some(free), Some(z)) => free.mean(weights, z.clone()),
            _ => weights,
        }
    }

    /// Adds the state to `snapshot`.
    pub(super) fn store(&self, snapshot: &mut Snapshot<B>, parameters: &[ParamInfo]) {
        for ((info, rule), state) in parameters.iter().zip(&self.by_parameter).zip(&self.states) {
            let names = rule.iter().flat_map(|rule| rule.state(info.len()));
            for ((kind, _), tensor) in names.zip(state) {
                snapshot.put(format!("{kind}.{}", info.name), tensor.clone());
            }
        }
        for ((info, rule), steps) in parameters.iter().zip(&self.by_parameter).zip(&self.soap_steps) {
            if matches!(rule, Some(Rule::Soap(_))) {
                snapshot.put_count(&soap_steps_name(info), u64::from(steps.unsigned_abs()));
            }
        }
        if let Some(free) = &self.free {
            free.store(snapshot);
        }
    }

    /// Takes the state that [`store`](Self::store) has put into `snapshot`.
    pub(super) fn restore(&mut self, snapshot: &mut Snapshot<B>, parameters: &[ParamInfo]) -> Result<(), StateError> {
        for ((info, rule), state) in parameters.iter().zip(&self.by_parameter).zip(&mut self.states) {
            let names = rule.as_ref().map_or_else(Vec::new, |rule| rule.state(info.len()));
            let mut found = Vec::with_capacity(names.len());
            for (kind, length) in &names {
                found.extend(snapshot.take(&format!("{kind}.{}", info.name), *length)?);
            }
            if !found.is_empty() && found.len() < names.len() {
                return Err(StateError::Incomplete { parameter: info.name.clone() });
            }
            *state = found;
        }
        for (index, info) in parameters.iter().enumerate() {
            if matches!(self.by_parameter[index], Some(Rule::Soap(_))) {
                self.soap_steps[index] = snapshot.take_count(&soap_steps_name(info))?;
                if self.soap_steps[index] > 0 && self.states[index].is_empty() {
                    return Err(StateError::Incomplete { parameter: info.name.clone() });
                }
            }
        }
        self.free.as_mut().map_or(Ok(()), |free| free.restore(snapshot))
    }
}

/// The name of SOAP's number of steps in a state.
fn soap_steps_name(info: &ParamInfo) -> String {
    format!("soap.steps.{}", info.name)
}

/// The rule of a parameter; `None` for AdamW.
fn rule(settings: &Optimizer, info: &ParamInfo) -> Option<Rule> {
    let (momentum, nesterov) = (settings.momentum(), settings.uses_nesterov());
    match (settings.optimizer, &info.shape[..]) {
        (OptimizerKind::Adafactor, _) => Some(Rule::Adafactor(Adafactor::new(settings, info))),
        (OptimizerKind::ScheduleFree, _) => Some(Rule::ScheduleFree),
        (OptimizerKind::Lion, _) => {
            Some(Rule::Mean(MeanRule::Lion { beta_1: settings.beta_1, beta_2: settings.beta_2 }))
        }
        (OptimizerKind::Sgd, _) => Some(Rule::Mean(MeanRule::Sgd { momentum, nesterov })),
        (OptimizerKind::Muon, [inputs, outputs]) if info.role() == Role::Linear => {
            // Queries, keys and values are three matrices.
            let widths = if info.name.ends_with("attn.c_attn.weight") {
                let shared = outputs.saturating_sub(*inputs) / 2;
                vec![outputs - 2 * shared, shared, shared]
            } else {
                vec![*outputs]
            };
            let scale = settings.muon_scale;
            Some(Rule::Mean(MeanRule::Muon { momentum, nesterov, scale, inputs: *inputs, widths }))
        }
        (OptimizerKind::Soap, [rows, columns]) if info.role() == Role::Linear => {
            Some(Rule::Soap(Soap::new(settings, [*rows, *columns])))
        }
        (OptimizerKind::AdamW | OptimizerKind::AdamWSpam | OptimizerKind::Muon | OptimizerKind::Soap, _) => None,
    }
}

impl Rule {
    /// Names and lengths of the tensors of its state, for a parameter of `numbers` numbers.
    fn state(&self, numbers: usize) -> Vec<(&'static str, usize)> {
        match self {
            Self::Mean(_) => vec![("mean", numbers)],
            Self::Adafactor(adafactor) => adafactor.state(),
            Self::ScheduleFree => vec![("unaveraged", numbers), ("squares", numbers)],
            Self::Soap(soap) => soap.state(),
        }
    }

    /// The state before the first step from `weights`.
    fn first_state<B: Backend>(&self, weights: &Tensor<B, 1>) -> Vec<Tensor<B, 1>> {
        if *self == Self::ScheduleFree {
            return vec![weights.clone(), weights.zeros_like()];
        }
        let [numbers] = weights.dims();
        let device = weights.device();
        let zeros = |(_, length): (&str, usize)| Tensor::zeros([length], (&device, weights.dtype()));
        self.state(numbers).into_iter().map(zeros).collect()
    }
}

impl MeanRule {
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

/// An approximation of the orthogonal matrix that is nearest to `matrix`; its singular values are about 1.
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

//! AdamW as `PyTorch` defines it, with AMSGrad and SPAM's guards where asked.

use burn::{
    module::Module,
    tensor::{
        Tensor,
        backend::{AutodiffBackend, Backend},
    },
};
use sweep_job::tasks::{Optimizer, OptimizerKind};

use super::{Gradients, Reading, Spam, global_norm};
use crate::{
    LabError,
    model::{self, ParamInfo},
    ops::{AdamWStep, Ops},
    state::{Snapshot, StateError},
};

/// AdamW with decoupled weight decay.
#[derive(Debug)]
pub struct AdamW<B: Backend> {
    beta_1: f64,
    beta_2: f64,
    epsilon: f64,
    amsgrad: bool,
    /// By parameter.
    decay: Vec<f64>,
    /// By parameter; none before its first gradient.
    states: Vec<Option<State<B>>>,
    /// Since the start, or since SPAM has begun the bias correction again.
    steps: i32,
    spam: Option<Spam<B>>,
}

/// The running means of a parameter's gradient.
#[derive(Debug, Clone)]
pub struct State<B: Backend> {
    /// Of the gradient, `[numbers]`.
    pub moment_1: Tensor<B, 1>,
    /// Of its square, `[numbers]`.
    pub moment_2: Tensor<B, 1>,
    /// The largest `moment_2` so far, `[numbers]`; with AMSGrad only.
    pub max_moment_2: Option<Tensor<B, 1>>,
}

impl<B: Ops> AdamW<B> {
    /// An optimizer for `parameters`, in the network's order.
    pub fn new(settings: &Optimizer, parameters: &[ParamInfo]) -> Self {
        let decay = |info: &ParamInfo| if info.decays(settings.decay_on) { settings.weight_decay } else { 0.0 };
        Self {
            beta_1: settings.beta_1,
            beta_2: settings.beta_2,
            epsilon: settings.epsilon,
            amsgrad: settings.uses_amsgrad(),
            decay: parameters.iter().map(decay).collect(),
            states: parameters.iter().map(|_| None).collect(),
            steps: 0,
            spam: (settings.optimizer == OptimizerKind::AdamWSpam).then(|| Spam::new(settings)),
        }
    }

    /// The state of a parameter.
    pub fn state(&self, parameter: usize) -> Option<&State<B>> {
        self.states.get(parameter)?.as_ref()
    }

    /// What the first moment must be divided by to be without bias: `1 - beta_1^t`.
    pub fn bias_correction_1(&self) -> f64 {
        1.0 - self.beta_1.powi(self.steps)
    }

    /// What the learning rate of the last step was multiplied with: below 1 after a reset by SPAM.
    pub fn rate_factor(&self) -> f64 {
        self.spam.as_ref().map_or(1.0, Spam::rate_factor)
    }

    /// What SPAM has seen so far, in one reading; `None` without SPAM or before its first gradient.
    pub fn reading(&self) -> Result<Option<Reading>, LabError> {
        self.spam.as_ref().map_or(Ok(None), Spam::reading)
    }

    /// What SPAM does with the gradients of an iteration, before clipping by the global norm and
    /// [`step`](Self::step); nothing without SPAM. Also gives the gradients' global norm if it was needed.
    pub fn guard(&mut self, gradients: Gradients<B>) -> (Gradients<B>, Option<Tensor<B, 1>>) {
        let Some(spam) = &mut self.spam else { return (gradients, None) };
        let gradients = spam.clip_elements(gradients, &self.states, self.beta_2);
        let norm = global_norm(&gradients);
        if let Some(norm) = norm.clone() {
            spam.observe(norm);
        }
        (gradients, norm)
    }

    /// Multiplies the moments of the parameters that have a mask with it, AMSGrad's maximum included.
    pub(crate) fn mask_moments(&mut self, masks: &[Option<Tensor<B, 1>>]) {
        for (state, mask) in self.states.iter_mut().zip(masks) {
            let Some(mask) = mask else { continue };
            *state = state.take().map(|State { moment_1, moment_2, max_moment_2 }| State {
                moment_1: moment_1 * mask.clone(),
                moment_2: moment_2 * mask.clone(),
                max_moment_2: max_moment_2.map(|max| max * mask.clone()),
            });
        }
    }

    /// One step with learning rate `lr`, times SPAM's factor. A parameter without a gradient stays as it is.
    pub fn step<AB, M>(&mut self, network: M, mut gradients: Gradients<B>, lr: f64) -> M
    where
        AB: AutodiffBackend<InnerBackend = B>,
        M: Module<AB>,
    {
        let decays = self.begin_step();
        let lr = lr * self.rate_factor();
        self.steps += 1;
        let step_size = lr / self.bias_correction_1();
        let root_correction = (1.0 - self.beta_2.powi(self.steps)).sqrt().recip();
        model::map_values::<AB, M>(network, &mut |index, weight| {
            let Some(gradient) = gradients.get_mut(index).and_then(Option::take) else { return weight };
            let decay = lr * self.decay[index];
            if decays.is_none() && !self.amsgrad {
                let step = AdamWStep {
                    beta_1: self.beta_1,
                    beta_2: self.beta_2,
                    epsilon: self.epsilon,
                    step_size,
                    root_correction,
                    decay,
                };
                let moments = self.states[index].take().map(|State { moment_1, moment_2, .. }| [moment_1, moment_2]);
                let (weight, [moment_1, moment_2]) = B::adamw_step(&step, weight, gradient, moments);
                self.states[index] = Some(State { moment_1, moment_2, max_moment_2: None });
                return weight;
            }
            let state = self.moments(index, gradient, decays.as_ref());
            let root = state.max_moment_2.as_ref().unwrap_or(&state.moment_2).clone().sqrt();
            let step = state.moment_1.clone() * step_size / (root * root_correction + self.epsilon);
            self.states[index] = Some(state);
            if decay == 0.0 { weight - step } else { weight * (1.0 - decay) - step }
        })
    }

    /// Resets if it is time for that. Gives the decays of both moments, each `[1]`, where they are not simply `beta_1`
    /// and `beta_2`.
    fn begin_step(&mut self) -> Option<[Tensor<B, 1>; 2]> {
        let spam = self.spam.as_mut()?;
        if spam.advance() {
            let everything = spam.resets_all();
            if everything {
                self.steps = 0;
            }
            for state in &mut self.states {
                *state = state.take().filter(|_| !everything).map(|state| State {
                    moment_1: state.moment_1.zeros_like(),
                    moment_2: state.moment_2.zeros_like(),
                    ..state
                });
            }
        }
        let [first, second] = spam.damping()?;
        Some([first * self.beta_1, second * self.beta_2])
    }

    /// The moments of parameter `index`, with `gradient` counted in.
    fn moments(&mut self, index: usize, gradient: Tensor<B, 1>, decays: Option<&[Tensor<B, 1>; 2]>) -> State<B> {
        let square = gradient.clone() * gradient.clone() * (1.0 - self.beta_2);
        let gradient = gradient * (1.0 - self.beta_1);
        let (moment_1, moment_2, max) = match self.states[index].take() {
            None => (gradient, square, None),
            Some(State { moment_1, moment_2, max_moment_2 }) => {
                let (old_1, old_2) = match decays {
                    None => (moment_1 * self.beta_1, moment_2 * self.beta_2),
                    Some([first, second]) => (moment_1 * first.clone(), moment_2 * second.clone()),
                };
                (old_1 + gradient, old_2 + square, max_moment_2)
            }
        };
        let max_moment_2 = self.amsgrad.then(|| match max {
            Some(max) => max.max_pair(moment_2.clone()),
            None => moment_2.clone(),
        });
        State { moment_1, moment_2, max_moment_2 }
    }

    /// Adds everything that the next step depends on to `snapshot`.
    pub fn store(&self, snapshot: &mut Snapshot<B>, parameters: &[ParamInfo]) {
        snapshot.put_count("adam.steps", u64::from(self.steps.unsigned_abs()));
        for (info, state) in parameters.iter().zip(&self.states) {
            let Some(State { moment_1, moment_2, max_moment_2 }) = state else { continue };
            snapshot.put(format!("moment_1.{}", info.name), moment_1.clone());
            snapshot.put(format!("moment_2.{}", info.name), moment_2.clone());
            if let Some(max) = max_moment_2 {
                snapshot.put(format!("max_moment_2.{}", info.name), max.clone());
            }
        }
        if let Some(spam) = &self.spam {
            spam.store(snapshot);
        }
    }

    /// Takes what [`store`](Self::store) has put into `snapshot` out of it and continues from there. On an error this
    /// optimizer may have taken a part.
    pub fn restore(&mut self, snapshot: &mut Snapshot<B>, parameters: &[ParamInfo]) -> Result<(), StateError> {
        self.steps = snapshot.take_count("adam.steps")?;
        for (info, state) in parameters.iter().zip(&mut self.states) {
            let mut take = |what: &str| snapshot.take(&format!("{what}.{}", info.name), info.len());
            let moments = (take("moment_1")?, take("moment_2")?, take("max_moment_2")?);
            *state = match moments {
                (Some(moment_1), Some(moment_2), max_moment_2) if max_moment_2.is_some() == self.amsgrad => {
                    Some(State { moment_1, moment_2, max_moment_2 })
                }
                (None, None, None) => None,
                _ => return Err(StateError::Incomplete { parameter: info.name.clone() }),
            };
        }
        self.spam.as_mut().map_or(Ok(()), |spam| spam.restore(snapshot))
    }
}

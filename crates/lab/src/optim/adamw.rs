//! AdamW as `PyTorch` defines it, optionally with AMSGrad and SPAM's guards; parameters that another optimizer updates have
//! its rule (`rules.rs`).

use burn::{
    module::Module,
    tensor::{
        Tensor,
        backend::{AutodiffBackend, Backend},
    },
};
use sweep_job::tasks::{Fusing, Optimizer, OptimizerKind};

use super::{
    Gradients, Reading, Spam, global_norm,
    rules::{Before, Rules},
};
use crate::{
    LabError, StateError,
    files::Snapshot,
    model::{self, GptDims, ParamInfo},
    ops::{AdamWState, AdamWStep, Mask, Ops, Parameter},
};

/// AdamW with decoupled weight decay, and the rules of other optimizers.
#[derive(Debug)]
pub struct AdamW<B: Backend> {
    beta_1: f64,
    beta_2: f64,
    epsilon: f64,
    amsgrad: bool,
    /// Weight decay, by parameter.
    decay: Vec<f64>,
    /// Factor of the learning rate, but not of the decay, by parameter.
    rates: Vec<f64>,
    /// State of each parameter; `None` before its first gradient.
    states: Vec<Option<AdamWState<B>>>,
    /// Steps since the start, or since SPAM reset the bias correction.
    steps: i32,
    spam: Option<Spam<B>>,
    rules: Rules<B>,
    /// See [`AdamWStep::fused`].
    fused: Option<bool>,
}

/// Operations of a step on the gradients before it and on the weights after it.
#[derive(Debug)]
pub struct StepContext<'a, B: Backend> {
    /// Factor of all gradients, `[1]`.
    pub gradient_factor: Option<Tensor<B, 1>>,
    /// Masks by parameter: 1 for kept weights, 0 for pruned weights. Empty if nothing is pruned.
    pub masks: &'a [Option<Tensor<B, 1>>],
    /// True if the moments of pruned weights become 0 too, AMSGrad's maximum included.
    pub mask_moments: bool,
}

impl<B: Backend> Default for StepContext<'_, B> {
    fn default() -> Self {
        Self { gradient_factor: None, masks: &[], mask_moments: false }
    }
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
            rates: vec![1.0; parameters.len()],
            states: parameters.iter().map(|_| None).collect(),
            steps: 0,
            spam: (settings.optimizer == OptimizerKind::AdamWSpam).then(|| Spam::new(settings)),
            rules: Rules::new(settings, parameters),
            fused: None,
        }
    }

    /// Returns this optimizer with steps that are fused according to `fusing`, on backends that can fuse them.
    pub fn with_fusing(self, fusing: Fusing) -> Self {
        Self { fused: Some(fusing.fuses_optimizer()), ..self }
    }

    /// Returns this optimizer of the `parameters` of a network of `dims` with the factors that its parametrization gives the learning rate.
    /// Weight decay uses the learning rate without the factor, as in the `mup` package.
    pub fn with_rates_of(self, dims: &GptDims, parameters: &[ParamInfo]) -> Self {
        Self { rates: parameters.iter().map(|info| dims.rate_factor(info)).collect(), ..self }
    }

    /// The state of a parameter.
    pub fn state(&self, parameter: usize) -> Option<&AdamWState<B>> {
        self.states.get(parameter)?.as_ref()
    }

    /// Bias correction of the first moment: its divisor `1 - beta_1^t`.
    pub fn bias_correction_1(&self) -> f64 {
        1.0 - self.beta_1.powi(self.steps)
    }

    /// Factor of the learning rate in the last step: below 1 after a reset by SPAM.
    pub fn rate_factor(&self) -> f64 {
        self.spam.as_ref().map_or(1.0, Spam::rate_factor)
    }

    /// Statistics of SPAM so far, in one reading; `None` without SPAM or before its first gradient.
    pub fn reading(&self) -> Result<Option<Reading>, LabError> {
        self.spam.as_ref().map_or(Ok(None), Spam::reading)
    }

    /// Applies SPAM to the gradients of an iteration. Also returns the gradients' global norm if SPAM needed it.
    pub fn guard(&mut self, gradients: Gradients<B>) -> (Gradients<B>, Option<Tensor<B, 1>>) {
        let Some(spam) = &mut self.spam else { return (gradients, None) };
        let gradients = spam.clip_elements(gradients, &self.states, self.beta_2);
        let norm = global_norm(&gradients);
        if let Some(norm) = norm.clone() {
            spam.observe(norm);
        }
        (gradients, norm)
    }

    /// Multiplies state by the masks of parameters: the state from which pruned weights could return, and with `moments` also the moments,
    /// including AMSGrad's maximum.
    pub(crate) fn mask(&mut self, masks: &[Option<Tensor<B, 1>>], moments: bool) {
        self.rules.mask(masks, moments);
        if !moments {
            return;
        }
        for (state, mask) in self.states.iter_mut().zip(masks) {
            let Some(mask) = mask else { continue };
            *state = state.take().map(|state| AdamWState {
                moment_1: B::masked(state.moment_1, mask),
                moment_2: B::masked(state.moment_2, mask),
                max_moment_2: state.max_moment_2.map(|max| B::masked(max, mask)),
            });
        }
    }

    /// `network` with the weights by which it is evaluated and saved: with Schedule-Free their mean, else its own.
    pub fn averaged<AB, M>(&self, network: M) -> M
    where
        AB: AutodiffBackend<InnerBackend = B>,
        M: Module<AB>,
    {
        if !self.rules.has_means() {
            return network;
        }
        model::map_values::<AB, M>(network, &mut |index, weights| self.rules.mean(index, weights))
    }

    /// Makes one step with learning rate `lr`, times SPAM's factor. A parameter without a gradient is unchanged.
    ///
    /// Fails if SOAP's preconditioners cannot be read from the device.
    pub fn step<AB, M>(&mut self, network: M, gradients: Gradients<B>, lr: f64) -> Result<M, LabError>
    where
        AB: AutodiffBackend<InnerBackend = B>,
        M: Module<AB>,
    {
        self.step_with::<AB, M>(network, gradients, lr, StepContext::default())
    }

    /// Makes a step like [`step`](Self::step), and does the work before and after it in the same pass over the parameters.
    pub fn step_with<AB, M>(
        &mut self,
        network: M,
        mut gradients: Gradients<B>,
        lr: f64,
        context: StepContext<'_, B>,
    ) -> Result<M, LabError>
    where
        AB: AutodiffBackend<InnerBackend = B>,
        M: Module<AB>,
    {
        let keeps = self.begin_step();
        let lr = lr * self.rate_factor();
        self.steps += 1;
        self.rules.begin(lr);
        let step = AdamWStep {
            beta_1: self.beta_1,
            beta_2: self.beta_2,
            epsilon: self.epsilon,
            step_size: lr / self.bias_correction_1(),
            root_correction: (1.0 - self.beta_2.powi(self.steps)).sqrt().recip(),
            amsgrad: self.amsgrad,
            keeps,
            gradient_factor: context.gradient_factor,
            fused: self.fused,
        };
        let network = model::map_values::<AB, M>(network, &mut |index, weights| {
            let keep = context.masks.get(index).and_then(Option::as_ref);
            let Some(gradient) = gradients.get_mut(index).and_then(Option::take) else {
                // The parameter may have been pruned since its last gradient.
                return match keep {
                    Some(keep) => B::masked(weights, keep),
                    None => weights,
                };
            };
            let mask = keep.map(|keep| Mask { keep, moments: context.mask_moments });
            let decay = lr * self.decay[index];
            let rate_factor = self.rates[index];
            let before = Before { weights, gradient, rate: lr * rate_factor, decay, step: self.steps, mask };
            let Before { weights, gradient, mask, .. } =
                match self.rules.step(index, before, step.gradient_factor.as_ref()) {
                    Ok(weights) => return weights,
                    Err(before) => before,
                };
            let state = self.states[index].take();
            let parameter = Parameter { weights, gradient, state, decay, mask };
            let (weights, state) = if rate_factor == 1.0 {
                B::adamw_step(&step, parameter)
            } else {
                B::adamw_step(&AdamWStep { step_size: step.step_size * rate_factor, ..step.clone() }, parameter)
            };
            self.states[index] = Some(state);
            weights
        });
        self.rules.end().map(|()| network)
    }

    /// Resets the moments if SPAM requires it. Returns the decays of both moments, each `[1]`, if they differ from `beta_1` and `beta_2`.
    fn begin_step(&mut self) -> Option<[Tensor<B, 1>; 2]> {
        let spam = self.spam.as_mut()?;
        if spam.advance() {
            let resets_all = spam.resets_all();
            if resets_all {
                self.steps = 0;
            }
            for state in &mut self.states {
                *state = state.take().filter(|_| !resets_all).map(|state| AdamWState {
                    moment_1: state.moment_1.zeros_like(),
                    moment_2: state.moment_2.zeros_like(),
                    ..state
                });
            }
        }
        let [first, second] = spam.damping()?;
        Some([first * self.beta_1, second * self.beta_2])
    }

    /// Adds everything that the next step depends on to `snapshot`.
    pub fn store(&self, snapshot: &mut Snapshot<B>, parameters: &[ParamInfo]) {
        snapshot.put_count("adam.steps", u64::from(self.steps.unsigned_abs()));
        for (info, state) in parameters.iter().zip(&self.states) {
            let Some(AdamWState { moment_1, moment_2, max_moment_2 }) = state else { continue };
            snapshot.put(format!("moment_1.{}", info.name), moment_1.clone());
            snapshot.put(format!("moment_2.{}", info.name), moment_2.clone());
            if let Some(max) = max_moment_2 {
                snapshot.put(format!("max_moment_2.{}", info.name), max.clone());
            }
        }
        self.rules.store(snapshot, parameters);
        if let Some(spam) = &self.spam {
            spam.store(snapshot);
        }
    }

    /// Continues from the state that [`store`](Self::store) has put into `snapshot`, and removes it there. After an error, this optimizer
    /// may have taken a part of the state.
    pub fn restore(&mut self, snapshot: &mut Snapshot<B>, parameters: &[ParamInfo]) -> Result<(), StateError> {
        self.steps = snapshot.take_count("adam.steps")?;
        for (info, state) in parameters.iter().zip(&mut self.states) {
            let mut take = |kind: &str| snapshot.take(&format!("{kind}.{}", info.name), info.len());
            let moments = (take("moment_1")?, take("moment_2")?, take("max_moment_2")?);
            *state = match moments {
                (Some(moment_1), Some(moment_2), max_moment_2) if max_moment_2.is_some() == self.amsgrad => {
                    Some(AdamWState { moment_1, moment_2, max_moment_2 })
                }
                (None, None, None) => None,
                _ => return Err(StateError::Incomplete { parameter: info.name.clone() }),
            };
        }
        self.rules.restore(snapshot, parameters)?;
        self.spam.as_mut().map_or(Ok(()), |spam| spam.restore(snapshot))
    }
}

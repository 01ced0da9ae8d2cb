//! AdamW as `PyTorch` defines it, its learning-rate schedule, and clipping by the global norm.
//!
//! Everything works on flat tensors on the device; nothing is read to the host in a step.

use burn::{
    module::Module,
    tensor::{
        Tensor,
        backend::{AutodiffBackend, Backend},
    },
};
use sweep_job::tasks::Optimizer;

use crate::{
    model::{self, ParamInfo},
    ops::{AdamWStep, Ops},
};

/// Gradients by the network's order of parameters, each `[numbers]`; `None` where there is none.
pub type Gradients<B> = Vec<Option<Tensor<B, 1>>>;

/// The learning rate of iteration `iter`, counted from 0, in a training of `iters` iterations (ratio-ablation,
/// section 6): `peak * iter / warmup` in the warm-up, then a half cosine that reaches the minimum at `iters`.
pub fn learning_rate(settings: &Optimizer, iter: usize, iters: usize) -> f64 {
    let (peak, warmup) = (settings.lr, settings.warmup_iters);
    if iter < warmup {
        return peak * iter as f64 / warmup as f64;
    }
    let least = peak * settings.min_lr_ratio;
    let span = iters.saturating_sub(warmup).max(1);
    let passed = ((iter - warmup) as f64 / span as f64).min(1.0);
    least + 0.5 * (1.0 + (std::f64::consts::PI * passed).cos()) * (peak - least)
}

/// AdamW with decoupled weight decay.
#[derive(Debug)]
pub struct AdamW<B: Backend> {
    beta_1: f64,
    beta_2: f64,
    epsilon: f64,
    /// By parameter.
    decay: Vec<f64>,
    /// By parameter; none before its first gradient.
    states: Vec<Option<State<B>>>,
    steps: i32,
}

/// The running means of a parameter's gradient.
#[derive(Debug, Clone)]
pub struct State<B: Backend> {
    /// Of the gradient, `[numbers]`.
    pub moment_1: Tensor<B, 1>,
    /// Of its square, `[numbers]`.
    pub moment_2: Tensor<B, 1>,
}

impl<B: Backend> AdamW<B> {
    /// An optimizer for `parameters`, in the network's order.
    pub fn new(settings: &Optimizer, parameters: &[ParamInfo]) -> Self {
        let decay = |info: &ParamInfo| if info.decays(settings.decay_on) { settings.weight_decay } else { 0.0 };
        Self {
            beta_1: settings.beta_1,
            beta_2: settings.beta_2,
            epsilon: settings.epsilon,
            decay: parameters.iter().map(decay).collect(),
            states: parameters.iter().map(|_| None).collect(),
            steps: 0,
        }
    }

    /// The state of a parameter.
    pub fn state(&self, parameter: usize) -> Option<&State<B>> {
        self.states.get(parameter)?.as_ref()
    }

    /// Multiplies the moments of the parameters that have a mask with it.
    pub(crate) fn mask_moments(&mut self, masks: &[Option<Tensor<B, 1>>]) {
        for (state, mask) in self.states.iter_mut().zip(masks) {
            if let (Some(State { moment_1, moment_2 }), Some(mask)) = (state.take(), mask) {
                *state = Some(State { moment_1: moment_1 * mask.clone(), moment_2: moment_2 * mask.clone() });
            }
        }
    }
}

impl<B: Ops> AdamW<B> {
    /// One step with learning rate `lr`. A parameter without a gradient stays as it is.
    pub fn step<AB, M>(&mut self, network: M, mut gradients: Gradients<B>, lr: f64) -> M
    where
        AB: AutodiffBackend<InnerBackend = B>,
        M: Module<AB>,
    {
        self.steps += 1;
        let step_size = lr / (1.0 - self.beta_1.powi(self.steps));
        let root_correction = (1.0 - self.beta_2.powi(self.steps)).sqrt().recip();
        model::map_values::<AB, M>(network, &mut |index, weight| {
            let Some(gradient) = gradients.get_mut(index).and_then(Option::take) else { return weight };
            let step = AdamWStep {
                beta_1: self.beta_1,
                beta_2: self.beta_2,
                epsilon: self.epsilon,
                step_size,
                root_correction,
                decay: lr * self.decay[index],
            };
            let moments = self.states[index].take().map(|State { moment_1, moment_2 }| [moment_1, moment_2]);
            let (weight, [moment_1, moment_2]) = B::adamw_step(&step, weight, gradient, moments);
            self.states[index] = Some(State { moment_1, moment_2 });
            weight
        })
    }
}

/// The L2 norm of all `gradients` taken as one vector, `[1]`; `None` if there is none.
pub fn global_norm<B: Ops>(gradients: &Gradients<B>) -> Option<Tensor<B, 1>> {
    let squares = gradients.iter().flatten().cloned().map(B::sum_of_squares);
    squares.reduce(|sum, square| sum + square).map(Tensor::sqrt)
}

/// Scales all `gradients` by the same factor, so that their global norm is at most `max_norm`; 0 does not clip.
pub fn clip_global_norm<B: Ops>(gradients: Gradients<B>, max_norm: f64) -> Gradients<B> {
    if max_norm == 0.0 {
        return gradients;
    }
    let Some(norm) = global_norm(&gradients) else { return gradients };
    let factor = ((norm + 1e-6).recip() * max_norm).clamp_max(1.0);
    gradients.into_iter().map(|gradient| gradient.map(|gradient| B::scale(gradient, factor.clone()))).collect()
}

/// Adds `addend` to `sum`, parameter by parameter.
pub fn add_gradients<B: Backend>(sum: Gradients<B>, addend: Gradients<B>) -> Gradients<B> {
    sum.into_iter()
        .zip(addend)
        .map(|pair| match pair {
            (Some(left), Some(right)) => Some(left + right),
            (left, right) => left.or(right),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use burn::{
        backend::{Flex, flex::FlexDevice},
        tensor::Tensor,
    };

    use super::*;

    #[test]
    fn learning_rate_at_the_checkpoints_of_the_reference() {
        let settings = Optimizer { lr: 6e-4, min_lr_ratio: 0.1, warmup_iters: 2000, ..Optimizer::default() };
        for (iter, expected) in [(0, 0.0), (1000, 3e-4), (2000, 6e-4), (6200, 3.3e-4), (10_400, 6e-5), (20_000, 6e-5)] {
            let rate = learning_rate(&settings, iter, 10_400);
            assert!((rate - expected).abs() < 1e-12, "iteration {iter}: {rate}");
        }
        let unwarmed = Optimizer { warmup_iters: 0, ..settings };
        assert!((learning_rate(&unwarmed, 0, 10) - 6e-4).abs() < 1e-12);
    }

    #[test]
    fn clipping_is_by_the_norm_of_all_tensors_together() {
        let tensor = |values: &[f32]| Some(Tensor::<Flex, 1>::from_floats(values, &FlexDevice));
        let clipped = |max| -> Vec<Vec<f32>> {
            let gradients = vec![tensor(&[3.0, 0.0]), None, tensor(&[4.0])];
            let clipped = clip_global_norm(gradients, max);
            clipped.into_iter().flatten().map(|gradient| gradient.into_data().to_vec().unwrap()).collect()
        };
        assert_eq!(clipped(0.0), [vec![3.0, 0.0], vec![4.0]]);
        assert_eq!(clipped(6.0), [vec![3.0, 0.0], vec![4.0]], "a norm of 5 is below 6");
        let small = clipped(1.0);
        assert!((small[0][0] - 0.6).abs() < 1e-6 && (small[1][0] - 0.8).abs() < 1e-6, "{small:?}");
    }
}

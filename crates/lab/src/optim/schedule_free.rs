//! Schedule-Free AdamW (Defazio et al., "The Road Less Scheduled", 2024).
//!
//! There are three sequences of weights: `z`, which AdamW without a first moment updates; `x`, the mean of all `z`, by which
//! the network is evaluated; and `y = (1 - beta_1) z + beta_1 x`, at which gradients are taken. As in the authors' program, the
//! network has `y`, the optimizer has `z`, and `x` follows from both.

use burn::tensor::{Tensor, backend::Backend};
use sweep_job::tasks::Optimizer;

use crate::{StateError, files::Snapshot};

/// Schedule-Free AdamW, with the weight of the newest `z` in the mean.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScheduleFree {
    beta_1: f64,
    beta_2: f64,
    epsilon: f64,
    /// The highest learning rate so far.
    highest: f64,
    /// Sum of the squares of [`highest`](Self::highest) over all steps.
    sum: f64,
    /// The part of the newest `z` in `x`.
    part: f64,
}

impl ScheduleFree {
    pub(super) fn new(settings: &Optimizer) -> Self {
        let Optimizer { beta_1, beta_2, epsilon, .. } = *settings;
        Self { beta_1, beta_2, epsilon, highest: 0.0, sum: 0.0, part: 0.0 }
    }

    /// Begins a step of all parameters with the learning rate `rate`.
    pub(super) fn begin(&mut self, rate: f64) {
        self.highest = self.highest.max(rate);
        let weight = self.highest * self.highest;
        self.sum += weight;
        // The first step of a warm-up from 0 moves nothing.
        self.part = if self.sum > 0.0 { weight / self.sum } else { 0.0 };
    }

    /// The weights `y` `[numbers]` after step `step`, counted from 1, along `gradient`. `state` has `z` and the second moment.
    /// `decay` is the part of a weight that decays.
    pub(super) fn step<B: Backend>(
        &self,
        [z, squares]: [&mut Tensor<B, 1>; 2],
        y: Tensor<B, 1>,
        gradient: Tensor<B, 1>,
        [rate, decay]: [f64; 2],
        step: i32,
    ) -> Tensor<B, 1> {
        *squares = squares.clone() * self.beta_2 + gradient.clone() * gradient.clone() * (1.0 - self.beta_2);
        let root_correction = (1.0 - self.beta_2.powi(step)).sqrt().recip();
        let change = gradient / (squares.clone().sqrt() * root_correction + self.epsilon) * rate;
        let change = if decay == 0.0 { change } else { change + y.clone() * decay };
        let nearer = y.clone() + (z.clone() - y) * self.part;
        *z = z.clone() - change.clone();
        nearer - change * (1.0 - self.beta_1 * (1.0 - self.part))
    }

    /// The mean `x` that belongs to `y` and `z`.
    pub(super) fn mean<B: Backend>(&self, y: Tensor<B, 1>, z: Tensor<B, 1>) -> Tensor<B, 1> {
        y.clone() + (z - y) * (1.0 - self.beta_1.recip())
    }

    /// Adds the weights of the mean to `snapshot`.
    pub(super) fn store<B: Backend>(&self, snapshot: &mut Snapshot<B>) {
        snapshot.put_count("schedule_free.highest", self.highest.to_bits());
        snapshot.put_count("schedule_free.sum", self.sum.to_bits());
    }

    /// Takes the values that [`store`](Self::store) has put into `snapshot` out of it.
    pub(super) fn restore<B: Backend>(&mut self, snapshot: &mut Snapshot<B>) -> Result<(), StateError> {
        for (name, number) in [("schedule_free.highest", &mut self.highest), ("schedule_free.sum", &mut self.sum)] {
            *number = f64::from_bits(snapshot.take_count(name)?);
            if !number.is_finite() || *number < 0.0 {
                return Err(StateError::NotFinite { name: name.into() });
            }
        }
        Ok(())
    }
}

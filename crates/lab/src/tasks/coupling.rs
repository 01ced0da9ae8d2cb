//! The schedule of coupling: the strength of mechanisms during training (ratio-ablation, sections 4.1 and 9.3).

use std::collections::VecDeque;

use burn::tensor::{Tensor, backend::Backend};
use sweep_job::tasks::{Coupling, CouplingStart};

use crate::{LabError, device::read::host};

/// Number of losses whose variance decides whether the loss is steady.
const WINDOW: usize = 100;
/// The first iteration at which the variance is checked.
const FIRST_LOOK: usize = 250;
/// Number of iterations between two such checks.
const BETWEEN_LOOKS: usize = 50;

/// The coupling of a training in progress.
#[derive(Debug)]
pub(super) struct Schedule<'a, B: Backend> {
    settings: &'a Coupling,
    start: CouplingStart,
    /// The iteration in which the strength began to rise.
    started: Option<usize>,
    /// The last losses, on the device.
    losses: VecDeque<Tensor<B, 1>>,
}

impl<'a, B: Backend> Schedule<'a, B> {
    /// A schedule that has not begun; `preset` is its start if the settings do not define one.
    pub(super) fn new(settings: &'a Coupling, preset: CouplingStart) -> Self {
        let start = settings.coupling_start.unwrap_or(preset);
        Self { settings, start, started: None, losses: VecDeque::new() }
    }

    /// The strength in iteration `iter`, counted from 0.
    pub(super) fn at(&mut self, iter: usize) -> Result<f64, LabError> {
        if self.started.is_none() && self.begins(iter)? {
            self.started = Some(iter);
            self.losses.clear();
        }
        Ok(self.started.map_or(0.0, |start| self.settings.after(iter - start)))
    }

    fn begins(&self, iter: usize) -> Result<bool, LabError> {
        Ok(match self.start {
            CouplingStart::Immediately => true,
            CouplingStart::Delay => iter >= self.settings.coupling_delay,
            CouplingStart::Steady => {
                let looks = iter >= FIRST_LOOK && iter.is_multiple_of(BETWEEN_LOOKS) && self.losses.len() == WINDOW;
                looks && self.variance()? < self.settings.coupling_variance
            }
        })
    }

    /// Counts in the `loss` `[1]` of an iteration, without reading it.
    pub(super) fn saw(&mut self, loss: Tensor<B, 1>) {
        if self.start != CouplingStart::Steady || self.started.is_some() {
            return;
        }
        if self.losses.len() == WINDOW {
            self.losses.pop_front();
        }
        self.losses.push_back(loss);
    }

    /// The iteration in which the strength began to rise.
    pub(super) fn started(&self) -> Option<usize> {
        self.started
    }

    /// Returns the last losses as one tensor; `None` before the first loss.
    pub(super) fn losses(&self) -> Option<Tensor<B, 1>> {
        (!self.losses.is_empty()).then(|| Tensor::cat(self.losses.iter().cloned().collect(), 0))
    }

    /// Continues from the values of [`started`](Self::started) and [`losses`](Self::losses).
    pub(super) fn restore(&mut self, started: Option<usize>, losses: Option<Tensor<B, 1>>) {
        self.started = started;
        self.losses = losses.into_iter().flat_map(|losses| losses.split(1, 0)).collect();
    }

    /// Variance of the last losses, with the correction for its being a sample's.
    fn variance(&self) -> Result<f64, LabError> {
        let losses = host(Tensor::cat(self.losses.iter().cloned().collect(), 0))?;
        let n = losses.len() as f64;
        let mean = losses.iter().map(|loss| f64::from(*loss)).sum::<f64>() / n;
        Ok(losses.iter().map(|loss| (f64::from(*loss) - mean).powi(2)).sum::<f64>() / (n - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::{Flex, flex::FlexDevice};

    use super::*;

    fn schedule(settings: &Coupling, preset: CouplingStart, iters: usize, loss: impl Fn(usize) -> f32) -> Vec<f64> {
        let mut schedule = Schedule::<Flex>::new(settings, preset);
        let step = |iter| {
            let strength = schedule.at(iter).unwrap();
            schedule.saw(Tensor::from_floats([loss(iter)], &FlexDevice));
            strength
        };
        (0..iters).map(step).collect()
    }

    #[test]
    fn after_a_delay() {
        let settings = Coupling { coupling_delay: 3, coupling_warmup: 2, ..Coupling::default() };
        let strengths = schedule(&settings, CouplingStart::Delay, 7, |_| 1.0);
        assert_eq!(strengths, [0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 1.0]);
        let immediate_start = Coupling { coupling_start: Some(CouplingStart::Immediately), ..settings };
        assert_eq!(schedule(&immediate_start, CouplingStart::Delay, 3, |_| 1.0), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn when_the_loss_is_steady() {
        let start = |loss: &dyn Fn(usize) -> f32| {
            let strengths = schedule(&Coupling::default(), CouplingStart::Steady, 500, loss);
            strengths.iter().position(|strength| *strength == 1.0)
        };
        assert_eq!(start(&|_| 2.0), Some(250), "the first look");
        // A loss that jumps between 1.8 and 2.2 has a variance of 0.04 until it stops in iteration 300.
        let jumps = |iter: usize| if iter < 300 && iter.is_multiple_of(2) { 1.8 } else { 2.2 };
        assert_eq!(start(&jumps), Some(400));
        let oscillation = |iter: usize| if iter.is_multiple_of(2) { 1.8 } else { 2.2 };
        assert_eq!(start(&oscillation), None);
    }
}

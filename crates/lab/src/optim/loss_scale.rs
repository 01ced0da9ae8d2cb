//! The scaling of the loss in half precision.

use burn::tensor::{Tensor, backend::Backend};
use sweep_job::tasks::Precision;

use super::{Gradients, global_norm};
use crate::{LabError, StateError, device::read::number, files::Snapshot, ops::Ops};

/// The factor of the loss in half precision, whose smallest gradients would be 0 without one.
///
/// It grows while gradients stay finite, and halves when they do not; such a step is skipped (as in PyTorch's
/// `GradScaler`). The test costs one read per step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossScale {
    /// The factor; a power of 2 if the initial factor is one.
    factor: f64,
    /// Steps since it last changed.
    good: u32,
    /// Number of skipped steps.
    pub(crate) left_out: u32,
    /// Good steps before the factor doubles.
    patience: u32,
}

impl LossScale {
    /// The smallest number of half precision. Gradients that overflow at this factor overflow at any factor.
    const MIN_FACTOR: f64 = 1.0 / 16_777_216.0;
    /// The initial factor and the growth interval of PyTorch's `GradScaler`.
    const FIRST: Self = Self { factor: 65_536.0, good: 0, left_out: 0, patience: 2000 };

    /// State that `precision` needs.
    pub fn new(precision: Precision) -> Option<Self> {
        (precision == Precision::F16).then_some(Self::FIRST)
    }

    /// A factor that begins with `factor` and doubles after `patience` good steps.
    pub fn with(factor: f64, patience: u32) -> Self {
        Self { factor, patience, ..Self::FIRST }
    }

    /// The factor.
    pub fn factor(self) -> f64 {
        self.factor
    }

    /// The gradients without the factor; `None` if they are not finite, so that the step must be left out. Fails if no factor
    /// makes them finite.
    pub fn unscale<B: Ops>(&mut self, gradients: Gradients<B>) -> Result<Option<Gradients<B>>, LabError> {
        let factor = self.factor().recip();
        let scale_back = |gradient: Tensor<B, 1>| gradient * factor;
        let gradients: Gradients<B> = gradients.into_iter().map(|gradient| gradient.map(scale_back)).collect();
        let norm = global_norm(&gradients).map_or(Ok(0.0), number)?;
        if !norm.is_finite() {
            if self.factor < Self::MIN_FACTOR {
                return Err(LabError::diverged("gradient", norm, "with every factor of the loss".into()));
            }
            *self = Self { factor: self.factor / 2.0, good: 0, left_out: self.left_out + 1, ..*self };
            return Ok(None);
        }
        self.good += 1;
        if self.good == self.patience {
            *self = Self { factor: self.factor * 2.0, good: 0, ..*self };
        }
        Ok(Some(gradients))
    }

    /// Adds everything that the next step depends on to `snapshot`.
    pub(crate) fn store<B: Backend>(self, snapshot: &mut Snapshot<B>) {
        snapshot.put_count("loss_scale.factor", self.factor().to_bits());
        snapshot.put_count("loss_scale.good", self.good.into());
        snapshot.put_count("loss_scale.left_out", self.left_out.into());
    }

    /// Takes the values that [`store`](Self::store) has put into `snapshot` out of it.
    pub(crate) fn restore<B: Backend>(&mut self, snapshot: &mut Snapshot<B>) -> Result<(), StateError> {
        let factor = f64::from_bits(snapshot.take_count("loss_scale.factor")?);
        if !factor.is_normal() || factor < 0.0 {
            return Err(StateError::NotFinite { name: "loss_scale.factor".into() });
        }
        let (good, left_out) = (snapshot.take_count("loss_scale.good")?, snapshot.take_count("loss_scale.left_out")?);
        *self = Self { factor, good, left_out, ..*self };
        Ok(())
    }
}

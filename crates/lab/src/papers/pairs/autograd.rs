//! `uses: pair/autograd`: training steps of an MLP with operations one by one, or fused. The backend of the step
//! decides about fusion.

use burn::tensor::Tensor;
use sweep_job::tasks::{Autograd, FusingVariant};

use super::{
    Call, Contender, Left,
    mlp::{Mlp, mean_squared},
    tensor,
};
use crate::{LabError, backend::Compute, measure::Part};

const LR: f32 = 0.01;

impl Contender for Autograd {
    fn reference(&self) -> Self {
        Self { variant: FusingVariant::Eager, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let outputs = self.outputs.unwrap_or(self.width);
        let mut mlp = Mlp::<B>::random(&[self.width, self.hidden, outputs], seed, device);
        let rows = |name, width| tensor::<B, 2>(seed, name, 0, [self.batch_size, width], 1.0, device);
        let (x, y) = (rows("x", self.width), rows("y", outputs));
        Ok(Box::new(move |meter| {
            let tracked = mlp.tracked();
            let (x, y) = (Tensor::from_inner(x.clone()), Tensor::from_inner(y.clone()));
            let loss = meter.part::<B, _>(Part::Forward, device, || mean_squared(tracked.forward(x), y))?;
            let gradients = meter.part::<B, _>(Part::Backward, device, || tracked.gradients(loss))?;
            drop(tracked);
            mlp = meter.part::<B, _>(Part::Optimizer, device, || mlp.clone().descend(gradients, LR))?;
            Ok(Left::Device(mlp.clone().flat()))
        }))
    }
}

//! `uses: pair/accumulation`: gradients over micro-batches with all their graphs kept, or one at a time.

use burn::tensor::Tensor;
use sweep_job::tasks::{Accumulation, AccumulationVariant};

use super::{
    Call, Contender, Left,
    mlp::{Mlp, mean_squared},
    tensor,
};
use crate::{LabError, backend::Compute, measure::Part};

impl Contender for Accumulation {
    fn reference(&self) -> Self {
        Self { variant: AccumulationVariant::OneGraph, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let mlp = Mlp::<B>::random(&vec![self.width; self.n_layer + 1], seed, device);
        let rows = |name: &str, index| tensor::<B, 2>(seed, name, index, [self.batch_size, self.width], 1.0, device);
        let batches: Vec<_> = (0..self.micro_batches).map(|index| (rows("x", index), rows("y", index))).collect();
        #[expect(clippy::cast_precision_loss, reason = "a number of micro-batches")]
        let part = 1.0 / self.micro_batches as f32;
        Ok(Box::new(move |meter| {
            let tracked = mlp.tracked();
            let loss = |(x, y): &(Tensor<B, 2>, Tensor<B, 2>)| {
                let (x, y) = (Tensor::from_inner(x.clone()), Tensor::from_inner(y.clone()));
                mean_squared(tracked.forward(x), y) * part
            };
            let mut sum: Option<Mlp<B>> = None;
            match self.variant {
                AccumulationVariant::OneGraph => {
                    let loss_sum = || batches.iter().map(loss).reduce(|sum, loss| sum + loss);
                    if let Some(loss_sum) = meter.part::<B, _>(Part::Forward, device, loss_sum)? {
                        sum = Some(meter.part::<B, _>(Part::Backward, device, || tracked.gradients(loss_sum))?);
                    }
                }
                AccumulationVariant::Each => {
                    for batch in &batches {
                        let loss = meter.part::<B, _>(Part::Forward, device, || loss(batch))?;
                        let gradients = meter.part::<B, _>(Part::Backward, device, || tracked.gradients(loss))?;
                        sum = Some(match sum.take() {
                            Some(sum) => sum.plus(gradients),
                            None => gradients,
                        });
                    }
                }
            }
            Ok(sum.map_or_else(|| Left::Host(Vec::new()), |sum| Left::Device(sum.flat())))
        }))
    }
}

//! `uses: pair/memory-profiling`: an MLP that keeps its hidden activations for the backward pass, or computes them again.

use burn::{
    backend::Autodiff,
    tensor::{Tensor, activation::relu},
};
use sweep_job::{
    Outcome,
    tasks::{Activations, ActivationsVariant},
};

use super::{
    Call, Contender, Left,
    mlp::{Mlp, mean_squared},
    tensor,
};
use crate::{LabError, backend::Compute, measure::Part};

impl Contender for Activations {
    fn reference(&self) -> Self {
        Self { variant: ActivationsVariant::Kept, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let mlp = Mlp::<B>::random(&[self.width, self.hidden, self.width], seed, device);
        let rows = |name| tensor::<B, 2>(seed, name, 0, [self.batch_size, self.width], 1.0, device);
        let (x, y) = (rows("x"), rows("y"));
        Ok(Box::new(move |meter| {
            let (x, y) = (Tensor::from_inner(x.clone()), Tensor::from_inner(y.clone()));
            let tracked = mlp.tracked();
            let gradients = match self.variant {
                ActivationsVariant::Kept => {
                    let loss = meter.part::<B, _>(Part::Forward, device, || mean_squared(tracked.forward(x), y))?;
                    meter.part::<B, _>(Part::Backward, device, || tracked.gradients(loss))?
                }
                ActivationsVariant::Recomputed => {
                    let (first, second) = halves(&tracked);
                    let loss = meter.part::<B, _>(Part::Forward, device, || {
                        // Without a graph, only the input of the second layer is kept.
                        let (weight, bias) = &mlp.layers[0];
                        let h = relu(x.clone().inner().matmul(weight.clone()) + bias.clone().unsqueeze());
                        let h = Tensor::<Autodiff<B>, 2>::from_inner(h).require_grad();
                        (mean_squared(second.forward(h.clone()), y), h)
                    })?;
                    meter.part::<B, _>(Part::Backward, device, || {
                        let (loss, h) = loss;
                        let mut graph_gradients = loss.backward();
                        let h_gradient = h.grad_remove(&mut graph_gradients);
                        let (weight, bias) = &second.layers[0];
                        let mut layers = Vec::new();
                        layers.extend(
                            weight.grad_remove(&mut graph_gradients).zip(bias.grad_remove(&mut graph_gradients)),
                        );
                        drop((h, graph_gradients));
                        let hidden = relu(first.forward(x));
                        let product = h_gradient.map(|h_gradient| (hidden * Tensor::from_inner(h_gradient)).sum());
                        let mut gradients = product.map_or(Mlp { layers: Vec::new() }, |sum| first.gradients(sum));
                        gradients.layers.append(&mut layers);
                        gradients
                    })?
                }
            };
            Ok(Left::Device(gradients.flat()))
        }))
    }

    fn describe(&self, _: &[f32], _: f64, outcome: &mut Outcome) {
        let numbers = self.batch_size * self.hidden;
        outcome.set(&Activations::MEMORY, (numbers * size_of::<f32>()) as f64);
    }
}

/// The first layer and the rest.
fn halves<B: Compute>(mlp: &Mlp<Autodiff<B>>) -> (Mlp<Autodiff<B>>, Mlp<Autodiff<B>>) {
    let (first, other_layers) = mlp.layers.split_at(1);
    (Mlp { layers: first.to_vec() }, Mlp { layers: other_layers.to_vec() })
}

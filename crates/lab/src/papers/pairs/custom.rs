//! `uses: pair/custom-backward`: gates `x ← x σ(x) y` that are composed of operations, or have a custom backward pass.

use burn::{
    backend::{
        Autodiff,
        autodiff::{
            checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
            grads::Gradients,
            ops::{Backward, Ops as Step, OpsKind},
        },
    },
    tensor::{Tensor, TensorPrimitive, backend::Backend, ops::FloatTensor},
};
use sweep_job::tasks::{Custom, CustomVariant};

use super::{Call, Contender, Left, flat, tensor};
use crate::{LabError, backend::Compute, measure::Part};

/// The backward pass of a gate.
#[derive(Debug)]
struct GateBackward;

impl<B: Backend> Backward<B, 2> for GateBackward {
    /// Both inputs.
    type State = [FloatTensor<B>; 2];

    fn backward(self, step: Step<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = wrap::<B>(gradients.consume::<B>(&step.node));
        let [x, y] = step.state.map(wrap::<B>);
        let [x_node, y_node] = step.parents;
        let sigma = sigmoid(x.clone());
        let gated_gradient = gradient * sigma.clone();
        if let Some(node) = y_node {
            gradients.register::<B>(node.id, unwrap(gated_gradient.clone() * x.clone()));
        }
        if let Some(node) = x_node {
            // (x σ)' = σ (1 + x (1 - σ)).
            let slope = (x.clone() - x * sigma) + 1.0;
            gradients.register::<B>(node.id, unwrap(gated_gradient * y * slope));
        }
    }
}

fn wrap<B: Backend>(primitive: FloatTensor<B>) -> Tensor<B, 2> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive))
}

fn unwrap<B: Backend>(tensor: Tensor<B, 2>) -> FloatTensor<B> {
    tensor.into_primitive().tensor()
}

fn sigmoid<B: Backend>(x: Tensor<B, 2>) -> Tensor<B, 2> {
    (x.neg().exp() + 1.0).recip()
}

/// `x σ(x) y`, composed.
fn gate<B: Backend>(x: Tensor<B, 2>, y: Tensor<B, 2>) -> Tensor<B, 2> {
    x.clone() * sigmoid(x) * y
}

/// The gate as a single operation in the graph.
fn custom<B: Backend>(x: Tensor<Autodiff<B>, 2>, y: Tensor<Autodiff<B>, 2>) -> Tensor<Autodiff<B>, 2> {
    let (x, y) = (x.into_primitive().tensor(), y.into_primitive().tensor());
    let out = unwrap(gate(wrap::<B>(x.primitive.clone()), wrap::<B>(y.primitive.clone())));
    let nodes = [x.node.clone(), y.node.clone()];
    let out = match GateBackward.prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(step) => step.finish([x.primitive, y.primitive], out),
        OpsKind::UnTracked(step) => step.finish(out),
    };
    Tensor::from_primitive(TensorPrimitive::Float(out))
}

impl Contender for Custom {
    fn reference(&self) -> Self {
        Self { variant: CustomVariant::Composed, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let shape = [self.batch_size, self.width];
        let x = tensor::<B, 2>(seed, "x", 0, shape, 1.0, device);
        let y = (0..self.n_layer).map(|index| tensor::<B, 2>(seed, "y", index, shape, 1.0, device));
        let y: Vec<_> = y.collect();
        Ok(Box::new(move |meter| {
            let track = |x: &Tensor<B, 2>| Tensor::<Autodiff<B>, 2>::from_inner(x.clone()).require_grad();
            let (first, factors) = (track(&x), y.iter().map(track).collect::<Vec<_>>());
            let loss = meter.part::<B, _>(Part::Forward, device, || {
                let gate = |x: Tensor<Autodiff<B>, 2>, y: &Tensor<Autodiff<B>, 2>| match self.variant {
                    CustomVariant::Composed => gate(x, y.clone()),
                    CustomVariant::Custom => custom(x, y.clone()),
                };
                factors.iter().fold(first.clone(), gate).mean()
            })?;
            let gradients = meter.part::<B, _>(Part::Backward, device, || {
                let mut gradients = loss.backward();
                let leaves = std::iter::once(&first).chain(&factors);
                leaves.filter_map(|leaf| leaf.grad_remove(&mut gradients)).map(flat).collect::<Vec<_>>()
            })?;
            Ok(Left::Device(Tensor::cat(gradients, 0)))
        }))
    }
}

//! An MLP of plain tensors, whose gradients are tensors, too.

use burn::{
    backend::Autodiff,
    tensor::{DType, Tensor, activation::relu, backend::Backend},
};

use super::{flat, fp8, tensor};
use crate::backend::Compute;

/// Layers with weights `[in, out]` and biases `[out]`, and `ReLU` between them.
#[derive(Debug, Clone)]
pub(super) struct Mlp<B: Backend> {
    pub(super) layers: Vec<(Tensor<B, 2>, Tensor<B, 1>)>,
}

impl<B: Backend> Mlp<B> {
    /// With layers between these widths, and He's initial weights.
    pub(super) fn random(widths: &[usize], seed: u64, device: &B::Device) -> Self {
        let layer = |(index, pair): (usize, &[usize])| {
            #[expect(clippy::cast_possible_truncation, reason = "a scale")]
            let scale = (2.0 / pair[0] as f64).sqrt() as f32;
            (tensor(seed, "mlp", index, [pair[0], pair[1]], scale, device), Tensor::zeros([pair[1]], device))
        };
        Self { layers: widths.windows(2).enumerate().map(layer).collect() }
    }

    /// Outputs `[batch, out]` of `x` `[batch, in]`.
    pub(super) fn forward(&self, mut x: Tensor<B, 2>) -> Tensor<B, 2> {
        for (index, (weight, bias)) in self.layers.iter().enumerate() {
            x = if index > 0 { relu(x) } else { x };
            x = x.matmul(weight.clone()) + bias.clone().unsqueeze();
        }
        x
    }

    /// Outputs of products in the format `products`, and all else in the weights'.
    pub(super) fn forward_mixed(&self, mut x: Tensor<B, 2>, products: DType) -> Tensor<B, 2> {
        for (index, (weight, bias)) in self.layers.iter().enumerate() {
            x = if index > 0 { relu(x) } else { x };
            let product = x.cast(products).matmul(weight.clone().cast(products));
            x = product.cast(weight.dtype()) + bias.clone().unsqueeze();
        }
        x
    }

    /// All in another format.
    pub(super) fn cast(&self, format: DType) -> Self {
        let layer =
            |(weight, bias): &(Tensor<B, 2>, Tensor<B, 1>)| (weight.clone().cast(format), bias.clone().cast(format));
        Self { layers: self.layers.iter().map(layer).collect() }
    }

    /// Combines the elements of both at the same positions.
    pub(super) fn zip(
        self,
        other: Self,
        matrices: impl Fn(Tensor<B, 2>, Tensor<B, 2>) -> Tensor<B, 2>,
        vectors: impl Fn(Tensor<B, 1>, Tensor<B, 1>) -> Tensor<B, 1>,
    ) -> Self {
        let pairs = self.layers.into_iter().zip(other.layers);
        let layer =
            |((weight, bias), (other_weight, other_bias))| (matrices(weight, other_weight), vectors(bias, other_bias));
        Self { layers: pairs.map(layer).collect() }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b, |a, b| a + b)
    }

    /// After a step of SGD.
    pub(super) fn descend(self, gradients: Self, lr: f32) -> Self {
        self.zip(gradients, |weight, gradient| weight - gradient * lr, |bias, gradient| bias - gradient * lr)
    }

    pub(super) fn scaled(self, factor: f32) -> Self {
        Self { layers: self.layers.into_iter().map(|(weight, bias)| (weight * factor, bias * factor)).collect() }
    }

    /// All numbers in a row.
    pub(super) fn flat(self) -> Tensor<B, 1> {
        Tensor::cat(self.layers.into_iter().flat_map(|(weight, bias)| [flat(weight), bias]).collect(), 0)
    }
}

impl<B: Compute> Mlp<B> {
    /// Returns this network with a graph for gradients.
    pub(super) fn tracked(&self) -> Mlp<Autodiff<B>> {
        let layer = |(weight, bias): &(Tensor<B, 2>, Tensor<B, 1>)| {
            (Tensor::from_inner(weight.clone()).require_grad(), Tensor::from_inner(bias.clone()).require_grad())
        };
        Mlp { layers: self.layers.iter().map(layer).collect() }
    }
}

impl<B: Compute> Mlp<Autodiff<B>> {
    /// Outputs of products of 8-bit numbers, and all else in the weights' format.
    pub(super) fn forward_fp8(&self, mut x: Tensor<Autodiff<B>, 2>) -> Tensor<Autodiff<B>, 2> {
        for (index, (weight, bias)) in self.layers.iter().enumerate() {
            x = if index > 0 { relu(x) } else { x };
            x = fp8::product(x, weight.clone()) + bias.clone().unsqueeze();
        }
        x
    }

    /// The gradients of `loss`, a number; zeros where it does not depend on a weight.
    #[expect(clippy::needless_pass_by_value, reason = "the loss's graph goes with it")]
    pub(super) fn gradients(&self, loss: Tensor<Autodiff<B>, 1>) -> Mlp<B> {
        let mut gradients = loss.backward();
        let layer = |(weight, bias): &(Tensor<Autodiff<B>, 2>, Tensor<Autodiff<B>, 1>)| {
            let weight_gradient =
                weight.grad_remove(&mut gradients).unwrap_or_else(|| weight.clone().inner().zeros_like());
            let bias_gradient = bias.grad_remove(&mut gradients).unwrap_or_else(|| bias.clone().inner().zeros_like());
            (weight_gradient, bias_gradient)
        };
        Mlp { layers: self.layers.iter().map(layer).collect() }
    }
}

/// The mean squared error, `[1]`.
pub(super) fn mean_squared<B: Backend>(outputs: Tensor<B, 2>, targets: Tensor<B, 2>) -> Tensor<B, 1> {
    let error = outputs - targets;
    (error.clone() * error).mean()
}

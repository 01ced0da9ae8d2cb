//! `uses: pair/regional-compile`: a transformer block with sequences of changing length.

use burn::tensor::{
    Tensor,
    activation::{gelu, softmax},
    backend::Backend,
};
use sweep_job::tasks::{Regional, RegionalVariant};

use super::{Call, Contender, Left, flat, tensor};
use crate::{LabError, backend::Compute};

/// Quarters of the longest sequence, in their order.
const QUARTERS: [usize; 4] = [1, 2, 3, 4];
/// Added to a score that must not count.
const HIDDEN: f32 = -1e9;
/// Added to a variance.
const EPSILON: f32 = 1e-5;

/// A block: LayerNorm, causal attention, LayerNorm, MLP, each with its residual.
struct Block<B: Backend> {
    heads: usize,
    qkv: Tensor<B, 2>,
    out: Tensor<B, 2>,
    up: Tensor<B, 2>,
    down: Tensor<B, 2>,
}

impl<B: Backend> Block<B> {
    /// `x` `[batch, length, d_model]`, with `mask` `[length, length]`. Nothing sees what comes after it, so what is padded
    /// behind a sequence changes none of it.
    fn forward(&self, x: Tensor<B, 3>, mask: Tensor<B, 2>) -> Tensor<B, 3> {
        let [batch, length, d] = x.dims();
        let width = d / self.heads;
        let rows = |x: Tensor<B, 3>| x.reshape([batch * length, d]);
        let qkv = rows(norm(x.clone())).matmul(self.qkv.clone());
        let part = |index: usize| {
            let part = qkv.clone().narrow(1, index * d, d).reshape([batch, length, self.heads, width]);
            part.swap_dims(1, 2)
        };
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let scale = (width as f32).sqrt().recip();
        let scores = part(0).matmul(part(1).swap_dims(2, 3)) * scale;
        let weights = softmax(scores + mask.unsqueeze(), 3);
        let attended = weights.matmul(part(2)).swap_dims(1, 2).reshape([batch * length, d]);
        let x = x + attended.matmul(self.out.clone()).reshape([batch, length, d]);
        let hidden = gelu(rows(norm(x.clone())).matmul(self.up.clone()));
        x + hidden.matmul(self.down.clone()).reshape([batch, length, d])
    }
}

fn norm<B: Backend>(x: Tensor<B, 3>) -> Tensor<B, 3> {
    let centered = x.clone() - x.mean_dim(2);
    let variance = (centered.clone() * centered.clone()).mean_dim(2);
    centered / (variance + EPSILON).sqrt()
}

impl Contender for Regional {
    fn reference(&self) -> Self {
        Self { variant: RegionalVariant::Eager, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let Self { d_model: d, n_head: heads, hidden, batch_size: batch, length: longest, .. } = *self;
        let matrix = |name: &str, shape: [usize; 2]| {
            #[expect(clippy::cast_precision_loss, reason = "a scale")]
            let scale = (shape[0] as f32).sqrt().recip();
            tensor::<B, 2>(seed, name, 0, shape, scale, device)
        };
        let block = Block {
            heads,
            qkv: matrix("qkv", [d, 3 * d]),
            out: matrix("out", [d, d]),
            up: matrix("up", [d, hidden]),
            down: matrix("down", [hidden, d]),
        };
        let x = tensor::<B, 3>(seed, "x", 0, [batch, longest, d], 1.0, device);
        let mask = Tensor::<B, 2>::full([longest, longest], HIDDEN, device).triu(1);
        let mut calls = 0;
        Ok(Box::new(move |_| {
            let length = longest * QUARTERS[calls % QUARTERS.len()] / QUARTERS.len();
            calls += 1;
            let own = x.clone().narrow(1, 0, length);
            let out = if self.variant == RegionalVariant::Padded {
                let padding = Tensor::zeros([batch, longest - length, d], device);
                let padded = if length < longest { Tensor::cat(vec![own, padding], 1) } else { own };
                block.forward(padded, mask.clone()).narrow(1, 0, length)
            } else {
                block.forward(own, mask.clone().narrow(0, 0, length).narrow(1, 0, length))
            };
            Ok(Left::Device(flat(out)))
        }))
    }
}

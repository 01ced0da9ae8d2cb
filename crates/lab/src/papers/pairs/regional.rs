//! `uses: pair/regional-compile`: a transformer block with sequences of changing length, of which all, a region or nothing
//! is fused.

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

impl<B: Compute> Block<B> {
    /// `x` `[batch, length, d_model]`, with `mask` `[length, length]`. No token sees later ones, so padding behind a
    /// sequence does not change it. If `eager`, no operation is fused with another, except in the MLP.
    fn forward(&self, x: Tensor<B, 3>, mask: Tensor<B, 2>, eager: bool) -> Tensor<B, 3> {
        let [batch, length, d] = x.dims();
        let steps = Steps::<B> { eager, device: x.device() };
        let width = d / self.heads;
        let rows = |x: Tensor<B, 3>| x.reshape([batch * length, d]);
        let qkv = steps.one(rows(steps.norm(x.clone())).matmul(self.qkv.clone()));
        let part = |index: usize| {
            let part = qkv.clone().narrow(1, index * d, d).reshape([batch, length, self.heads, width]);
            steps.one(part.swap_dims(1, 2))
        };
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let scale = (width as f32).sqrt().recip();
        let scores = steps.one(steps.one(part(0).matmul(part(1).swap_dims(2, 3))) * scale);
        let weights = steps.one(softmax(steps.one(scores + mask.unsqueeze()), 3));
        let context = steps.one(weights.matmul(part(2))).swap_dims(1, 2).reshape([batch * length, d]);
        let x = steps.one(x + steps.one(context.matmul(self.out.clone())).reshape([batch, length, d]));
        let normalized = steps.norm(x.clone());
        // The region: it is executed, and fused, when the last sum is.
        let hidden = gelu(rows(normalized).matmul(self.up.clone()));
        steps.one(x + hidden.matmul(self.down.clone()).reshape([batch, length, d]))
    }
}

/// Operations that are executed one by one, or not before they must be.
struct Steps<B: Compute> {
    eager: bool,
    device: B::Device,
}

impl<B: Compute> Steps<B> {
    /// Returns `x`; if operations are eager, has the queued operations executed first.
    fn one<const D: usize>(&self, x: Tensor<B, D>) -> Tensor<B, D> {
        if self.eager {
            B::flush(&self.device);
        }
        x
    }

    fn norm(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let centered = self.one(x.clone() - self.one(x.mean_dim(2)));
        let variance = self.one(self.one(centered.clone() * centered.clone()).mean_dim(2));
        self.one(centered / self.one(self.one(variance + EPSILON).sqrt()))
    }
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
            let sequence = x.clone().narrow(1, 0, length);
            let out = if self.variant == RegionalVariant::Padded {
                let padding = Tensor::zeros([batch, longest - length, d], device);
                let padded_sequence = if length < longest { Tensor::cat(vec![sequence, padding], 1) } else { sequence };
                block.forward(padded_sequence, mask.clone(), false).narrow(1, 0, length)
            } else {
                let is_region = self.variant == RegionalVariant::Regional;
                block.forward(sequence, mask.clone().narrow(0, 0, length).narrow(1, 0, length), is_region)
            };
            Ok(Left::Device(flat(out)))
        }))
    }
}

//! `uses: pair/sharding`: a step of Adam with everything on the device, a shard of it with each logical rank (after `ZeRO`,
//! stage 3), or the moments on the host. There is no network: gathering is a copy on the device.

use burn::{
    backend::Autodiff,
    tensor::{Tensor, TensorData, activation::relu, backend::Backend},
};
use sweep_job::{
    Outcome,
    tasks::{Sharding, ShardingVariant},
};

use super::{Call, Contender, Left, flat, mlp::mean_squared, normal, tensor};
use crate::{
    LabError,
    backend::Compute,
    device::read::host,
    measure::{Part, heap},
};

const LR: f32 = 1e-3;
const BETA_1: f32 = 0.9;
const BETA_2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// Part of one layer on one rank.
struct Shard<B: Backend> {
    weights: Tensor<B, 1>,
    gradients: Tensor<B, 1>,
    moments: Moments<B>,
}

enum Moments<B: Backend> {
    Device(Tensor<B, 1>, Tensor<B, 1>),
    Host(Vec<f32>, Vec<f32>),
}

impl<B: Backend> Shard<B> {
    /// Part `rank` of the initial weights of `layer`.
    fn new(sharding: &Sharding, seed: u64, layer: usize, rank: usize, device: &B::Device) -> Self {
        let Sharding { width, .. } = *sharding;
        let count = width * width / ranks(sharding);
        #[expect(clippy::cast_precision_loss, reason = "a scale")]
        let scale = (2.0 / width as f32).sqrt();
        let all = normal(seed, "layer", layer, width * width, scale);
        let own = all[rank * count..(rank + 1) * count].to_vec();
        // Each its own memory: zeros that are shared would not be counted.
        let zeros = || Tensor::from_data(TensorData::new(vec![0.0_f32; count], [count]), device);
        Self {
            weights: Tensor::from_data(TensorData::new(own, [count]), device),
            gradients: zeros(),
            moments: match sharding.variant {
                ShardingVariant::Offloaded => Moments::Host(vec![0.0; count], vec![0.0; count]),
                _ => Moments::Device(zeros(), zeros()),
            },
        }
    }

    /// Step `step` of Adam, from 1 on.
    fn descend(&mut self, step: i32) -> Result<(), LabError> {
        let device = self.weights.device();
        let count = self.weights.dims()[0];
        let up = |numbers: &mut Vec<f32>| {
            Tensor::<B, 1>::from_data(TensorData::new(std::mem::take(numbers), [count]), &device)
        };
        let (first, second) = match &mut self.moments {
            Moments::Device(first, second) => (first.clone(), second.clone()),
            Moments::Host(first, second) => (up(first), up(second)),
        };
        let gradients = self.gradients.clone();
        let first = first * BETA_1 + gradients.clone() * (1.0 - BETA_1);
        let second = second * BETA_2 + gradients.clone() * gradients * (1.0 - BETA_2);
        let (bias_1, bias_2) = (1.0 - BETA_1.powi(step), 1.0 - BETA_2.powi(step));
        let change = (first.clone() / bias_1) / ((second.clone() / bias_2).sqrt() + EPSILON);
        self.weights = self.weights.clone() - change * LR;
        self.moments = match self.moments {
            Moments::Device(..) => Moments::Device(first, second),
            Moments::Host(..) => Moments::Host(host(first)?, host(second)?),
        };
        Ok(())
    }
}

/// Ranks that share.
fn ranks(pair: &Sharding) -> usize {
    if pair.variant == ShardingVariant::Sharded { pair.shards } else { 1 }
}

/// The whole weights of a layer, from all ranks.
fn gathered<B: Backend>(shards: &[Shard<B>], width: usize) -> Tensor<B, 2> {
    let parts: Vec<Tensor<B, 1>> = shards.iter().map(|shard| shard.weights.clone()).collect();
    let whole = if parts.len() == 1 { parts.into_iter().next() } else { Some(Tensor::cat(parts, 0)) };
    whole.map_or_else(|| Tensor::zeros([width, width], &B::Device::default()), |whole| whole.reshape([width, width]))
}

impl Contender for Sharding {
    fn reference(&self) -> Self {
        Self { variant: ShardingVariant::Whole, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let width = self.width;
        let layer = |layer| (0..ranks(self)).map(|rank| Shard::new(self, seed, layer, rank, device)).collect();
        let mut layers: Vec<Vec<Shard<B>>> = (0..self.n_layer).map(layer).collect();
        let [x, y] = ["x", "y"].map(|name| tensor::<B, 2>(seed, name, 0, [self.batch_size, width], 1.0, device));
        let mut steps = 0;
        Ok(Box::new(move |meter| {
            steps += 1;
            // What each layer gets; its graph is made again when the backward pass comes to it, so that no more than one
            // layer's weights are whole at a time.
            let mut inputs = vec![x.clone()];
            meter.part::<B, _>(Part::Forward, device, || {
                for shards in &layers[..layers.len() - 1] {
                    let next = inputs.last().map(|x| relu(x.clone().matmul(gathered(shards, width))));
                    inputs.extend(next);
                }
            })?;
            meter.part::<B, _>(Part::Backward, device, || {
                let mut back: Option<Tensor<B, 2>> = None;
                for shards in layers.iter_mut().rev() {
                    let Some(x) = inputs.pop() else { break };
                    let x = Tensor::<Autodiff<B>, 2>::from_inner(x).require_grad();
                    let weights = Tensor::<Autodiff<B>, 2>::from_inner(gathered(shards, width)).require_grad();
                    let out = x.clone().matmul(weights.clone());
                    let scalar = match back.take() {
                        None => mean_squared(out, Tensor::from_inner(y.clone())),
                        Some(back) => (relu(out) * Tensor::from_inner(back)).sum(),
                    };
                    let mut found = scalar.backward();
                    back = x.grad_remove(&mut found);
                    let Some(whole) = weights.grad_remove(&mut found).map(flat) else { break };
                    let count = whole.dims()[0] / shards.len();
                    for (rank, shard) in shards.iter_mut().enumerate() {
                        shard.gradients = whole.clone().narrow(0, rank * count, count);
                    }
                }
            })?;
            meter.part::<B, _>(Part::Optimizer, device, || {
                layers.iter_mut().flatten().try_for_each(|shard| shard.descend(steps))
            })??;
            Ok(Left::Device(Tensor::cat(layers.iter().flatten().map(|shard| shard.weights.clone()).collect(), 0)))
        }))
    }

    fn describe(&self, _: &[f32], _: f64, outcome: &mut Outcome) {
        let weights = (self.n_layer * self.width * self.width) as f64;
        let ranks = self::ranks(self) as f64;
        // Weights and gradients, and both moments: four bytes each.
        let (on_device, moved) = match self.variant {
            ShardingVariant::Whole => (16.0, 0.0),
            // Once for the forward pass and once for the backward pass.
            ShardingVariant::Sharded => (16.0 / ranks, 2.0 * 4.0 * (ranks - 1.0) / ranks),
            // Both moments, there and back.
            ShardingVariant::Offloaded => (8.0, 16.0),
        };
        outcome.set(&Sharding::MEMORY_MODEL, weights * on_device);
        outcome.set(&Sharding::GATHERED, weights * moved);
    }

    fn further<B: Compute>(&self, seed: u64, device: &B::Device, outcome: &mut Outcome) -> Result<(), LabError> {
        B::sync(device)?;
        let before = B::device_memory(device);
        let own =
            || -> Vec<Shard<B>> { (0..self.n_layer).map(|layer| Shard::new(self, seed, layer, 0, device)).collect() };
        let (shards, heap) = heap::counted(own);
        B::sync(device)?;
        let measured = match (before, B::device_memory(device)) {
            (Some(before), Some(after)) => Some(after.in_use.saturating_sub(before.in_use) as f64),
            _ => heap.map(|heap| heap.kept as f64 - on_host(&shards)),
        };
        if let Some(bytes) = measured {
            outcome.set(&Sharding::MEMORY_STATE, bytes);
        }
        Ok(())
    }
}

/// Bytes of moments that are on the host: where the device is the host, they are counted with the rest.
fn on_host<B: Backend>(shards: &[Shard<B>]) -> f64 {
    let bytes = |shard: &Shard<B>| match &shard.moments {
        Moments::Device(..) => 0,
        Moments::Host(first, second) => size_of::<f32>() * (first.len() + second.len()),
    };
    shards.iter().map(bytes).sum::<usize>() as f64
}

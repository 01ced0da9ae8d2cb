//! `uses: pair/sharding`: a step of Adam with everything on the device, a shard of it with each rank (after `ZeRO`, stage 3),
//! or a part or all of it elsewhere.
//!
//! Logical ranks are all in this process, and gathering is a copy on the device. Ranks that are processes are in `ranks`,
//! parameters that are away in `offload`.

use burn::{
    backend::Autodiff,
    tensor::{Tensor, TensorData, activation::relu, backend::Backend},
};
use sweep_job::{
    Outcome,
    tasks::{Sharding, ShardingVariant},
};

use super::{Call, Contender, Left, Meter, ROUNDING, flat, mlp::mean_squared, normal, offload, ranks, tensor};
use crate::{
    LabError,
    backend::{Compute, sync},
    device::read::host,
    measure::{Part, heap},
};

/// Steps of the training whose peak memory is measured.
const MEASURED_STEPS: usize = 2;

const LR: f32 = 1e-3;
const BETA_1: f32 = 0.9;
const BETA_2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// Part of one layer on one rank.
pub(super) struct Shard<B: Backend> {
    pub(super) weights: Tensor<B, 1>,
    pub(super) gradients: Tensor<B, 1>,
    pub(super) moments: Moments<B>,
}

pub(super) enum Moments<B: Backend> {
    Device(Tensor<B, 1>, Tensor<B, 1>),
    Host(Vec<f32>, Vec<f32>),
}

impl<B: Backend> Shard<B> {
    /// Part `rank` of the initial weights of `layer`.
    pub(super) fn new(sharding: &Sharding, seed: u64, layer: usize, rank: usize, device: &B::Device) -> Self {
        let Sharding { width, .. } = *sharding;
        let count = width * width / ranks(sharding);
        let numbers = initial(sharding, seed, layer)[rank * count..(rank + 1) * count].to_vec();
        // Each its own memory: zeros that are shared would not be counted.
        let zeros = || Tensor::from_data(TensorData::new(vec![0.0_f32; count], [count]), device);
        Self {
            weights: Tensor::from_data(TensorData::new(numbers, [count]), device),
            gradients: zeros(),
            moments: match sharding.variant {
                ShardingVariant::Offloaded => Moments::Host(vec![0.0; count], vec![0.0; count]),
                _ => Moments::Device(zeros(), zeros()),
            },
        }
    }

    /// Step `step` of Adam, from 1 on.
    pub(super) fn descend(&mut self, step: i32) -> Result<(), LabError> {
        let device = self.weights.device();
        let count = self.weights.dims()[0];
        let upload = |numbers: &mut Vec<f32>| {
            Tensor::<B, 1>::from_data(TensorData::new(std::mem::take(numbers), [count]), &device)
        };
        let (first, second) = match &mut self.moments {
            Moments::Device(first, second) => (first.clone(), second.clone()),
            Moments::Host(first, second) => (upload(first), upload(second)),
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

/// The initial weights of a layer.
pub(super) fn initial(sharding: &Sharding, seed: u64, layer: usize) -> Vec<f32> {
    #[expect(clippy::cast_precision_loss, reason = "a scale")]
    let scale = (2.0 / sharding.width as f32).sqrt();
    normal(seed, "layer", layer, sharding.width * sharding.width, scale)
}

/// Inputs and targets of the batch, `[batch, width]`.
pub(super) fn batch<B: Backend>(sharding: &Sharding, seed: u64, device: &B::Device) -> [Tensor<B, 2>; 2] {
    ["x", "y"].map(|name| tensor::<B, 2>(seed, name, 0, [sharding.batch_size, sharding.width], 1.0, device))
}

/// Returns the number of ranks that share the state.
fn ranks(pair: &Sharding) -> usize {
    match pair.variant {
        ShardingVariant::Sharded | ShardingVariant::Processes => pair.shards,
        _ => 1,
    }
}

/// Returns the gradients of a layer's weights `[in, out]` and of its input `x`. `back` is the gradient of its output, after
/// `ReLU`; the last layer has targets instead.
pub(super) fn backward<B: Compute>(
    x: Tensor<B, 2>,
    weights: Tensor<B, 2>,
    back: Option<Tensor<B, 2>>,
    targets: &Tensor<B, 2>,
) -> Option<(Tensor<B, 1>, Tensor<B, 2>)> {
    let x = Tensor::<Autodiff<B>, 2>::from_inner(x).require_grad();
    let weights = Tensor::<Autodiff<B>, 2>::from_inner(weights).require_grad();
    let out = x.clone().matmul(weights.clone());
    let scalar = match back {
        None => mean_squared(out, Tensor::from_inner(targets.clone())),
        Some(back) => (relu(out) * Tensor::from_inner(back)).sum(),
    };
    let mut gradients = scalar.backward();
    let weight_gradient = weights.grad_remove(&mut gradients).map(flat);
    weight_gradient.zip(x.grad_remove(&mut gradients))
}

/// The whole weights of a layer, from all ranks.
fn gathered<B: Backend>(shards: &[Shard<B>], width: usize) -> Tensor<B, 2> {
    let parts: Vec<Tensor<B, 1>> = shards.iter().map(|shard| shard.weights.clone()).collect();
    let tensor = if parts.len() == 1 { parts.into_iter().next() } else { Some(Tensor::cat(parts, 0)) };
    tensor.map_or_else(|| Tensor::zeros([width, width], &B::Device::default()), |tensor| tensor.reshape([width, width]))
}

/// A training in this process.
struct Training<B: Backend> {
    width: usize,
    /// Shards by layer and rank.
    layers: Vec<Vec<Shard<B>>>,
    x: Tensor<B, 2>,
    y: Tensor<B, 2>,
    steps: i32,
}

impl<B: Compute> Training<B> {
    fn new(pair: &Sharding, seed: u64, device: &B::Device) -> Self {
        let layer = |layer| (0..ranks(pair)).map(|rank| Shard::new(pair, seed, layer, rank, device)).collect();
        let [x, y] = batch::<B>(pair, seed, device);
        Self { width: pair.width, layers: (0..pair.n_layer).map(layer).collect(), x, y, steps: 0 }
    }

    fn step(&mut self, meter: &mut Meter, device: &B::Device) -> Result<(), LabError> {
        self.steps += 1;
        let Self { width, layers, x, y, steps } = self;
        // The inputs of the layers. The backward pass rebuilds the graph of each layer from its input, so that the weights
        // of at most one layer are whole at a time.
        let mut inputs = vec![x.clone()];
        meter.part::<B, _>(Part::Forward, device, || {
            for shards in &layers[..layers.len() - 1] {
                let hidden = inputs.last().map(|x| relu(x.clone().matmul(gathered(shards, *width))));
                inputs.extend(hidden);
            }
        })?;
        meter.part::<B, _>(Part::Backward, device, || {
            let mut back: Option<Tensor<B, 2>> = None;
            for shards in layers.iter_mut().rev() {
                let Some(x) = inputs.pop() else { break };
                let Some((gradient, x_gradient)) = backward(x, gathered(shards, *width), back.take(), y) else { break };
                back = Some(x_gradient);
                let count = gradient.dims()[0] / shards.len();
                for (rank, shard) in shards.iter_mut().enumerate() {
                    shard.gradients = gradient.clone().narrow(0, rank * count, count);
                }
            }
        })?;
        meter.part::<B, _>(Part::Optimizer, device, || {
            layers.iter_mut().flatten().try_for_each(|shard| shard.descend(*steps))
        })?
    }
}

impl Contender for Sharding {
    fn reference(&self) -> Self {
        Self { variant: ShardingVariant::Whole, ..self.clone() }
    }

    fn tolerance(&self) -> f64 {
        match self.variant {
            // The gradients of a batch in parts are added in another order, and Adam divides by their size.
            ShardingVariant::Processes => 1e-4,
            _ => ROUNDING,
        }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        match self.variant {
            ShardingVariant::Processes => return ranks::ready(self, seed, device),
            ShardingVariant::OffloadedParameters => return offload::ready(self, seed, device),
            _ => {}
        }
        let mut training = Training::<B>::new(self, seed, device);
        Ok(Box::new(move |meter| {
            training.step(meter, device)?;
            let weights = training.layers.iter().flatten().map(|shard| shard.weights.clone());
            Ok(Left::Device(Tensor::cat(weights.collect(), 0)))
        }))
    }

    fn describe(&self, _: &[f32], _: f64, outcome: &mut Outcome) {
        let weights = (self.n_layer * self.width * self.width) as f64;
        let ranks = self::ranks(self) as f64;
        // Weights and gradients, and both moments: four bytes each.
        let (device_bytes, moved_bytes) = match self.variant {
            ShardingVariant::Whole => (16.0, 0.0),
            // Once for the forward pass and once for the backward pass.
            ShardingVariant::Sharded | ShardingVariant::Processes => (16.0 / ranks, 2.0 * 4.0 * (ranks - 1.0) / ranks),
            // Both moments, there and back.
            ShardingVariant::Offloaded => (8.0, 16.0),
            // Weights for both passes, both moments, and all of them back.
            ShardingVariant::OffloadedParameters => (0.0, 28.0),
        };
        outcome.set(&Sharding::MEMORY_MODEL, weights * device_bytes);
        outcome.set(&Sharding::GATHERED, weights * moved_bytes);
    }

    fn further<B: Compute>(&self, seed: u64, device: &B::Device, outcome: &mut Outcome) -> Result<(), LabError> {
        let memory = match self.variant {
            ShardingVariant::Processes => ranks::memory::<B>(self, seed, device)?,
            ShardingVariant::OffloadedParameters => offload::memory::<B>(self, seed, device)?,
            // Only the state of one rank is measured; the states of the others are in the same memory.
            ShardingVariant::Sharded => {
                let first_rank =
                    || (0..self.n_layer).map(|layer| Shard::<B>::new(self, seed, layer, 0, device)).collect();
                let (_, state) = allocated::<B, Vec<_>>(device, first_rank)?;
                Memory { state, rank: None }
            }
            _ => measured_memory::<B, _>(
                device,
                || Ok(Training::<B>::new(self, seed, device)),
                |training| training.step(&mut Meter::new(None), device),
                |training| training.layers.iter().flatten().map(on_host).sum::<f64>() + batch_bytes(self),
            )?,
        };
        if let Some(bytes) = memory.state {
            outcome.set(&Sharding::MEMORY_STATE, bytes);
        }
        if let Some(bytes) = memory.rank {
            outcome.set(&Sharding::MEMORY_RANK, bytes);
        }
        Ok(())
    }
}

/// Memory of a rank, in bytes; `None` where it cannot be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Memory {
    /// Weights, gradients and moments.
    pub(super) state: Option<f64>,
    /// The most in a training.
    pub(super) rank: Option<f64>,
}

/// The result of `make`, and the bytes that it allocated and has not freed.
fn allocated<B: Compute, T>(device: &B::Device, make: impl FnOnce() -> T) -> Result<(T, Option<f64>), LabError> {
    sync::<B>(device)?;
    let start_memory = B::device_memory(device);
    let (value, heap) = heap::counted(make);
    sync::<B>(device)?;
    let bytes = match start_memory.zip(B::device_memory(device)) {
        Some((start_memory, end_memory)) => Some(end_memory.in_use.saturating_sub(start_memory.in_use) as f64),
        None => heap.map(|heap| heap.kept as f64),
    };
    Ok((value, bytes))
}

/// The memory of the training that `make` returns. `elsewhere` is the number of its bytes that are not its state on the device.
pub(super) fn measured_memory<B: Compute, T>(
    device: &B::Device,
    make: impl FnOnce() -> Result<T, LabError>,
    mut step: impl FnMut(&mut T) -> Result<(), LabError>,
    elsewhere: impl FnOnce(&T) -> f64,
) -> Result<Memory, LabError> {
    let reserved = B::device_memory(device).map(|memory| memory.reserved);
    let (training, state) = allocated::<B, _>(device, make)?;
    let mut training = training?;
    // Where the device is not the host, numbers that are kept elsewhere do not occupy its memory.
    let state = state.map(|bytes| if reserved.is_none() { bytes - elsewhere(&training) } else { bytes });
    let (result, heap) = heap::counted(|| (0..MEASURED_STEPS).try_for_each(|_| step(&mut training)));
    result?;
    sync::<B>(device)?;
    let rank = match reserved.zip(B::device_memory(device)) {
        Some((reserved, memory)) => Some(memory.reserved.saturating_sub(reserved) as f64),
        None => state.zip(heap).map(|(state, heap)| state + heap.peak as f64),
    };
    Ok(Memory { state, rank })
}

/// Bytes of inputs and targets.
pub(super) fn batch_bytes(pair: &Sharding) -> f64 {
    (2 * pair.batch_size * pair.width * size_of::<f32>()) as f64
}

/// Bytes of moments that are on the host: where the device is the host, they are counted with the rest.
fn on_host<B: Backend>(shard: &Shard<B>) -> f64 {
    match &shard.moments {
        Moments::Device(..) => 0.0,
        Moments::Host(first, second) => (size_of::<f32>() * (first.len() + second.len())) as f64,
    }
}

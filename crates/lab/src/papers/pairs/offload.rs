//! A training that keeps the weights and moments of only one layer at a time on the device.
//!
//! The other layers are in the memory of the host. If the device is the host, they are in an unlinked file in the
//! system's folder for temporary files, so that memory has room for the computation.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use burn::tensor::{Tensor, TensorData, activation::relu};
use sweep_job::tasks::Sharding;

use super::{
    Call, Left, Meter,
    sharding::{Memory, Moments, Shard, backward, batch, batch_bytes, initial, measured_memory},
};
use crate::{LabError, backend::Compute, device::read::host, measure::Part};

/// Number of elements that are read or written at once.
const PIECE: usize = 1 << 14;
/// Number of arrays of a layer: weights and both moments.
const KEPT: usize = 3;

/// Storage of the arrays that are not on the device.
enum Away {
    Host(Vec<Vec<f32>>),
    File(File),
}

/// Weights and moments of all layers.
struct Store {
    away: Away,
    /// Length of an array: the number of weights of a layer.
    count: usize,
    /// Duration of the copies in the current step.
    spent: Duration,
}

impl Store {
    fn new<B: Compute>(pair: &Sharding, seed: u64) -> Result<Self, LabError> {
        let count = pair.width * pair.width;
        let away = if B::SYNCHRONOUS {
            Away::File(unnamed()?)
        } else {
            Away::Host(vec![vec![0.0; count]; KEPT * pair.n_layer])
        };
        let mut store = Self { away, count, spent: Duration::ZERO };
        for layer in 0..pair.n_layer {
            store.put(KEPT * layer, initial(pair, seed, layer))?;
            for moment in 1..KEPT {
                store.put(KEPT * layer + moment, vec![0.0; count])?;
            }
        }
        Ok(store)
    }

    fn put(&mut self, index: usize, numbers: Vec<f32>) -> Result<(), LabError> {
        match &mut self.away {
            Away::Host(arrays) => {
                if let Some(place) = arrays.get_mut(index) {
                    *place = numbers;
                }
                Ok(())
            }
            Away::File(file) => write(file, index * self.count, &numbers).map_err(failed),
        }
    }

    fn take(&mut self, index: usize) -> Result<Vec<f32>, LabError> {
        match &mut self.away {
            Away::Host(arrays) => Ok(arrays.get(index).cloned().unwrap_or_default()),
            Away::File(file) => read(file, index * self.count, self.count).map_err(failed),
        }
    }

    /// Copies an array to the device, and waits for the copy.
    fn up<B: Compute>(&mut self, index: usize, device: &B::Device) -> Result<Tensor<B, 1>, LabError> {
        let start = Instant::now();
        let numbers = self.take(index)?;
        let tensor = Tensor::from_data(TensorData::new(numbers, [self.count]), device);
        B::sync(device)?;
        self.spent += start.elapsed();
        Ok(tensor)
    }

    /// Copies an array from the device to the storage.
    fn down<B: Compute>(&mut self, index: usize, tensor: Tensor<B, 1>) -> Result<(), LabError> {
        let start = Instant::now();
        self.put(index, host(tensor)?)?;
        self.spent += start.elapsed();
        Ok(())
    }
}

/// A file without a name, which the system removes when it is closed.
fn unnamed() -> Result<File, LabError> {
    static FILES: AtomicU64 = AtomicU64::new(0);
    let name = format!("sweep-parameters-{}-{}", std::process::id(), FILES.fetch_add(1, Relaxed));
    let path = std::env::temp_dir().join(name);
    let make = || {
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        fs_err::remove_file(&path)?;
        Ok(file)
    };
    make().map_err(|source: io::Error| LabError::Write { path: path.clone(), source })
}

fn failed(source: io::Error) -> LabError {
    LabError::Write { path: std::env::temp_dir(), source }
}

fn seek(file: &mut File, first: usize) -> io::Result<()> {
    let place = first.checked_mul(size_of::<f32>()).and_then(|place| u64::try_from(place).ok());
    file.seek(SeekFrom::Start(place.ok_or(io::ErrorKind::FileTooLarge)?)).map(drop)
}

fn write(file: &mut File, first: usize, numbers: &[f32]) -> io::Result<()> {
    seek(file, first)?;
    let mut bytes = Vec::with_capacity(PIECE * size_of::<f32>());
    for piece in numbers.chunks(PIECE) {
        bytes.clear();
        bytes.extend(piece.iter().flat_map(|number| number.to_le_bytes()));
        file.write_all(&bytes)?;
    }
    Ok(())
}

fn read(file: &mut File, first: usize, count: usize) -> io::Result<Vec<f32>> {
    seek(file, first)?;
    let mut numbers = Vec::with_capacity(count);
    let mut bytes = vec![0; PIECE * size_of::<f32>()];
    while numbers.len() < count {
        let piece = &mut bytes[..PIECE.min(count - numbers.len()) * size_of::<f32>()];
        file.read_exact(piece)?;
        numbers.extend(piece.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
    }
    Ok(numbers)
}

struct Training<B: Compute> {
    store: Store,
    width: usize,
    n_layer: usize,
    x: Tensor<B, 2>,
    y: Tensor<B, 2>,
    steps: i32,
}

impl<B: Compute> Training<B> {
    fn new(pair: &Sharding, seed: u64, device: &B::Device) -> Result<Self, LabError> {
        let [x, y] = batch::<B>(pair, seed, device);
        let store = Store::new::<B>(pair, seed)?;
        Ok(Self { store, width: pair.width, n_layer: pair.n_layer, x, y, steps: 0 })
    }

    fn weights(&mut self, layer: usize, device: &B::Device) -> Result<Tensor<B, 2>, LabError> {
        let width = self.width;
        Ok(self.store.up::<B>(KEPT * layer, device)?.reshape([width, width]))
    }

    /// Makes a step. A layer's weights change as soon as its gradients are known, because the layers before it no
    /// longer need them.
    fn step(&mut self, meter: &mut Meter, device: &B::Device) -> Result<(), LabError> {
        self.steps += 1;
        self.store.spent = Duration::ZERO;
        let mut inputs = vec![self.x.clone()];
        meter.part::<B, _>(Part::Forward, device, || -> Result<(), LabError> {
            for layer in 0..self.n_layer - 1 {
                let weights = self.weights(layer, device)?;
                let hidden = inputs.last().map(|x| relu(x.clone().matmul(weights)));
                inputs.extend(hidden);
            }
            Ok(())
        })??;
        let mut back: Option<Tensor<B, 2>> = None;
        for layer in (0..self.n_layer).rev() {
            let Some(x) = inputs.pop() else { break };
            let weights = self.weights(layer, device)?;
            let flat_weights = weights.clone().reshape([self.width * self.width]);
            let y = &self.y;
            let result = meter.part::<B, _>(Part::Backward, device, || backward(x, weights, back.take(), y))?;
            let Some((gradients, x_gradient)) = result else { break };
            back = Some(x_gradient);
            let first = self.store.up::<B>(KEPT * layer + 1, device)?;
            let second = self.store.up::<B>(KEPT * layer + 2, device)?;
            let mut shard = Shard { weights: flat_weights, gradients, moments: Moments::Device(first, second) };
            let steps = self.steps;
            meter.part::<B, _>(Part::Optimizer, device, || shard.descend(steps))??;
            self.store.down(KEPT * layer, shard.weights)?;
            if let Moments::Device(first, second) = shard.moments {
                self.store.down(KEPT * layer + 1, first)?;
                self.store.down(KEPT * layer + 2, second)?;
            }
        }
        Ok(())
    }
}

/// See `Contender::ready`.
pub(super) fn ready<'a, B: Compute>(
    pair: &'a Sharding,
    seed: u64,
    device: &'a B::Device,
) -> Result<Call<'a, B>, LabError> {
    let mut training = Training::<B>::new(pair, seed, device)?;
    Ok(Box::new(move |meter| {
        training.step(meter, device)?;
        meter.tell(&Sharding::TIME_COPIES, training.store.spent.as_secs_f64());
        let is_first = training.steps == 1;
        // Only the output of the first step is compared with other contenders.
        let layers = if is_first { 0..training.n_layer } else { 0..0 };
        let mut weights = Vec::new();
        for layer in layers {
            weights.extend(training.store.take(KEPT * layer)?);
        }
        Ok(Left::Host(weights))
    }))
}

/// Measures the memory of this training.
pub(super) fn memory<B: Compute>(pair: &Sharding, seed: u64, device: &B::Device) -> Result<Memory, LabError> {
    measured_memory::<B, _>(
        device,
        || Training::<B>::new(pair, seed, device),
        |training| training.step(&mut Meter::new(None), device),
        |_| batch_bytes(pair),
    )
}

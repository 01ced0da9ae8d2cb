//! `uses: pair/dataloader`: training on samples that the training prepares itself, or that threads prefetch.
//!
//! Batch `i` is prepared by thread `i mod workers`, and batches are taken in turn, so that the order is the same with
//! any number of threads.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, sync_channel},
    },
    thread,
    time::Instant,
};

use burn::tensor::{Tensor, TensorData, backend::Backend};
use sweep_cpu_kernels::pairs::prepare;
use sweep_job::tasks::{Dataloader, DataloaderVariant};

use super::{
    Call, Contender, Left, Meter,
    mlp::{Mlp, mean_squared},
    normal,
};
use crate::{LabError, backend::Compute, measure::Part};

const LR: f32 = 0.01;

/// Samples, and how batches of them are prepared.
#[derive(Debug)]
struct Samples {
    numbers: Vec<f32>,
    width: usize,
    rounds: usize,
    batch_size: usize,
}

impl Samples {
    /// Batches of an epoch.
    fn batches(&self) -> usize {
        (self.numbers.len() / self.width).div_ceil(self.batch_size)
    }

    /// Batch `index` of an epoch, row by row.
    fn prepare(&self, index: usize) -> Vec<f32> {
        let first = index * self.batch_size * self.width;
        let end = self.numbers.len().min(first + self.batch_size * self.width);
        let mut batch = self.numbers[first..end].to_vec();
        for sample in batch.chunks_mut(self.width) {
            prepare(sample, self.rounds);
        }
        batch
    }
}

/// Threads that prepare the batches of one epoch, or of all epochs without end. They end when their batches are no
/// longer received.
struct Workers {
    /// By thread.
    queues: Vec<Receiver<Vec<f32>>>,
}

impl Workers {
    fn start(samples: &Arc<Samples>, workers: usize, prefetch: usize, is_endless: bool) -> Self {
        let queue = |worker: usize| {
            let (sender, receiver) = sync_channel(prefetch);
            let samples = Arc::clone(samples);
            thread::spawn(move || {
                // The threads check after each epoch whether to continue, because unused batches are not needed.
                let batches = samples.batches();
                let mut epochs = 0_usize..;
                while epochs.next().is_some_and(|epoch| is_endless || epoch == 0) {
                    for index in (worker..batches).step_by(workers) {
                        if sender.send(samples.prepare(index)).is_err() {
                            return;
                        }
                    }
                    if worker >= batches {
                        return;
                    }
                }
            });
            receiver
        };
        Self { queues: (0..workers).map(queue).collect() }
    }

    fn take(&self, samples: &Samples, index: usize) -> Vec<f32> {
        let batch = self.queues[index % self.queues.len()].recv();
        // A thread that is gone changes no batch.
        batch.unwrap_or_else(|_| samples.prepare(index))
    }
}

impl Contender for Dataloader {
    fn reference(&self) -> Self {
        Self { variant: DataloaderVariant::Sync, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let Self { workers, prefetch, samples, width, rounds, batch_size, hidden, classes, .. } = *self;
        let numbers = normal(seed, "samples", 0, samples * width, 1.0);
        let samples = Arc::new(Samples { numbers, width, rounds, batch_size });
        let mut mlp = Mlp::<B>::random(&[width, hidden, classes], seed, device);
        let persistent_workers =
            (self.variant == DataloaderVariant::Persistent).then(|| Workers::start(&samples, workers, prefetch, true));
        Ok(Box::new(move |meter| {
            let epoch_workers = (self.variant == DataloaderVariant::Workers)
                .then(|| Workers::start(&samples, workers, prefetch, false));
            let threads = persistent_workers.as_ref().or(epoch_workers.as_ref());
            let mut waiting_seconds = 0.0;
            for index in 0..samples.batches() {
                let start = Instant::now();
                let batch = meter.part::<B, _>(Part::Data, device, || match threads {
                    Some(threads) => threads.take(&samples, index),
                    None => samples.prepare(index),
                })?;
                waiting_seconds += start.elapsed().as_secs_f64();
                mlp = step(meter, mlp.clone(), batch, [width, classes], device)?;
            }
            meter.tell(&Dataloader::TIME_DATA, waiting_seconds);
            Ok(Left::Device(mlp.clone().flat()))
        }))
    }
}

/// The MLP after a step on `batch` of samples with `width` numbers. Row `i` is of class `i mod classes`.
fn step<B: Compute>(
    meter: &mut Meter,
    mlp: Mlp<B>,
    batch: Vec<f32>,
    [width, classes]: [usize; 2],
    device: &B::Device,
) -> Result<Mlp<B>, LabError> {
    let rows = batch.len() / width;
    let mut targets = vec![0.0_f32; rows * classes];
    for (row, targets) in targets.chunks_mut(classes).enumerate() {
        targets[row % classes] = 1.0;
    }
    let x = Tensor::from_inner(matrix::<B>(batch, [rows, width], device));
    let y = Tensor::from_inner(matrix::<B>(targets, [rows, classes], device));
    let tracked = mlp.tracked();
    let loss = meter.part::<B, _>(Part::Forward, device, || mean_squared(tracked.forward(x), y))?;
    let gradients = meter.part::<B, _>(Part::Backward, device, || tracked.gradients(loss))?;
    drop(tracked);
    meter.part::<B, _>(Part::Optimizer, device, || mlp.descend(gradients, LR))
}

fn matrix<B: Backend>(numbers: Vec<f32>, shape: [usize; 2], device: &B::Device) -> Tensor<B, 2> {
    Tensor::from_data(TensorData::new(numbers, shape), device)
}

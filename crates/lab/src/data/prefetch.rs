//! The batches of a training, in order: each is created when it is needed, or prefetched by a separate thread.

use std::{
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

use sweep_job::tasks::Training;

use super::{Batch, DataError, Tokens};
use crate::model::GptDims;

/// Gives batches by iteration and micro-batch.
#[derive(Debug)]
pub struct Batches {
    order: Order,
    /// Maximum number of prefetched batches.
    prefetch: usize,
    prepared: Option<Receiver<Prepared>>,
}

/// Number of a batch, and the batch.
type Prepared = ([u64; 2], Result<Batch, DataError>);

/// Source of the batches.
#[derive(Debug, Clone)]
pub struct Order {
    /// The tokens.
    pub tokens: Tokens,
    /// The job's seed.
    pub seed: u64,
    /// `[batch, length]`.
    pub shape: [usize; 2],
    /// Rows of the token table.
    pub vocab_size: usize,
    /// Batches of an iteration.
    pub micro_batches: u64,
    /// Iterations.
    pub iters: u64,
}

impl Order {
    fn batch(&self, place: [u64; 2]) -> Result<Batch, DataError> {
        self.tokens.random_batch(self.seed, place, self.shape, self.vocab_size)
    }

    fn after(&self, [iter, micro_batch]: [u64; 2]) -> [u64; 2] {
        if micro_batch + 1 < self.micro_batches { [iter, micro_batch + 1] } else { [iter + 1, 0] }
    }
}

impl Batches {
    /// The batches of `training` on `tokens` for a network of `dims`; up to `prefetch` of them wait.
    pub fn new(training: &Training, prefetch: usize, tokens: Tokens, dims: &GptDims) -> Self {
        let order = Order {
            tokens,
            seed: training.seed,
            shape: [training.batch_size, dims.block_size],
            vocab_size: dims.vocab_size,
            micro_batches: training.grad_accumulation as u64,
            iters: training.iters as u64,
        };
        Self::of(order, prefetch)
    }

    /// The batches of `order`; up to `prefetch` of them wait.
    pub fn of(order: Order, prefetch: usize) -> Self {
        Self { order, prefetch, prepared: None }
    }

    /// The batch of an iteration and micro-batch.
    pub fn get(&mut self, place: [u64; 2]) -> Result<Batch, DataError> {
        if self.prefetch == 0 {
            return self.order.batch(place);
        }
        // The first requested batch decides where the thread begins: a training may resume in the middle.
        let message = self.prepared.get_or_insert_with(|| prepare(self.order.clone(), self.prefetch, place)).recv();
        match message {
            Ok((batch_place, batch)) if batch_place == place => batch,
            // Out of order, or the thread has ended: whatever the reason, the batch depends on its place alone.
            _ => {
                self.prepared = None;
                self.order.batch(place)
            }
        }
    }
}

/// A thread that prepares batches from `place` on, until the receiver is dropped.
fn prepare(order: Order, prefetch: usize, mut place: [u64; 2]) -> Receiver<Prepared> {
    let (sender, receiver) = sync_channel(prefetch);
    thread::spawn(move || {
        while place[0] < order.iters && sender.send((place, order.batch(place))).is_ok() {
            place = order.after(place);
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use sweep_job::tasks::{Activation, BlockSpec, Data};

    use super::{super::Dataset, *};

    #[test]
    fn prefetched_batches_are_the_same() {
        let tokens = Dataset::open(&Data::default()).unwrap().train;
        let dims = GptDims {
            n_layer: 1,
            n_head: 1,
            d_model: 8,
            block_size: 16,
            vocab_size: 256,
            activation: Activation::Gelu,
            block: BlockSpec::GPT2,
        };
        let training = Training { iters: 5, grad_accumulation: 2, batch_size: 3, seed: 7, ..Training::default() };
        let [mut direct_batches, mut prefetched_batches] =
            [0, 3].map(|prefetch| Batches::new(&training, prefetch, tokens.clone(), &dims));
        // From the third iteration on, then back again, then past the end.
        for place in [[2, 0], [2, 1], [3, 0], [0, 0], [0, 1], [4, 1], [9, 0]] {
            assert_eq!(direct_batches.get(place).unwrap(), prefetched_batches.get(place).unwrap(), "{place:?}");
        }
    }
}

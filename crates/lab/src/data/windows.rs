//! Windows of tokens that a job reads: random ones for training, evenly spread ones for validation.

use burn::tensor::{Int, Tensor, TensorData, backend::Backend};
use rand::Rng;

use super::{DataError, Tokens};
use crate::rng;

/// Sequences of tokens and, for every token, the one that comes after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// `[batch, length]`, row by row.
    pub inputs: Vec<i32>,
    /// The `inputs`, shifted by one token.
    pub targets: Vec<i32>,
    /// Sequences.
    pub batch_size: usize,
    /// Tokens in a sequence.
    pub length: usize,
}

/// Windows of one forward pass over a whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoveringBatch {
    /// Place of each window's first token.
    starts: Vec<usize>,
    /// Tokens in a window.
    length: usize,
    /// Tokens at the end of each window that no earlier window has predicted.
    pub new: usize,
}

impl CoveringBatch {
    /// Tokens that these windows predict first.
    pub fn predicted(&self) -> usize {
        self.starts.len() * self.new
    }
}

impl Batch {
    /// `inputs` and `targets` on `device`, each `[batch, length]`.
    pub fn to_tensors<B: Backend>(&self, device: &B::Device) -> (Tensor<B, 2, Int>, Tensor<B, 2, Int>) {
        self.staged(device, false)
    }

    /// Creates tensors like [`to_tensors`](Self::to_tensors); `pinned` copies from pinned memory, if the backend has any.
    pub(crate) fn staged<B: Backend>(
        &self,
        device: &B::Device,
        pinned: bool,
    ) -> (Tensor<B, 2, Int>, Tensor<B, 2, Int>) {
        let shape = [self.batch_size, self.length];
        let mut data = [&self.inputs, &self.targets].map(|values| TensorData::new(values.clone(), shape));
        if pinned {
            B::staging(data.iter_mut(), device);
        }
        let [inputs, targets] = data;
        (Tensor::from_data(inputs, device), Tensor::from_data(targets, device))
    }

    /// The `part`-th of `parts` batches of equally many sequences.
    pub fn part(&self, part: usize, parts: usize) -> Self {
        let batch_size = self.batch_size / parts.max(1);
        let numbers = batch_size * self.length;
        let share = |values: &[i32]| values.iter().skip(part * numbers).take(numbers).copied().collect();
        Self { inputs: share(&self.inputs), targets: share(&self.targets), batch_size, length: self.length }
    }
}

impl Tokens {
    /// The batch of one forward pass in training: `batch_size` windows of `length` tokens at random places.
    ///
    /// It depends only on `seed`, `iteration` and `micro_batch`, not on earlier reads.
    pub fn random_batch(
        &self,
        seed: u64,
        [iteration, micro_batch]: [u64; 2],
        [batch_size, length]: [usize; 2],
        vocab_size: usize,
    ) -> Result<Batch, DataError> {
        let last_start = self.last_start(length)?;
        let mut rng = rng::stream(seed, "data", "", &[iteration, micro_batch]);
        let starts: Vec<usize> = (0..batch_size).map(|_| rng.random_range(0..=last_start)).collect();
        self.batch(&starts, length, vocab_size)
    }

    /// `batches` batches of `batch_size` windows of `length` tokens, evenly spread: the same in every job.
    pub fn spread_batches(
        &self,
        batches: usize,
        [batch_size, length]: [usize; 2],
        vocab_size: usize,
    ) -> Result<Vec<Batch>, DataError> {
        let last_start = self.last_start(length)?;
        let steps = (batches * batch_size).saturating_sub(1).max(1);
        let starts: Vec<usize> = (0..batches * batch_size).map(|index| scaled(last_start, index, steps)).collect();
        starts.chunks(batch_size).map(|starts| self.batch(starts, length, vocab_size)).collect()
    }

    /// Batches of windows that predict each token but the first once, and the number of tokens at the end of each of a
    /// batch's windows that no earlier window has predicted.
    ///
    /// Windows of `length` tokens start at multiples of `stride`; the last one ends with the text, and may be shorter.
    pub fn covering_batches(
        &self,
        [batch_size, length]: [usize; 2],
        stride: usize,
    ) -> Result<Vec<CoveringBatch>, DataError> {
        let predicted = self.len().checked_sub(1).filter(|tokens| *tokens > 0);
        let predicted = predicted.ok_or_else(|| self.too_short(2))?;
        let mut batches: Vec<CoveringBatch> = Vec::new();
        let mut done = 0;
        for start in (0..predicted).step_by(stride.max(1)) {
            let end = (start + length).min(predicted);
            let (length, new) = (end - start, end - done);
            done = end;
            match batches.last_mut() {
                Some(batch) if batch.length == length && batch.new == new && batch.starts.len() < batch_size => {
                    batch.starts.push(start);
                }
                _ => batches.push(CoveringBatch { starts: vec![start], length, new }),
            }
            if done == predicted {
                break;
            }
        }
        Ok(batches)
    }

    /// The windows of `covering`.
    pub fn covering_batch(&self, covering: &CoveringBatch, vocab_size: usize) -> Result<Batch, DataError> {
        self.batch(&covering.starts, covering.length, vocab_size)
    }

    fn too_short(&self, needed: usize) -> DataError {
        DataError::TooShort { name: self.name.clone(), part: self.part, found: self.len(), needed }
    }

    /// The last place at which a window of `length` tokens, and the token after it, fits.
    fn last_start(&self, length: usize) -> Result<usize, DataError> {
        self.len().checked_sub(length + 1).ok_or_else(|| self.too_short(length + 1))
    }

    fn batch(&self, starts: &[usize], length: usize, vocab_size: usize) -> Result<Batch, DataError> {
        let mut inputs = Vec::with_capacity(starts.len() * length);
        let mut targets = Vec::with_capacity(starts.len() * length);
        for &start in starts {
            let mut token = self.get(start, vocab_size)?;
            for index in start + 1..=start + length {
                inputs.push(token.cast_signed());
                token = self.get(index, vocab_size)?;
                targets.push(token.cast_signed());
            }
        }
        Ok(Batch { inputs, targets, batch_size: starts.len(), length })
    }
}

/// `total * part / parts` without overflow.
fn scaled(total: usize, part: usize, parts: usize) -> usize {
    let exact = total as u128 * part as u128 / parts as u128;
    usize::try_from(exact).unwrap_or(total)
}

#[cfg(test)]
mod tests {
    use sweep_job::tasks::Data;

    use super::super::Dataset;

    #[test]
    fn a_batch_depends_on_its_name_only() {
        let tokens = Dataset::open(&Data::default()).unwrap().train;
        let batch = |seed, place| tokens.random_batch(seed, place, [4, 16], 256).unwrap();
        let first = batch(0, [3, 1]);
        for other_batch in [batch(1, [3, 1]), batch(0, [3, 0]), batch(0, [4, 1])] {
            assert_ne!(first, other_batch);
        }
        assert_eq!(first, batch(0, [3, 1]), "reading other batches in between changes nothing");
        assert_eq!(first.inputs[1..16], first.targets[..15], "targets are the inputs, one later");
    }

    #[test]
    fn validation_windows_span_the_held_out_part() {
        let tokens = Dataset::open(&Data::default()).unwrap().validation;
        let batches = tokens.spread_batches(4, [2, 16], 256).unwrap();
        assert_eq!(batches.len(), 4);
        let first_tokens: Vec<u32> = (0..16).map(|index| tokens.get(index, 256).unwrap()).collect();
        let last_tokens: Vec<u32> = (0..16).map(|index| tokens.get(tokens.len() - 16 + index, 256).unwrap()).collect();
        let window = |values: &[i32]| -> Vec<u32> { values.iter().map(|value| value.cast_unsigned()).collect() };
        assert_eq!(window(&batches[0].inputs[..16]), first_tokens);
        assert_eq!(window(&batches[3].targets[16..]), last_tokens);
        assert_eq!(tokens.spread_batches(1, [1, 16], 256).unwrap().len(), 1);
    }

    #[test]
    fn covering_windows_predict_each_token_but_the_first_once() {
        for (tokens, length, stride) in
            [(2, 8, 8), (9, 8, 8), (10, 8, 8), (100, 8, 8), (100, 8, 3), (100, 8, 1), (5, 8, 2), (97, 8, 4)]
        {
            let ids: Vec<u32> = (0..tokens).collect();
            let data = Dataset::of_ids("test".into(), [vec![0; 9 * ids.len()], ids].concat(), 1000).validation;
            let mut targets = Vec::new();
            for covering in data.covering_batches([3, length], stride).unwrap() {
                let batch = data.covering_batch(&covering, 1000).unwrap();
                for window in batch.targets.chunks(batch.length) {
                    targets.extend_from_slice(&window[batch.length - covering.new..]);
                    let context = window.len() - covering.new;
                    assert!(targets.len() == covering.new || context + stride >= length || context == 0);
                }
            }
            let expected: Vec<i32> = (1..tokens).map(u32::cast_signed).collect();
            assert_eq!(targets, expected, "{tokens} tokens, windows of {length}, stride {stride}");
        }
    }
}

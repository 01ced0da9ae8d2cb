//! The assertion that the logits of a position depend only on the tokens up to it.

use burn::tensor::{Int, Tensor, TensorData};

use super::{
    Assertion,
    checker::Checker,
    compare::{flat, largest, largest_difference},
};
use crate::{
    LabError,
    backend::Compute,
    device::read::host,
    model::{Cache, Network},
};

/// Largest difference between two ways to compute the same logits, relative to the largest of them.
const TOLERANCE: f32 = 1e-5;
/// The tolerance if keys are pruned: of two keys with equal attention, rounding decides which is kept, and each has a share of about one
/// over the number of keys.
const PRUNED_TOLERANCE: f32 = 1e-3;

impl<B: Compute> Checker<'_, B> {
    pub(super) fn dependence<N: Network<B>>(&self, network: &N) -> Result<Vec<Assertion>, LabError> {
        let reference = self.logits(network, &self.batch.inputs, self.length())?;
        Ok(vec![
            self.determinism(network, &reference)?,
            self.causality(network, &reference)?,
            self.prefix(network, &reference)?,
            self.decoding(network, &reference)?,
        ])
    }

    fn tolerance(&self) -> f32 {
        if self.expected.dims.block.kv_prune.is_some() { PRUNED_TOLERANCE } else { TOLERANCE }
    }

    fn length(&self) -> usize {
        self.expected.batch[1]
    }

    /// The batch's tokens, with a change at `position` of every sequence.
    fn changed_at(&self, position: usize) -> Vec<i32> {
        let vocab = i32::try_from(self.expected.dims.vocab_size).unwrap_or(i32::MAX);
        let mut tokens = self.batch.inputs.clone();
        for sequence in tokens.chunks_mut(self.length()) {
            sequence[position] = (sequence[position] + 1) % vocab;
        }
        tokens
    }

    /// The same tokens give the same logits, independent of computations in between.
    fn determinism<N: Network<B>>(&self, network: &N, reference: &[f32]) -> Result<Assertion, LabError> {
        self.logits(network, &self.changed_at(0), self.length())?;
        let repetition = self.logits(network, &self.batch.inputs, self.length())?;
        let difference = largest_difference(reference, &repetition);
        let problem =
            (difference != 0.0).then(|| format!("the same tokens give logits that differ by {difference:.3e}"));
        Ok(Assertion::unless("determinism", problem, "0".into()))
    }

    fn causality<N: Network<B>>(&self, network: &N, reference: &[f32]) -> Result<Assertion, LabError> {
        let length = self.length();
        let changes = [1, length / 2, length - 1];
        let mut problem = None;
        for position in changes {
            let logits = self.logits(network, &self.changed_at(position), length)?;
            problem = problem.or_else(|| self.seen_before(reference, &logits, position));
        }
        Ok(Assertion::unless("causality", problem, format!("0 before tokens {changes:?}")))
    }

    /// Position before token `token` where logits differ, if any.
    fn seen_before(&self, reference: &[f32], changed_logits: &[f32], token: usize) -> Option<String> {
        let vocab = self.expected.dims.vocab_size;
        let rows = reference.chunks(vocab).zip(changed_logits.chunks(vocab)).enumerate();
        let (position, difference) = rows
            .map(|(row, (reference_row, logits_row))| {
                (row % self.length(), largest_difference(reference_row, logits_row))
            })
            .find(|(position, difference)| *position < token && *difference != 0.0)?;
        Some(format!("logits at position {position} changed by {difference:.3e} when token {token} was changed"))
    }

    /// A sequence's beginning alone gives the logits of the beginning.
    fn prefix<N: Network<B>>(&self, network: &N, reference: &[f32]) -> Result<Assertion, LabError> {
        let (length, vocab) = (self.length(), self.expected.dims.vocab_size);
        let scale = largest(reference).max(1.0);
        let mut maximum = (0.0_f32, 0);
        for prefix in [1, length / 2, length - 1] {
            let tokens: Vec<i32> =
                self.batch.inputs.chunks(length).flat_map(|sequence| &sequence[..prefix]).copied().collect();
            let logits = self.logits(network, &tokens, prefix)?;
            for (prefix_logits, sequence_logits) in logits.chunks(prefix * vocab).zip(reference.chunks(length * vocab))
            {
                let difference = largest_difference(prefix_logits, &sequence_logits[..prefix * vocab]) / scale;
                if difference > maximum.0 || difference.is_nan() {
                    maximum = (difference, prefix);
                }
            }
        }
        let (difference, prefix) = maximum;
        let problem = (difference.is_nan() || difference > self.tolerance())
            .then(|| format!("the first {prefix} tokens alone give logits that differ by {difference:.3e}"));
        Ok(Assertion::unless("prefix", problem, format!("{difference:.3e}")))
    }

    /// Token by token with a cache gives the logits of the whole sequence.
    fn decoding<N: Network<B>>(&self, network: &N, reference: &[f32]) -> Result<Assertion, LabError> {
        let [batch, length] = self.expected.batch;
        let vocab = self.expected.dims.vocab_size;
        let scale = largest(reference).max(1.0);
        let mut cache = Cache::new(self.expected.dims.n_layer);
        let mut maximum = (0.0_f32, 0);
        for position in 0..length {
            let tokens: Vec<i32> = self.batch.inputs.iter().skip(position).step_by(length).copied().collect();
            let token = Tensor::<B, 2, Int>::from_data(TensorData::new(tokens, [batch, 1]), self.device);
            let logits = match network.decode(token, &mut cache) {
                Ok(logits) => host(flat(logits))?,
                // A network of other dimensions than it should have.
                Err(LabError::Dimensions(problem)) => {
                    return Ok(Assertion::unless("cached-decoding", Some(problem), String::new()));
                }
                Err(error) => return Err(error),
            };
            for (token_logits, sequence_logits) in logits.chunks(vocab).zip(reference.chunks(length * vocab)) {
                let difference =
                    largest_difference(token_logits, &sequence_logits[position * vocab..][..vocab]) / scale;
                if difference > maximum.0 || difference.is_nan() {
                    maximum = (difference, position);
                }
            }
        }
        let (difference, position) = maximum;
        let problem = (difference.is_nan() || difference > self.tolerance())
            .then(|| format!("with a cache the logits at position {position} differ by {difference:.3e}"));
        Ok(Assertion::unless("cached-decoding", problem, format!("{difference:.3e}")))
    }
}

//! Candidates for pruning: strategies and thresholds (paper 003).
//!
//! Scores are compared on the host for every backend.

use std::time::Instant;

use sweep_job::tasks::{ProbeThreshold, Probing, Prune, PruneMethod, Strategy, ThresholdScope};

use super::Subject;
use crate::{
    LabError,
    backend::Compute,
    device::read::host,
    measure::rss::raised,
    prune::{kth_smallest, part_of},
    rng,
    selection::{self, Formula, Goal, Layer, NotANumber},
};

/// The candidates among the weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidates {
    /// By tensor: 0 where a weight is a candidate, 1 where it is not.
    pub stays: Vec<Vec<u8>>,
}

impl Candidates {
    /// Candidates by tensor.
    pub fn counts(&self) -> Vec<usize> {
        let count = |stays: &[u8]| stays.iter().map(|stays| usize::from(*stays)).sum::<usize>();
        self.stays.iter().map(|stays| stays.len() - count(stays)).collect()
    }
}

/// Chooses candidates.
#[derive(Debug, Clone)]
pub struct Chooser {
    threshold: ProbeThreshold,
    scope: ThresholdScope,
    /// The norms of the inputs of each tensor's weights. If the whole is `None`, the scores are the weights' magnitudes.
    norms: Option<Vec<Option<Vec<f32>>>>,
    seed: u64,
    /// Number of times that candidates were chosen.
    pub calls: u64,
    /// Seconds of each choice.
    pub seconds: Vec<f64>,
    /// Growth of resident memory by the first choice, in bytes.
    pub raised: Option<f64>,
}

impl Chooser {
    /// A chooser with these `settings`; it keeps the norms that the network's layers see now.
    pub fn new<B: Compute>(settings: &Probing, subject: &dyn Subject<B>) -> Result<Self, LabError> {
        let norms = match settings.strategy {
            Strategy::Magnitude => None,
            Strategy::Wanda => Some(subject.input_norms(settings.norm_batches.unwrap_or(settings.num_batches))?),
        };
        let Probing { threshold, scope, seed, .. } = *settings;
        Ok(Self { threshold, scope, norms, seed, calls: 0, seconds: Vec::new(), raised: None })
    }

    /// The part `sparsity` of all prunable weights of `subject`, or of each tensor: the weights with the smallest scores. The part is
    /// larger if scores are equal, and approximate if the threshold is an estimate.
    pub fn choose<B: Compute>(&mut self, subject: &dyn Subject<B>, sparsity: f64) -> Result<Candidates, LabError> {
        let start = Instant::now();
        let tensors = subject.tensors();
        let mut numbers = Vec::with_capacity(tensors.len());
        for (tensor, info) in tensors.iter().enumerate() {
            let mut weights = host(subject.weights(tensor))?;
            if let Some(norms) = &self.norms {
                score(&mut weights, info.shape.last().copied().unwrap_or(1), norms[tensor].as_deref());
            }
            numbers.push(weights);
        }
        let find = || self.find(&numbers, sparsity);
        let result = if self.calls == 0 {
            let (result, growth) = raised(find);
            self.raised = growth;
            result
        } else {
            find()
        };
        let stays = result.map_err(|NotANumber { layer }| LabError::NotANumber {
            parameter: tensors.get(layer).map_or_else(String::new, |tensor| tensor.name.clone()),
        })?;
        self.calls += 1;
        self.seconds.push(start.elapsed().as_secs_f64());
        Ok(Candidates { stays })
    }

    fn find(&self, numbers: &[Vec<f32>], sparsity: f64) -> Result<Vec<Vec<u8>>, NotANumber> {
        match self.scope {
            ThresholdScope::Global => self.share(numbers, sparsity),
            ThresholdScope::Tensor => {
                let masks = numbers.iter().enumerate().map(|(layer, numbers)| {
                    let stays = self.share(std::slice::from_ref(numbers), sparsity);
                    stays.map(|mut stays| stays.swap_remove(0)).map_err(|_| NotANumber { layer })
                });
                masks.collect()
            }
        }
    }

    /// For tensors that share a threshold: 1 where a weight stays.
    fn share(&self, numbers: &[Vec<f32>], sparsity: f64) -> Result<Vec<Vec<u8>>, NotANumber> {
        let k = part_of(sparsity, numbers.iter().map(Vec::len).sum());
        let mut stays: Vec<Vec<u8>> = numbers.iter().map(|numbers| vec![1; numbers.len()]).collect();
        if k == 0 {
            return Ok(stays);
        }
        if self.threshold == ProbeThreshold::Exact {
            let mut magnitudes: Vec<f32> = numbers.iter().flatten().map(|number| number.abs()).collect();
            if let Some(layer) = numbers.iter().position(|numbers| numbers.iter().any(|number| number.is_nan())) {
                return Err(NotANumber { layer });
            }
            let threshold = kth_smallest(&mut magnitudes, k);
            for (stays, numbers) in stays.iter_mut().zip(numbers) {
                for (stays, number) in stays.iter_mut().zip(numbers) {
                    *stays = u8::from(number.abs() > threshold);
                }
            }
            return Ok(stays);
        }
        let layers: Vec<Layer<'_>> = numbers.iter().map(|numbers| Layer::of(numbers)).collect();
        let sizes = Prune { prune: PruneMethod::Magnitude, ..Prune::default() };
        let goal = Goal { layers: &layers, formula: Formula::new(&sizes, 1.0), k };
        let mut masks: Vec<&mut [u8]> = stays.iter_mut().map(Vec::as_mut_slice).collect();
        if self.threshold == ProbeThreshold::Streaming {
            selection::by_bins(&goal, &mut masks)?;
        } else {
            let seed = rng::derived_seed(self.seed, "gradprobe threshold", &[self.calls]);
            selection::bracket(&goal, seed, &mut masks)?;
        }
        Ok(stays)
    }
}

/// Multiplies the weights `[in, out]` by the norms of their inputs; without norms they do not change.
fn score(weights: &mut [f32], out: usize, norms: Option<&[f32]>) {
    let Some(norms) = norms else { return };
    for (row, norm) in weights.chunks_mut(out).zip(norms) {
        for weight in row {
            *weight *= norm;
        }
    }
}

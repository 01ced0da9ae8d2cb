//! `GradProbe` (paper 003): pruning a trained network by the effect of shrinking its weights on the gradients.
//!
//! A strategy selects candidates, the weights with the smallest scores. Candidates are shrunk, and a candidate is
//! pruned if its gradient, the largest over some calibration batches, has not grown by more than a tolerance; otherwise
//! its value is restored. A larger tolerance therefore prunes a larger part of the candidates; a weight without a
//! gradient before and after is always pruned.
//!
//! Calibration batches are drawn once, so that both gradients are of the same data. A missing gradient is an error,
//! because two missing ones would be equal, and all weights would be pruned.

mod candidates;
mod classifier;
mod gpt;
mod passes;
mod rounds;

use std::time::Instant;

use burn::tensor::{DType, Tensor, TensorData};
use sweep_job::tasks::{GradientSource, Judge, ProbeMode, ProbeOrder, Probing, Storage};

pub use self::{
    candidates::{Candidates, Chooser},
    classifier::{Classifier, ClassifierSubject, Points, SIMPLE_MLP},
    gpt::GptSubject,
    passes::Span,
    rounds::Round,
};
use crate::{LabError, backend::Compute, device::read::integers, measure::trace::Trace, optim::Gradients};

/// A tensor whose weights may be pruned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prunable {
    /// Its name in the network.
    pub name: String,
    /// Its shape, `[in, out]` or `[rows, d_model]`.
    pub shape: Vec<usize>,
    /// Its place in the network's order of parameters.
    pub(crate) parameter: usize,
}

impl Prunable {
    /// Weights in it.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True if it has no weights.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A network that can be probed. Tensors are identified by their index in [`tensors`](Self::tensors).
pub trait Subject<B: Compute> {
    /// Prunable tensors, in the network's order.
    fn tensors(&self) -> &[Prunable];

    /// The weights of a tensor, `[numbers]`.
    fn weights(&self, tensor: usize) -> Tensor<B, 1>;

    /// Replaces the weights of a tensor.
    fn set_weights(&mut self, tensor: usize, weights: Tensor<B, 1>);

    /// Number of calibration batches.
    fn batches(&self) -> usize;

    /// Number of passes of a calibration batch, each on an equal part of it.
    fn parts(&self) -> usize {
        1
    }

    /// The gradients of the loss on a part of a calibration batch, by tensor: of the tensors `of`, or of all. Without
    /// dropout.
    fn gradients(&mut self, at: [usize; 2], of: Option<&[usize]>) -> Result<Gradients<B>, LabError>;

    /// The parts of the last call of [`gradients`](Self::gradients), as far as they are known.
    fn take_spans(&mut self) -> Vec<Span> {
        Vec::new()
    }

    /// Number of passes that were repeated so far.
    fn repeated(&self) -> u64 {
        0
    }

    /// The norms of the inputs of each tensor on the first `batches` calibration batches, `[in]`; none for a tensor that
    /// multiplies nothing.
    fn input_norms(&self, batches: usize) -> Result<Vec<Option<Vec<f32>>>, LabError>;

    /// Quality of the network: perplexity or accuracy.
    fn quality(&self, on: Judge) -> Result<f64, LabError>;

    /// Returns the loss of quality from `dense` to `now`; negative if `now` is better.
    fn harm(&self, dense: f64, now: f64) -> f64;

    /// The maximum memory of tensors on the device, in bytes, as far as it is known.
    fn device_peak(&self) -> Option<u64> {
        None
    }
}

/// Cost of probing.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Number of forward and backward passes.
    pub passes: u64,
    /// Number of passes that were repeated because their gradients overflowed.
    pub repeated: u64,
    /// Duration of each pass, in seconds.
    pub pass_seconds: Vec<f64>,
    /// Maximum size of kept gradients, in bytes.
    pub gradient_bytes: usize,
    /// Maximum size of kept weights, in bytes.
    pub weight_bytes: usize,
    /// Seconds spent on each tensor visited, in the order of the visits.
    pub tensor_seconds: Vec<f64>,
}

/// Result for a tensor's weights.
#[derive(Debug, Clone)]
pub(crate) struct Decision<B: Compute> {
    pub(crate) tensor: usize,
    /// 1 where a weight stays, `[numbers]`.
    pub(crate) keep: Tensor<B, 1>,
}

/// The largest gradients over the calibration batches, by tensor, in the format in which they are kept.
pub(crate) type Largest<B> = Vec<Option<Tensor<B, 1>>>;

/// Prunes a subject.
pub struct Prober<'a, B: Compute> {
    settings: &'a Probing,
    subject: &'a mut dyn Subject<B>,
    device: &'a B::Device,
    /// The tensors to prune.
    among: Vec<usize>,
    /// Chooses candidates.
    pub chooser: Chooser,
    /// Cost so far.
    pub tally: Tally,
    /// By tensor: 1 where a weight stays, 0 where it was pruned, `[numbers]`; none where nothing was.
    pub kept: Vec<Option<Tensor<B, 1>>>,
    /// Called after each pass with the number of passes done, and the number of passes in the rounds begun.
    progress: &'a mut dyn FnMut([u64; 2]),
    /// Passes in the rounds begun.
    expected: u64,
    /// The timeline, if one is kept.
    trace: Option<Trace>,
}

impl<B: Compute> std::fmt::Debug for Prober<'_, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prober").field("settings", self.settings).field("tally", &self.tally).finish_non_exhaustive()
    }
}

impl<'a, B: Compute> Prober<'a, B> {
    /// Creates a prober of `subject`. `progress` is called after each pass with the number of passes done, and the number of
    /// passes in the rounds begun.
    ///
    /// Fails if `only` names no tensor.
    pub fn new(
        settings: &'a Probing,
        subject: &'a mut dyn Subject<B>,
        device: &'a B::Device,
        progress: &'a mut dyn FnMut([u64; 2]),
    ) -> Result<Self, LabError> {
        let tensors = subject.tensors();
        let among = match &settings.only {
            None => (0..tensors.len()).collect(),
            Some(only) => {
                let place = tensors.iter().position(|tensor| tensor.name == *only);
                vec![place.ok_or_else(|| LabError::NoTensor { name: only.clone(), known: known(tensors) })?]
            }
        };
        let kept = tensors.iter().map(|_| None).collect();
        let chooser = Chooser::new(settings, subject)?;
        let trace = settings.trace.then(|| Trace::begin("gradprobe"));
        let tally = Tally::default();
        Ok(Self { settings, subject, device, among, chooser, tally, kept, progress, expected: 0, trace })
    }

    /// Passes that a round takes.
    pub fn passes_of_a_round(&self) -> u64 {
        let n = (self.subject.batches() * self.subject.parts()) as u64;
        let visits = self.among.len().div_ceil(self.settings.parallel.max(1)) as u64;
        match self.settings.gradients {
            _ if !self.by_tensor() => 2 * n,
            GradientSource::Amortized => n * (1 + visits),
            GradientSource::Freeze | GradientSource::Extract => 2 * n * visits,
        }
    }

    /// Weights that were pruned, by tensor.
    pub fn pruned(&self) -> Result<Vec<usize>, LabError> {
        let tensors = self.subject.tensors().iter().zip(&self.kept);
        let counts = tensors.map(|(tensor, keep)| match keep {
            None => Ok(0),
            Some(keep) => Ok(tensor.len() - count(keep.clone())?),
        });
        counts.collect()
    }

    /// Prunes according to the settings; returns the last round that counts.
    pub fn prune(&mut self) -> Result<Round, LabError> {
        match self.settings.mode {
            ProbeMode::Iterative => self.rounds(),
            _ => {
                let (chosen, _) = self.round(self.settings.sparsity, self.settings.tolerance)?;
                Ok(Round { sparsity: self.settings.sparsity, tolerance: self.settings.tolerance, rounds: 1, chosen })
            }
        }
    }

    /// Runs one round at `sparsity`; returns the number of candidates by tensor, and, if all tensors were shrunk at once,
    /// the data on which the decision was based.
    pub(crate) fn round(
        &mut self,
        sparsity: f64,
        tolerance: f64,
    ) -> Result<(Vec<usize>, Option<rounds::Known<B>>), LabError> {
        self.expected += self.passes_of_a_round();
        if self.by_tensor() {
            Ok((self.by_turns(sparsity, tolerance)?, None))
        } else {
            let results = self.at_once(sparsity)?;
            let counts = results.candidates.counts();
            self.settle(&results, tolerance);
            Ok((counts, Some(results)))
        }
    }

    /// True if tensors are visited one by one.
    fn by_tensor(&self) -> bool {
        match self.settings.mode {
            ProbeMode::Simultaneous => false,
            ProbeMode::Streaming | ProbeMode::LayerWise => true,
            ProbeMode::Iterative => self.settings.round_mode == sweep_job::tasks::RoundMode::LayerWise,
        }
    }

    /// Shrinks all tensors at once, and takes both gradients; the weights are as before afterwards.
    fn at_once(&mut self, sparsity: f64) -> Result<rounds::Known<B>, LabError> {
        let tensors = self.among.clone();
        let before = self.largest(&tensors, None)?;
        let candidates = self.choose(sparsity)?;
        let weights: Vec<Tensor<B, 1>> = tensors.iter().map(|tensor| self.subject.weights(*tensor)).collect();
        let originals: Vec<Tensor<B, 1>> =
            weights.iter().map(|weights| pack(weights.clone(), self.settings.weight_storage)).collect();
        self.tally.keep_weights(&originals);
        for (tensor, weights) in tensors.iter().zip(weights) {
            let shrunk_weights = self.shrunk(*tensor, weights, &candidates);
            self.subject.set_weights(*tensor, shrunk_weights);
        }
        let after = self.largest(&tensors, None)?;
        self.tally.keep_gradients(&[&before, &after]);
        for (tensor, weights) in tensors.iter().zip(originals) {
            self.subject.set_weights(*tensor, unpack(weights));
        }
        Ok(rounds::Known { candidates, before, after })
    }

    /// Decides from the results of a round, and applies the decision.
    pub(crate) fn settle(&mut self, results: &rounds::Known<B>, tolerance: f64) {
        for tensor in self.among.clone() {
            let (Some(before), Some(after)) = (&results.before[tensor], &results.after[tensor]) else { continue };
            let keep = self.decide(tensor, &results.candidates, [before.clone(), after.clone()], tolerance);
            let weights = self.subject.weights(tensor);
            self.apply(Decision { tensor, keep }, weights);
        }
    }

    /// Visits the tensors one by one, or in groups; returns the candidates by tensor.
    fn by_turns(&mut self, sparsity: f64, tolerance: f64) -> Result<Vec<usize>, LabError> {
        let chooses_again = self.settings.mode != ProbeMode::Streaming;
        let tensors = self.among.clone();
        let mut references = match self.settings.gradients {
            GradientSource::Amortized => Some(self.largest(&tensors, None)?),
            GradientSource::Freeze | GradientSource::Extract => None,
        };
        let mut candidates = self.choose(sparsity)?;
        let mut candidate_counts = candidates.counts();
        for (turn, group) in self.order().chunks(self.settings.parallel.max(1)).enumerate() {
            let start = Instant::now();
            if chooses_again && turn > 0 {
                candidates = self.choose(sparsity)?;
            }
            let counts = candidates.counts();
            for &tensor in group {
                candidate_counts[tensor] = counts[tensor];
            }
            let before: Largest<B> = match &mut references {
                Some(references) => group.iter().map(|&tensor| references[tensor].take()).collect(),
                None => self.largest_of(group)?,
            };
            let weights: Vec<Tensor<B, 1>> = group.iter().map(|&tensor| self.subject.weights(tensor)).collect();
            let originals: Vec<Tensor<B, 1>> =
                weights.iter().map(|weights| pack(weights.clone(), self.settings.weight_storage)).collect();
            self.tally.keep_weights(&originals);
            for (&tensor, weights) in group.iter().zip(weights) {
                let shrunk_weights = self.shrunk(tensor, weights, &candidates);
                self.subject.set_weights(tensor, shrunk_weights);
            }
            let after = self.largest_of(group)?;
            self.tally.keep_gradients(&[references.as_deref().unwrap_or_default(), &before, &after]);
            let decision_start = Instant::now();
            for (((&tensor, before), after), original) in group.iter().zip(before).zip(after).zip(originals) {
                if let (Some(before), Some(after)) = (before, after) {
                    let keep = self.decide(tensor, &candidates, [before, after], tolerance);
                    self.apply(Decision { tensor, keep }, unpack(original));
                }
            }
            let call_end = Instant::now();
            B::sync(self.device)?;
            let end = Instant::now();
            self.note(Span { name: "decide", at: [decision_start, call_end, end] });
            self.visited(group, start, end);
            let seconds = (end - start).as_secs_f64() / group.len() as f64;
            self.tally.tensor_seconds.extend(group.iter().map(|_| seconds));
        }
        Ok(candidate_counts)
    }

    /// The tensors in the order of their turns.
    fn order(&self) -> Vec<usize> {
        let mut order = self.among.clone();
        let turns = if self.settings.mode == ProbeMode::Streaming { ProbeOrder::Forward } else { self.settings.order };
        match turns {
            ProbeOrder::Forward => {}
            ProbeOrder::Reverse => order.reverse(),
            ProbeOrder::Size => order.sort_by_key(|tensor| std::cmp::Reverse(self.subject.tensors()[*tensor].len())),
        }
        order
    }

    /// Returns 1 where a weight is not a candidate, else 0, `[numbers]`.
    fn stays(&self, tensor: usize, candidates: &Candidates) -> Tensor<B, 1> {
        let mask: Vec<f32> = candidates.stays[tensor].iter().map(|mask| f32::from(*mask)).collect();
        let length = mask.len();
        Tensor::from_data(TensorData::new(mask, [length]), self.device)
    }

    /// `weights` with the candidates shrunk; the other weights keep their bits.
    fn shrunk(&self, tensor: usize, weights: Tensor<B, 1>, candidates: &Candidates) -> Tensor<B, 1> {
        let mask = self.stays(tensor, candidates);
        let factor = mask.clone() + (mask.neg() + 1.0) * self.settings.reduction;
        weights * factor
    }

    /// 1 where a weight stays, `[numbers]`, from the largest gradients `before` and `after`.
    fn decide(
        &self,
        tensor: usize,
        candidates: &Candidates,
        [before, after]: [Tensor<B, 1>; 2],
        tolerance: f64,
    ) -> Tensor<B, 1> {
        let candidate = self.stays(tensor, candidates).neg() + 1.0;
        if tolerance.is_infinite() {
            return candidate.neg() + 1.0;
        }
        let growth = unpack(after).lower_equal(unpack(before) * (1.0 + tolerance)).bool_not();
        (candidate * (growth.float().neg() + 1.0)).neg() + 1.0
    }

    /// Sets `original` without the pruned weights, and remembers the mask.
    fn apply(&mut self, Decision { tensor, keep }: Decision<B>, original: Tensor<B, 1>) {
        self.subject.set_weights(tensor, B::masked(original, &keep));
        let mask = &mut self.kept[tensor];
        *mask = Some(match mask.take() {
            Some(earlier_mask) => earlier_mask * keep,
            None => keep,
        });
    }
}

impl Tally {
    fn keep_gradients<B: Compute>(&mut self, gradients: &[&[Option<Tensor<B, 1>>]]) {
        let bytes = gradients.iter().flat_map(|gradients| gradients.iter().flatten()).map(bytes).sum();
        self.gradient_bytes = self.gradient_bytes.max(bytes);
    }

    fn keep_weights<B: Compute>(&mut self, weights: &[Tensor<B, 1>]) {
        self.weight_bytes = self.weight_bytes.max(weights.iter().map(bytes).sum());
    }
}

/// The first names, as a phrase.
fn known(tensors: &[Prunable]) -> String {
    const SHOWN: usize = 8;
    let names: Vec<String> = tensors.iter().take(SHOWN).map(|tensor| format!("`{}`", tensor.name)).collect();
    let ending = if tensors.len() > SHOWN { ", …" } else { "" };
    names.join(", ") + ending
}

/// Number of ones in `mask`.
pub(crate) fn count<B: Compute>(mask: Tensor<B, 1>) -> Result<usize, LabError> {
    let ones = integers(mask.int().sum())?.first().copied().unwrap_or_default();
    Ok(usize::try_from(ones).unwrap_or_default())
}

fn bytes<B: Compute>(tensor: &Tensor<B, 1>) -> usize {
    tensor.dims()[0] * tensor.dtype().size()
}

/// `tensor` as it is kept.
fn pack<B: Compute>(tensor: Tensor<B, 1>, storage: Storage) -> Tensor<B, 1> {
    match storage {
        Storage::F32 => tensor,
        Storage::F16 => tensor.cast(DType::F16),
        Storage::Bf16 => tensor.cast(DType::BF16),
    }
}

/// A kept tensor in single precision.
fn unpack<B: Compute>(tensor: Tensor<B, 1>) -> Tensor<B, 1> {
    if tensor.dtype() == DType::F32 { tensor } else { tensor.cast(DType::F32) }
}

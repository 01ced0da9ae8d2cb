//! Rounds with rising sparsity, until the network has become worse than the limit allows, and the search for another
//! tolerance (paper 003).

use burn::tensor::Tensor;
use sweep_job::tasks::Tuning;

use super::{Candidates, Largest, Prober};
use crate::{LabError, backend::Compute};

/// Tolerances are first multiplied by these, and the search continues with the better one.
const FACTORS: [f64; 2] = [0.9, 1.1];
/// A step may make the quality worse by this part of it.
const FALL: f64 = 0.01;
/// Number of consecutive rounds without further pruning after which the rounds end.
const IDLE: usize = 2;

/// The last round that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// The part that were to be candidates.
    pub sparsity: f64,
    /// The tolerance.
    pub tolerance: f64,
    /// Rounds that count.
    pub rounds: usize,
    /// Candidates by tensor.
    pub chosen: Vec<usize>,
}

/// State after a round that shrank all tensors at once.
#[derive(Debug)]
pub(crate) struct Known<B: Compute> {
    pub(super) candidates: Candidates,
    pub(super) before: Largest<B>,
    pub(super) after: Largest<B>,
}

/// A network between two rounds.
struct State<B: Compute> {
    weights: Vec<Tensor<B, 1>>,
    kept: Vec<Option<Tensor<B, 1>>>,
    pruned: usize,
}

/// A round with another tolerance.
struct Attempt<B: Compute> {
    tolerance: f64,
    quality: f64,
    harm: f64,
    chosen: Vec<usize>,
    state: State<B>,
}

/// A round to make again.
struct Again<'a, B: Compute> {
    /// The sparsities to go through, and the network before them.
    sparsities: &'a [f64],
    from: &'a State<B>,
    /// State of the last round, if its gradients need not be computed again.
    known: Option<&'a Known<B>>,
    chosen: &'a [usize],
    dense: f64,
}

impl<B: Compute> Prober<'_, B> {
    /// Rounds of mode A or C.
    pub(super) fn rounds(&mut self) -> Result<Round, LabError> {
        let dense = self.quality()?;
        let mut tolerance = self.settings.tolerance;
        let mut best = self.state()?;
        let mut last_round =
            Round { sparsity: 0.0, tolerance, rounds: 0, chosen: self.kept.iter().map(|_| 0).collect() };
        // The network before the last round that counts, and that round's sparsity.
        let mut previous_state: Option<(State<B>, f64)> = None;
        let mut idle = 0;
        for index in 0_u32.. {
            let sparsity = self.settings.step.mul_add(f64::from(index), self.settings.sparsity);
            if sparsity > 1.0 + 1e-9 || idle == IDLE {
                break;
            }
            let sparsity = sparsity.min(1.0);
            let (mut chosen, known) = self.round(sparsity, tolerance)?;
            let quality = self.quality()?;
            let mut state = self.state()?;
            if self.subject.harm(dense, quality) > self.settings.limit {
                let attempt = match self.settings.tuning {
                    Tuning::None => None,
                    Tuning::OneStep => {
                        let (known, chosen) = (known.as_ref(), &chosen[..]);
                        let retry = Again { sparsities: &[sparsity], from: &best, known, chosen, dense };
                        self.tune(tolerance, quality, &retry)?
                    }
                    Tuning::TwoStep => {
                        let (from, sparsities) = match &previous_state {
                            Some((from, earlier_sparsity)) => (from, vec![*earlier_sparsity, sparsity]),
                            None => (&best, vec![sparsity]),
                        };
                        let retry = Again { sparsities: &sparsities, from, known: None, chosen: &chosen, dense };
                        self.tune(tolerance, quality, &retry)?
                    }
                };
                let Some(attempt) = attempt else { break };
                (tolerance, chosen, state) = (attempt.tolerance, attempt.chosen, attempt.state);
            }
            idle = if state.pruned > best.pruned { 0 } else { idle + 1 };
            previous_state = Some((std::mem::replace(&mut best, state), sparsity));
            last_round = Round { sparsity, tolerance, rounds: last_round.rounds + 1, chosen };
        }
        self.restore(&best);
        Ok(last_round)
    }

    /// A tolerance with which a round is within the limit: among the tested tolerances, the one that prunes most.
    fn tune(&mut self, tolerance: f64, quality: f64, retry: &Again<'_, B>) -> Result<Option<Attempt<B>>, LabError> {
        let [low, high] = FACTORS.map(|factor| (factor, self.attempt(tolerance * factor, retry)));
        let (low, high) = ((low.0, low.1?), (high.0, high.1?));
        let (low_harm, high_harm) = (low.1.harm, high.1.harm);
        let (factor, mut next_tolerance, mut quality_before) = if low_harm <= high_harm {
            (low.0, low.1.tolerance, low.1.quality)
        } else {
            (high.0, high.1.tolerance, high.1.quality)
        };
        let mut best = None;
        for attempt in [low.1, high.1] {
            self.keep_better(&mut best, attempt);
        }
        // The first two were steps from the tolerance that failed.
        if self.falls(quality, quality_before) {
            return Ok(best);
        }
        for _ in 0..self.settings.tuning_steps {
            next_tolerance *= factor;
            let attempt = self.attempt(next_tolerance, retry)?;
            let is_worse = self.falls(quality_before, attempt.quality);
            quality_before = attempt.quality;
            self.keep_better(&mut best, attempt);
            if is_worse {
                break;
            }
        }
        Ok(best)
    }

    /// True if the quality `after` a step is worse than the one `before` it by more than a step may make it.
    fn falls(&self, before: f64, after: f64) -> bool {
        self.subject.harm(before, after) > FALL * before.abs()
    }

    fn keep_better(&self, best: &mut Option<Attempt<B>>, attempt: Attempt<B>) {
        let prunes_more = best.as_ref().is_none_or(|best| attempt.state.pruned > best.state.pruned);
        if attempt.harm <= self.settings.limit && prunes_more {
            *best = Some(attempt);
        }
    }

    /// Makes a round again with `tolerance`.
    fn attempt(&mut self, tolerance: f64, retry: &Again<'_, B>) -> Result<Attempt<B>, LabError> {
        self.restore(retry.from);
        let chosen = if let Some(known) = retry.known {
            self.settle(known, tolerance);
            retry.chosen.to_vec()
        } else {
            let mut chosen = Vec::new();
            for sparsity in retry.sparsities {
                chosen = self.round(*sparsity, tolerance)?.0;
            }
            chosen
        };
        let quality = self.quality()?;
        let harm = self.subject.harm(retry.dense, quality);
        Ok(Attempt { tolerance, quality, harm, chosen, state: self.state()? })
    }

    fn quality(&self) -> Result<f64, LabError> {
        self.subject.quality(self.settings.judge)
    }

    fn state(&self) -> Result<State<B>, LabError> {
        Ok(State {
            weights: (0..self.kept.len()).map(|tensor| self.subject.weights(tensor)).collect(),
            kept: self.kept.clone(),
            pruned: self.pruned()?.into_iter().sum(),
        })
    }

    fn restore(&mut self, state: &State<B>) {
        for (tensor, weights) in state.weights.iter().enumerate() {
            self.subject.set_weights(tensor, weights.clone());
        }
        self.kept.clone_from(&state.kept);
    }
}

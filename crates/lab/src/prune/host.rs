//! Thresholds found by the host, from scores or a sample of them.

use burn::tensor::{Int, Tensor, TensorData, backend::Backend};
use rand::Rng as _;
use sweep_job::tasks::{Prune, PruneUpdate, ThresholdMethod};

use super::{
    PRUNED,
    select::{Choice, Goal, Group, Layers, Select, part_of},
};
use crate::{
    LabError,
    device::read::{host, integers},
    rng,
};

/// Bins of a histogram.
const BINS: usize = 1024;
/// A histogram is fine enough when its threshold prunes at most the part `1 / SLACK` of the scores too many.
const SLACK: usize = 1000;

/// Thresholds found by the host. Scores, or a sample of them, are read; masks are computed on the device.
#[derive(Debug, Clone)]
pub struct HostSelect {
    method: ThresholdMethod,
    update: PruneUpdate,
    sample_fraction: f64,
    /// The score of a weight that is pruned already.
    floor: f32,
}

impl HostSelect {
    /// Creates the selection that `settings` describe.
    pub fn new(settings: &Prune) -> Self {
        let floor = if settings.prune.has_negative_scores() { PRUNED } else { 0.0 };
        let Prune { threshold: method, prune_update: update, sample_fraction, .. } = *settings;
        Self { method, update, sample_fraction, floor }
    }

    /// The largest score to prune, if `pruned` of all in `parts` are to go.
    fn threshold<B: Backend>(&self, parts: &[Tensor<B, 1>], pruned: usize, seed: u64) -> Result<f32, Unfit> {
        match self.method {
            ThresholdMethod::Exact => Ok(kth_smallest(&mut read_all(parts)?, pruned)),
            ThresholdMethod::Histogram => Ok(by_histogram(&read_all(parts)?, pruned)),
            ThresholdMethod::Sample => {
                let mut sample = self.sample(parts, seed)?;
                let rank = corresponding(pruned, total(parts), sample.len());
                Ok(kth_smallest(&mut sample, rank))
            }
            ThresholdMethod::SampleCorrected => {
                let mut sample = self.sample(parts, seed)?;
                sample.sort_unstable_by(f32::total_cmp);
                let count = |threshold| count_up_to(parts, threshold);
                // Weights that are pruned already stay pruned, whatever the sample contains.
                Ok(corrected(&sample, total(parts), pruned, count)?.unwrap_or(self.floor))
            }
        }
    }

    /// Some of the scores in `parts`.
    fn sample<B: Backend>(&self, parts: &[Tensor<B, 1>], seed: u64) -> Result<Vec<f32>, Unfit> {
        let samples = parts.iter().enumerate().map(|(part, scores)| self.draw(scores, seed, part as u64));
        numbers(Tensor::cat(samples.collect(), 0))
    }

    /// Some of `scores`, drawn with replacement, still on the device.
    fn draw<B: Backend>(&self, scores: &Tensor<B, 1>, seed: u64, part: u64) -> Tensor<B, 1> {
        let [numbers] = scores.dims();
        let last_place = i32::try_from(numbers.saturating_sub(1)).unwrap_or(i32::MAX);
        let mut stream = rng::stream(seed, "threshold", "", &[part]);
        let places: Vec<i32> =
            (0..part_of(self.sample_fraction, numbers).max(1)).map(|_| stream.random_range(0..=last_place)).collect();
        let length = places.len();
        let places = Tensor::<B, 1, Int>::from_data(TensorData::new(places, [length]), &scores.device());
        scores.clone().select(0, places)
    }

    /// The choice for a layer with these `scores`.
    fn choice<B: Backend>(scores: &Tensor<B, 1>, threshold: f32) -> Choice<B> {
        Choice { threshold, mask: scores.clone().greater_elem(threshold).float(), pruned: None }
    }
}

/// Finds the `k`-th smallest of the scores in some tensors, with a seed for its random numbers.
type Find<'a, B> = &'a dyn Fn(&[Tensor<B, 1>], usize, u64) -> Result<f32, Unfit>;

impl HostSelect {
    /// The score that corresponds to the `k`-th smallest, by a sample.
    pub(crate) fn sampled<B: Backend>(&self, parts: &[Tensor<B, 1>], k: usize, seed: u64) -> Result<f32, LabError> {
        self.threshold(parts, k, seed).map_err(|reason| match reason {
            Unfit::Failed(error) => error,
            Unfit::NotANumber => LabError::NotANumber { parameter: "scores".into() },
        })
    }

    /// A choice with thresholds by `find`, from scores, which one it is, and a seed.
    pub(crate) fn select_by<B: Backend>(
        &self,
        layers: &mut Layers<'_, B>,
        goal: &Goal<'_>,
        find: Find<'_, B>,
    ) -> Result<Vec<Option<Choice<B>>>, LabError> {
        let sizes = layers.sizes();
        let mut choices: Vec<Option<Choice<B>>> = sizes.iter().map(|_| None).collect();
        for (index, group) in goal.groups.iter().enumerate() {
            let pruned = part_of(group.sparsity, sizes[group.layers.clone()].iter().sum());
            if pruned == 0 {
                continue;
            }
            let seed = rng::derived_seed(goal.seed, "threshold group", &[index as u64]);
            let parts: Vec<Tensor<B, 1>> = group.layers.clone().map(|layer| layers.scores(layer)).collect();
            let (score_parts, parts) = match self.update {
                PruneUpdate::SinglePass | PruneUpdate::OnePass => (Some(parts.clone()), parts),
                PruneUpdate::DoublePass => (None, vec![Tensor::cat(parts, 0)]),
            };
            let threshold = find(&parts, pruned, seed).map_err(|reason| match reason {
                Unfit::Failed(error) => error,
                Unfit::NotANumber => named(layers, group),
            })?;
            drop(parts);
            for (place, layer) in group.layers.clone().enumerate() {
                let scores =
                    score_parts.as_ref().map_or_else(|| layers.scores(layer), |score_parts| score_parts[place].clone());
                choices[layer] = Some(Self::choice(&scores, threshold));
            }
        }
        Ok(choices)
    }
}

impl<B: Backend> Select<B> for HostSelect {
    fn select(&self, layers: &mut Layers<'_, B>, goal: &Goal<'_>) -> Result<Vec<Option<Choice<B>>>, LabError> {
        self.select_by(layers, goal, &|parts, k, seed| self.threshold(parts, k, seed))
    }
}

/// A reason for having no threshold.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// The device failed, or something else.
    Failed(LabError),
    /// A score is NaN.
    NotANumber,
}

impl From<LabError> for Unfit {
    fn from(error: LabError) -> Self {
        Self::Failed(error)
    }
}

/// The error that names the layer of `group` with a NaN score.
fn named<B: Backend>(layers: &mut Layers<'_, B>, group: &Group) -> LabError {
    for layer in group.layers.clone() {
        let scores = layers.scores(layer);
        if matches!(numbers(scores), Err(Unfit::NotANumber)) {
            return layers.not_a_number(layer);
        }
    }
    layers.not_a_number(group.layers.start)
}

fn read_all<B: Backend>(parts: &[Tensor<B, 1>]) -> Result<Vec<f32>, Unfit> {
    let mut scores = Vec::with_capacity(parts.iter().map(|part| part.dims()[0]).sum());
    for part in parts {
        scores.extend(numbers(part.clone())?);
    }
    Ok(scores)
}

/// Scores on the host, every one of which is a number.
fn numbers<B: Backend>(scores: Tensor<B, 1>) -> Result<Vec<f32>, Unfit> {
    let scores = host(scores)?;
    if scores.iter().any(|score| score.is_nan()) { Err(Unfit::NotANumber) } else { Ok(scores) }
}

fn total<B: Backend>(parts: &[Tensor<B, 1>]) -> usize {
    parts.iter().map(|part| part.dims()[0]).sum()
}

/// The rank in a sample of `size` that corresponds to rank `k` of `total`, counted from 1.
fn corresponding(k: usize, total: usize, size: usize) -> usize {
    let rank = k as u128 * size as u128 / total.max(1) as u128;
    usize::try_from(rank).unwrap_or(usize::MAX).clamp(1, size.max(1))
}

/// Number of scores in `parts` that are at most `threshold`. Reads one number for each part.
fn count_up_to<B: Backend>(parts: &[Tensor<B, 1>], threshold: f32) -> Result<usize, LabError> {
    let counts = parts.iter().map(|scores| scores.clone().lower_equal_elem(threshold).int().sum());
    let count: i64 = integers(Tensor::cat(counts.collect(), 0))?.into_iter().sum();
    Ok(usize::try_from(count).unwrap_or_default())
}

/// Returns the largest score in `sample` up to which `count` finds at most `k` of all `total` scores; `None` if no score
/// qualifies. The sample must be in order.
///
/// Looks first where the sample expects it, then where a line between the two nearest counts does, and every other time in
/// the middle between them, so that it ends after a few counts whatever the scores are.
fn corrected<E>(
    sample: &[f32],
    total: usize,
    k: usize,
    mut count: impl FnMut(f32) -> Result<usize, E>,
) -> Result<Option<f32>, E> {
    // `low_count` scores, at most `k`, are up to the sample's first `low`; `high_count`, more than `k`, up to place `high`.
    let (mut low, mut low_count) = (0, 0);
    let (mut high, mut high_count) = (sample.len(), total);
    let mut halves = false;
    while low < high {
        let part = (k - low_count) as f64 / (high_count.max(low_count + 1) - low_count) as f64;
        let part = if halves { 0.5 } else { part };
        let index = (low + part_of(part, high - low)).min(high - 1);
        let score_count = count(sample[index])?;
        if score_count <= k {
            (low, low_count) = (sample.partition_point(|score| *score <= sample[index]), score_count);
        } else {
            (high, high_count) = (sample.partition_point(|score| *score < sample[index]), score_count);
        }
        halves = !halves;
    }
    Ok(low.checked_sub(1).map(|index| sample[index]))
}

/// The `k`-th smallest of `scores`, `k` being between 1 and their number. Reorders them.
pub fn kth_smallest(scores: &mut [f32], k: usize) -> f32 {
    *scores.select_nth_unstable_by(k - 1, f32::total_cmp).1
}

/// A score such that at least `k` of `scores` are at most as large, and, unless scores are equal, no more than one in a
/// thousand of all beyond those `k`.
///
/// Scores are counted in equal bins between the smallest and the largest, then in equal bins within the one that holds
/// the `k`-th smallest, and so on, so a long tail costs passes but no precision.
pub fn by_histogram(scores: &[f32], k: usize) -> f32 {
    let remaining_scores = || scores.iter().copied().filter(|score| *score > PRUNED);
    let mut lower_count = scores.len() - remaining_scores().count();
    if lower_count >= k {
        return PRUNED;
    }
    let (min_score, mut high) =
        remaining_scores().fold((f32::MAX, f32::MIN), |(min, max), score| (min.min(score), max.max(score)));
    // Numbers of 16 bits overflow to infinity, which cannot be divided into bins.
    high = high.min(f32::MAX);
    // A bin reaches from above its lower edge to its upper edge.
    let mut low = min_score.next_down();
    loop {
        let edges = edges(low, high);
        let mut counts = vec![0_usize; edges.len()];
        for score in scores.iter().filter(|score| low < **score && **score <= high) {
            counts[edges.partition_point(|edge| edge < score)] += 1;
        }
        let mut bin = 0;
        while lower_count + counts[bin] < k && bin + 1 < counts.len() {
            lower_count += counts[bin];
            bin += 1;
        }
        let (lower, upper) = (if bin == 0 { low } else { edges[bin - 1] }, edges[bin]);
        let excess = (lower_count + counts[bin]).saturating_sub(k);
        if excess <= scores.len() / SLACK || lower.next_up() >= upper {
            return upper;
        }
        (low, high) = (lower, upper);
    }
}

/// Upper edges of equal bins from `low` to `high`, the last being `high`.
#[expect(clippy::cast_possible_truncation, reason = "between two 32-bit floats")]
fn edges(low: f32, high: f32) -> Vec<f32> {
    let (start, width) = (f64::from(low), f64::from(high) - f64::from(low));
    let edge = |bin: usize| if bin == BINS { high } else { (start + width * bin as f64 / BINS as f64) as f32 };
    (1..=BINS).map(edge).collect()
}

#[cfg(test)]
mod tests;

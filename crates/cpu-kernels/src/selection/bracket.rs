//! Selection with a bracket from a sample.

use rand::RngCore as _;
use rayon::prelude::*;

use super::{
    Found, Goal, Layer, Mask, NotANumber,
    order::{Bins, no_counts, rank, score},
    pass::{Bracket, Tally, compare, mend, pieces, scratch},
    radix::{pruned, search},
};
use crate::rng;

/// For fewer weights, comparing all of them is faster than drawing a sample first.
const MIN_SAMPLED: usize = 1 << 16;
/// The bracket reaches this many standard deviations of a sample's quantile to each side: it misses once in a thousand
/// times.
const DEVIATIONS: f64 = 3.3;
/// Number of brackets that are tried before [`search`] takes over, which works for any scores.
const TRIES: u32 = 3;
/// Number of neighboring scores that are drawn together, because memory is read in whole cache lines.
pub(super) const CLUSTER: usize = 4;
/// Number of scores that one task draws, from a separate random stream.
const DRAWN_TOGETHER: usize = 4096;

/// Finds the `k`-th smallest score, and writes the masks. The sample, and so the duration, depends on `seed`; the result
/// does not.
pub fn bracket<M: Mask>(goal: &Goal<'_>, seed: u64, masks: &mut [&mut [M]]) -> Result<Found, NotANumber> {
    search_bracket(goal, seed, masks, MIN_SAMPLED, DEVIATIONS)
}

/// [`bracket`], with the number of weights up to which no sample is drawn, at least [`CLUSTER`], and the bracket's reach.
pub(super) fn search_bracket<M: Mask>(
    goal: &Goal<'_>,
    seed: u64,
    masks: &mut [&mut [M]],
    unsampled_limit: usize,
    deviations: f64,
) -> Result<Found, NotANumber> {
    let weights = goal.weights();
    let mut pieces = pieces(goal.layers, masks);
    let piece_bytes = size_of_val(&*pieces);
    let (mut extra, mut passes, mut candidates) = (0, 0, 0);
    for attempt in 0..TRIES {
        let bracket = if weights <= unsampled_limit {
            Bracket::ALL
        } else {
            let mut sample = draw(goal, weights, rng::derived_seed(seed, "bracket", &[u64::from(attempt)]))?;
            extra = extra.max(piece_bytes + size_of_val(&*sample));
            around(&mut sample, goal.k as f64 / weights as f64, deviations * f64::from(attempt + 1))
        };
        let tallies = compare(&mut pieces, goal, bracket)?;
        passes += 1;
        let inside_count: usize = tallies.iter().map(|tally| tally.ranks.len()).sum();
        candidates += inside_count;
        let tally_bytes: usize = tallies.iter().map(Tally::bytes).sum();
        extra = extra.max(piece_bytes + scratch() + tally_bytes + size_of_val(&*tallies));
        let threshold = match place(goal.k, &tallies, inside_count) {
            Position::Low => rank(bracket.low),
            Position::Inside(k) => among(&tallies, bracket, k),
            Position::Outside => continue,
        };
        mend(&mut pieces, &tallies, threshold);
        let pruned = pruned(goal, &pieces, &tallies, threshold);
        return Ok(Found { threshold: score(threshold), pruned, passes, candidates, extra });
    }
    let (threshold, search_passes) = search(goal, &pieces)?;
    let tallies = compare(&mut pieces, goal, Bracket::at(threshold))?;
    let pruned = pruned(goal, &pieces, &tallies, rank(threshold));
    Ok(Found { threshold, pruned, passes: passes + search_passes + 1, candidates, extra })
}

/// Position of the `k`-th smallest score, if `tallies` have `inside_count` scores in between.
enum Position {
    /// At the bracket's lower end.
    Low,
    /// In between: the smallest there is the first.
    Inside(u64),
    /// The bracket has missed it.
    Outside,
}

fn place(k: usize, tallies: &[Tally], inside_count: usize) -> Position {
    let sum = |count: fn(&Tally) -> usize| tallies.iter().map(count).sum::<usize>();
    let (below, at_low) = (sum(|tally| tally.below), sum(|tally| tally.at_low));
    match k.checked_sub(below) {
        None | Some(0) => Position::Outside,
        Some(k) if k <= at_low => Position::Low,
        Some(k) if k <= at_low + inside_count => Position::Inside((k - at_low) as u64),
        Some(_) => Position::Outside,
    }
}

/// Returns the rank of the `k`-th smallest score between the ends of `bracket`.
fn among(tallies: &[Tally], bracket: Bracket, mut k: u64) -> u32 {
    let mut bins = Bins::new(rank(bracket.low), rank(bracket.high));
    loop {
        let mut counts = no_counts();
        for rank in tallies.iter().flat_map(|tally| &tally.ranks) {
            bins.count(*rank, &mut counts);
        }
        match bins.narrow(&counts, k) {
            Ok(rank) => return rank,
            Err(range) => (bins, k) = range,
        }
    }
}

/// The scores that bracket the quantile `part` of all, according to a sample, which it reorders: `deviations` standard
/// deviations to each side.
fn around(sample: &mut [u32], part: f64, deviations: f64) -> Bracket {
    let size = sample.len() as f64;
    let spread = (size * part * (1.0 - part) * effect(sample, part)).sqrt();
    let (middle, reach) = (part * size, deviations * spread + 1.0);
    let Bracket { mut low, mut high } = Bracket::ALL;
    let mut lower = sample;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "below the sample's size, and not negative"
    )]
    let index = |position: f64| position as usize;
    if middle + reach < size {
        let (left, rank, _) = lower.select_nth_unstable(index(middle + reach));
        (lower, high) = (left, score(*rank));
    }
    let first = (middle - reach).floor();
    if first >= 0.0 && index(first) < lower.len() {
        low = score(*lower.select_nth_unstable(index(first)).1);
    }
    Bracket { low, high }
}

/// Design effect of cluster sampling, since scores in a cluster may be alike: the variance of the clusters' counts below the quantile,
/// relative to the variance for a sample of single scores. At least 1.
fn effect(sample: &[u32], part: f64) -> f64 {
    /// Number of scores that is sufficient to estimate the quantile for this purpose.
    const SOME: usize = 1024;
    let (clusters, _) = sample.as_chunks::<CLUSTER>();
    let mut subsample: Vec<u32> =
        clusters.iter().step_by(clusters.len().div_ceil(SOME)).map(|cluster| cluster[0]).collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the number, and not negative")]
    let place = ((part * subsample.len() as f64) as usize).min(subsample.len() - 1);
    let middle = *subsample.select_nth_unstable(place).1;
    // `histogram[n]`: the number of clusters with `n` scores below.
    let mut histogram = [0_u64; CLUSTER + 1];
    for cluster in clusters {
        histogram[cluster.iter().map(|rank| usize::from(*rank <= middle)).sum::<usize>()] += 1;
    }
    let moment = |power: i32| -> f64 {
        let sum: f64 =
            histogram.iter().enumerate().map(|(value, count)| (value as f64).powi(power) * *count as f64).sum();
        sum / clusters.len() as f64
    };
    let (mean, part) = (moment(1), moment(1) / CLUSTER as f64);
    let single_variance = CLUSTER as f64 * part * (1.0 - part);
    if single_variance == 0.0 { 1.0 } else { ((moment(2) - mean * mean) / single_variance).max(1.0) }
}

/// Scores drawn from all layers, by rank: [`CLUSTER`] neighbors from each of many intervals of equal length.
fn draw(goal: &Goal<'_>, weights: usize, seed: u64) -> Result<Vec<u32>, NotANumber> {
    let size = sample_size(weights);
    // Where each layer begins, were all of them one.
    let starts: Vec<usize> = goal
        .layers
        .iter()
        .scan(0, |start, layer| {
            let layer_start = *start;
            *start += layer.weights.len();
            Some(layer_start)
        })
        .collect();
    let mut sample = vec![0; size];
    let parts = sample.par_chunks_mut(DRAWN_TOGETHER).enumerate();
    parts.try_for_each(|(part, ranks)| {
        let mut random = rng::stream(seed, "bracket", "", &[part as u64]);
        let first = part * DRAWN_TOGETHER / CLUSTER;
        // Of clusters; the product is below 2^64 for more weights than a machine can hold.
        let edge = |index: usize| (first + index) as u64 * (weights / CLUSTER) as u64 / (size / CLUSTER) as u64;
        let mut lower_edge = edge(0);
        let mut places = vec![0; ranks.len()];
        for (index, cluster) in places.chunks_exact_mut(CLUSTER).enumerate() {
            let upper_edge = edge(index + 1);
            // The high half of a product is below its second factor.
            let offset = (u64::from(random.next_u32()) * (upper_edge - lower_edge)) >> 32;
            #[expect(clippy::cast_possible_truncation, reason = "a part of the weights")]
            let start = (lower_edge + offset) as usize * CLUSTER;
            lower_edge = upper_edge;
            for (index, place) in cluster.iter_mut().enumerate() {
                *place = start + index;
            }
        }
        let mut position = 0;
        while position < places.len() {
            let layer = starts.partition_point(|start| *start <= places[position]) - 1;
            let (start, layer) = (starts[layer], (layer, &goal.layers[layer]));
            let end = start + layer.1.weights.len();
            let count = places[position..].iter().take_while(|place| **place < end).count();
            let places = &mut places[position..position + count];
            for place in &mut *places {
                *place -= start;
            }
            let are_numbers = pulp::Arch::new().dispatch(
                #[inline(always)]
                || gather(goal, layer.1, places, &mut ranks[position..position + count]),
            );
            are_numbers.then_some(()).ok_or(NotANumber { layer: layer.0 })?;
            position += count;
        }
        Ok(())
    })?;
    Ok(sample)
}

/// Size of the sample of `weights`: with two thirds as the exponent (Floyd and Rivest), the sample and the number of
/// candidates grow alike.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the weights")]
fn sample_size(weights: usize) -> usize {
    (2.0 * (weights as f64).powf(2.0 / 3.0)) as usize / CLUSTER * CLUSTER
}

/// The ranks of the scores at `places` of `layer`; false if one is NaN.
#[inline(always)]
fn gather(goal: &Goal<'_>, layer: &Layer<'_>, places: &[usize], ranks: &mut [u32]) -> bool {
    const TOGETHER: usize = 256;
    let mut are_numbers = true;
    let mut buffers = [[0.0; TOGETHER]; 5];
    let mut scores = [0.0; TOGETHER];
    for (places, ranks) in places.chunks(TOGETHER).zip(ranks.chunks_mut(TOGETHER)) {
        let mut free_buffers = buffers.iter_mut();
        let mut take = |source: &[f32]| -> &[f32] {
            let Some(buffer) = free_buffers.next() else { return &[] };
            for (target, place) in buffer.iter_mut().zip(places) {
                *target = source[*place];
            }
            &buffer[..places.len()]
        };
        let local_layer = Layer {
            weights: take(layer.weights),
            moments: layer.moments.map(|moments| moments.map(&mut take)),
            origin: layer.origin.map(&mut take),
            mask: layer.mask.map(&mut take),
        };
        let scores = &mut scores[..places.len()];
        local_layer.fill(&goal.formula, scores);
        for (target, score) in ranks.iter_mut().zip(scores) {
            are_numbers &= !score.is_nan();
            *target = rank(*score);
        }
    }
    are_numbers
}

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
/// Scores that are drawn by one task, from a stream of its own.
const DRAWN_TOGETHER: usize = 4096;

/// Finds the `k`-th smallest score, and writes the masks. The sample, and so the duration, depends on `seed`; the result
/// does not.
pub fn bracket<M: Mask>(goal: &Goal<'_>, seed: u64, masks: &mut [&mut [M]]) -> Result<Found, NotANumber> {
    search_bracket(goal, seed, masks, MIN_SAMPLED, DEVIATIONS)
}

/// [`bracket`], with the number of weights up to which none is drawn, at least [`CLUSTER`], and how far it reaches.
pub(super) fn search_bracket<M: Mask>(
    goal: &Goal<'_>,
    seed: u64,
    masks: &mut [&mut [M]],
    few: usize,
    deviations: f64,
) -> Result<Found, NotANumber> {
    let weights = goal.weights();
    let mut pieces = pieces(goal.layers, masks);
    let listed = size_of_val(&*pieces);
    let (mut extra, mut passes, mut candidates) = (0, 0, 0);
    for attempt in 0..TRIES {
        let bracket = if weights <= few {
            Bracket::ALL
        } else {
            let mut sample = draw(goal, weights, rng::derived_seed(seed, "bracket", &[u64::from(attempt)]))?;
            extra = extra.max(listed + size_of_val(&*sample));
            around(&mut sample, goal.k as f64 / weights as f64, deviations * f64::from(attempt + 1))
        };
        let tallies = compare(&mut pieces, goal, bracket)?;
        passes += 1;
        let inside: usize = tallies.iter().map(|tally| tally.ranks.len()).sum();
        candidates += inside;
        let noted: usize = tallies.iter().map(Tally::bytes).sum();
        extra = extra.max(listed + scratch() + noted + size_of_val(&*tallies));
        let threshold = match place(goal.k, &tallies, inside) {
            Position::Low => rank(bracket.low),
            Position::Inside(k) => among(&tallies, bracket, k),
            Position::Outside => continue,
        };
        mend(&mut pieces, &tallies, threshold);
        let pruned = pruned(goal, &pieces, &tallies, threshold);
        return Ok(Found { threshold: score(threshold), pruned, passes, candidates, extra });
    }
    let (threshold, more) = search(goal, &pieces)?;
    let tallies = compare(&mut pieces, goal, Bracket::at(threshold))?;
    let pruned = pruned(goal, &pieces, &tallies, rank(threshold));
    Ok(Found { threshold, pruned, passes: passes + more + 1, candidates, extra })
}

/// Position of the `k`-th smallest score, if `tallies` have `inside` scores in between.
enum Position {
    /// At the bracket's lower end.
    Low,
    /// In between: the smallest there is the first.
    Inside(u64),
    /// The bracket has missed it.
    Outside,
}

fn place(k: usize, tallies: &[Tally], inside: usize) -> Position {
    let sum = |count: fn(&Tally) -> usize| tallies.iter().map(count).sum::<usize>();
    let (below, at_low) = (sum(|tally| tally.below), sum(|tally| tally.at_low));
    match k.checked_sub(below) {
        None | Some(0) => Position::Outside,
        Some(k) if k <= at_low => Position::Low,
        Some(k) if k <= at_low + inside => Position::Inside((k - at_low) as u64),
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
            Ok(found) => return found,
            Err(narrower) => (bins, k) = narrower,
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
    let at = |position: f64| position as usize;
    if middle + reach < size {
        let (left, found, _) = lower.select_nth_unstable(at(middle + reach));
        (lower, high) = (left, score(*found));
    }
    let first = (middle - reach).floor();
    if first >= 0.0 && at(first) < lower.len() {
        low = score(*lower.select_nth_unstable(at(first)).1);
    }
    Bracket { low, high }
}

/// Design effect of cluster sampling, since scores in a cluster may be alike: the variance of the clusters' counts
/// below the quantile, relative to that of a sample of single scores. At least 1.
fn effect(sample: &[u32], part: f64) -> f64 {
    /// Number of scores that is sufficient to estimate the quantile for this purpose.
    const SOME: usize = 1024;
    let (clusters, _) = sample.as_chunks::<CLUSTER>();
    let mut some: Vec<u32> = clusters.iter().step_by(clusters.len().div_ceil(SOME)).map(|cluster| cluster[0]).collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the number, and not negative")]
    let place = ((part * some.len() as f64) as usize).min(some.len() - 1);
    let middle = *some.select_nth_unstable(place).1;
    // `with[n]`: the number of clusters with `n` scores below.
    let mut with = [0_u64; CLUSTER + 1];
    for cluster in clusters {
        with[cluster.iter().map(|rank| usize::from(*rank <= middle)).sum::<usize>()] += 1;
    }
    let moment = |power: i32| -> f64 {
        let sum: f64 = with.iter().enumerate().map(|(below, count)| (below as f64).powi(power) * *count as f64).sum();
        sum / clusters.len() as f64
    };
    let (mean, part) = (moment(1), moment(1) / CLUSTER as f64);
    let alone = CLUSTER as f64 * part * (1.0 - part);
    if alone == 0.0 { 1.0 } else { ((moment(2) - mean * mean) / alone).max(1.0) }
}

/// Scores drawn from all layers, by rank: [`CLUSTER`] neighbors from each of many intervals of equal length.
fn draw(goal: &Goal<'_>, weights: usize, seed: u64) -> Result<Vec<u32>, NotANumber> {
    let size = sample_size(weights);
    // Where each layer begins, were all of them one.
    let starts: Vec<usize> = goal
        .layers
        .iter()
        .scan(0, |start, layer| {
            let this = *start;
            *start += layer.weights.len();
            Some(this)
        })
        .collect();
    let mut sample = vec![0; size];
    let parts = sample.par_chunks_mut(DRAWN_TOGETHER).enumerate();
    parts.try_for_each(|(part, ranks)| {
        let mut random = rng::stream(seed, "bracket", "", &[part as u64]);
        let first = part * DRAWN_TOGETHER / CLUSTER;
        // Of clusters; the product is below 2^64 for more weights than a machine can hold.
        let edge = |index: usize| (first + index) as u64 * (weights / CLUSTER) as u64 / (size / CLUSTER) as u64;
        let mut from = edge(0);
        let mut places = vec![0; ranks.len()];
        for (index, cluster) in places.chunks_exact_mut(CLUSTER).enumerate() {
            let to = edge(index + 1);
            // The high half of a product is below its second factor.
            let behind = (u64::from(random.next_u32()) * (to - from)) >> 32;
            #[expect(clippy::cast_possible_truncation, reason = "a part of the weights")]
            let start = (from + behind) as usize * CLUSTER;
            from = to;
            for (index, place) in cluster.iter_mut().enumerate() {
                *place = start + index;
            }
        }
        let mut done = 0;
        while done < places.len() {
            let layer = starts.partition_point(|start| *start <= places[done]) - 1;
            let (start, layer) = (starts[layer], (layer, &goal.layers[layer]));
            let end = start + layer.1.weights.len();
            let here = places[done..].iter().take_while(|place| **place < end).count();
            let places = &mut places[done..done + here];
            for place in &mut *places {
                *place -= start;
            }
            let numbers = pulp::Arch::new().dispatch(
                #[inline(always)]
                || gather(goal, layer.1, places, &mut ranks[done..done + here]),
            );
            numbers.then_some(()).ok_or(NotANumber { layer: layer.0 })?;
            done += here;
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
    let mut numbers = true;
    let mut buffers = [[0.0; TOGETHER]; 5];
    let mut scores = [0.0; TOGETHER];
    for (places, ranks) in places.chunks(TOGETHER).zip(ranks.chunks_mut(TOGETHER)) {
        let mut free = buffers.iter_mut();
        let mut take = |from: &[f32]| -> &[f32] {
            let Some(buffer) = free.next() else { return &[] };
            for (to, place) in buffer.iter_mut().zip(places) {
                *to = from[*place];
            }
            &buffer[..places.len()]
        };
        let gathered = Layer {
            weights: take(layer.weights),
            moments: layer.moments.map(|moments| moments.map(&mut take)),
            origin: layer.origin.map(&mut take),
            mask: layer.mask.map(&mut take),
        };
        let scores = &mut scores[..places.len()];
        gathered.fill(&goal.formula, scores);
        for (to, score) in ranks.iter_mut().zip(scores) {
            numbers &= !score.is_nan();
            *to = rank(*score);
        }
    }
    numbers
}

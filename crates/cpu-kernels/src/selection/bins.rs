//! An estimate from equal bins, as in GradProbe, for comparison.

use super::{
    Found, Goal, Mask, NotANumber,
    order::rank,
    pass::{Bracket, Piece, compare, pieces, visit},
    radix::pruned,
};

/// Bins between the smallest and the largest score.
const COARSE: usize = 1000;
/// Bins within a bin that holds more than a tenth of all scores.
const FINE: usize = 10_000;
/// Bisections at most.
const BISECTIONS: usize = 20;
/// An estimate is sufficient at this distance from the part of the scores to prune.
const NEAR: f64 = 0.001;

/// Approximation of the `k`-th smallest score, and the masks: a coarse histogram, a fine one within a full bin, and
/// bisection within the remaining bin.
pub fn by_bins<M: Mask>(goal: &Goal<'_>, masks: &mut [&mut [M]]) -> Result<Found, NotANumber> {
    let mut pieces = pieces(goal.layers, masks);
    let (weights, target) = (goal.weights(), goal.k as u64);
    let ends = visit(
        &pieces,
        goal,
        || [f32::INFINITY, f32::NEG_INFINITY],
        |ends, scores| {
            for score in scores {
                *ends = [ends[0].min(*score), ends[1].max(*score)];
            }
        },
        |left, right| [left[0].min(right[0]), left[1].max(right[1])],
    )?;
    // No bins reach to infinity.
    let mut ends = ends.map(|end| f64::from(end.clamp(f32::MIN, f32::MAX)));
    let mut passes = 1;
    let mut lower_count = 0;
    for bins in [COARSE, FINE] {
        let counts = count(goal, &pieces, ends, bins)?;
        passes += 1;
        let mut bin = 0;
        while bin + 1 < bins && lower_count + counts[bin] < target {
            lower_count += counts[bin];
            bin += 1;
        }
        let width = (ends[1] - ends[0]) / bins as f64;
        ends = [ends[0] + width * bin as f64, ends[0] + width * (bin + 1) as f64];
        if counts[bin] * 10 <= weights as u64 {
            break;
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "between two scores")]
    let mut threshold = ends[1] as f32;
    for step in 0..=BISECTIONS {
        let pruned_count = visit(
            &pieces,
            goal,
            || 0_u64,
            |count, scores| *count += scores.iter().filter(|score| **score <= threshold).count() as u64,
            |left, right| left + right,
        )?;
        passes += 1;
        let error = pruned_count as f64 / weights as f64 - target as f64 / weights as f64;
        if error.abs() < NEAR || step == BISECTIONS {
            break;
        }
        ends[usize::from(error > 0.0)] = f64::from(threshold);
        #[expect(clippy::cast_possible_truncation, reason = "between two scores")]
        let middle = f64::midpoint(ends[0], ends[1]) as f32;
        threshold = middle;
    }
    let tallies = compare(&mut pieces, goal, Bracket::at(threshold + 0.0))?;
    let extra = size_of_val(&*pieces) + rayon::current_num_threads() * FINE * size_of::<u64>();
    let pruned = pruned(goal, &pieces, &tallies, rank(threshold + 0.0));
    Ok(Found { threshold, pruned, passes: passes + 1, candidates: 0, extra })
}

/// Counts the scores between `ends` in equal bins.
fn count<M: Mask>(
    goal: &Goal<'_>,
    pieces: &[Piece<'_, M>],
    ends: [f64; 2],
    bins: usize,
) -> Result<Vec<u64>, NotANumber> {
    let scale = bins as f64 / (ends[1] - ends[0]).max(f64::MIN_POSITIVE);
    visit(
        pieces,
        goal,
        || vec![0; bins],
        |counts: &mut Vec<u64>, scores| {
            for score in scores {
                let score = f64::from(*score);
                if ends[0] <= score && score <= ends[1] {
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a bin's number")]
                    let bin = ((score - ends[0]) * scale) as usize;
                    counts[bin.min(bins - 1)] += 1;
                }
            }
        },
        |mut left, right| {
            left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
            left
        },
    )
}

//! Radix selection: bit by bit from the highest, a dozen at a time.

use super::{
    Found, Goal, Mask, NotANumber,
    order::{BINS, Bins, Counts, no_counts, rank, score},
    pass::{Bracket, Piece, Tally, compare, pieces, visit},
};

/// The `k`-th smallest score by counting, and the masks.
pub fn radix<M: Mask>(goal: &Goal<'_>, masks: &mut [&mut [M]]) -> Result<Found, NotANumber> {
    let mut pieces = pieces(goal.layers, masks);
    let (threshold, passes) = search(goal, &pieces)?;
    let tallies = compare(&mut pieces, goal, Bracket::at(threshold))?;
    let counts = rayon::current_num_threads() * BINS * size_of::<u64>();
    let extra = size_of_val(&*pieces) + counts.max(size_of_val(&*tallies));
    let pruned = pruned(goal, &pieces, &tallies, rank(threshold));
    Ok(Found { threshold, pruned, passes: passes + 1, candidates: 0, extra })
}

/// The `k`-th smallest score, and the passes that it took.
pub(super) fn search<M: Mask>(goal: &Goal<'_>, pieces: &[Piece<'_, M>]) -> Result<(f32, usize), NotANumber> {
    let (mut bins, mut k) = (Bins::new(0, u32::MAX), goal.k as u64);
    for passes in 1.. {
        let counts = visit(
            pieces,
            goal,
            no_counts,
            |counts: &mut Counts, scores| {
                for score in scores {
                    bins.count(rank(*score), counts);
                }
            },
            |mut left, right| {
                left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
                left
            },
        )?;
        match bins.narrow(&counts, k) {
            Ok(rank) => return Ok((score(rank), passes)),
            Err(range) => (bins, k) = range,
        }
    }
    unreachable!("bins become narrower until they hold one rank")
}

/// Number of scores of each layer that are at most `threshold`, which is within the range that `tallies` were made
/// with.
pub(super) fn pruned<M: Mask>(
    goal: &Goal<'_>,
    pieces: &[Piece<'_, M>],
    tallies: &[Tally],
    threshold: u32,
) -> Vec<usize> {
    let mut counts = vec![0; goal.layers.len()];
    for (piece, tally) in pieces.iter().zip(tallies) {
        let count = tally.ranks.iter().filter(|rank| **rank <= threshold).count();
        counts[piece.layer] += tally.below + tally.at_low + count;
    }
    counts
}

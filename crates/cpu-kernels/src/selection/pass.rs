//! One pass over all layers, in blocks that fit into a core's caches, on all threads.

use pulp::Arch;
use rayon::prelude::*;

use super::{
    Formula, Goal, Layer, Mask, NotANumber,
    lanes::{GROUP, Lanes, Sides, with_lanes},
    order::rank,
};

/// Number of weights of a piece, which one task processes.
pub(super) const PIECE: usize = 16 * 1024;
/// Scores that are computed at a time, into a buffer in the first cache.
const BLOCK: usize = 128;

/// A part of a layer, with the mask of it.
pub(super) struct Piece<'a, M> {
    /// Index of the layer.
    pub(super) layer: usize,
    /// Offset in the layer.
    start: usize,
    mask: &'a mut [M],
}

impl<M> Piece<'_, M> {
    /// Its numbers.
    #[inline(always)]
    pub(super) fn part<'a>(&self, goal: &Goal<'a>) -> Layer<'a> {
        let layer = &goal.layers[self.layer];
        layer.part(self.start, layer.weights.len().min(self.start + PIECE))
    }

    pub(super) fn mask_mut(&mut self) -> &mut [M] {
        self.mask
    }
}

/// The layers in pieces; `masks` has a mask for each.
pub(super) fn pieces<'a, M: Mask>(layers: &[Layer<'_>], masks: &'a mut [&mut [M]]) -> Vec<Piece<'a, M>> {
    let count = layers.iter().map(|layer| layer.weights.len().div_ceil(PIECE)).sum();
    let mut pieces = Vec::with_capacity(count);
    for (index, (layer, mask)) in layers.iter().zip(masks).enumerate() {
        let length = layer.weights.len();
        assert_eq!(mask.len(), M::words(length), "the mask of layer {index}");
        let starts = (0..length).step_by(PIECE);
        pieces.extend(starts.zip(mask.chunks_mut(PIECE / M::WEIGHTS)).map(|(start, mask)| Piece {
            layer: index,
            start,
            mask,
        }));
    }
    pieces
}

/// Two scores, the first at most as large as the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bracket {
    pub(super) low: f32,
    pub(super) high: f32,
}

impl Bracket {
    /// Range in which every score is in between, or at an end.
    pub(super) const ALL: Self = Self { low: f32::NEG_INFINITY, high: f32::INFINITY };

    /// Only `score`.
    pub(super) fn at(score: f32) -> Self {
        Self { low: score, high: score }
    }

    /// The least score that stays, if the threshold is below `high`, or at the only score of the bracket. No score is
    /// at least NaN.
    fn stays_from(self) -> f32 {
        if self.low < self.high {
            self.high
        } else if self.high == f32::INFINITY {
            f32::NAN
        } else {
            self.high.next_up()
        }
    }
}

/// Positions of the scores of a piece relative to a bracket.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// Scores below `low`.
    pub(super) below: usize,
    /// Scores at `low`.
    pub(super) at_low: usize,
    /// The scores in between, by [`rank`].
    pub(super) ranks: Box<[u32]>,
    /// Their places in the piece.
    places: Box<[u16]>,
}

impl Tally {
    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.ranks) + size_of_val(&*self.places)
    }
}

/// Compares all scores with `bracket`, and writes masks in which every weight stays whose score is at least `high`, or
/// above it if it is also `low`.
pub(super) fn compare<M: Mask>(
    pieces: &mut [Piece<'_, M>],
    goal: &Goal<'_>,
    bracket: Bracket,
) -> Result<Vec<Tally>, NotANumber> {
    let pieces = pieces.par_iter_mut();
    pieces
        .map_init(Scratch::new, |scratch, piece| {
            let part = piece.part(goal);
            let tally = with_lanes!(lanes => compare_piece(lanes, &part, piece.mask, &goal.formula, bracket, scratch));
            tally.ok_or(NotANumber { layer: piece.layer })
        })
        .collect()
}

/// Corrects the masks of [`compare`] for a threshold inside the bracket: candidates with a rank above `threshold` are
/// kept.
pub(super) fn mend<M: Mask>(pieces: &mut [Piece<'_, M>], tallies: &[Tally], threshold: u32) {
    pieces.par_iter_mut().zip(tallies).for_each(|(piece, tally)| {
        for (place, rank) in tally.places.iter().zip(&tally.ranks) {
            if *rank > threshold {
                M::keep(piece.mask, usize::from(*place));
            }
        }
    });
}

/// Calls `visit` with blocks of scores, on all threads; every thread has a `T`, and all of them are merged.
pub(super) fn visit<M: Mask, T: Send>(
    pieces: &[Piece<'_, M>],
    goal: &Goal<'_>,
    new: impl Fn() -> T + Sync + Send,
    visit: impl Fn(&mut T, &[f32]) + Sync + Send,
    merge: impl Fn(T, T) -> T + Sync + Send,
) -> Result<T, NotANumber> {
    let arch = Arch::new();
    let states = pieces.par_iter().try_fold(&new, |mut state, piece| {
        let are_numbers = arch.dispatch(
            #[inline(always)]
            || {
                let mut are_numbers = true;
                let mut buffer = [0.0; BLOCK];
                let part = piece.part(goal);
                for start in (0..part.weights.len()).step_by(BLOCK) {
                    let scores = block(&part, &goal.formula, start, &mut buffer);
                    are_numbers &= scores.iter().fold(true, |are_numbers, score| are_numbers & !score.is_nan());
                    visit(&mut state, scores);
                }
                are_numbers
            },
        );
        if are_numbers { Ok(state) } else { Err(NotANumber { layer: piece.layer }) }
    });
    states.try_reduce(&new, |left, right| Ok(merge(left, right)))
}

/// Computes the scores from `start` on, at most `BLOCK` of them, in `buffer`.
#[inline(always)]
fn block<'a>(part: &Layer<'_>, formula: &Formula, start: usize, buffer: &'a mut [f32; BLOCK]) -> &'a [f32] {
    let end = part.weights.len().min(start + BLOCK);
    let scores = &mut buffer[..end - start];
    part.part(start, end).fill(formula, scores);
    scores
}

/// Buffers of a thread for results whose number is not known yet.
struct Scratch {
    places: Box<[u16]>,
    ranks: Box<[u32]>,
}

impl Scratch {
    fn new() -> Self {
        Self { places: vec![0; PIECE].into(), ranks: vec![0; PIECE].into() }
    }
}

/// Bytes that all threads together need while they [`compare`].
pub(super) fn scratch() -> usize {
    rayon::current_num_threads() * PIECE * (size_of::<u16>() + size_of::<u32>())
}

/// `None` if a score is NaN.
#[inline(always)]
fn compare_piece<L: Lanes, M: Mask>(
    lanes: L,
    part: &Layer<'_>,
    mask: &mut [M],
    formula: &Formula,
    bracket: Bracket,
    scratch: &mut Scratch,
) -> Option<Tally> {
    let mut counts = Counts::default();
    let mut buffer = [0.0; BLOCK];
    let ends = [bracket.low, bracket.stays_from()];
    for start in (0..part.weights.len()).step_by(BLOCK) {
        let scores = block(part, formula, start, &mut buffer);
        let (groups, remainder) = scores.as_chunks::<GROUP>();
        let mut place = start;
        for group in groups {
            let mask = &mut mask[place / M::WEIGHTS..][..GROUP / M::WEIGHTS];
            compare_group(lanes, group, u64::MAX, place, mask, ends, &mut counts, scratch);
            place += GROUP;
        }
        if !remainder.is_empty() {
            let mut group = [0.0; GROUP];
            group[..remainder.len()].copy_from_slice(remainder);
            let group_mask = u64::MAX >> (GROUP - remainder.len());
            compare_group(
                lanes,
                &group,
                group_mask,
                place,
                &mut mask[place / M::WEIGHTS..],
                ends,
                &mut counts,
                scratch,
            );
        }
    }
    let ranks = &scratch.ranks[..counts.inside];
    // Numbers have ranks from the rank of negative infinity to the rank of infinity; only NaN is outside.
    if ranks.iter().any(|value| *value < rank(f32::NEG_INFINITY) || *value > rank(f32::INFINITY)) {
        return None;
    }
    Some(Tally {
        below: counts.below as usize,
        at_low: (counts.up_to_low - counts.below) as usize,
        places: scratch.places[..counts.inside].into(),
        ranks: ranks.into(),
    })
}

/// Counts of a piece.
#[derive(Default)]
struct Counts {
    below: u32,
    up_to_low: u32,
    inside: usize,
}

/// Compares the scores of `group` that are in `group_mask`. The first score has this `place` in its piece.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the body of a loop")]
fn compare_group<L: Lanes, M: Mask>(
    lanes: L,
    group: &[f32; GROUP],
    group_mask: u64,
    place: usize,
    mask: &mut [M],
    [low, high]: [f32; 2],
    counts: &mut Counts,
    scratch: &mut Scratch,
) {
    let Sides { below, up_to_low, from_high } = lanes.sides(group, low, high);
    M::write(lanes, from_high & group_mask, mask);
    counts.below += (below & group_mask).count_ones();
    counts.up_to_low += (up_to_low & group_mask).count_ones();
    // NaN is inside, too.
    let mut inside_bits = !(up_to_low | from_high) & group_mask;
    while inside_bits != 0 {
        let bit = inside_bits.trailing_zeros() as usize;
        inside_bits &= inside_bits - 1;
        #[expect(clippy::cast_possible_truncation, reason = "a piece has fewer weights")]
        let place = (place + bit) as u16;
        scratch.places[counts.inside] = place;
        scratch.ranks[counts.inside] = rank(group[bit]);
        counts.inside += 1;
    }
}

/// Sets the elements that `mask` prunes to 0 in each of `numbers`: weights, moments.
///
/// # Panics
///
/// If `mask` was created for another number of weights than a slice of `numbers` has.
pub fn apply<M: Mask>(mask: &[M], numbers: &mut [&mut [f32]]) {
    for numbers in numbers {
        assert_eq!(mask.len(), M::words(numbers.len()), "a mask for as many weights");
        let words = mask.par_chunks(PIECE / M::WEIGHTS);
        let arch = Arch::new();
        numbers.par_chunks_mut(PIECE).zip(words).for_each(|(numbers, mask)| {
            arch.dispatch(
                #[inline(always)]
                || M::apply(mask, numbers),
            );
        });
    }
}

//! The lower bound of the time of a pass.

use rayon::prelude::*;

use super::{
    Goal, Mask,
    lanes::{GROUP, Lanes as _, with_lanes},
    pass::pieces,
};

/// Reads every number that the scores of `goal` depend on, and writes every mask, computing no more than a sum and a
/// comparison: the time that the memory needs for one pass.
pub fn stream<M: Mask>(goal: &Goal<'_>, masks: &mut [&mut [M]]) {
    pieces(goal.layers, masks).par_iter_mut().for_each(|piece| {
        let part = piece.part(goal);
        let numbers = part.reads(&goal.formula);
        let mask = piece.mask_mut();
        let mask_bits = with_lanes!(lanes => {
            let mut mask_bits = 0;
            let mut sums = [0.0; GROUP];
            for start in (0..part.weights.len()).step_by(GROUP) {
                let end = part.weights.len().min(start + GROUP);
                for (sum, number) in sums.iter_mut().zip(&numbers[0][start..end]) {
                    *sum = *number;
                }
                for numbers in &numbers[1..] {
                    for (sum, number) in sums.iter_mut().zip(&numbers[start..end]) {
                        *sum += *number;
                    }
                }
                let bits = lanes.sides(&sums, 0.0, 0.0).from_high;
                mask_bits |= bits;
                let words = &mut mask[start / M::WEIGHTS..];
                let count = words.len().min(GROUP / M::WEIGHTS);
                M::write(lanes, bits, &mut words[..count]);
            }
            mask_bits
        });
        std::hint::black_box(mask_bits);
    });
}

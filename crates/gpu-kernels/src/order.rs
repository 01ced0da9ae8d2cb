//! The order of scores as integers.

use cubecl::prelude::*;

/// The rank of -inf, the smallest score.
pub(crate) const MIN_RANK: u32 = 0x007f_ffff;
/// The rank of inf, the largest score.
pub(crate) const MAX_RANK: u32 = 0xff80_0000;

/// A number that orders scores as `<` does, 0 and -0 being one. NaN has a rank below [`MIN_RANK`] or above [`MAX_RANK`].
///
/// Only bits are compared, because compilers of shaders may treat zeros as equal and NaN as impossible.
#[cube]
pub(crate) fn rank(score: f32) -> u32 {
    let bits = u32::reinterpret(score);
    let bits = select(bits == 0x8000_0000u32, 0u32, bits);
    // All bits of a negative number turn over, and the sign of a positive one.
    bits ^ select(bits >= 0x8000_0000u32, 0xffff_ffffu32, 0x8000_0000u32)
}

/// The score with this [`rank`].
pub(crate) fn score(rank: u32) -> f32 {
    let mask = if rank & 0x8000_0000 == 0 { u32::MAX } else { 0x8000_0000 };
    f32::from_bits(rank ^ mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_scores_are_one() {
        assert_eq!(score(MIN_RANK), f32::NEG_INFINITY);
        assert_eq!(score(MAX_RANK), f32::INFINITY);
        assert_eq!(score(0x8000_0000).to_bits(), 0);
        assert_eq!(score(0x7fff_fffe).to_bits(), (-f32::from_bits(1)).to_bits());
    }
}

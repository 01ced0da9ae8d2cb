//! Elements of masks.

use super::lanes::Lanes;

/// Element of a mask: bytes, bits, numbers, or nothing.
#[expect(private_bounds, reason = "these are all that there are")]
pub trait Mask: Word {
    /// Words of a mask for `weights` weights.
    fn words(weights: usize) -> usize {
        weights.div_ceil(Self::WEIGHTS)
    }
}

impl<M: Word> Mask for M {}

/// A word of a mask.
pub(super) trait Word: Copy + Default + Send + Sync {
    /// Weights that a word is for; divides 64.
    const WEIGHTS: usize;

    /// Writes the mask of 64 weights, or of fewer at the end of a layer, from `mask_bits`: 1 for weights that stay.
    fn write<L: Lanes>(lanes: L, mask_bits: u64, out: &mut [Self]);

    /// Marks the weight at `place`, which the mask removes so far, as kept.
    fn keep(out: &mut [Self], place: usize);

    /// Sets `numbers` to 0 where the weight goes.
    fn apply(mask: &[Self], numbers: &mut [f32]);
}

/// The mask of a search that only needs a threshold. This mask takes no memory.
impl Word for () {
    const WEIGHTS: usize = 1;

    #[inline(always)]
    fn write<L: Lanes>(_lanes: L, _mask_bits: u64, _out: &mut [Self]) {}

    #[inline(always)]
    fn keep(_out: &mut [Self], _place: usize) {}

    #[inline(always)]
    fn apply(_mask: &[Self], _numbers: &mut [f32]) {}
}

/// A byte for each weight: 1 where it stays, else 0.
impl Word for u8 {
    const WEIGHTS: usize = 1;

    #[inline(always)]
    fn write<L: Lanes>(lanes: L, mask_bits: u64, out: &mut [Self]) {
        out.copy_from_slice(&lanes.bytes(mask_bits)[..out.len()]);
    }

    #[inline(always)]
    fn keep(out: &mut [Self], place: usize) {
        out[place] = 1;
    }

    #[inline(always)]
    fn apply(mask: &[Self], numbers: &mut [f32]) {
        for (number, mask) in numbers.iter_mut().zip(mask) {
            *number = if *mask == 0 { 0.0 } else { *number };
        }
    }
}

/// A number for each weight, to multiply it with: 1 where it stays, else 0.
impl Word for f32 {
    const WEIGHTS: usize = 1;

    #[inline(always)]
    fn write<L: Lanes>(lanes: L, mask_bits: u64, out: &mut [Self]) {
        for (out, byte) in out.iter_mut().zip(lanes.bytes(mask_bits)) {
            *out = f32::from(byte);
        }
    }

    #[inline(always)]
    fn keep(out: &mut [Self], place: usize) {
        out[place] = 1.0;
    }

    #[inline(always)]
    fn apply(mask: &[Self], numbers: &mut [f32]) {
        for (number, mask) in numbers.iter_mut().zip(mask) {
            *number = if *mask == 0.0 { 0.0 } else { *number };
        }
    }
}

/// A bit for each weight, the lowest for the first: 1 where it stays, else 0.
impl Word for u64 {
    const WEIGHTS: usize = 64;

    #[inline(always)]
    fn write<L: Lanes>(_lanes: L, mask_bits: u64, out: &mut [Self]) {
        out[0] = mask_bits;
    }

    #[inline(always)]
    fn keep(out: &mut [Self], place: usize) {
        out[place / 64] |= 1 << (place % 64);
    }

    #[inline(always)]
    fn apply(mask: &[Self], numbers: &mut [f32]) {
        for (numbers, word) in numbers.chunks_mut(64).zip(mask) {
            for (bit, number) in numbers.iter_mut().enumerate() {
                *number = if word >> bit & 1 == 0 { 0.0 } else { *number };
            }
        }
    }
}

//! Comparison of many scores at once, with the instructions of the present processor.

use pulp::Scalar;

/// Scores that are compared together.
pub(super) const GROUP: usize = 64;

/// Sides of [`GROUP`] scores; the lowest bit is for the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sides {
    /// Below `low`.
    pub(super) below: u64,
    /// At most `low`.
    pub(super) up_to_low: u64,
    /// At least `high`.
    pub(super) from_high: u64,
}

/// A set of instructions.
pub(super) trait Lanes: Copy + Send + Sync {
    /// Positions of `scores` relative to `low` and `high`. NaN is on no side.
    fn sides(self, scores: &[f32; GROUP], low: f32, high: f32) -> Sides;

    /// A byte for each of `bits`.
    #[inline(always)]
    fn bytes(self, bits: u64) -> [u8; GROUP] {
        let mut bytes = [0; GROUP];
        for (eight, bits) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(bits.to_le_bytes()) {
            // Every byte gets all eight bits and keeps its own, which a sum then carries into its highest place.
            let masked_bits = (u64::from(bits) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
            *eight = (((masked_bits + 0x7f7f_7f7f_7f7f_7f7f) >> 7) & 0x0101_0101_0101_0101).to_le_bytes();
        }
        bytes
    }
}

impl Lanes for Scalar {
    #[inline(always)]
    fn sides(self, scores: &[f32; GROUP], low: f32, high: f32) -> Sides {
        let mut sides = Sides { below: 0, up_to_low: 0, from_high: 0 };
        for (bit, score) in scores.iter().enumerate() {
            sides.below |= u64::from(*score < low) << bit;
            sides.up_to_low |= u64::from(*score <= low) << bit;
            sides.from_high |= u64::from(*score >= high) << bit;
        }
        sides
    }
}

/// Calls `$body` with the instructions of this processor, compiled for them.
#[cfg(target_arch = "x86_64")]
macro_rules! with_lanes {
    ($lanes:ident => $body:expr) => {{
        match pulp::Arch::new() {
            pulp::Arch::V4($lanes) => $lanes.vectorize(
                #[inline(always)]
                || $body,
            ),
            pulp::Arch::V3($lanes) => $lanes.vectorize(
                #[inline(always)]
                || $body,
            ),
            _ => {
                let $lanes = pulp::Scalar;
                $body
            }
        }
    }};
}

#[cfg(not(target_arch = "x86_64"))]
macro_rules! with_lanes {
    ($lanes:ident => $body:expr) => {{
        let $lanes = pulp::Scalar;
        $body
    }};
}

pub(super) use with_lanes;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256, __m512, _CMP_GE_OQ, _CMP_LE_OQ, _CMP_LT_OQ};

    use pulp::x86::{V3, V4};

    use super::{GROUP, Lanes, Sides};

    impl Lanes for V4 {
        #[inline(always)]
        fn sides(self, scores: &[f32; GROUP], low: f32, high: f32) -> Sides {
            let f = self.avx512f;
            let [low, high] = [low, high].map(|end| f._mm512_set1_ps(end));
            let mut sides = Sides { below: 0, up_to_low: 0, from_high: 0 };
            for (index, scores) in scores.as_chunks::<16>().0.iter().enumerate() {
                let scores: __m512 = pulp::cast(*scores);
                let shift = 16 * index;
                sides.below |= u64::from(f._mm512_cmp_ps_mask::<_CMP_LT_OQ>(scores, low)) << shift;
                sides.up_to_low |= u64::from(f._mm512_cmp_ps_mask::<_CMP_LE_OQ>(scores, low)) << shift;
                sides.from_high |= u64::from(f._mm512_cmp_ps_mask::<_CMP_GE_OQ>(scores, high)) << shift;
            }
            sides
        }

        #[inline(always)]
        fn bytes(self, bits: u64) -> [u8; GROUP] {
            pulp::cast(self.avx512bw._mm512_maskz_set1_epi8(bits, 1))
        }
    }

    impl Lanes for V3 {
        #[inline(always)]
        fn sides(self, scores: &[f32; GROUP], low: f32, high: f32) -> Sides {
            let avx = self.avx;
            let [low, high] = [low, high].map(|end| avx._mm256_set1_ps(end));
            let bits = |comparison: __m256| u64::from(avx._mm256_movemask_ps(comparison).cast_unsigned());
            let mut sides = Sides { below: 0, up_to_low: 0, from_high: 0 };
            for (index, scores) in scores.as_chunks::<8>().0.iter().enumerate() {
                let scores: __m256 = pulp::cast(*scores);
                let shift = 8 * index;
                sides.below |= bits(avx._mm256_cmp_ps::<_CMP_LT_OQ>(scores, low)) << shift;
                sides.up_to_low |= bits(avx._mm256_cmp_ps::<_CMP_LE_OQ>(scores, low)) << shift;
                sides.from_high |= bits(avx._mm256_cmp_ps::<_CMP_GE_OQ>(scores, high)) << shift;
            }
            sides
        }
    }
}

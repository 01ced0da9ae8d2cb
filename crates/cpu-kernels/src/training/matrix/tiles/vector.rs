//! A tile of a product with AVX-512's `vdpbf16ps`: to each of 16 sums it adds two products.

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, _mm512_add_ps, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_set1_epi32, _mm512_setzero_ps, _mm512_stream_ps,
};

use super::{super::Into, COLUMNS, pack::mask};

/// Rows of a tile. With its columns they make 24 registers of sums, of 32 registers.
pub(super) const ROWS: usize = 12;

/// True if this processor has these instructions and the instructions that pack factors.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512bf16")
}

/// Writes or adds a tile of `[rows, columns]` numbers, where `place` has the first of each row.
///
/// # Safety
/// The numbers of the tile may be read and written, and nothing else does so meanwhile.
#[target_feature(enable = "avx512f,avx512bf16")]
#[expect(unsafe_code, reason = "vector instructions take pointers")]
pub(super) unsafe fn tile(
    left: &[u32],
    right: &[u32],
    place: impl Fn(usize) -> *mut f32,
    [rows, columns]: [usize; 2],
    into: Into,
) {
    let (left, right) = (left.as_chunks::<ROWS>().0, right.as_chunks::<COLUMNS>().0);
    let mut sums: [[__m512; 2]; ROWS] = [[_mm512_setzero_ps(); 2]; ROWS];
    for (left, right) in left.iter().zip(right) {
        // SAFETY: 32 numbers, of which each half is a register.
        let halves =
            unsafe { [_mm512_loadu_si512(right.as_ptr().cast()), _mm512_loadu_si512(right[16..].as_ptr().cast())] };
        let halves = [short(halves[0]), short(halves[1])];
        for (sums, left) in sums.iter_mut().zip(left) {
            let left = short(_mm512_set1_epi32(left.cast_signed()));
            sums[0] = _mm512_dpbf16_ps(sums[0], left, halves[0]);
            sums[1] = _mm512_dpbf16_ps(sums[1], left, halves[1]);
        }
    }
    let masks = [mask(columns), mask(columns.saturating_sub(16))];
    for (line, sums) in sums.iter().enumerate().take(rows) {
        for ((half, sum), mask) in sums.iter().enumerate().zip(masks) {
            let place = place(line).wrapping_add(16 * half);
            if into == Into::Memory && mask == !0 && place.addr().is_multiple_of(64) {
                // SAFETY: a whole register's numbers, aligned. The caller orders these writes before all later accesses.
                unsafe { _mm512_stream_ps(place, *sum) };
                continue;
            }
            // SAFETY: the mask excludes elements outside of the tile.
            unsafe {
                let sum =
                    if into == Into::Sum { _mm512_add_ps(_mm512_maskz_loadu_ps(mask, place), *sum) } else { *sum };
                _mm512_mask_storeu_ps(place, mask, sum);
            }
        }
    }
}

/// Bits as pairs of bfloat16 numbers.
#[target_feature(enable = "avx512f")]
#[expect(unsafe_code, reason = "no conversion of the types is offered")]
fn short(bits: __m512i) -> __m512bh {
    // SAFETY: both are 512 bits of any value.
    unsafe { std::mem::transmute(bits) }
}

//! Factors in the form that products of tiles take: bfloat16 numbers in pairs of neighbors along the inner dimension, in panels
//! of lines.

use std::{
    arch::x86_64::{
        __m512, __m512bh, __m512i, __mmask16, _MM_HINT_T0, _mm_prefetch, _mm512_cvtne2ps_pbh, _mm512_loadu_si512,
        _mm512_mask_storeu_epi32, _mm512_maskz_loadu_ps, _mm512_permutexvar_epi16, _mm512_setzero_ps,
        _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
        _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    },
    ops::Range,
};

use rayon::prelude::*;

use super::super::Matrix;
use crate::training::memory::Buffer;

/// Lines, and pairs, that are packed together; panels have whole blocks of pairs.
pub(super) const BLOCK: usize = 16;

/// Groups of panels for each thread that packs.
const GROUPS: usize = 2;

/// Distance, in numbers of a row, between the prefetched place and the packed one.
const AHEAD: usize = 256;

/// Order of the pairs of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// For each place along the inner dimension, the pair of every line.
    Pairs,
    /// For each block of places along the inner dimension, every line's pairs.
    Lines,
}

/// Threads that pack a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Threads {
    /// All of the pool.
    All,
    /// The calling thread.
    This,
}

/// Pairs along an inner dimension of `numbers` numbers, in whole blocks.
pub(super) fn pairs(numbers: usize) -> usize {
    numbers.div_ceil(2 * BLOCK) * BLOCK
}

/// A factor in panels of rows or columns. Numbers outside the matrix are 0.
pub(super) struct Packed {
    numbers: Buffer,
    /// Pairs along the inner dimension, in whole blocks.
    pairs: usize,
    /// Lines of a panel.
    panel: usize,
}

impl Packed {
    /// Packs the rows of a matrix, `panel` of them together, on all threads of the pool or on this one.
    pub(super) fn new(matrix: Matrix<'_>, panel: usize, order: Order, threads: Threads) -> Self {
        assert!(matrix.row_stride == 1 || matrix.column_stride == 1, "a matrix is contiguous along one dimension");
        let pairs = pairs(matrix.columns);
        let panels = matrix.rows.div_ceil(panel);
        let mut numbers = Buffer::new(panels * panel * pairs);
        // The groups are as large as possible while all threads have work, because a larger group reads longer parts of
        // rows.
        let group = match threads {
            Threads::All => panels.div_ceil(GROUPS * rayon::current_num_threads()),
            Threads::This => panels,
        };
        let pack = |(index, packed): (usize, &mut [u32])| {
            #[expect(unsafe_code, reason = "the instructions that a processor has are known at run time only")]
            // SAFETY: a unit, which the caller has, is only given where the processor has these instructions.
            unsafe {
                pack_panels(matrix, index * group * panel, panel, order, packed);
            }
        };
        if pairs > 0 && panels > 0 {
            let words: &mut [u32] = bytemuck::cast_slice_mut(&mut numbers);
            match threads {
                Threads::All => words.par_chunks_mut(group * panel * pairs).enumerate().for_each(pack),
                Threads::This => pack((0, words)),
            }
        }
        Self { numbers, pairs, panel }
    }

    /// `count` pairs of every line of a panel from `first` on, or the remaining pairs.
    pub(super) fn part(&self, panel: usize, first: usize, count: usize) -> &[u32] {
        let numbers: &[u32] = bytemuck::cast_slice(&self.numbers);
        let start = panel * self.panel * self.pairs;
        let end = (first + count).min(self.pairs);
        &numbers[start + first * self.panel..start + end * self.panel]
    }
}

/// Packs the rows from `first` on to panels, in the order in which the matrix lies in memory.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn pack_panels(matrix: Matrix<'_>, first: usize, panel: usize, order: Order, packed: &mut [u32]) {
    let blocks = matrix.columns.div_ceil(2 * BLOCK);
    let panels = packed.chunks_exact_mut(blocks * BLOCK * panel).zip((first..).step_by(panel));
    if matrix.column_stride == 1 {
        for (packed, first) in panels {
            for (block, packed) in packed.chunks_exact_mut(panel * BLOCK).enumerate() {
                pack_block(matrix, first, block, order, packed);
            }
        }
    } else {
        let mut panels: Vec<_> = panels.collect();
        for block in 0..blocks {
            for (packed, first) in &mut panels {
                pack_block(matrix, *first, block, order, &mut packed[block * panel * BLOCK..][..panel * BLOCK]);
            }
        }
    }
}

/// Packs a block of the rows from `first` on.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn pack_block(matrix: Matrix<'_>, first: usize, block: usize, order: Order, packed: &mut [u32]) {
    let panel = packed.len() / BLOCK;
    for line in (0..panel).step_by(BLOCK) {
        let count = BLOCK.min(panel - line);
        let (vectors, current_order) = if matrix.column_stride == 1 {
            (lines_of(matrix, first + line..first + line + count, 2 * BLOCK * block), Order::Lines)
        } else {
            (pairs_of(matrix, first + line, 2 * BLOCK * block), Order::Pairs)
        };
        let rows = if current_order == order { vectors } else { transposed(&vectors) };
        match order {
            Order::Pairs => rows.iter().zip(packed.chunks_exact_mut(panel)).for_each(|(pairs, packed)| {
                store(*pairs, &mut packed[line..line + count]);
            }),
            Order::Lines => {
                let packed = packed[line * BLOCK..(line + count) * BLOCK].chunks_exact_mut(BLOCK);
                rows.iter().zip(packed).for_each(|(line, packed)| store(*line, packed));
            }
        }
    }
}

/// The pairs of up to 16 rows of contiguous numbers, with the pairs of a row together, from column `column` on.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn lines_of(matrix: Matrix<'_>, rows: Range<usize>, column: usize) -> [__m512i; BLOCK] {
    let width = (2 * BLOCK).min(matrix.columns - column);
    let mut lines = [_mm512_setzero_si512(); BLOCK];
    for (row, target) in (rows.start..rows.end.min(matrix.rows)).zip(&mut lines) {
        let start = row * matrix.row_stride + column;
        let numbers = &matrix.data[start..start + width];
        // The numbers that this row needs some blocks later.
        prefetch(matrix.data, start + AHEAD);
        prefetch(matrix.data, start + AHEAD + BLOCK);
        let (one, two) = numbers.split_at(width.min(BLOCK));
        *target = bits(_mm512_cvtne2ps_pbh(load(two), load(one)));
    }
    lines
}

/// The pairs of 16 rows of a matrix whose columns are contiguous, with the pairs of two columns together, from `column` on.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn pairs_of(matrix: Matrix<'_>, line: usize, column: usize) -> [__m512i; BLOCK] {
    let height = BLOCK.min(matrix.rows.saturating_sub(line));
    let numbers = |column: usize| {
        if column < matrix.columns && height > 0 {
            let start = column * matrix.column_stride + line;
            // Prefetches the same rows of the next block of `2 * BLOCK` columns.
            prefetch(matrix.data, start + 2 * BLOCK * matrix.column_stride);
            load(&matrix.data[start..start + height])
        } else {
            _mm512_setzero_ps()
        }
    };
    let order = interleaved();
    let mut pairs = [_mm512_setzero_si512(); BLOCK];
    for (index, target) in pairs.iter_mut().enumerate() {
        let column = column + 2 * index;
        *target = _mm512_permutexvar_epi16(order, bits(_mm512_cvtne2ps_pbh(numbers(column + 1), numbers(column))));
    }
    pairs
}

/// The order that brings numbers of the lower half and of the upper half together.
#[target_feature(enable = "avx512f")]
fn interleaved() -> __m512i {
    /// The places 0, 16, 1, 17 and so on.
    const ORDER: [u16; 32] = {
        let (mut order, mut place) = ([0; 32], 0);
        while place < 16 {
            order[2 * place as usize] = place;
            order[2 * place as usize + 1] = place + 16;
            place += 1;
        }
        order
    };
    #[expect(unsafe_code, reason = "the instruction takes a pointer")]
    // SAFETY: an array of 64 bytes.
    unsafe {
        _mm512_loadu_si512(ORDER.as_ptr().cast())
    }
}

/// Lines for columns of 16 × 16 pairs.
#[target_feature(enable = "avx512f")]
fn transposed(rows: &[__m512i; BLOCK]) -> [__m512i; BLOCK] {
    let zero = _mm512_setzero_si512();
    // After this, register 4 g + c has the columns c, 4 + c, 8 + c and 12 + c of the rows 4 g to 4 g + 3.
    let mut fours = [zero; BLOCK];
    for (target, rows) in fours.as_chunks_mut::<4>().0.iter_mut().zip(rows.as_chunks::<4>().0) {
        let (low, high) = (_mm512_unpacklo_epi32(rows[0], rows[1]), _mm512_unpackhi_epi32(rows[0], rows[1]));
        let (low_next, high_next) = (_mm512_unpacklo_epi32(rows[2], rows[3]), _mm512_unpackhi_epi32(rows[2], rows[3]));
        *target = [
            _mm512_unpacklo_epi64(low, low_next),
            _mm512_unpackhi_epi64(low, low_next),
            _mm512_unpacklo_epi64(high, high_next),
            _mm512_unpackhi_epi64(high, high_next),
        ];
    }
    let mut columns = [zero; BLOCK];
    for column in 0..4 {
        let [one, two, three, four] = [0, 4, 8, 12].map(|group| fours[group + column]);
        let (even, odd) = (_mm512_shuffle_i32x4::<0x88>(one, two), _mm512_shuffle_i32x4::<0xdd>(one, two));
        let (even_next, odd_next) =
            (_mm512_shuffle_i32x4::<0x88>(three, four), _mm512_shuffle_i32x4::<0xdd>(three, four));
        columns[column] = _mm512_shuffle_i32x4::<0x88>(even, even_next);
        columns[column + 4] = _mm512_shuffle_i32x4::<0x88>(odd, odd_next);
        columns[column + 8] = _mm512_shuffle_i32x4::<0xdd>(even, even_next);
        columns[column + 12] = _mm512_shuffle_i32x4::<0xdd>(odd, odd_next);
    }
    columns
}

/// The first `count` of 16 numbers, or all.
pub(super) fn mask(count: usize) -> __mmask16 {
    if count >= 16 { !0 } else { (1 << count) - 1 }
}

/// Prefetches the memory of an element, if the slice has it.
#[target_feature(enable = "avx512f")]
fn prefetch(numbers: &[f32], index: usize) {
    if let Some(number) = numbers.get(index) {
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(number).cast());
    }
}

/// Up to 16 numbers, then zeros.
#[target_feature(enable = "avx512f")]
fn load(numbers: &[f32]) -> __m512 {
    #[expect(unsafe_code, reason = "the instruction takes a pointer")]
    // SAFETY: the mask leaves out what is not in the slice.
    unsafe {
        _mm512_maskz_loadu_ps(mask(numbers.len()), numbers.as_ptr())
    }
}

/// Writes the first pairs of `pairs` to `to`, up to its length.
#[target_feature(enable = "avx512f")]
fn store(pairs: __m512i, to: &mut [u32]) {
    #[expect(unsafe_code, reason = "the instruction takes a pointer")]
    // SAFETY: the mask leaves out what is not in the slice.
    unsafe {
        _mm512_mask_storeu_epi32(to.as_mut_ptr().cast(), mask(to.len()), pairs);
    }
}

/// Pairs of bfloat16 numbers as bits.
#[target_feature(enable = "avx512f")]
fn bits(numbers: __m512bh) -> __m512i {
    #[expect(unsafe_code, reason = "no conversion of the types is offered")]
    // SAFETY: both are 512 bits of any value.
    unsafe {
        std::mem::transmute(numbers)
    }
}

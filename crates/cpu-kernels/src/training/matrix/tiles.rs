//! Products of packed bfloat16 numbers with AVX-512's `vdpbf16ps`: to each of 16 sums it adds two products.

use std::{
    arch::x86_64::{
        __m512, __m512bh, __m512i, __mmask16, _mm512_add_ps, _mm512_dpbf16_ps, _mm512_loadu_si512,
        _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_epi32, _mm512_setzero_ps,
    },
    marker::PhantomData,
    mem::transmute,
};

use rayon::prelude::*;

use super::{Into, Matrix, MatrixMut, short::rounded};
use crate::training::memory::Buffer;

/// Rows of a tile. With its columns they make 24 registers of sums, of 32 registers.
const ROWS: usize = 12;
/// Columns of a tile, in two registers.
const COLUMNS: usize = 32;
/// Pairs along the inner dimension that are multiplied before the next tile, so that what tiles share stays in the first
/// caches: 32 KiB of a right panel.
const DEPTH: usize = 256;
/// Panels of rows of a task.
const ROW_PANELS: usize = 10;
/// Panels of columns of a task.
const COLUMN_PANELS: usize = 16;

/// True if this processor has the instructions.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16")
}

/// A factor in panels of rows or columns: for each pair of neighbors along the inner dimension the pair of every line. What
/// lies outside of the matrix is 0.
pub(super) struct Packed {
    numbers: Buffer,
    /// Rows of a left factor, columns of a right one.
    lines: usize,
    /// Pairs along the inner dimension.
    pairs: usize,
}

impl Packed {
    /// The pairs `first .. first + DEPTH` of a panel, or those that there are.
    fn part<const LINES: usize>(&self, panel: usize, first: usize) -> &[[u32; LINES]] {
        let numbers: &[u32] = bytemuck::cast_slice(&self.numbers);
        let panel = &numbers[panel * self.pairs * LINES..(panel + 1) * self.pairs * LINES];
        let end = (first + DEPTH).min(self.pairs);
        panel[first * LINES..end * LINES].as_chunks().0
    }
}

/// The rows of a left factor.
pub(super) fn left(matrix: Matrix<'_>) -> Packed {
    pack::<ROWS>(matrix)
}

/// The columns of a right factor.
pub(super) fn right(matrix: Matrix<'_>) -> Packed {
    pack::<COLUMNS>(matrix.transposed())
}

/// Packs rows.
fn pack<const LINES: usize>(matrix: Matrix<'_>) -> Packed {
    let (lines, pairs) = (matrix.rows, matrix.columns.div_ceil(2));
    let mut numbers = Buffer::new(lines.div_ceil(LINES) * LINES * pairs);
    if pairs > 0 {
        let panels: &mut [u32] = bytemuck::cast_slice_mut(&mut numbers);
        panels.par_chunks_exact_mut(LINES * pairs).enumerate().for_each(|(panel, packed)| {
            #[expect(unsafe_code, reason = "the instructions that a processor has are known at run time only")]
            // SAFETY: `available`, which the caller asked, found AVX-512.
            unsafe {
                pack_panel::<LINES>(matrix, panel * LINES, packed.as_chunks_mut().0);
            }
        });
    }
    Packed { numbers, lines, pairs }
}

/// Packs the rows from `first` on.
#[target_feature(enable = "avx512f,avx2")]
fn pack_panel<const LINES: usize>(matrix: Matrix<'_>, first: usize, packed: &mut [[u32; LINES]]) {
    let Matrix { data, rows, columns, row_stride, column_stride } = matrix;
    let count = LINES.min(rows - first);
    let whole = columns / 2;
    if row_stride == 1 && count == LINES {
        for (index, packed) in packed[..whole].iter_mut().enumerate() {
            let at = first + 2 * index * column_stride;
            let (one, two) = (&data[at..at + LINES], &data[at + column_stride..at + column_stride + LINES]);
            for ((packed, one), two) in packed.iter_mut().zip(one).zip(two) {
                *packed = pair(*one, *two);
            }
        }
    } else {
        if count < LINES {
            packed.as_flattened_mut().fill(0);
        }
        for line in 0..count {
            let row = &data[(first + line) * row_stride..];
            if column_stride == 1 {
                for (packed, [one, two]) in packed[..whole].iter_mut().zip(row[..2 * whole].as_chunks().0) {
                    packed[line] = pair(*one, *two);
                }
            } else {
                for (index, packed) in packed[..whole].iter_mut().enumerate() {
                    packed[line] = pair(row[2 * index * column_stride], row[(2 * index + 1) * column_stride]);
                }
            }
        }
    }
    if columns % 2 == 1 {
        let last = &mut packed[whole];
        last.fill(0);
        for (line, packed) in last[..count].iter_mut().enumerate() {
            *packed = pair(data[(first + line) * row_stride + (columns - 1) * column_stride], 0.0);
        }
    }
}

/// Two numbers in bfloat16, the first in the lower half.
#[inline(always)]
fn pair(one: f32, two: f32) -> u32 {
    (rounded(one) >> 16) | (rounded(two) & 0xffff_0000)
}

/// The numbers that tasks write, each its own tiles.
struct Tiles<'a> {
    data: *mut f32,
    row_stride: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

// SAFETY: a pointer to borrowed numbers, of which every task writes others.
#[expect(unsafe_code, reason = "threads write disjoint parts of the same rows, which slices cannot say")]
unsafe impl Sync for Tiles<'_> {}

impl Tiles<'_> {
    /// A place; it may lie outside where nothing is read or written.
    fn at(&self, row: usize, column: usize) -> *mut f32 {
        self.data.wrapping_add(row * self.row_stride + column)
    }
}

/// Writes `left * right` to `out`, on all threads of the pool.
pub(super) fn multiply(left: &Packed, right: &Packed, out: &mut MatrixMut<'_>, into: Into) {
    assert!((left.lines, right.lines) == (out.rows, out.columns) && left.pairs == right.pairs, "shapes of a product");
    let tiles = Tiles { data: out.data, row_stride: out.row_stride, borrowed: PhantomData };
    let panels = [left.lines.div_ceil(ROWS), right.lines.div_ceil(COLUMNS)];
    let [down, across] = [panels[0].div_ceil(ROW_PANELS), panels[1].div_ceil(COLUMN_PANELS)];
    (0..down * across).into_par_iter().for_each(|task| {
        let (rows, columns) = (task / across * ROW_PANELS, task % across * COLUMN_PANELS);
        // A product of no terms is 0, which a pass over none of them writes.
        for first in (0..left.pairs.max(1)).step_by(DEPTH) {
            let add = first > 0 || into == Into::Sum;
            for column in columns..(columns + COLUMN_PANELS).min(panels[1]) {
                let right_part = right.part::<COLUMNS>(column, first);
                for row in rows..(rows + ROW_PANELS).min(panels[0]) {
                    let count = ROWS.min(left.lines - row * ROWS);
                    let width = COLUMNS.min(right.lines - column * COLUMNS);
                    let place = |line: usize| tiles.at(row * ROWS + line, column * COLUMNS);
                    #[expect(unsafe_code, reason = "vector instructions at places that no other task has")]
                    // SAFETY: `available`, which the caller asked, found the instructions. `count` rows of `width` numbers lie
                    // inside `out`, whose size was compared with the factors', and no other task writes them.
                    unsafe {
                        tile(left.part::<ROWS>(row, first), right_part, place, [count, width], add);
                    }
                }
            }
        }
    });
}

/// Writes or adds a tile of `[rows, columns]` numbers, where `place` has the first of each row.
///
/// # Safety
/// The numbers of the tile may be read and written, and nothing else does so meanwhile.
#[target_feature(enable = "avx512f,avx512bf16")]
#[expect(unsafe_code, reason = "vector instructions take pointers")]
unsafe fn tile(
    left: &[[u32; ROWS]],
    right: &[[u32; COLUMNS]],
    place: impl Fn(usize) -> *mut f32,
    [rows, columns]: [usize; 2],
    add: bool,
) {
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
            // SAFETY: the mask leaves out what is not in the tile.
            unsafe {
                let sum = if add { _mm512_add_ps(_mm512_maskz_loadu_ps(mask, place), *sum) } else { *sum };
                _mm512_mask_storeu_ps(place, mask, sum);
            }
        }
    }
}

/// The first `count` of 16 numbers, or all.
fn mask(count: usize) -> __mmask16 {
    if count >= 16 { !0 } else { (1 << count) - 1 }
}

/// Bits as pairs of bfloat16 numbers.
#[target_feature(enable = "avx512f")]
#[expect(unsafe_code, reason = "no conversion of the types is offered")]
fn short(bits: __m512i) -> __m512bh {
    // SAFETY: both are 512 bits of any value.
    unsafe { transmute(bits) }
}

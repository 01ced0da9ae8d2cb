//! Products of bfloat16 numbers with instructions for them: both factors are packed, and the result is computed in tiles.

use std::{arch::x86_64::_mm_sfence, marker::PhantomData, ops::Range, sync::LazyLock};

use rayon::prelude::*;

use super::{Into, Matrix, MatrixMut};
use amx::Registers;
use pack::{Order, Packed, Threads};

mod amx;
mod pack;
mod vector;

/// Pairs along the inner dimension that are multiplied before the next tile, so that the data that tiles share stays in the first caches:
/// 32 KiB of a right panel. A multiple of the block of a factor.
const DEPTH: usize = 256;
/// Rows that a task has at most.
const TASK_ROWS: usize = 128;
/// Panels of columns that a task has at most.
const TASK_PANELS: usize = 16;
/// Tasks for each thread from which on a task has all columns of its rows, or all rows of its columns.
const TASKS: usize = 4;
/// Pairs of the right factor that a task packs for itself at most: 384 KiB of them.
const OWN_PAIRS: usize = 96 << 10;
/// Numbers along the inner dimension that are packed together, where packed factors are not kept. A multiple of twice the depth.
const INNER: usize = 4096;
/// Columns of a tile of every unit, in two registers.
const COLUMNS: usize = 32;

/// A part of a processor that multiplies bfloat16 numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// AVX-512's `vdpbf16ps`.
    Vector,
    /// AMX's `tdpbf16ps`, where there are also the vector instructions.
    Amx,
}

impl Unit {
    /// The units that this processor has and this process may use, the fastest one last.
    pub(super) fn all() -> &'static [Self] {
        static UNITS: LazyLock<&[Unit]> = LazyLock::new(|| match (vector::available(), amx::available()) {
            (false, _) => &[],
            (true, false) => &[Unit::Vector],
            (true, true) => &[Unit::Vector, Unit::Amx],
        });
        &UNITS
    }

    /// Rows of a tile.
    fn rows(self) -> usize {
        match self {
            Self::Vector => vector::ROWS,
            Self::Amx => amx::ROWS,
        }
    }
}

/// The right factor of products.
pub(super) struct Right<'a> {
    unit: Unit,
    matrix: Matrix<'a>,
    /// All of it, packed for the unit, if it is kept for several products.
    kept: Option<Packed>,
}

impl<'a> Right<'a> {
    /// A factor that is packed here, or by each product.
    pub(super) fn new(matrix: Matrix<'a>, unit: Unit, kept: bool) -> Self {
        Self { unit, matrix, kept: kept.then(|| pack_right(matrix, Threads::All)) }
    }

    /// Writes `left` times this factor to `out`, on all threads of the pool.
    pub(super) fn multiply(&self, left: Matrix<'_>, out: &mut MatrixMut<'_>, into: Into) {
        let inner = left.columns;
        let shapes = (left.rows, inner, self.matrix.columns);
        assert_eq!(shapes, (out.rows, self.matrix.rows, out.columns), "shapes of a product");
        if self.kept.is_some() || inner <= INNER {
            return self.multiply_part(left, self.matrix, out, into);
        }
        let mut into = into;
        for first in (0..inner).step_by(INNER) {
            let part = first..(first + INNER).min(inner);
            let left = left.transposed().rows(part.clone()).transposed();
            self.multiply_part(left, self.matrix.rows(part), out, into);
            into = Into::Sum;
        }
    }

    /// Multiplies by `right`, which is this factor or the part of its rows that matches the columns of `left`.
    fn multiply_part(&self, left: Matrix<'_>, right: Matrix<'_>, out: &mut MatrixMut<'_>, into: Into) {
        let order = if self.unit == Unit::Amx { Order::Lines } else { Order::Pairs };
        let height = self.unit.rows();
        let pack_left = |left, threads| Packed::new(left, height, order, threads);
        let pairs = pack::pairs(left.columns);
        let product = Product {
            unit: self.unit,
            pairs,
            out: out.data,
            shape: [out.rows, out.columns],
            row_stride: out.row_stride,
            into,
            borrowed: PhantomData,
        };
        let (rows, columns) = (left.rows.div_ceil(height), right.columns.div_ceil(COLUMNS));
        let row_tasks = rows.div_ceil(TASK_ROWS / height);
        let min_tasks = TASKS * rayon::current_num_threads();
        let narrow_tasks = columns.div_ceil((OWN_PAIRS / (COLUMNS * pairs.max(1))).clamp(1, TASK_PANELS));
        // The factor of which each task packs its own part, so that the part stays in its processor's caches.
        let (packs_rows, packs_columns) =
            (row_tasks >= min_tasks, row_tasks < min_tasks && self.kept.is_none() && narrow_tasks >= min_tasks);
        let [row_tasks, column_tasks] = match (packs_rows, packs_columns) {
            (true, _) => [row_tasks, 1],
            (_, true) => [1, narrow_tasks],
            _ => [row_tasks, columns.div_ceil(TASK_PANELS)],
        };
        let packed_left = (!packs_rows).then(|| pack_left(left, Threads::All));
        let packed;
        let packed_right = match &self.kept {
            None if packs_columns => None,
            None => {
                packed = pack_right(right, Threads::All);
                Some(&packed)
            }
            kept => kept.as_ref(),
        };
        // Parts differ by at most one panel, so that all threads end at about the same time.
        let share = |panels: usize, part: usize, parts: usize| panels * part / parts..panels * (part + 1) / parts;
        (0..row_tasks * column_tasks).into_par_iter().for_each(|task| {
            let panels =
                [share(rows, task / column_tasks, row_tasks), share(columns, task % column_tasks, column_tasks)];
            let (left_panels, right_panels);
            let left = match &packed_left {
                Some(factor) => Part { packed: factor, first: 0 },
                None => {
                    let lines = panels[0].start * height..(panels[0].end * height).min(left.rows);
                    left_panels = pack_left(left.rows(lines), Threads::This);
                    Part { packed: &left_panels, first: panels[0].start }
                }
            };
            let right = match packed_right {
                Some(factor) => Part { packed: factor, first: 0 },
                None => {
                    let lines = panels[1].start * COLUMNS..(panels[1].end * COLUMNS).min(right.columns);
                    right_panels = pack_right(right.transposed().rows(lines).transposed(), Threads::This);
                    Part { packed: &right_panels, first: panels[1].start }
                }
            };
            #[expect(unsafe_code, reason = "instructions at places that no other task has")]
            // SAFETY: the panels belong to `out`, whose size was compared with the factors' sizes, and no other task has any of these
            // tiles.
            unsafe {
                product.compute(left, right, panels);
            }
        });
    }
}

/// Packs the columns of a right factor.
fn pack_right(right: Matrix<'_>, threads: Threads) -> Packed {
    Packed::new(right.transposed(), COLUMNS, Order::Pairs, threads)
}

/// A packed factor, or the panels of one from `first` on.
#[derive(Clone, Copy)]
struct Part<'a> {
    packed: &'a Packed,
    first: usize,
}

impl<'a> Part<'a> {
    /// Some of the pairs of a panel of the whole factor, from `first` on.
    fn pairs(self, panel: usize, first: usize) -> &'a [u32] {
        self.packed.part(panel - self.first, first, DEPTH)
    }
}

/// A product that tasks write, each its own tiles.
struct Product<'a> {
    unit: Unit,
    /// Pairs along the inner dimension, in whole blocks.
    pairs: usize,
    out: *mut f32,
    /// Rows and columns of the result.
    shape: [usize; 2],
    row_stride: usize,
    into: Into,
    borrowed: PhantomData<&'a mut [f32]>,
}

// SAFETY: a pointer to borrowed numbers, of which every task writes others.
#[expect(unsafe_code, reason = "threads write disjoint parts of the same rows, which slices cannot say")]
unsafe impl Sync for Product<'_> {}

impl Product<'_> {
    /// Computes all tiles of some panels of rows and of columns.
    ///
    /// # Safety
    /// The panels exist, and nothing else reads or writes these tiles meanwhile.
    #[expect(unsafe_code, reason = "instructions that take pointers")]
    unsafe fn compute(&self, left: Part<'_>, right: Part<'_>, [rows, columns]: [Range<usize>; 2]) {
        // SAFETY: this processor has the unit.
        let registers = (self.unit == Unit::Amx).then(|| unsafe { Registers::configure() });
        let height = self.unit.rows();
        // A product of no terms is 0, which a pass over none of them writes.
        for first in (0..self.pairs.max(1)).step_by(DEPTH) {
            // Further passes add to this result, so it should stay in the caches.
            let into = match self.into {
                _ if first > 0 => Into::Sum,
                Into::Memory if self.pairs > DEPTH => Into::Overwrite,
                into => into,
            };
            let add = into == Into::Sum;
            for column in columns.clone() {
                let right = right.pairs(column, first);
                let width = COLUMNS.min(self.shape[1] - column * COLUMNS);
                for row in rows.clone() {
                    let left = left.pairs(row, first);
                    let tile_height = height.min(self.shape[0] - row * height);
                    // The place of a row; it may lie outside where nothing is read or written.
                    let place =
                        |line: usize| self.out.wrapping_add((row * height + line) * self.row_stride + column * COLUMNS);
                    let shape = [tile_height, width];
                    // SAFETY: these rows and columns lie inside `out`, and nothing else reads or writes them.
                    unsafe {
                        match &registers {
                            None => vector::tile(left, right, place, shape, into),
                            Some(registers) if shape == [amx::ROWS, COLUMNS] => {
                                registers.tile(left, right, place(0), self.row_stride, add);
                            }
                            Some(registers) => {
                                let mut tile = [[0.0; COLUMNS]; amx::ROWS];
                                registers.tile(left, right, tile.as_flattened_mut().as_mut_ptr(), COLUMNS, false);
                                for (line, sums) in tile.iter().enumerate().take(tile_height) {
                                    add_to(std::slice::from_raw_parts_mut(place(line), width), sums, add);
                                }
                            }
                        }
                    }
                }
            }
        }
        if self.unit == Unit::Vector && self.into == Into::Memory {
            // The fence makes stores that bypass the caches visible before this task ends.
            // SAFETY: every processor of the architecture has the instruction.
            unsafe { _mm_sfence() };
        }
    }
}

/// Writes or adds numbers.
fn add_to(target: &mut [f32], numbers: &[f32], add: bool) {
    for (target, number) in target.iter_mut().zip(numbers) {
        *target = if add { *target + number } else { *number };
    }
}

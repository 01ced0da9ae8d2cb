//! Products of bfloat16 numbers with instructions for them: both factors are packed, and the result is computed in tiles.

use std::{marker::PhantomData, ops::Range, sync::LazyLock};

use rayon::prelude::*;

use super::{Into, Matrix, MatrixMut};
use amx::Registers;
use pack::{Order, Packed, Threads};

mod amx;
mod pack;
mod vector;

/// Pairs along the inner dimension that are multiplied before the next tile, so that what tiles share stays in the first
/// caches: 32 KiB of a right panel. A multiple of the block of a factor.
const DEPTH: usize = 256;
/// Rows that a task has at most.
const TASK_ROWS: usize = 128;
/// Panels of columns that a task has at most.
const TASK_PANELS: usize = 16;
/// Tasks for each thread from which on a task has all columns of its rows. It packs these rows itself, so that they stay in its
/// processor's caches.
const TASKS: usize = 4;
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

/// The right factor of products, packed for a unit.
pub(super) struct Right {
    unit: Unit,
    packed: Packed,
}

impl Right {
    /// Packs `matrix` for one of [`Unit::all`].
    pub(super) fn new(matrix: Matrix<'_>, unit: Unit) -> Self {
        Self { unit, packed: Packed::new(matrix.transposed(), COLUMNS, Order::Pairs, Threads::All) }
    }

    /// Writes `left` times this factor to `out`, on all threads of the pool.
    pub(super) fn multiply(&self, left: Matrix<'_>, out: &mut MatrixMut<'_>, into: Into) {
        let order = if self.unit == Unit::Amx { Order::Lines } else { Order::Pairs };
        let height = self.unit.rows();
        let packed = |left, threads| Packed::new(left, height, order, threads);
        let right = &self.packed;
        let pairs = left.columns.div_ceil(2 * pack::BLOCK) * pack::BLOCK;
        assert!((left.rows, right.lines) == (out.rows, out.columns) && pairs == right.pairs, "shapes of a product");
        let product = Product {
            unit: self.unit,
            right,
            out: out.data,
            rows: out.rows,
            row_stride: out.row_stride,
            add: into == Into::Sum,
            borrowed: PhantomData,
        };
        // As equal parts as there can be, so that threads end at the same time.
        let share = |panels: usize, part: usize, parts: usize| panels * part / parts..panels * (part + 1) / parts;
        let (rows, columns) = (left.rows.div_ceil(height), right.lines.div_ceil(COLUMNS));
        let down = rows.div_ceil(TASK_ROWS / height);
        let whole = (down < TASKS * rayon::current_num_threads()).then(|| packed(left, Threads::All));
        let across = if whole.is_some() { columns.div_ceil(TASK_PANELS) } else { 1 };
        (0..down * across).into_par_iter().for_each(|task| {
            let panels = [share(rows, task / across, down), share(columns, task % across, across)];
            let (first, own);
            let left = match &whole {
                Some(whole) => {
                    first = 0;
                    whole
                }
                None => {
                    first = panels[0].start;
                    own = packed(left.rows(first * height..(panels[0].end * height).min(left.rows)), Threads::This);
                    &own
                }
            };
            #[expect(unsafe_code, reason = "instructions at places that no other task has")]
            // SAFETY: the panels are those of `out`, whose size was compared with the factors', and no other task has any of
            // these tiles.
            unsafe {
                product.compute(left, first, panels);
            }
        });
    }
}

/// A product that tasks write, each its own tiles.
struct Product<'a> {
    unit: Unit,
    right: &'a Packed,
    out: *mut f32,
    /// Rows of the result.
    rows: usize,
    row_stride: usize,
    /// Adds to what is there.
    add: bool,
    borrowed: PhantomData<&'a mut [f32]>,
}

// SAFETY: a pointer to borrowed numbers, of which every task writes others.
#[expect(unsafe_code, reason = "threads write disjoint parts of the same rows, which slices cannot say")]
unsafe impl Sync for Product<'_> {}

impl Product<'_> {
    /// Computes all tiles of some panels of rows and of columns. `left` has the rows' panels from `begin` on.
    ///
    /// # Safety
    /// The panels exist, and nothing else reads or writes these tiles meanwhile.
    #[expect(unsafe_code, reason = "instructions that take pointers")]
    unsafe fn compute(&self, left: &Packed, begin: usize, [rows, columns]: [Range<usize>; 2]) {
        // SAFETY: the unit is one of those that this processor has.
        let registers = (self.unit == Unit::Amx).then(|| unsafe { Registers::configure() });
        let height = self.unit.rows();
        // A product of no terms is 0, which a pass over none of them writes.
        for first in (0..self.right.pairs.max(1)).step_by(DEPTH) {
            let add = first > 0 || self.add;
            for column in columns.clone() {
                let right = self.right.part(column, first, DEPTH);
                let width = COLUMNS.min(self.right.lines - column * COLUMNS);
                for row in rows.clone() {
                    let left = left.part(row - begin, first, DEPTH);
                    let height_here = height.min(self.rows - row * height);
                    // The place of a row; it may lie outside where nothing is read or written.
                    let place =
                        |line: usize| self.out.wrapping_add((row * height + line) * self.row_stride + column * COLUMNS);
                    let shape = [height_here, width];
                    // SAFETY: these rows and columns lie inside `out`, and nothing else reads or writes them.
                    unsafe {
                        match &registers {
                            None => vector::tile(left, right, place, shape, add),
                            Some(registers) if shape == [amx::ROWS, COLUMNS] => {
                                registers.tile(left, right, place(0), self.row_stride, add);
                            }
                            Some(registers) => {
                                let mut tile = [[0.0; COLUMNS]; amx::ROWS];
                                registers.tile(left, right, tile.as_flattened_mut().as_mut_ptr(), COLUMNS, false);
                                for (line, sums) in tile.iter().enumerate().take(height_here) {
                                    add_to(std::slice::from_raw_parts_mut(place(line), width), sums, add);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Writes or adds numbers.
fn add_to(to: &mut [f32], numbers: &[f32], add: bool) {
    for (to, number) in to.iter_mut().zip(numbers) {
        *to = if add { *to + number } else { *number };
    }
}

//! Rows of a table.

use rayon::prelude::*;

use super::{
    elementwise::{add_to_row, rows_per_task},
    memory::Buffer,
};

/// The rows `ids` of `table`, whose rows have `d` numbers.
pub fn forward(table: &[f32], ids: &[usize], d: usize) -> Buffer {
    let mut out = Buffer::new(ids.len() * d);
    let rows = rows_per_task(d);
    out.par_chunks_mut(rows * d).zip(ids.par_chunks(rows)).for_each(|(out, ids)| {
        for (out, id) in out.chunks_exact_mut(d).zip(ids) {
            out.copy_from_slice(&table[id * d..(id + 1) * d]);
        }
    });
    out
}

/// The gradient with respect to a table of `rows` rows: of every row the sum of the gradients of its uses.
///
/// Every task goes through all uses and adds those of its own rows, so that a row's sum is always in the order of its
/// uses.
pub fn backward(rows: usize, ids: &[usize], gradient: &[f32], d: usize) -> Buffer {
    let mut d_table = Buffer::new(rows * d);
    let per_task = rows.div_ceil(4 * rayon::current_num_threads()).max(1);
    d_table.par_chunks_mut(per_task * d).enumerate().for_each(|(task, d_rows)| {
        d_rows.fill(0.0);
        let own = task * per_task..task * per_task + d_rows.len() / d;
        for (id, gradient) in ids.iter().zip(gradient.chunks_exact(d)) {
            if own.contains(id) {
                let first = (id - own.start) * d;
                add_to_row(&mut d_rows[first..first + d], gradient);
            }
        }
    });
    d_table
}

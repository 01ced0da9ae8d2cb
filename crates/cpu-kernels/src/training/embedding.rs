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

/// Adds to every row of `d_table` the sum of the gradients `[ids, d]` of its uses.
///
/// The uses of a row are summed in their order before they are added, whichever thread does it.
///
/// # Panics
///
/// If an id has no row.
pub fn backward(d_table: &mut [f32], ids: &[usize], gradient: &[f32], d: usize) {
    let rows = d_table.len() / d;
    let mut uses: Vec<(usize, usize)> = ids.iter().copied().zip(0..).collect();
    uses.sort_unstable();
    assert!(uses.last().is_none_or(|(row, _)| *row < rows), "an id without a row");
    let per_task = rows.div_ceil(4 * rayon::current_num_threads()).max(1);
    d_table.par_chunks_mut(per_task * d).enumerate().for_each(|(task, d_rows)| {
        let first_row = task * per_task;
        let place = |row: usize| uses.partition_point(|(id, _)| *id < row);
        let mut sum = vec![0.0; d];
        for uses in
            uses[place(first_row)..place(first_row + d_rows.len() / d)].chunk_by(|left, right| left.0 == right.0)
        {
            sum.fill(0.0);
            for (_, index) in uses {
                add_to_row(&mut sum, &gradient[index * d..(index + 1) * d]);
            }
            let first = (uses[0].0 - first_row) * d;
            add_to_row(&mut d_rows[first..first + d], &sum);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gets_the_sum_of_its_uses() {
        let (rows, d) = (100, 3);
        let ids: Vec<usize> = (0..64).map(|index| index * index % 37).chain([99]).collect();
        let gradient: Vec<f32> = (0..ids.len() * d).map(|index| (index as f32).sin()).collect();
        let initial_table: Vec<f32> = (0..rows * d).map(|index| (index as f32).cos()).collect();
        let mut expected = vec![0.0; rows * d];
        for (id, gradient) in ids.iter().zip(gradient.chunks_exact(d)) {
            add_to_row(&mut expected[id * d..(id + 1) * d], gradient);
        }
        add_to_row(&mut expected, &initial_table);
        let mut table = initial_table;
        backward(&mut table, &ids, &gradient, d);
        assert_eq!(table, expected);
    }
}

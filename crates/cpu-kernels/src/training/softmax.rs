//! Attention weights that must exist as a whole, because a mechanism uses them: softmax under a mask, and the largest
//! of a row.

use rayon::prelude::*;

use super::{
    elementwise::{dot_body, rows_per_task},
    math::{exp, maximum, sum_of, versions},
    memory::Buffer,
};

/// Makes the softmax of every row of `x`, whose rows have `columns` numbers, after the rows of `mask` have been added to
/// them, over and over again.
pub fn forward(x: &mut [f32], mask: Option<&[f32]>, columns: usize) {
    let rows = rows_per_task(columns);
    let period = mask.map_or(1, |mask| mask.len() / columns);
    x.par_chunks_mut(rows * columns).enumerate().for_each(|(task, x)| {
        for (index, row) in x.chunks_exact_mut(columns).enumerate() {
            let mask = mask.map(|mask| {
                let start = (task * rows + index) % period * columns;
                &mask[start..start + columns]
            });
            row_forward(row, mask);
        }
    });
}

versions!(fn row_forward(row: &mut [f32], mask: Option<&[f32]>) = row_forward_body);

#[inline(always)]
fn row_forward_body<const FMA: bool>(row: &mut [f32], mask: Option<&[f32]>) {
    if let Some(mask) = mask {
        for (x, mask) in row.iter_mut().zip(mask) {
            *x += mask;
        }
    }
    let max_logit = maximum(row);
    for x in row.iter_mut() {
        *x = exp::<FMA>(*x - max_logit);
    }
    let factor = 1.0 / sum_of(row, |x| x);
    for x in row {
        *x *= factor;
    }
}

/// The gradient with respect to the logits: `weights` times the difference of `gradient` from its mean by them. `gradient`
/// becomes it.
pub fn backward(weights: &[f32], gradient: &mut [f32], columns: usize) {
    let rows = rows_per_task(columns) * columns;
    gradient.par_chunks_mut(rows).zip(weights.par_chunks(rows)).for_each(|(gradient, weights)| {
        rows_backward(weights, gradient, columns);
    });
}

versions!(fn rows_backward(weights: &[f32], gradient: &mut [f32], columns: usize) = rows_backward_body);

#[inline(always)]
fn rows_backward_body<const FMA: bool>(weights: &[f32], gradient: &mut [f32], columns: usize) {
    for (weights, gradient) in weights.chunks_exact(columns).zip(gradient.chunks_exact_mut(columns)) {
        let mean = dot_body::<FMA>(weights, gradient);
        for (weight, gradient) in weights.iter().zip(gradient) {
            *gradient = weight * (*gradient - mean);
        }
    }
}

/// 1 at the `k` largest numbers of every row of `x`, of equal ones the first; 0 elsewhere.
pub fn largest(x: &[f32], columns: usize, k: usize) -> Buffer {
    let mut out = Buffer::zeros(x.len());
    let rows = rows_per_task(columns) * columns;
    out.par_chunks_mut(rows).zip(x.par_chunks(rows)).for_each_with(Vec::new(), |candidates, (out, x)| {
        for (out, x) in out.chunks_exact_mut(columns).zip(x.chunks_exact(columns)) {
            candidates.clear();
            candidates.extend_from_slice(x);
            for _ in 0..k.min(columns) {
                let place = place_of_maximum(candidates);
                out[place] = 1.0;
                candidates[place] = f32::NEG_INFINITY;
            }
        }
    });
    out
}

versions!(fn place_of_maximum(row: &[f32]) -> usize = place_body);

#[inline(always)]
fn place_body<const FMA: bool>(row: &[f32]) -> usize {
    let max_value = maximum(row);
    // A row with NaN may have no place of its maximum; training detects NaN elsewhere.
    row.iter().position(|x| *x == max_value).unwrap_or(0)
}

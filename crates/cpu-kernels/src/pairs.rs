//! The loops of chapter 13's pairs: implementations to compare.

use rayon::prelude::*;

/// Rows, and numbers of the inner dimension, of a tile: one of B's with its columns fits into a core's cache.
const ROWS: usize = 32;
const INNER: usize = 64;
/// Columns of a tile.
const COLUMNS: usize = 256;
/// `c = (a + b) / 2`, in order, on one core.
pub fn in_order(a: &[f32], b: &[f32], c: &mut [f32]) {
    for ((a, b), c) in a.iter().zip(b).zip(c) {
        *c = (a + b) * 0.5;
    }
}

/// Computes `c = (a + b) / 2` in steps of `stride`, wrapping at the end; it reaches all places if `stride` and the length
/// are coprime.
pub fn strided(a: &[f32], b: &[f32], c: &mut [f32], stride: usize) {
    let (count, stride) = (a.len(), stride % a.len());
    let mut place = 0;
    for _ in 0..count {
        c[place] = (a[place] + b[place]) * 0.5;
        // A division would take as long as the access to memory.
        place += stride;
        if place >= count {
            place -= count;
        }
    }
}

/// Rounds of preparing a sample for a training: `x ← tanh(1.1 x) + sin(0.5 x)`, minus its mean.
pub fn prepare(sample: &mut [f32], rounds: usize) {
    for _ in 0..rounds {
        for x in &mut *sample {
            *x = (1.1 * *x).tanh() + (0.5 * *x).sin();
        }
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let mean = sample.iter().sum::<f32>() / sample.len() as f32;
        for x in &mut *sample {
            *x -= mean;
        }
    }
}

/// `((product + bias)₊ + residual) · scale` in one pass, on all cores.
pub fn epilogue(product: &mut [f32], bias: &[f32], residual: &[f32], scale: f32) {
    let numbers = product.par_iter_mut().zip(bias).zip(residual);
    numbers.with_min_len(1 << 14).for_each(|((number, bias), residual)| {
        *number = ((*number + bias).max(0.0) + residual) * scale;
    });
}

/// `A B` of square matrices of this size by three loops, on one core.
pub fn naive(a: &[f32], b: &[f32], size: usize) -> Vec<f32> {
    let mut c = vec![0.0; size * size];
    for (row, c) in c.chunks_mut(size).enumerate() {
        for (column, c) in c.iter_mut().enumerate() {
            *c = (0..size).map(|inner| a[row * size + inner] * b[inner * size + column]).sum();
        }
    }
    c
}

/// The product in tiles, on all cores.
pub fn tiled(a: &[f32], b: &[f32], size: usize) -> Vec<f32> {
    let mut c = vec![0.0; size * size];
    c.par_chunks_mut(ROWS * size).enumerate().for_each(|(block, c)| {
        for first_inner in (0..size).step_by(INNER) {
            let inners = first_inner..size.min(first_inner + INNER);
            for first in (0..size).step_by(COLUMNS) {
                let columns = first..size.min(first + COLUMNS);
                for (row, c) in c.chunks_mut(size).enumerate() {
                    let c = &mut c[columns.clone()];
                    for inner in inners.clone() {
                        let factor = a[(block * ROWS + row) * size + inner];
                        let b = &b[inner * size..][columns.clone()];
                        for (c, b) in c.iter_mut().zip(b) {
                            *c += factor * b;
                        }
                    }
                }
            }
        }
    });
    c
}

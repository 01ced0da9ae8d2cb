//! Causal self-attention without the matrix of probabilities.
//!
//! A task takes one head of one sequence and goes through its queries in blocks. A block computes the scores of the
//! keys up to its own end only, so the upper triangle costs nothing but a part of the blocks on the diagonal. The
//! logarithm of each query's normalizer is kept, and the backward pass computes the probabilities again from it.

use std::cell::RefCell;

use rayon::prelude::*;

use super::{
    elementwise::dot,
    math::{exp, fma, maximum, sum_of, versions},
    matrix::{Into, Matrix, MatrixMut, Shared, multiply},
    memory::Buffer,
};

/// Queries in a block.
const BLOCK: usize = 64;

thread_local! {
    /// Scores of a block, and in the backward pass their gradients.
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with `length` numbers of any value that this thread has for itself.
fn with_scratch(length: usize, work: impl FnOnce(&mut [f32])) {
    // Takes the memory, so that a task that this thread steals meanwhile allocates its own.
    let mut scratch = SCRATCH.take();
    if scratch.len() < length {
        scratch.resize(length, 0.0);
    }
    work(&mut scratch[..length]);
    SCRATCH.set(scratch);
}

/// Location of a task's numbers.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Sequences.
    pub batch: usize,
    /// Tokens in each.
    pub length: usize,
    /// Heads.
    pub heads: usize,
    /// Numbers of a head.
    pub width: usize,
}

impl Shape {
    /// Numbers in a row of the output.
    fn d_model(self) -> usize {
        self.heads * self.width
    }

    /// Factor of scores.
    fn scale(self) -> f32 {
        (self.width as f32).sqrt().recip()
    }

    /// Every head of every sequence: its first row and its first column.
    fn tasks(self) -> impl IndexedParallelIterator<Item = [usize; 2]> {
        (0..self.batch * self.heads)
            .into_par_iter()
            .with_max_len(1)
            .map(move |task| [task / self.heads * self.length, task % self.heads * self.width])
    }

    /// The first query and the queries of every block.
    fn blocks(self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        (0..self.length).step_by(BLOCK).map(move |first| (first, BLOCK.min(self.length - first)))
    }

    /// `rows` rows of a head in `[rows, parts * d_model]`, from row `first`.
    fn part(self, data: &[f32], parts: usize, part: usize, [first, column]: [usize; 2], rows: usize) -> Matrix<'_> {
        let stride = parts * self.d_model();
        let offset = first * stride + part * self.d_model() + column;
        Matrix::strided(&data[offset..], rows, self.width, stride)
    }
}

/// The mixed values `[rows, d_model]` of `qkv` `[rows, 3 d_model]`, and the logarithms of the normalizers, by head.
pub fn forward(qkv: &[f32], shape: Shape) -> (Buffer, Buffer) {
    let Shape { batch, length, heads, width } = shape;
    let d_model = shape.d_model();
    let mut out = Buffer::new(batch * length * d_model);
    let mut normalizers = Buffer::new(batch * heads * length);
    let shared = Shared::new(&mut out);
    shape.tasks().zip(normalizers.par_chunks_mut(length)).for_each(|([row, column], normalizers)| {
        with_scratch(BLOCK.min(length) * length, |scores| {
            for (first, queries) in shape.blocks() {
                let keys = first + queries;
                let scores = &mut scores[..queries * keys];
                score(qkv, shape, [row, column], [first, queries], scores);
                let mut inverses = [0.0; BLOCK];
                exponentials(scores, first, shape.scale(), &mut normalizers[first..keys], &mut inverses);
                let values = shape.part(qkv, 3, 2, [row, column], keys);
                let offset = (row + first) * d_model + column;
                // SAFETY: tasks have different rows or columns, and blocks different rows; the product is done with
                // its matrix before the rows are scaled.
                #[expect(unsafe_code, reason = "heads share rows")]
                unsafe {
                    let mut output = shared.matrix(offset, queries, width, d_model);
                    multiply(Matrix::new(scores, queries, keys), values, &mut output, Into::Overwrite);
                    for (query, inverse) in inverses[..queries].iter().enumerate() {
                        let row = shared.slice(offset + query * d_model, width);
                        for number in row {
                            *number *= inverse;
                        }
                    }
                }
            }
        });
    });
    (out, normalizers)
}

/// The scores `[queries, keys]` of a block, not scaled.
fn score(qkv: &[f32], shape: Shape, [row, column]: [usize; 2], [first, queries]: [usize; 2], scores: &mut [f32]) {
    let keys = first + queries;
    let left = shape.part(qkv, 3, 0, [row + first, column], queries);
    let right = shape.part(qkv, 3, 1, [row, column], keys).transposed();
    multiply(left, right, &mut MatrixMut::new(scores, queries, keys), Into::Overwrite);
}

versions!(
    /// Turns the scores of a block, whose first query is `first`, into exponentials, 0 where a query must not look.
    /// Gives the logarithm of each query's normalizer, and the factor that makes its exponentials probabilities.
    fn exponentials(
        scores: &mut [f32], first: usize, scale: f32, normalizers: &mut [f32], inverses: &mut [f32; BLOCK],
    ) = exponentials_body
);

#[inline(always)]
fn exponentials_body<const FMA: bool>(
    scores: &mut [f32],
    first: usize,
    scale: f32,
    normalizers: &mut [f32],
    inverses: &mut [f32; BLOCK],
) {
    let keys = first + normalizers.len();
    let rows = scores.chunks_exact_mut(keys).zip(normalizers).zip(inverses);
    for (query, ((row, normalizer), inverse)) in rows.enumerate() {
        // Whole rows, because the remainder of a row after whole vectors would take longer than all the vectors.
        row[first + query + 1..].fill(f32::NEG_INFINITY);
        let max_score = maximum(row);
        let shift = -max_score * scale;
        for score in row.iter_mut() {
            *score = exp::<FMA>(fma::<FMA>(*score, scale, shift));
        }
        let sum = sum_of(row, |x| x);
        *normalizer = fma::<FMA>(max_score, scale, sum.ln());
        *inverse = sum.recip();
    }
}

/// The gradient `[rows, 3 d_model]` with respect to `qkv`, from the gradient with respect to the output.
pub fn backward(qkv: &[f32], out: &[f32], normalizers: &[f32], gradient: &[f32], shape: Shape) -> Buffer {
    let Shape { batch, length, width, .. } = shape;
    let d_model = shape.d_model();
    let stride = 3 * d_model;
    let mut d_qkv = Buffer::new(batch * length * stride);
    let shared = Shared::new(&mut d_qkv);
    shape.tasks().zip(normalizers.par_chunks(length)).for_each(|([row, column], normalizers)| {
        with_scratch(2 * BLOCK.min(length) * length, |scratch| {
            // In reverse order, because the last block sees all keys: it writes the gradients to which the others add.
            for (first, queries) in shape.blocks().rev() {
                let keys = first + queries;
                let position = [row + first, column];
                let (probabilities, d_scores) = scratch.split_at_mut(scratch.len() / 2);
                let (probabilities, d_scores) = (&mut probabilities[..queries * keys], &mut d_scores[..queries * keys]);
                score(qkv, shape, [row, column], [first, queries], probabilities);
                let d_out = shape.part(gradient, 1, 0, position, queries);
                let values = shape.part(qkv, 3, 2, [row, column], keys);
                multiply(d_out, values.transposed(), &mut MatrixMut::new(d_scores, queries, keys), Into::Overwrite);
                let mut projections = [0.0; BLOCK];
                for (query, projection) in projections[..queries].iter_mut().enumerate() {
                    let numbers = (row + first + query) * d_model + column;
                    let numbers = numbers..numbers + width;
                    *projection = dot(&out[numbers.clone()], &gradient[numbers]);
                }
                let normalizers = &normalizers[first..keys];
                softmax_backward(probabilities, d_scores, first, shape.scale(), normalizers, &projections);

                let into = if keys == length { Into::Overwrite } else { Into::Sum };
                let (probabilities, d_scores) =
                    (Matrix::new(probabilities, queries, keys), Matrix::new(d_scores, queries, keys));
                let key = shape.part(qkv, 3, 1, [row, column], keys);
                let query = shape.part(qkv, 3, 0, position, queries);
                let offset = row * stride + column;
                // SAFETY: tasks have different rows or columns; the three parts are different columns, written one
                // after the other.
                #[expect(unsafe_code, reason = "heads share rows")]
                unsafe {
                    let mut d_query = shared.matrix(offset + first * stride, queries, width, stride);
                    multiply(d_scores, key, &mut d_query, Into::Overwrite);
                    let mut d_key = shared.matrix(offset + d_model, keys, width, stride);
                    multiply(d_scores.transposed(), query, &mut d_key, into);
                    let mut d_value = shared.matrix(offset + 2 * d_model, keys, width, stride);
                    multiply(probabilities.transposed(), d_out, &mut d_value, into);
                }
            }
        });
    });
    d_qkv
}

versions!(
    /// Turns the scores of a block into probabilities, and the gradient with respect to the probabilities into that
    /// with respect to the scores before scaling.
    fn softmax_backward(
        scores: &mut [f32], gradient: &mut [f32], first: usize, scale: f32, normalizers: &[f32],
        projections: &[f32; BLOCK],
    ) = softmax_backward_body
);

#[inline(always)]
fn softmax_backward_body<const FMA: bool>(
    scores: &mut [f32],
    gradient: &mut [f32],
    first: usize,
    scale: f32,
    normalizers: &[f32],
    projections: &[f32; BLOCK],
) {
    let keys = first + normalizers.len();
    let rows = scores.chunks_exact_mut(keys).zip(gradient.chunks_exact_mut(keys));
    let rows = rows.zip(normalizers.iter().zip(projections));
    for (query, ((scores, gradient), (&normalizer, &projection))) in rows.enumerate() {
        // Whole rows first, as in the forward pass.
        for (score, gradient) in scores.iter_mut().zip(&mut *gradient) {
            *score = exp::<FMA>(fma::<FMA>(*score, scale, -normalizer));
            *gradient = *score * (*gradient - projection) * scale;
        }
        scores[first + query + 1..].fill(0.0);
        gradient[first + query + 1..].fill(0.0);
    }
}

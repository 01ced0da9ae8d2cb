//! Cross-entropy of the product with the token table, without keeping the logits.

use rayon::prelude::*;

use super::{
    math::{exp, maximum, sum_of, versions},
    matrix::{Into, Matrix, MatrixMut, Products, Right},
    memory::Buffer,
};

/// Number of logits that are computed at the same time, given enough rows: 16 MiB.
const LOGITS: usize = 4 << 20;
/// Minimum rows over which the gradient of the table is summed before it is added: it is read and written once for them.
const MIN_ROWS: usize = 128;
/// Minimum rows in bfloat16: the table is read once for them, and that takes a larger part of the time than
/// in single precision.
const MIN_SHORT_ROWS: usize = 256;

/// The mean cross-entropy of `hidden` `[rows, d] * table^T` `[d, vocab]` against `targets`, in nats.
pub fn cross_entropy(hidden: &[f32], table: &[f32], targets: &[usize], d: usize, products: Products) -> f32 {
    in_chunks(hidden, table, targets, d, products, None)
}

/// Returns the cross-entropy like [`cross_entropy`], and its gradients with respect to `hidden` and `table`.
pub fn cross_entropy_with_gradients(
    hidden: &[f32],
    table: &[f32],
    targets: &[usize],
    d: usize,
    products: Products,
) -> (f32, Buffer, Buffer) {
    let (mut d_hidden, mut d_table) = (Buffer::new(hidden.len()), Buffer::new(table.len()));
    let mean = in_chunks(hidden, table, targets, d, products, Some((&mut d_hidden, &mut d_table)));
    (mean, d_hidden, d_table)
}

fn in_chunks(
    hidden: &[f32],
    table: &[f32],
    targets: &[usize],
    d: usize,
    products: Products,
    mut gradients: Option<(&mut [f32], &mut [f32])>,
) -> f32 {
    let (rows, vocab) = (targets.len(), table.len() / d);
    let table = Matrix::new(table, vocab, d);
    let sum_rows = (LOGITS / vocab).max(MIN_ROWS).min(rows);
    // The order of sums, and so their bits, do not depend on this.
    let chunk = match products {
        Products::Single => sum_rows,
        Products::Short => (sum_rows * (MIN_SHORT_ROWS / sum_rows.max(1)).max(1)).min(rows),
    };
    let chunks = rows.div_ceil(chunk.max(1));
    let columns = Right::new(table.transposed(), products, chunks);
    let lines = gradients.is_some().then(|| Right::new(table, products, chunks));
    let mut logits = Buffer::new(chunk * vocab);
    let mut losses = vec![0.0_f32; rows];
    let weight = gradients.is_some().then_some(1.0 / rows as f32);
    for (first, losses) in (0..rows).step_by(chunk).zip(losses.chunks_mut(chunk)) {
        let count = losses.len();
        let logits = &mut logits[..count * vocab];
        let states = Matrix::new(&hidden[first * d..], count, d);
        columns.multiply(states, &mut MatrixMut::new(logits, count, vocab), Into::Overwrite);
        let rows = logits.par_chunks_mut(vocab).zip(losses).zip(&targets[first..first + count]).with_min_len(8);
        rows.for_each(|((logits, loss), target)| *loss = row(logits, *target, weight));
        if let (Some((d_hidden, d_table)), Some(lines)) = (&mut gradients, &lines) {
            let d_logits = Matrix::new(logits, count, vocab);
            let mut d_states = MatrixMut::new(&mut d_hidden[first * d..(first + count) * d], count, d);
            lines.multiply(d_logits, &mut d_states, Into::Overwrite);
            for offset in (0..count).step_by(sum_rows) {
                let count = sum_rows.min(count - offset);
                let d_logits = Matrix::new(&logits[offset * vocab..], count, vocab);
                let states = Matrix::new(&hidden[(first + offset) * d..], count, d);
                let into = if first + offset == 0 { Into::Memory } else { Into::Sum };
                products.multiply(d_logits.transposed(), states, &mut MatrixMut::new(d_table, vocab, d), into);
            }
        }
    }
    let sum: f64 = losses.into_iter().map(f64::from).sum();
    #[expect(clippy::cast_possible_truncation, reason = "a mean of single-precision numbers")]
    let mean = (sum / rows as f64) as f32;
    mean
}

versions!(
    /// The loss of a row of logits; with a `weight` the logits become the gradient of it times the weight.
    fn row(logits: &mut [f32], target: usize, weight: Option<f32>) -> f32 = row_body
);

#[inline(always)]
fn row_body<const FMA: bool>(logits: &mut [f32], target: usize, weight: Option<f32>) -> f32 {
    let max_logit = maximum(logits);
    let target_logit = logits[target] - max_logit;
    for logit in logits.iter_mut() {
        *logit = exp::<FMA>(*logit - max_logit);
    }
    let sum = sum_of(logits, |x| x);
    if let Some(weight) = weight {
        let factor = weight / sum;
        for logit in logits.iter_mut() {
            *logit *= factor;
        }
        logits[target] -= weight;
    }
    sum.ln() - target_logit
}

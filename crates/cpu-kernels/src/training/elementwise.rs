//! Bias, activation functions, sums: passes over rows in pieces of a fixed size, on all threads.

use rayon::prelude::*;
use sweep_job::tasks::Activation;

use super::{
    math::{LANES, erf, exp, fma, sigmoid, sum_of, total, versions},
    memory::Buffer,
};

/// Numbers that a task takes, so that pieces depend on the shape alone.
pub(super) const PIECE: usize = 16 * 1024;

/// Rows of `columns` numbers that a task takes.
pub(super) fn rows_per_task(columns: usize) -> usize {
    (PIECE / columns.max(1)).max(1)
}

/// Adds `bias` to every row of `x`.
pub fn add_bias(x: &mut [f32], bias: &[f32]) {
    let piece = rows_per_task(bias.len()) * bias.len();
    x.par_chunks_mut(piece).for_each(|rows| add_rows(rows, bias));
}

versions!(fn add_rows(rows: &mut [f32], bias: &[f32]) = add_rows_body);

#[inline(always)]
fn add_rows_body<const FMA: bool>(rows: &mut [f32], bias: &[f32]) {
    for row in rows.chunks_exact_mut(bias.len()) {
        for (x, bias) in row.iter_mut().zip(bias) {
            *x += bias;
        }
    }
}

/// Multiplies every row of `x` by its factor.
pub fn scale_rows(x: &mut [f32], factors: &[f32], columns: usize) {
    let rows = rows_per_task(columns);
    x.par_chunks_mut(rows * columns).zip(factors.par_chunks(rows)).for_each(|(x, factors)| {
        for (row, factor) in x.chunks_exact_mut(columns).zip(factors) {
            scale_row(row, *factor);
        }
    });
}

versions!(fn scale_row(row: &mut [f32], factor: f32) = scale_row_body);

#[inline(always)]
fn scale_row_body<const FMA: bool>(row: &mut [f32], factor: f32) {
    for x in row {
        *x *= factor;
    }
}

/// The gradient with respect to the factors; `gradient` becomes the one with respect to `x`.
pub fn scale_rows_backward(x: &[f32], factors: &[f32], gradient: &mut [f32], columns: usize) -> Buffer {
    let mut d_factors = Buffer::new(factors.len());
    let rows = rows_per_task(columns);
    let inputs = x.par_chunks(rows * columns).zip(factors.par_chunks(rows));
    let outputs = gradient.par_chunks_mut(rows * columns).zip(d_factors.par_chunks_mut(rows));
    outputs.zip(inputs).for_each(|((gradient, d_factors), (x, factors))| {
        let row_pairs = gradient.chunks_exact_mut(columns).zip(x.chunks_exact(columns));
        for (((gradient, x), factor), d_factor) in row_pairs.zip(factors).zip(d_factors) {
            *d_factor = dot(gradient, x);
            scale_row(gradient, *factor);
        }
    });
    d_factors
}

versions!(pub(super) fn dot(left: &[f32], right: &[f32]) -> f32 = dot_body);

#[inline(always)]
pub(super) fn dot_body<const FMA: bool>(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (chunks, remainder) = left.as_chunks::<LANES>();
    let (right_chunks, right_remainder) = right.as_chunks::<LANES>();
    for (left, right) in chunks.iter().zip(right_chunks) {
        for ((lane, left), right) in lanes.iter_mut().zip(left).zip(right) {
            *lane = fma::<FMA>(*left, *right, *lane);
        }
    }
    for ((lane, left), right) in lanes.iter_mut().zip(remainder).zip(right_remainder) {
        *lane = fma::<FMA>(*left, *right, *lane);
    }
    total(lanes)
}

/// Sets the numbers of `x` to 0 whose number in `mask` is 0, which is 1 elsewhere.
pub fn mask(x: &mut [f32], mask: &[f32]) {
    x.par_chunks_mut(PIECE).zip(mask.par_chunks(PIECE)).for_each(|(x, mask)| mask_piece(x, mask));
}

versions!(pub(super) fn mask_piece(x: &mut [f32], mask: &[f32]) = mask_body);

#[inline(always)]
fn mask_body<const FMA: bool>(x: &mut [f32], mask: &[f32]) {
    for (x, mask) in x.iter_mut().zip(mask) {
        *x *= mask;
    }
}

/// The sums of the columns of `x`, whose rows have `columns` numbers.
///
/// Pieces of rows are summed one by one, and then their sums, always in the same order.
pub fn column_sums(x: &[f32], columns: usize) -> Buffer {
    let piece = 4 * rows_per_task(columns) * columns;
    let mut partial = Buffer::zeros(x.len().div_ceil(piece.max(1)) * columns);
    partial.par_chunks_mut(columns).zip(x.par_chunks(piece)).for_each(|(sums, rows)| add_up(sums, rows));
    sum_of_rows(&partial, columns)
}

/// The rows of `partial` added up in their order.
pub(super) fn sum_of_rows(partial: &[f32], columns: usize) -> Buffer {
    let mut sums = Buffer::zeros(columns);
    add_up(&mut sums, partial);
    sums
}

versions!(fn add_up(sums: &mut [f32], rows: &[f32]) = add_up_body);

#[inline(always)]
fn add_up_body<const FMA: bool>(sums: &mut [f32], rows: &[f32]) {
    for row in rows.chunks_exact(sums.len()) {
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum += x;
        }
    }
}

/// `left + right`.
pub fn add(left: &[f32], right: &[f32]) -> Buffer {
    let mut out = Buffer::new(left.len());
    let parts = (left.par_chunks(PIECE), right.par_chunks(PIECE));
    out.par_chunks_mut(PIECE).zip(parts.0.zip(parts.1)).for_each(|(out, (left, right))| add_piece(left, right, out));
    out
}

versions!(fn add_piece(left: &[f32], right: &[f32], out: &mut [f32]) = add_piece_body);

#[inline(always)]
fn add_piece_body<const FMA: bool>(left: &[f32], right: &[f32], out: &mut [f32]) {
    for ((out, left), right) in out.iter_mut().zip(left).zip(right) {
        *out = left + right;
    }
}

/// Adds `addend` to `sum`.
pub fn add_to(sum: &mut [f32], addend: &[f32]) {
    sum.par_chunks_mut(PIECE).zip(addend.par_chunks(PIECE)).for_each(|(sum, addend)| add_up(sum, addend));
}

/// Adds a row to a row.
pub(super) fn add_to_row(sum: &mut [f32], addend: &[f32]) {
    add_up(sum, addend);
}

/// Multiplies `x` by `factor`.
pub fn scale(x: &mut [f32], factor: f32) {
    x.par_chunks_mut(PIECE).for_each(|piece| scale_piece(piece, factor));
}

versions!(fn scale_piece(x: &mut [f32], factor: f32) = scale_piece_body);

#[inline(always)]
fn scale_piece_body<const FMA: bool>(x: &mut [f32], factor: f32) {
    for x in x {
        *x *= factor;
    }
}

/// The sum of the squares of `x`: of pieces in single precision, of their sums in double.
pub fn sum_of_squares(x: &[f32]) -> f64 {
    let parts: Vec<f32> = x.par_chunks(PIECE).map(squares).collect();
    parts.into_iter().map(f64::from).sum()
}

versions!(fn squares(x: &[f32]) -> f32 = squares_body);

#[inline(always)]
fn squares_body<const FMA: bool>(x: &[f32]) -> f32 {
    sum_of(x, |x| x * x)
}

/// Adds `bias` to the rows of `x`, in place, and returns the activation function of the result.
pub fn bias_activation(x: &mut [f32], bias: &[f32], kind: Activation) -> Buffer {
    let mut out = Buffer::new(x.len());
    let piece = rows_per_task(bias.len()) * bias.len();
    out.par_chunks_mut(piece).zip(x.par_chunks_mut(piece)).for_each(|(out, x)| {
        add_rows(x, bias);
        activation_piece(x, out, kind);
    });
    out
}

/// The activation function of `x`.
pub fn activation(x: &[f32], kind: Activation) -> Buffer {
    let mut out = Buffer::new(x.len());
    out.par_chunks_mut(PIECE).zip(x.par_chunks(PIECE)).for_each(|(out, x)| activation_piece(x, out, kind));
    out
}

/// Multiplies `gradient`, in place, by the derivative of the activation function at `x`.
pub fn activation_backward(x: &[f32], gradient: &mut [f32], kind: Activation) {
    gradient.par_chunks_mut(PIECE).zip(x.par_chunks(PIECE)).for_each(|(gradient, x)| match kind {
        Activation::Gelu => exact_backward(x, gradient),
        Activation::GeluNew => tanh_backward(x, gradient),
        Activation::Silu => silu_backward(x, gradient),
        Activation::Relu2 => relu2_backward(x, gradient),
    });
}

fn activation_piece(x: &[f32], out: &mut [f32], kind: Activation) {
    match kind {
        Activation::Gelu => exact(x, out),
        Activation::GeluNew => tanh(x, out),
        Activation::Silu => silu(x, out),
        Activation::Relu2 => relu2(x, out),
    }
}

versions!(fn exact(x: &[f32], out: &mut [f32]) = exact_body);
versions!(fn exact_backward(x: &[f32], gradient: &mut [f32]) = exact_backward_body);
versions!(fn tanh(x: &[f32], out: &mut [f32]) = tanh_body);
versions!(fn tanh_backward(x: &[f32], gradient: &mut [f32]) = tanh_backward_body);
versions!(fn silu(x: &[f32], out: &mut [f32]) = silu_body);
versions!(fn silu_backward(x: &[f32], gradient: &mut [f32]) = silu_backward_body);
versions!(fn relu2(x: &[f32], out: &mut [f32]) = relu2_body);
versions!(fn relu2_backward(x: &[f32], gradient: &mut [f32]) = relu2_backward_body);

/// The probability that a standard normal number is below `x`.
#[inline(always)]
fn normal_cdf<const FMA: bool>(x: f32) -> f32 {
    fma::<FMA>(0.5, erf::<FMA>(x * std::f32::consts::FRAC_1_SQRT_2), 0.5)
}

#[inline(always)]
fn exact_body<const FMA: bool>(x: &[f32], out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = x * normal_cdf::<FMA>(*x);
    }
}

#[inline(always)]
fn exact_backward_body<const FMA: bool>(x: &[f32], gradient: &mut [f32]) {
    const INVERSE_ROOT_OF_TAU: f32 = 0.398_942_3;
    for (gradient, x) in gradient.iter_mut().zip(x) {
        let density = INVERSE_ROOT_OF_TAU * exp::<FMA>(-0.5 * x * x);
        *gradient *= fma::<FMA>(*x, density, normal_cdf::<FMA>(*x));
    }
}

/// Twice `sqrt(2 / pi)`: `1 + tanh(u)` is twice the logistic function of `2 u`.
const DOUBLED: f32 = 1.595_769;
/// Coefficient of the cube.
const CUBIC: f32 = 0.044_715;

#[inline(always)]
fn tanh_body<const FMA: bool>(x: &[f32], out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        let inner = DOUBLED * x * fma::<FMA>(CUBIC * x, *x, 1.0);
        *out = x * sigmoid::<FMA>(inner);
    }
}

#[inline(always)]
fn tanh_backward_body<const FMA: bool>(x: &[f32], gradient: &mut [f32]) {
    for (gradient, x) in gradient.iter_mut().zip(x) {
        let square = x * x;
        let sigmoid = sigmoid::<FMA>(DOUBLED * x * fma::<FMA>(CUBIC, square, 1.0));
        let slope = DOUBLED * fma::<FMA>(3.0 * CUBIC, square, 1.0);
        *gradient *= fma::<FMA>(x * slope * sigmoid, 1.0 - sigmoid, sigmoid);
    }
}

#[inline(always)]
fn silu_body<const FMA: bool>(x: &[f32], out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = x * sigmoid::<FMA>(*x);
    }
}

#[inline(always)]
fn silu_backward_body<const FMA: bool>(x: &[f32], gradient: &mut [f32]) {
    for (gradient, x) in gradient.iter_mut().zip(x) {
        let sigmoid = sigmoid::<FMA>(*x);
        *gradient *= fma::<FMA>(x * sigmoid, 1.0 - sigmoid, sigmoid);
    }
}

#[inline(always)]
fn relu2_body<const FMA: bool>(x: &[f32], out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        let positive = x.max(0.0);
        *out = positive * positive;
    }
}

#[inline(always)]
fn relu2_backward_body<const FMA: bool>(x: &[f32], gradient: &mut [f32]) {
    for (gradient, x) in gradient.iter_mut().zip(x) {
        *gradient *= 2.0 * x.max(0.0);
    }
}

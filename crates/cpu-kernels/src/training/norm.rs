//! Layer normalization of rows.

use rayon::prelude::*;

use super::{
    elementwise::{rows_per_task, sum_of_rows},
    math::{LANES, fma, sum_of, total, versions},
    memory::Buffer,
};

/// The normalized rows of `x`, times `gain`, plus `bias`; and of every row the mean and the inverse deviation.
pub fn forward(x: &[f32], gain: &[f32], bias: &[f32], epsilon: f32) -> (Buffer, Buffer) {
    let d = gain.len();
    let mut out = Buffer::new(x.len());
    let mut statistics = Buffer::new(x.len() / d * 2);
    let rows = rows_per_task(d);
    let outputs = out.par_chunks_mut(rows * d).zip(statistics.par_chunks_mut(rows * 2));
    outputs.zip(x.par_chunks(rows * d)).for_each(|((out, statistics), x)| {
        normalize(x, gain, bias, epsilon, out, statistics);
    });
    (out, statistics)
}

versions!(fn normalize(
    x: &[f32], gain: &[f32], bias: &[f32], epsilon: f32, out: &mut [f32], statistics: &mut [f32],
) = normalize_body);

#[inline(always)]
fn normalize_body<const FMA: bool>(
    x: &[f32],
    gain: &[f32],
    bias: &[f32],
    epsilon: f32,
    out: &mut [f32],
    statistics: &mut [f32],
) {
    let d = gain.len();
    let rows = x.chunks_exact(d).zip(out.chunks_exact_mut(d)).zip(statistics.as_chunks_mut::<2>().0);
    for ((x, out), statistics) in rows {
        let mean = sum_of(x, |x| x) / d as f32;
        let variance = sum_of(x, |x| (x - mean) * (x - mean)) / d as f32;
        let inverse = 1.0 / (variance + epsilon).sqrt();
        *statistics = [mean, inverse];
        for (((out, x), gain), bias) in out.iter_mut().zip(x).zip(gain).zip(bias) {
            *out = fma::<FMA>((x - mean) * inverse, *gain, *bias);
        }
    }
}

/// The gradients with respect to the input, the gain and the bias; `gradient` becomes the first.
pub fn backward(x: &[f32], gain: &[f32], statistics: &[f32], gradient: &mut [f32]) -> (Buffer, Buffer) {
    let d = gain.len();
    let rows = rows_per_task(d);
    let tasks = (x.len() / d).div_ceil(rows);
    // One row of sums of both gradients per task, added up in order afterwards.
    let mut partial = Buffer::zeros(tasks * 2 * d);
    let inputs = x.par_chunks(rows * d).zip(statistics.par_chunks(rows * 2));
    let outputs = gradient.par_chunks_mut(rows * d).zip(partial.par_chunks_mut(2 * d));
    outputs.zip(inputs).for_each(|((gradient, partial), (x, statistics))| {
        let (d_gain, d_bias) = partial.split_at_mut(d);
        backward_rows(x, gain, statistics, gradient, d_gain, d_bias);
    });
    let sums = sum_of_rows(&partial, 2 * d);
    let (mut d_gain, mut d_bias) = (Buffer::new(d), Buffer::new(d));
    d_gain.copy_from_slice(&sums[..d]);
    d_bias.copy_from_slice(&sums[d..]);
    (d_gain, d_bias)
}

versions!(fn backward_rows(
    x: &[f32], gain: &[f32], statistics: &[f32], gradient: &mut [f32], d_gain: &mut [f32], d_bias: &mut [f32],
) = backward_rows_body);

#[inline(always)]
fn backward_rows_body<const FMA: bool>(
    x: &[f32],
    gain: &[f32],
    statistics: &[f32],
    gradient: &mut [f32],
    d_gain: &mut [f32],
    d_bias: &mut [f32],
) {
    let d = gain.len();
    let rows = x.chunks_exact(d).zip(gradient.chunks_exact_mut(d)).zip(statistics.as_chunks::<2>().0);
    for ((x, gradient), &[mean, inverse]) in rows {
        let sums = d_gain.iter_mut().zip(d_bias.iter_mut());
        for (((d_gain, d_bias), x), gradient) in sums.zip(x).zip(gradient.iter()) {
            *d_gain = fma::<FMA>(*gradient, (x - mean) * inverse, *d_gain);
            *d_bias += gradient;
        }
        let (ones_projection, x_projection) = projections::<FMA>(x, gain, gradient, mean, inverse);
        let (ones_projection, x_projection) = (ones_projection / d as f32, x_projection / d as f32);
        for ((gradient, x), gain) in gradient.iter_mut().zip(x).zip(gain) {
            let normalized = (x - mean) * inverse;
            *gradient = (fma::<FMA>(*gradient, *gain, -ones_projection) - normalized * x_projection) * inverse;
        }
    }
}

/// The sums of the gradient before the gain, alone and times the normalized input.
#[inline(always)]
fn projections<const FMA: bool>(x: &[f32], gain: &[f32], gradient: &[f32], mean: f32, inverse: f32) -> (f32, f32) {
    let (mut ones, mut normal) = ([0.0; LANES], [0.0; LANES]);
    let mut add = |gradient: &[f32], gain: &[f32], x: &[f32]| {
        let lanes = ones.iter_mut().zip(normal.iter_mut());
        for ((((ones, normal), gradient), gain), x) in lanes.zip(gradient).zip(gain).zip(x) {
            let product = gradient * gain;
            *ones += product;
            *normal = fma::<FMA>(product, (x - mean) * inverse, *normal);
        }
    };
    // Separate from the remainder, because the compiler uses whole vectors for a known length.
    let (gradients, gradient) = gradient.as_chunks::<LANES>();
    let (gains, gain) = gain.as_chunks::<LANES>();
    let (xs, x) = x.as_chunks::<LANES>();
    for ((gradient, gain), x) in gradients.iter().zip(gains).zip(xs) {
        add(gradient, gain, x);
    }
    add(gradient, gain, x);
    (total(ones), total(normal))
}

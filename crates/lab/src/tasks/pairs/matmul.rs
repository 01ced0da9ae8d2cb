//! `uses: pair/matmul`: `((A B + bias)₊ + residual) · 0.125` by loops, by tiles, or by the library.

use burn::tensor::{Tensor, TensorData, backend::Backend};
use rayon::prelude::*;
use sweep_job::{
    Outcome, Unit,
    tasks::{Matmul, MatmulVariant},
};

use super::{Call, Contender, Left, flat, normal};
use crate::{LabError, backend::Compute, read::host};

/// Rows, and numbers of the inner dimension, of a tile: one of B's with its columns fits into a core's cache.
const ROWS: usize = 32;
const INNER: usize = 64;
/// Columns of a tile.
const COLUMNS: usize = 256;
/// The last factor.
const SCALE: f32 = 0.125;

impl Contender for Matmul {
    fn reference(&self) -> Self {
        Self { variant: MatmulVariant::Library, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let size = self.size;
        let numbers = ["a", "b", "bias", "residual"].map(|name| normal(seed, name, 0, size * size, 1.0));
        let loops = matches!(self.variant, MatmulVariant::Naive | MatmulVariant::Tiled);
        if loops && !B::SYNCHRONOUS {
            let message = format!("`variant: {}` needs the CPU: write `--backend cpu`, or another one", self.variant);
            return Err(LabError::Unsupported(message));
        }
        let matrix =
            |numbers: &[f32]| Tensor::<B, 2>::from_data(TensorData::new(numbers.to_vec(), [size, size]), device);
        let [a, b, bias, residual] = [0, 1, 2, 3].map(|index| matrix(&numbers[index]));
        Ok(Box::new(move |_| {
            let [_, _, host_bias, host_residual] = &numbers;
            Ok(match self.variant {
                MatmulVariant::Naive => {
                    let mut c = naive(&numbers[0], &numbers[1], size);
                    epilogue(&mut c, host_bias, host_residual);
                    Left::Host(c)
                }
                MatmulVariant::Tiled => {
                    let mut c = tiled(&numbers[0], &numbers[1], size);
                    epilogue(&mut c, host_bias, host_residual);
                    Left::Host(c)
                }
                MatmulVariant::Fused if B::SYNCHRONOUS => {
                    let mut c = host(flat(a.clone().matmul(b.clone())))?;
                    epilogue(&mut c, host_bias, host_residual);
                    Left::Host(c)
                }
                MatmulVariant::Library | MatmulVariant::Fused => {
                    Left::Device(flat(by_operations(a.clone().matmul(b.clone()), bias.clone(), residual.clone())))
                }
            })
        }))
    }

    fn describe(&self, _: &[f32], median: f64, outcome: &mut Outcome) {
        outcome.metric("compute.flops", 2.0 * (self.size as f64).powi(3) / median, Unit::FlopsPerSecond);
    }
}

fn by_operations<B: Backend>(product: Tensor<B, 2>, bias: Tensor<B, 2>, residual: Tensor<B, 2>) -> Tensor<B, 2> {
    ((product + bias).clamp_min(0.0) + residual) * SCALE
}

/// The epilogue in one pass.
fn epilogue(product: &mut [f32], bias: &[f32], residual: &[f32]) {
    let numbers = product.par_iter_mut().zip(bias).zip(residual);
    numbers.with_min_len(1 << 14).for_each(|((number, bias), residual)| {
        *number = ((*number + bias).max(0.0) + residual) * SCALE;
    });
}

/// Three loops, by one core.
fn naive(a: &[f32], b: &[f32], size: usize) -> Vec<f32> {
    let mut c = vec![0.0; size * size];
    for (row, c) in c.chunks_mut(size).enumerate() {
        for (column, c) in c.iter_mut().enumerate() {
            *c = (0..size).map(|inner| a[row * size + inner] * b[inner * size + column]).sum();
        }
    }
    c
}

/// The same in tiles, by all cores.
fn tiled(a: &[f32], b: &[f32], size: usize) -> Vec<f32> {
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

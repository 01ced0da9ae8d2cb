//! `uses: pair/matmul`: `((A B + bias)₊ + residual) · 0.125` by loops, by tiles, or by the library.

use burn::tensor::{Tensor, TensorData, backend::Backend};
use sweep_cpu_kernels::pairs::{epilogue, naive, tiled};
use sweep_job::{
    Outcome,
    tasks::{ComputeMetrics, Matmul, MatmulVariant},
};

use super::{Call, Contender, Left, flat, normal};
use crate::{LabError, backend::Compute, device::read::host};

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
            let message =
                format!("`variant: {}` requires the CPU: write `--backend cpu`, or another `variant`", self.variant);
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
                    epilogue(&mut c, host_bias, host_residual, SCALE);
                    Left::Host(c)
                }
                MatmulVariant::Tiled => {
                    let mut c = tiled(&numbers[0], &numbers[1], size);
                    epilogue(&mut c, host_bias, host_residual, SCALE);
                    Left::Host(c)
                }
                MatmulVariant::Fused if B::SYNCHRONOUS => {
                    let mut c = host(flat(a.clone().matmul(b.clone())))?;
                    epilogue(&mut c, host_bias, host_residual, SCALE);
                    Left::Host(c)
                }
                MatmulVariant::Library | MatmulVariant::Fused => {
                    Left::Device(flat(by_operations(a.clone().matmul(b.clone()), bias.clone(), residual.clone())))
                }
            })
        }))
    }

    fn describe(&self, _: &[f32], median: f64, outcome: &mut Outcome) {
        outcome.set(&ComputeMetrics::FLOPS, 2.0 * (self.size as f64).powi(3) / median);
    }
}

fn by_operations<B: Backend>(product: Tensor<B, 2>, bias: Tensor<B, 2>, residual: Tensor<B, 2>) -> Tensor<B, 2> {
    ((product + bias).clamp_min(0.0) + residual) * SCALE
}

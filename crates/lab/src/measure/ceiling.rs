//! The measured peak rates of a device: of a large matrix product and of a copy. A training is compared with them (MFU), not with a data
//! sheet.

use std::time::{Duration, Instant};

use burn::tensor::{DType, Distribution, Tensor};
use rayon::prelude::*;

use crate::{LabError, backend::Compute};

/// The best measured rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    /// Floating-point operations of a product of square matrices, a second.
    pub flops: f64,
    /// Bytes read and written by a copy of a large tensor (on a GPU with a number added, which is a kernel), a second.
    pub bytes: f64,
}

/// Numbers that a thread copies at once.
const COPIED_AT_ONCE: usize = 1 << 16;

/// Time budget of each of the two measurements, without compilation.
const BUDGET: Duration = Duration::from_millis(500);

impl Ceiling {
    /// Measures `device` in the format of matrix products `dtype`: a few tenths of a second, and the time of compilation.
    pub fn measure<B: Compute>(device: &B::Device, dtype: DType) -> Result<Self, LabError> {
        let flops = products::<B>(device, dtype)?;
        let numbers = if B::SYNCHRONOUS { 16 << 20 } else { 64 << 20 };
        let numbers = numbers.min(B::largest_tensor(device) / size_of::<f32>());
        let copy = if B::SYNCHRONOUS {
            // A new tensor would be memory that the system clears first, page by page, which takes longer than the copy.
            let source = vec![1.0_f32; numbers];
            let mut target = vec![0.0_f32; numbers];
            best::<B, _>(device, || {
                let parts = target.par_chunks_mut(COPIED_AT_ONCE).zip(source.par_chunks(COPIED_AT_ONCE));
                parts.for_each(|(target, source)| target.copy_from_slice(source));
            })?
        } else {
            let source = Tensor::<B, 1>::zeros([numbers], device);
            best::<B, _>(device, || source.clone() + 1.0)?
        };
        Ok(Self { flops, bytes: 2.0 * 4.0 * numbers as f64 / copy })
    }
}

/// Operations per second of a product of square matrices, as large as the device multiplies in a moment: a GPU needs
/// large ones to reach its peak, and a software implementation would take minutes for them.
fn products<B: Compute>(device: &B::Device, dtype: DType) -> Result<f64, LabError> {
    let sizes: &[usize] = if B::SYNCHRONOUS { &[1024] } else { &[256, 1024, 4096] };
    let mut best_flops = 0.0_f64;
    for size in sizes {
        let operations = 2.0 * (*size as f64).powi(3);
        if best_flops > 0.0 && operations / best_flops > BUDGET.as_secs_f64() {
            break;
        }
        let matrix = || Tensor::<B, 2>::random([*size; 2], Distribution::Uniform(-1.0, 1.0), device).cast(dtype);
        let (left, right) = (matrix(), matrix());
        let seconds = best::<B, _>(device, || left.clone().matmul(right.clone()))?;
        best_flops = best_flops.max(operations / seconds);
    }
    Ok(best_flops)
}

/// The least time of `work` in seconds, without the first call.
fn best<B: Compute, T>(device: &B::Device, mut work: impl FnMut() -> T) -> Result<f64, LabError> {
    drop(work());
    B::sync(device)?;
    let start = Instant::now();
    let mut min_seconds = f64::INFINITY;
    while start.elapsed() < BUDGET || min_seconds.is_infinite() {
        let call_start = Instant::now();
        let result = work();
        B::sync(device)?;
        min_seconds = min_seconds.min(call_start.elapsed().as_secs_f64());
        drop(result);
    }
    Ok(min_seconds)
}

#[cfg(test)]
mod tests {
    use burn::backend::{Flex, flex::FlexDevice};

    use super::*;

    #[test]
    fn a_ceiling_is_a_speed() {
        let ceiling = Ceiling::measure::<Flex>(&FlexDevice, DType::F32).unwrap();
        // Any machine that runs this does more than a million operations a second, and none does 10^15.
        assert!((1e6..1e15).contains(&ceiling.flops), "{ceiling:?}");
        assert!((1e6..1e15).contains(&ceiling.bytes), "{ceiling:?}");
    }
}

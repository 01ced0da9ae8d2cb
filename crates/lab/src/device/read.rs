//! Numbers from the device to the host. No other file in the lab reads results of a training, so that reads, each of
//! which waits for the device, can be counted.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use burn::{
    backend::{Flex, flex::FlexTensor},
    tensor::{Int, Tensor, TensorData, backend::Backend},
};

use crate::LabError;

thread_local! {
    static READS: Cell<u64> = const { Cell::new(0) };
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Number of reads of this thread from a device.
pub fn reads() -> u64 {
    READS.get()
}

/// Time that this thread has waited for reads.
pub fn waited() -> Duration {
    WAITED.get()
}

/// The numbers of `tensor`; waits for the device.
pub(crate) fn host<B: Backend>(tensor: Tensor<B, 1>) -> Result<Vec<f32>, LabError> {
    vector(counted(|| tensor.try_into_data())?.convert::<f32>())
}

/// The whole numbers of `tensor`; waits for the device.
pub(crate) fn integers<B: Backend>(tensor: Tensor<B, 1, Int>) -> Result<Vec<i64>, LabError> {
    vector(counted(|| tensor.try_into_data())?.convert::<i64>())
}

/// The contiguous storage of a tensor on the CPU. It counts as no read, because the numbers are in host memory.
pub(crate) fn dense(tensor: &Tensor<Flex, 1>) -> FlexTensor {
    let tensor = tensor.clone().into_primitive().tensor();
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

/// Result of `read`, which waits for the device.
pub(crate) fn counted<T>(read: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = read();
    READS.set(READS.get() + 1);
    WAITED.set(WAITED.get() + start.elapsed());
    result
}

fn vector<E: burn::tensor::Element>(data: TensorData) -> Result<Vec<E>, LabError> {
    data.into_vec().map_err(|error| LabError::Device(format!("{error:?}")))
}

/// The number in a tensor `[1]`; waits for the device.
pub(crate) fn number<B: Backend>(tensor: Tensor<B, 1>) -> Result<f64, LabError> {
    Ok(host(tensor)?.first().copied().map_or(f64::NAN, f64::from))
}

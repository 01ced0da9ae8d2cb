//! Numbers from the device to the host. Nothing else in the lab reads what a training computes, so that readings, each of
//! which waits for the device, can be counted.

use std::cell::Cell;

use burn::{
    backend::{Flex, flex::FlexTensor},
    tensor::{Int, Tensor, TensorData, backend::Backend},
};

use crate::LabError;

thread_local! {
    static READS: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has read from a device.
pub fn reads() -> u64 {
    READS.get()
}

/// The numbers of `tensor`; waits for the device.
pub(crate) fn host<B: Backend>(tensor: Tensor<B, 1>) -> Result<Vec<f32>, LabError> {
    counted();
    vector(tensor.try_into_data()?.convert::<f32>())
}

/// The whole numbers of `tensor`; waits for the device.
pub(crate) fn integers<B: Backend>(tensor: Tensor<B, 1, Int>) -> Result<Vec<i64>, LabError> {
    counted();
    vector(tensor.try_into_data()?.convert::<i64>())
}

/// What holds the numbers of a tensor of the processor's, one after the other: no reading, because they are here.
pub(crate) fn resident(tensor: &Tensor<Flex, 1>) -> FlexTensor {
    let tensor = tensor.clone().into_primitive().tensor();
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

fn counted() {
    READS.set(READS.get() + 1);
}

fn vector<E: burn::tensor::Element>(data: TensorData) -> Result<Vec<E>, LabError> {
    data.into_vec().map_err(|error| LabError::Device(format!("{error:?}")))
}

/// The number in a tensor `[1]`; waits for the device.
pub(crate) fn number<B: Backend>(tensor: Tensor<B, 1>) -> Result<f64, LabError> {
    Ok(host(tensor)?.first().copied().map_or(f64::NAN, f64::from))
}

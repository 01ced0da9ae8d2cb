//! The step of AdamW on a GPU, by the kernel of [`sweep_gpu_kernels`], over the memory of Burn's tensors. Fused
//! operations do not need it: they make a step one kernel in any case.

use burn::tensor::{DType, Tensor, TensorMetadata as _};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use sweep_gpu_kernels::{MOST_OF_A_LAYER, Tensors};

use super::{AdamWState, AdamWStep, Parameter, in_use, plain};
use crate::device::cube_memory::CubeMemory;

/// See [`Ops::adamw_step`](super::Ops::adamw_step).
pub(crate) fn adamw_step<B: CubeMemory>(
    step: &AdamWStep<B>,
    parameter: Parameter<'_, B>,
) -> (Tensor<B, 1>, AdamWState<B>) {
    let in_single_precision = [parameter.weights.dtype(), parameter.gradient.dtype()] == [DType::F32; 2];
    if !(in_use() && in_single_precision && parameter.weights.dims()[0] <= MOST_OF_A_LAYER) {
        return plain::adamw_step(step, parameter);
    }
    let Parameter { weights, gradient, state, decay, mask } = parameter;
    let weights = own(B::memory(weights));
    let gradient = B::memory(gradient);
    let first = state.is_none();
    let memory = |tensor| own(B::memory::<1>(tensor));
    let (moment_1, moment_2, max) = match state {
        None => (like(&weights), like(&weights), None),
        Some(AdamWState { moment_1, moment_2, max_moment_2 }) => {
            (memory(moment_1), memory(moment_2), max_moment_2.map(memory))
        }
    };
    let new_max = max.is_none();
    let max = step.amsgrad.then(|| max.unwrap_or_else(|| like(&weights)));
    let handle = |tensor: &Tensor<B, 1>| B::memory(tensor.clone()).handle;
    let tensors = Tensors {
        length: weights.shape().num_elements(),
        weights: weights.handle.clone(),
        gradient: gradient.handle.clone(),
        moments: [moment_1.handle.clone(), moment_2.handle.clone()],
        max_moment_2: max.as_ref().map(|max| max.handle.clone()),
        first,
        new_max,
        gradient_factor: step.gradient_factor.as_ref().map(handle),
        keeps: step.keeps.as_ref().map(|keeps| keeps.each_ref().map(handle)),
        mask: mask.map(|mask| (handle(mask.keep), mask.moments)),
    };
    sweep_gpu_kernels::adamw_step(&weights.client, &tensors, &step.factors(decay));
    let [moment_1, moment_2] = [moment_1, moment_2].map(B::tensor);
    (B::tensor(weights), AdamWState { moment_1, moment_2, max_moment_2: max.map(B::tensor) })
}

/// The tensor with memory that nothing else uses: itself, or a copy.
fn own<R: CubeRuntime>(tensor: CubeTensor<R>) -> CubeTensor<R> {
    if tensor.can_mut() { tensor } else { tensor.copy() }
}

/// Memory of the same size, with any numbers.
fn like<R: CubeRuntime>(tensor: &CubeTensor<R>) -> CubeTensor<R> {
    let CubeTensor { client, device, .. } = tensor.clone();
    let handle = client.empty(tensor.shape().num_elements() * size_of::<f32>());
    CubeTensor::new_contiguous(client, device, tensor.shape(), handle, DType::F32)
}

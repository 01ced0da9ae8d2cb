//! The step of AdamW on a GPU over the memory of Burn's tensors: by the kernel of [`sweep_gpu_kernels`], or by fused
//! operations in a training that fuses nothing else.

use burn::tensor::{DType, Tensor, TensorMetadata as _};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use sweep_gpu_kernels::{MAX_LAYER_WEIGHTS, Tensors};

use super::{AdamWState, AdamWStep, Mask, Parameter, in_use, plain};
use crate::device::cube_memory::CubeMemory;

/// See [`Ops::adamw_step`](super::Ops::adamw_step).
pub(crate) fn adamw_step<B: CubeMemory>(
    step: &AdamWStep<B>,
    parameter: Parameter<'_, B>,
) -> (Tensor<B, 1>, AdamWState<B>) {
    let is_single_precision = [parameter.weights.dtype(), parameter.gradient.dtype()] == [DType::F32; 2];
    if !(in_use() && is_single_precision && parameter.weights.dims()[0] <= MAX_LAYER_WEIGHTS) {
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

/// Makes a step like [`adamw_step`], by operations of the fusing backend `F` on the same memory.
pub(crate) fn fused_adamw_step<B: CubeMemory, F: CubeMemory<Runtime = B::Runtime>>(
    step: &AdamWStep<B>,
    parameter: Parameter<'_, B>,
) -> (Tensor<B, 1>, AdamWState<B>) {
    let to_fused = |tensor: Tensor<B, 1>| F::tensor::<1>(B::memory(tensor));
    let to_eager = |tensor: Tensor<F, 1>| B::tensor::<1>(F::memory(tensor));
    let step = AdamWStep::<F> {
        beta_1: step.beta_1,
        beta_2: step.beta_2,
        epsilon: step.epsilon,
        step_size: step.step_size,
        root_correction: step.root_correction,
        amsgrad: step.amsgrad,
        keeps: step.keeps.clone().map(|keeps| keeps.map(to_fused)),
        gradient_factor: step.gradient_factor.clone().map(to_fused),
        fused: step.fused,
    };
    let Parameter { weights, gradient, state, decay, mask } = parameter;
    let keep = mask.map(|mask| (to_fused(mask.keep.clone()), mask.moments));
    let state = state.map(|AdamWState { moment_1, moment_2, max_moment_2 }| AdamWState {
        moment_1: to_fused(moment_1),
        moment_2: to_fused(moment_2),
        max_moment_2: max_moment_2.map(to_fused),
    });
    let mask = keep.as_ref().map(|(keep, moments)| Mask { keep, moments: *moments });
    let parameter = Parameter { weights: to_fused(weights), gradient: to_fused(gradient), state, decay, mask };
    let (weights, AdamWState { moment_1, moment_2, max_moment_2 }) = plain::adamw_step(&step, parameter);
    let [moment_1, moment_2] = [moment_1, moment_2].map(to_eager);
    (to_eager(weights), AdamWState { moment_1, moment_2, max_moment_2: max_moment_2.map(to_eager) })
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

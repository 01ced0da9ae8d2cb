//! The memory of tensors on a GPU, for this project's kernels.
//!
//! A tensor of `Fusion` is lazy: operations are recorded, and executed when a result is needed. Taking its memory
//! executes the recorded operations, without waiting for the device; a tensor with other memory is recorded as an
//! existing one.

use burn::tensor::{Tensor, TensorMetadata as _, TensorPrimitive, backend::Backend};
use burn_cubecl::{
    BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement, kernel::into_contiguous, tensor::CubeTensor,
};
use burn_fusion::{Fusion, NoOp, get_client, stream::OperationStreams};
use burn_ir::{BackendIr as _, InitOperationIr, OperationIr};

/// A backend whose tensors are in the memory of a `CubeCL` runtime.
pub trait CubeMemory: Backend {
    /// The runtime.
    type Runtime: CubeRuntime;

    /// The memory of `tensor`, dense.
    fn memory<const D: usize>(tensor: Tensor<Self, D>) -> CubeTensor<Self::Runtime>;

    /// The tensor of `D` dimensions in `memory`.
    fn tensor<const D: usize>(memory: CubeTensor<Self::Runtime>) -> Tensor<Self, D>;
}

impl<R: CubeRuntime, F: FloatElement, I: IntElement, BT: BoolElement> CubeMemory for CubeBackend<R, F, I, BT> {
    type Runtime = R;

    fn memory<const D: usize>(tensor: Tensor<Self, D>) -> CubeTensor<R> {
        into_contiguous(tensor.into_primitive().tensor())
    }

    fn tensor<const D: usize>(memory: CubeTensor<R>) -> Tensor<Self, D> {
        Tensor::from_primitive(TensorPrimitive::Float(memory))
    }
}

impl<R: CubeRuntime, F: FloatElement, I: IntElement, BT: BoolElement> CubeMemory for Fusion<CubeBackend<R, F, I, BT>> {
    type Runtime = R;

    fn memory<const D: usize>(tensor: Tensor<Self, D>) -> CubeTensor<R> {
        let lazy_tensor = tensor.into_primitive().tensor();
        let client = lazy_tensor.client.clone();
        into_contiguous(client.resolve_tensor_float::<CubeBackend<R, F, I, BT>>(lazy_tensor))
    }

    fn tensor<const D: usize>(memory: CubeTensor<R>) -> Tensor<Self, D> {
        let client = get_client::<CubeBackend<R, F, I, BT>>(&memory.device);
        let (shape, dtype) = (memory.shape(), memory.dtype);
        let handle = CubeBackend::<R, F, I, BT>::float_tensor_handle(memory);
        let descriptor = InitOperationIr::create(shape, dtype, || client.register_tensor_handle(handle));
        let no_op = NoOp::<CubeBackend<R, F, I, BT>>::new();
        let mut outputs = client.register(OperationStreams::default(), OperationIr::Init(descriptor), no_op);
        Tensor::from_primitive(TensorPrimitive::Float(outputs.remove(0)))
    }
}

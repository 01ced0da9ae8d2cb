//! Matrix products in a shorter format than the numbers around them (`precision: mixed`).
//!
//! A thread has at most one such format. Weights and activations are cast before a product, and the result after it; a
//! cast is differentiated like any other operation, so gradients are cast in the same places. Kernels that know the format
//! round the factors themselves and keep the result in single precision.

use std::cell::Cell;

use burn::tensor::{DType, Tensor};

use super::Ops;

thread_local! {
    static FORMAT: Cell<Option<DType>> = const { Cell::new(None) };
}

/// The format of products on this thread, if it differs from the format of their inputs.
pub(crate) fn format() -> Option<DType> {
    FORMAT.get()
}

/// Does `work` with products in `format`.
pub fn with<T>(format: Option<DType>, work: impl FnOnce() -> T) -> T {
    /// Sets the format back, also when `work` panics.
    struct Back(Option<DType>);

    impl Drop for Back {
        fn drop(&mut self) {
            FORMAT.set(self.0);
        }
    }

    let _back = Back(FORMAT.replace(format));
    work()
}

/// The format that tensors are cast to for products; `None` also if the kernels of `B` round the factors of theirs.
pub(crate) fn cast_format<B: Ops>() -> Option<DType> {
    format().filter(|format| !B::rounds_products(*format))
}

/// `left * right`, in the format of products.
pub(crate) fn product<B: Ops, const D: usize>(left: Tensor<B, D>, right: Tensor<B, D>) -> Tensor<B, D> {
    match format() {
        None => left.matmul(right),
        Some(format) if B::rounds_products(format) => {
            let round = |tensor: Tensor<B, D>| {
                let original_format = tensor.dtype();
                tensor.cast(format).cast(original_format)
            };
            round(left).matmul(round(right))
        }
        Some(format) => {
            let original_format = left.dtype();
            left.cast(format).matmul(right.cast(format)).cast(original_format)
        }
    }
}

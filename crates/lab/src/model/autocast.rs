//! Matrix products in a shorter format than the numbers around them (`precision: mixed`).
//!
//! A thread has at most one such format. Weights and activations are cast before a product, and the result after it; a
//! cast is differentiated like any other operation, so gradients are cast in the same places.

use std::cell::Cell;

use burn::tensor::{DType, Tensor, backend::Backend};

thread_local! {
    static FORMAT: Cell<Option<DType>> = const { Cell::new(None) };
}

/// The format of products on this thread, if it is not that of their inputs.
pub(crate) fn format() -> Option<DType> {
    FORMAT.get()
}

/// Does `work` with products in `format`.
pub(crate) fn with<T>(format: Option<DType>, work: impl FnOnce() -> T) -> T {
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

/// `left * right`, in the format of products.
pub(super) fn product<B: Backend, const D: usize>(left: Tensor<B, D>, right: Tensor<B, D>) -> Tensor<B, D> {
    match format() {
        None => left.matmul(right),
        Some(low) => {
            let wide = left.dtype();
            left.cast(low).matmul(right.cast(low)).cast(wide)
        }
    }
}

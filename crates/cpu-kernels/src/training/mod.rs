//! The operations of a training step: loops over slices that the compiler vectorizes, and products through the `gemm` crate,
//! on the threads of rayon's pool.
//!
//! Work is divided by the shape alone and partial sums are added up in a fixed order; only how `gemm` divides a product
//! depends on the number of threads.

#![expect(
    clippy::inline_always,
    reason = "a body has an instruction set only where it is inlined into a function of it"
)]

pub mod adamw;
pub mod attention;
pub mod elementwise;
pub mod embedding;
pub mod loss;
mod math;
pub mod matrix;
pub mod memory;
pub mod norm;
pub mod softmax;

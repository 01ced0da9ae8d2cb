//! The way between tensors and the host: numbers that are read, and memory that kernels take.

#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
pub mod cube_memory;
pub mod read;

//! CPU kernels in addition to Burn's: loops over slices that benefit from an optimizing compiler.
//!
//! It is a separate package because it is small and must be optimized in every build, while the lab, which is generic
//! over Burn's backends, is large and gains nothing by it.

pub mod pairs;
pub mod rng;
pub mod selection;
pub mod training;

//! CPU kernels beside Burn: loops over slices, for which a compiler's effort pays.
//!
//! It is a package of its own because it is small and must be optimized in every build, while the lab, which is generic over
//! Burn's backends, is large and gains nothing by it.

pub mod pairs;
pub mod rng;
pub mod selection;
pub mod training;

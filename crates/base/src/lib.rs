//! Numbers and texts for people, the machine and its processes, and records of results.

pub mod format;
pub mod host;
pub mod record;
pub mod settings;

/// Name of the axis and of the parameter of random numbers.
pub const SEED: &str = "seed";

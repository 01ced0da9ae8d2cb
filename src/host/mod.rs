//! The machine below the engine: its resources, devices, clock and program file, and the failures that tests inject.

pub(crate) mod archive;
pub(crate) mod clock;
pub mod devices;
pub(crate) mod failpoints;
pub mod machine;
mod program;
pub(crate) mod threads;

pub(crate) use self::program::program;

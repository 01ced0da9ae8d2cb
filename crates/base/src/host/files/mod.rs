//! The file operations of the store.
//!
//! `direct.rs` passes them to the operating system. With the feature `simulate`, which no released program has,
//! `simulated.rs` takes its place: the same functions pass each operation to a `World` first, so that a test can order
//! the operations of several engines, make them fail, and compute the files that a power failure can leave.

#[cfg(not(feature = "simulate"))]
mod direct;
#[cfg(feature = "simulate")]
mod simulated;
#[cfg(feature = "simulate")]
mod world;

#[cfg(not(feature = "simulate"))]
pub use self::direct::*;
#[cfg(feature = "simulate")]
pub use self::{
    simulated::*,
    world::{Entered, Operation, Place, Planted, World, begun, keep_alive, local_now, place, planted},
};

/// True if the `World` of this thread has planted this bug. Without the feature `simulate`, expands to `false`, and
/// `Planted` does not exist.
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {{
        #[cfg(feature = "simulate")]
        {
            $crate::host::files::planted($crate::host::files::Planted::$bug)
        }
        #[cfg(not(feature = "simulate"))]
        {
            false
        }
    }};
}

//! The file operations of the store.
//!
//! `direct.rs` passes them to the operating system. With the feature `simulate`, which no released program has, `simulated.rs`
//! takes its place: the same functions ask a `World` before each operation, so that a test orders the operations of several
//! engines, lets them fail, and knows what a power failure may leave of them.

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

/// True if the `World` of this thread has planted this bug. Without the feature `simulate` it is `false` and names nothing.
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

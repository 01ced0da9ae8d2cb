//! The lab of this program, if it has one.

use std::sync::OnceLock;

use sweep_job::Lab;

static LAB: OnceLock<&'static dyn Lab> = OnceLock::new();

/// Makes `lab` the lab of this process. Only the first call has an effect.
pub fn install(lab: &'static dyn Lab) {
    let _ = LAB.set(lab);
}

/// The lab; `None` in a program that was built without one.
pub fn installed() -> Option<&'static dyn Lab> {
    LAB.get().copied()
}

/// True if this program has a lab.
pub fn is_installed() -> bool {
    installed().is_some()
}

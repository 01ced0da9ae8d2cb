//! The pages in a real browser, with a real run. Screenshots are kept in the target folder, below `tmp/screenshots`.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod dashboard;
mod driver;
mod figures;
mod pairs;
mod report;
#[expect(dead_code, reason = "the engine's tests use more of it")]
#[path = "../engine/sandbox.rs"]
mod sandbox;
mod server;
mod walk;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One browser at a time: on a small machine several would only wait for each other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

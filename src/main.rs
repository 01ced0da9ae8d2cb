//! The command `sweep`.

use std::process::ExitCode;

/// The system's allocator, which some jobs ask how much they need.
#[cfg(feature = "cpu")]
#[global_allocator]
static HEAP: sweep_lab::measure::heap::Counting = sweep_lab::measure::heap::Counting;

fn main() -> ExitCode {
    sweep::cli::main()
}

//! The program without the lab: plans, reports, and runs programs. The tests of the engine run it.

use std::process::ExitCode;

fn main() -> ExitCode {
    sweep_engine::cli::main(None, &[])
}

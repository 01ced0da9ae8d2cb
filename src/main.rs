//! The command `sweep`: the engine, with the lab where it is built in.

use std::process::ExitCode;

fn main() -> ExitCode {
    sweep::main(&[])
}

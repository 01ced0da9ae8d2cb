//! The command `sweep`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sweep::cli::main()
}

//! The command `sweep`: the engine, with the lab where it is built in.

use std::process::ExitCode;

#[cfg(feature = "cpu")]
mod lab;

fn main() -> ExitCode {
    #[cfg(feature = "cpu")]
    let lab = Some(lab::LAB);
    #[cfg(not(feature = "cpu"))]
    let lab = None;
    sweep_engine::cli::main(lab)
}

//! The path of the running program.

use std::{io, path::PathBuf};

/// Returns the path of this program, even if its file has been replaced since the start.
pub fn program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from("/proc/self/exe")) } else { std::env::current_exe() }
}

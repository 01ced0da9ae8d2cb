//! The path of the running program, and its digest.

use std::{io, path::PathBuf, sync::LazyLock};

/// Returns the path of this program, even if its file has been replaced since the start.
pub fn program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from("/proc/self/exe")) } else { std::env::current_exe() }
}

/// Returns the BLAKE3 digest of this program's file. A file that cannot be read has a digest that no other process has, so that no earlier
/// result counts as a result of this program.
pub fn program_digest() -> &'static str {
    static DIGEST: LazyLock<String> = LazyLock::new(|| {
        let digest = || -> io::Result<String> {
            let mut hasher = blake3::Hasher::new();
            io::copy(&mut fs_err::File::open(program()?)?, &mut hasher)?;
            Ok(hasher.finalize().to_hex().to_string())
        };
        digest().unwrap_or_else(|error| {
            tracing::warn!(
                "the program's file cannot be read, so results of its own tasks are not found again: {error}"
            );
            format!("unknown {} {:?}", std::process::id(), std::time::SystemTime::now())
        })
    });
    &DIGEST
}

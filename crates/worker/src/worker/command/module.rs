//! The Python module that the program carries, for jobs whose Python has none installed.

use std::{io, path::Path, path::PathBuf, process, sync::OnceLock};

use fs_err as fs;
use sweep_job::Job;

use super::results_of;

/// Paths in the repository and contents, as `build.rs` finds them.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/module.rs"));

/// Folder below the results folder, with one copy for each version of the module.
const FOLDER: &str = "python";
/// Represents the module on Python's path, and loads an installed module if there is one.
const FINDER: &str = include_str!("module_finder.py");

/// Lets Python find the module behind everything that `PYTHONPATH` has.
pub(super) fn offer(job: &Job, program: &mut process::Command) -> io::Result<()> {
    let folder = written(results_of(job))?;
    let python_path =
        program.get_envs().find(|(name, _)| *name == "PYTHONPATH").map(|(_, value)| value.map(ToOwned::to_owned));
    let mut path = python_path.unwrap_or_else(|| std::env::var_os("PYTHONPATH")).unwrap_or_default();
    // An empty part would be the folder in which Python is started.
    if !path.is_empty() {
        path.push(":");
    }
    path.push(folder.join("path"));
    program.env("PYTHONPATH", path);
    Ok(())
}

/// Returns the folder of this version; writes it if it does not exist.
fn written(results: &Path) -> io::Result<PathBuf> {
    static VERSION: OnceLock<String> = OnceLock::new();
    let version = VERSION.get_or_init(|| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(FINDER.as_bytes());
        for (name, content) in FILES {
            hasher.update(name.as_bytes()).update(content);
        }
        hasher.finalize().to_hex()[..12].to_owned()
    });
    let parent = std::path::absolute(results)?.join(FOLDER);
    let folder = parent.join(version);
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(&parent)?;
    let temporary = tempfile::Builder::new().prefix(".new").tempdir_in(&parent)?;
    let package = |name: &str| format!("package/{}", name.trim_start_matches("python/"));
    let files = FILES.iter().map(|(name, content)| (package(name), *content));
    for (name, content) in files.chain([("path/sweep/__init__.py".to_owned(), FINDER.as_bytes())]) {
        let file = temporary.path().join(name);
        fs::create_dir_all(file.parent().unwrap_or(temporary.path()))?;
        fs::write(file, content)?;
    }
    fs::set_permissions(temporary.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    match fs::rename(temporary.path(), &folder) {
        // Another job has written it meanwhile.
        Err(_) if folder.is_dir() => {}
        result => result?,
    }
    Ok(folder)
}

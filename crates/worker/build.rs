//! Lists the files of the Python module that the worker offers to jobs (`src/worker/command/module.rs`).

use std::{
    env,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

/// The module's folder, relative to the repository. It has no subfolders.
const MODULE: &str = "python/sweep";

fn main() -> io::Result<()> {
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(name));
    let (package, out) = (variable("CARGO_MANIFEST_DIR")?, variable("OUT_DIR")?);
    let folder = package.join("../..").join(MODULE).canonicalize()?;
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    // Without files that Python has compiled, and without hidden ones.
    files.retain(|path| path.is_file() && !name(path).starts_with('.'));
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let place = format!("{MODULE}/{}", name(file));
        let _ = writeln!(list, "    ({place:?}, include_bytes!({:?})),", file.display().to_string());
    }
    list.push_str("]\n");
    fs::write(out.join("module.rs"), list)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

//! Lists the recipes, sweep files, examples and data that the program ships (`src/shipped.rs`).

use std::{
    env,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

/// The folders, relative to the repository.
const FOLDERS: [&str; 4] = ["recipes", "sweeps", "examples", "crates/lab/data"];

fn main() -> io::Result<()> {
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(name));
    let (package, out) = (variable("CARGO_MANIFEST_DIR")?, variable("OUT_DIR")?);
    let root = package.join("../..").canonicalize()?;
    println!("cargo::rerun-if-changed=build.rs");
    list(&root, &out.join("shipped.rs"))
}

/// Writes the paths and contents of the files below [`FOLDERS`] as a Rust expression.
fn list(root: &Path, to: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for folder in FOLDERS.iter().map(|folder| root.join(folder)).filter(|folder| folder.is_dir()) {
        println!("cargo::rerun-if-changed={}", folder.display());
        find(&folder, &mut files)?;
    }
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let _ = writeln!(list, "    ({name:?}, include_bytes!({:?})),", file.display().to_string());
    }
    list.push_str("]\n");
    fs::write(to, list)
}

/// The files below a folder, without those that are hidden or that Python has compiled.
fn find(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "__pycache__" {
            continue;
        }
        if path.is_dir() {
            find(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

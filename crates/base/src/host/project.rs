//! The folders of projects.

use std::path::{Path, PathBuf};

use fs_err as fs;

/// Files whose presence marks the folder of a project.
const MARKS: [&str; 2] = [".git", "pyproject.toml"];

/// The folder of the project that a folder belongs to: the nearest one with `.git` or `pyproject.toml`, else itself.
pub fn project_of(folder: &Path) -> PathBuf {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let real = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let marked = real.ancestors().find(|folder| MARKS.iter().any(|mark| folder.join(mark).exists()));
    marked.unwrap_or(&real).to_owned()
}

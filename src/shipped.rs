//! The recipes, sweep files, examples and data that come with the program, so that it needs no repository.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use crate::{format::count, recipe::schema};

/// The files, by their paths in the repository, which they keep because recipes refer to each other and to data by relative
/// paths.
macro_rules! files {
    ($($path:literal,)*) => {
        &[$(($path, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $path)))),*]
    };
}

/// Paths and contents.
const FILES: &[(&str, &[u8])] = files![
    "crates/lab/data/README.md",
    "crates/lab/data/kjv.txt",
    "recipes/batch-size.yaml",
    "recipes/bitter.yaml",
    "recipes/check-v.yaml",
    "recipes/check.yaml",
    "recipes/checkpointing.yaml",
    "recipes/command.yaml",
    "recipes/fusion.yaml",
    "recipes/generate.yaml",
    "recipes/gradprobe.yaml",
    "recipes/k1.yaml",
    "recipes/mask-update.yaml",
    "recipes/pairs.yaml",
    "recipes/parity.yaml",
    "recipes/ratio.yaml",
    "recipes/threshold.yaml",
    "recipes/throughput.yaml",
    "sweeps/batch-size-h200.yaml",
    "sweeps/bitter-h200.yaml",
    "sweeps/checkpointing-h200.yaml",
    "sweeps/fusion-h200.yaml",
    "sweeps/gradprobe-h200.yaml",
    "sweeps/k1-h200.yaml",
    "sweeps/mask-update-h200.yaml",
    "sweeps/pairs-h200.yaml",
    "sweeps/paper.yaml",
    "sweeps/quick.yaml",
    "sweeps/ratio-h200.yaml",
    "sweeps/threshold-h200.yaml",
    "sweeps/throughput-h200.yaml",
];

/// The recipe that `sweep demo` runs, relative to the folder of the copies. Without the lab, one that runs programs only.
pub const DEMO: &str = if cfg!(feature = "cpu") { "recipes/bitter.yaml" } else { "recipes/command.yaml" };

/// Reason why files were not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Files exist that differ.
    #[error(
        "nothing was copied: {names} differ{s} from what comes with the program; move {them} away, or name another folder"
    )]
    Differs {
        /// The first of the files.
        names: String,
        /// The ending of the verb.
        s: &'static str,
        /// The pronoun.
        them: &'static str,
    },
    /// The disk fails.
    #[error("cannot write {}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Copies all shipped files to a folder, with the schemas that the recipes name, and returns their number. Files that are
/// there already must be the same.
pub fn copy(folder: &Path) -> Result<usize, CopyError> {
    let schemas = [
        ("docs/recipe.schema.json", schema::text(schema::recipe()).into_bytes()),
        ("docs/sweep.schema.json", schema::text(schema::sweep()).into_bytes()),
    ];
    let schemas = schemas.iter().map(|(path, text)| (*path, text.as_slice()));
    let files: Vec<(PathBuf, &[u8])> =
        FILES.iter().copied().chain(schemas).map(|(path, content)| (folder.join(path), content)).collect();
    let mut missing = Vec::new();
    let mut differing = Vec::new();
    for (path, content) in &files {
        match fs_err::read(path) {
            Ok(existing) if existing == *content => {}
            Ok(_) => differing.push(path.display().to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push((path, *content)),
            Err(source) => return Err(CopyError::Io { path: path.clone(), source }),
        }
    }
    if let Some(first) = differing.first() {
        let (names, s, them) = match differing.len() {
            1 => (first.clone(), "s", "it"),
            others => (format!("{first} and {}", count(others - 1, "other file")), "", "them"),
        };
        return Err(CopyError::Differs { names, s, them });
    }
    for (path, content) in missing {
        write(path, content).map_err(|source| CopyError::Io { path: path.clone(), source })?;
    }
    Ok(files.len())
}

/// Writes a file that is there whole or not at all, and replaces none.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    fs_err::create_dir_all(folder)?;
    let mut beside = tempfile::NamedTempFile::new_in(folder)?;
    beside.write_all(content)?;
    beside.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    beside.persist_noclobber(path).map(|_| ()).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The files below a folder of the repository.
    fn below(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs_err::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let hidden = path.file_name().unwrap().to_string_lossy().starts_with(['.', '_']);
            if path.is_dir() && !hidden {
                below(&path, found);
            } else if !hidden {
                let root = Path::new(env!("CARGO_MANIFEST_DIR"));
                found.insert(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }

    #[test]
    fn everything_that_recipes_need_is_shipped() {
        let mut expected = BTreeSet::new();
        for folder in ["recipes", "sweeps", "examples", "crates/lab/data"] {
            below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut expected);
        }
        let shipped: BTreeSet<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(shipped, expected, "write new files into FILES in src/shipped.rs");
        assert!(shipped.contains(DEMO));
    }
}

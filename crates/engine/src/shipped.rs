//! The recipes, sweep files, examples and data that come with the program, so that it needs no repository.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use crate::{format::count, host::lab, recipe::schema};

/// Paths and contents, as `build.rs` finds them. The copies keep the paths that the files have in the repository, because
/// recipes refer to each other and to data by relative paths.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// The recipe that `sweep demo` runs.
#[derive(Debug)]
pub struct Demo {
    /// Its path, relative to the folder of the copies.
    pub recipe: &'static str,
    /// Flags that change a value.
    pub change: &'static str,
    /// One of its jobs.
    pub job: &'static str,
}

/// The demo of a program that has the lab.
const DEMO_OF_LAB: Demo =
    Demo { recipe: "recipes/demo-lab.yaml", change: "--set iters=100", job: "train/lr=0.002,seed=0" };

/// The demo of the engine alone, which runs programs only.
const DEMO_OF_PROGRAMS: Demo =
    Demo { recipe: "recipes/demo.yaml", change: "--set steps=300", job: "descend/momentum=0.9,seed=0" };

/// The curve of the demo's jobs that shows the most.
pub const DEMO_CURVE: &str = "loss";

/// The demo of this program.
pub fn demo() -> &'static Demo {
    if lab::is_installed() { &DEMO_OF_LAB } else { &DEMO_OF_PROGRAMS }
}

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

/// The text of a shipped file.
pub fn text(path: &str) -> Option<&'static str> {
    FILES.iter().find(|(name, _)| *name == path).and_then(|(_, content)| std::str::from_utf8(content).ok())
}

/// The shipped recipes and sweep files, with their texts.
pub fn recipes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_recipe = |path: &str| ["recipes/", "sweeps/"].iter().any(|folder| path.starts_with(folder));
    FILES.iter().filter(move |(path, _)| is_recipe(path)).filter_map(|(path, _)| Some((*path, text(path)?)))
}

/// Copies all shipped files to a folder, with the schemas that the recipes name, and returns their number. Existing files must have the
/// same content.
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
    use super::*;

    #[test]
    fn what_the_demo_needs_is_shipped() {
        let shipped = |path: &str| FILES.iter().any(|(name, content)| *name == path && !content.is_empty());
        for path in [
            "recipes/demo.yaml",
            "recipes/demo-lab.yaml",
            "recipes/bitter.yaml",
            "recipes/command.yaml",
            "sweeps/quick.yaml",
            "crates/lab/data/kjv.txt",
        ] {
            assert!(shipped(path), "{path}");
        }
        assert!(FILES.iter().all(|(name, _)| Path::new(name).is_relative()));
    }
}

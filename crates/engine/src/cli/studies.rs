//! The recipes that `sweep run` writes for scripts: the script that each is about, and the run that it serves.

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// Beginning of the last line of a recipe, which names the file that its jobs run.
const SUBJECT: &str = "# The study of ";

/// The text of a recipe, with the file that its jobs run.
pub(super) fn marked(text: String, subject: Option<&Path>) -> String {
    let Some(line) = subject.map(line_of) else { return text };
    format!("{}\n\n{line}\n", text.trim_end())
}

/// The name of the study of the file `subject`: `name`, unless that is the study of another file.
pub(super) fn name_for(folder: &Path, name: &str, subject: &Path) -> String {
    match subject_of(&folder.join(format!("{name}.yaml"))) {
        Some(line) if line != line_of(subject) => other_name(name, subject),
        _ => name.to_owned(),
    }
}

/// The recipe of the study of the file `subject`, if there is one.
pub(super) fn of(folder: &Path, name: &str, subject: &Path) -> Option<PathBuf> {
    let file = folder.join(format!("{}.yaml", name_for(folder, name, subject)));
    file.is_file().then_some(file)
}

fn other_name(name: &str, subject: &Path) -> String {
    format!("{name}-{}", short(line_of(subject).as_bytes()))
}

/// A few digits of the digest of a text, for a name.
pub(super) fn short(text: &[u8]) -> String {
    blake3::hash(text).to_hex().chars().take(6).collect()
}

fn line_of(subject: &Path) -> String {
    // A line break in a path would begin a line of the recipe.
    format!("{SUBJECT}{}", subject.to_string_lossy().escape_debug())
}

/// The line of a recipe that names its file; `None` if the recipe has none, or does not exist.
fn subject_of(recipe: &Path) -> Option<String> {
    let text = fs_err::read_to_string(recipe).ok()?;
    text.lines().rev().find(|line| line.starts_with(SUBJECT)).map(str::to_owned)
}

/// The right to write a study's recipe, which ends with the process.
pub(super) struct Claim {
    _lock: Option<File>,
}

impl Claim {
    /// Claims a recipe; `None` if another run has it. A disk without locks lets each run have it.
    pub(super) fn of(recipe: &Path) -> io::Result<Option<Self>> {
        let file = File::options().create(true).truncate(false).write(true).open(recipe.with_extension("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _lock: Some(file) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(_)) => Ok(Some(Self { _lock: None })),
        }
    }
}

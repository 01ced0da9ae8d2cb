//! Recipes in the current folder, and remedies for a recipe that is not there.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use super::ChangeArgs;
use crate::{
    error::Error,
    recipe::{RecipeError, near_file, nearest},
};

/// Folders below the current one are searched this deep.
const MAX_DEPTH: usize = 2;
/// Files that are looked at, at most.
const MAX_FILES: usize = 2000;
/// The part of a file in which its keys are looked for, in bytes.
const BEGINNING: u64 = 1 << 16;
/// Recipes that a message names.
const MAX_RECIPES: usize = 6;

/// The recipes and sweep files in a folder and in those below it, by name. Hidden folders and `results` are left out.
pub(super) fn recipes(folder: &Path, results: &Path) -> Vec<PathBuf> {
    let (mut paths, mut remaining_files) = (Vec::new(), MAX_FILES);
    search(folder, results, 0, &mut remaining_files, &mut paths);
    paths.sort_by_key(|path| (path.components().count(), path.clone()));
    paths
}

fn search(folder: &Path, results: &Path, depth: usize, remaining_files: &mut usize, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(if folder == Path::new("") { Path::new(".") } else { folder }) else { return };
    for entry in entries.flatten() {
        if *remaining_files == 0 {
            return;
        }
        *remaining_files -= 1;
        let name = entry.file_name();
        let path = folder.join(&name);
        let is_hidden = name.to_string_lossy().starts_with('.');
        let Ok(kind) = entry.file_type() else { continue };
        let is_generated =
            ["target", "node_modules", "__pycache__"].iter().any(|generated_name| name == *generated_name);
        if kind.is_dir() && depth < MAX_DEPTH && !is_hidden && !is_generated && path != results {
            search(&path, results, depth + 1, remaining_files, paths);
        } else if kind.is_file() && !is_hidden && is_yaml(&path) && is_recipe(&path) {
            paths.push(path);
        }
    }
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "yaml" || end == "yml")
}

/// True if a file has the keys of a recipe or of a sweep file.
fn is_recipe(path: &Path) -> bool {
    let text = beginning(path);
    let has_line = |key: &str| text.lines().any(|line| line.starts_with(key));
    ["steps:", "recipe:", "recipes:", "extends:"].iter().any(|key| has_line(key)) && !has_line("on:")
}

/// Returns the question that a recipe answers, from an `about` of one line.
pub(super) fn about(text: &str) -> Option<String> {
    let about = text.lines().find_map(|line| line.strip_prefix("about:"))?.trim();
    let about = about.trim_matches(['"', '\'']);
    (!about.is_empty() && !about.starts_with(['>', '|'])).then(|| about.to_owned())
}

/// The beginning of a file; empty if it cannot be read.
pub(super) fn beginning(path: &Path) -> String {
    let mut text = Vec::new();
    // A file that cannot be read has no beginning to show.
    let _ = File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

/// The failure to read recipes; for a missing file, with the recipe that may have been meant.
pub(super) fn explained(error: RecipeError, name: String, changes: &ChangeArgs, results: &Path) -> Error {
    match error {
        RecipeError::Read { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            let help = remedy(&path, changes, results);
            Error::NoRecipe { path, help }
        }
        error => Error::recipe(name)(error),
    }
}

fn remedy(path: &Path, changes: &ChangeArgs, results: &Path) -> String {
    let text = path.to_string_lossy();
    if path.extension().is_some_and(|extension| extension == "py") {
        return near_file(Path::new(""), &text);
    }
    if text.contains('=') && !is_yaml(path) {
        return format!("to change a param, write `--set {text}`; to change an axis, `--axis {text}`");
    }
    for (flag, values) in [("--set", &changes.set), ("--axis", &changes.axes)] {
        if let Some(name) = values.iter().find(|value| !value.contains('=')) {
            return format!("write `{flag} {name}={text}`");
        }
    }
    let known_recipes = recipes(Path::new(""), results);
    let names: Vec<String> = known_recipes.iter().map(|path| path.display().to_string()).collect();
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let wanted_stem = stem(path);
    let stems: Vec<String> = known_recipes.iter().map(|path| stem(path)).collect();
    let same_stem = stems.iter().position(|stem| *stem == wanted_stem);
    let similar_stem = || {
        let nearest_stem = nearest(&wanted_stem, stems.iter().map(String::as_str))?;
        stems.iter().position(|stem| stem == nearest_stem)
    };
    if let Some(index) = same_stem.or_else(similar_stem) {
        return format!("did you mean `{}`?", names[index]);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let place =
        std::env::current_dir().map_or_else(|_| "this folder".to_owned(), |place| format!("`{}`", place.display()));
    let statement = match folder {
        Some(folder) => format!("there is no folder `{}` in {place}", folder.display()),
        None => format!("the searched folder is {place}"),
    };
    if names.is_empty() {
        return format!(
            "{statement}, which has no recipes: `sweep new` writes one, `sweep examples` lists those of the program"
        );
    }
    let (listed_names, remainder) = (names.iter().take(MAX_RECIPES), names.len().saturating_sub(MAX_RECIPES));
    let listed_names: Vec<String> = listed_names.map(|name| format!("`{name}`")).collect();
    let remainder = if remainder > 0 { format!(" and {remainder} more") } else { String::new() };
    format!("{statement}; recipes there: {}{remainder}", listed_names.join(", "))
}

//! Folders of reports by the files of their recipes, so that two recipes of one name have two reports.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use super::{Recipe, compose::with_suffix};
use crate::host::replaced::{Outlives, Readers, replace};

/// The file with the recipe of each report folder, in the results folder.
const FILE: &str = "store/reports.json";

/// Gives a recipe a separate report folder if its folder belongs to another recipe file that still exists.
pub(crate) fn tell_apart(recipes: &mut [Recipe], results: &Path) {
    let Ok(root) = results.canonicalize() else { return };
    let entries = read(&root);
    for recipe in recipes {
        let Some(recipe_path) = from(&root, &recipe.file) else { continue };
        let other =
            entries.get(&text(&recipe.report)).filter(|other| **other != recipe_path && root.join(other).is_file());
        if let Some(other) = other {
            let report =
                with_suffix(&recipe.report, &format!(".{}", &blake3::hash(recipe_path.as_bytes()).to_hex()[..8]));
            recipe.taken = Some((std::mem::replace(&mut recipe.report, report), other.clone()));
        }
    }
}

/// Records that the report of a recipe is in its folder.
pub fn register(recipe: &Recipe, results: &Path) -> io::Result<()> {
    let root = results.canonicalize()?;
    let Some(recipe_path) = from(&root, &recipe.file) else { return Ok(()) };
    let mut entries = read(&root);
    if entries.insert(text(&recipe.report), recipe_path.clone()).is_some_and(|before| before == recipe_path) {
        return Ok(());
    }
    let path = root.join(FILE);
    let folder = path.parent().unwrap_or(&root);
    fs_err::create_dir_all(folder)?;
    replace(&path, &serde_json::to_vec_pretty(&entries)?, Readers::All, Outlives::Process)
}

/// Reads the known reports; empty if the file is missing or damaged. A later report writes the file anew.
fn read(root: &Path) -> BTreeMap<String, String> {
    let content = fs_err::read(root.join(FILE)).unwrap_or_default();
    serde_json::from_slice(&content).unwrap_or_default()
}

/// A file as seen from the results folder, so that both can move together.
fn from(root: &Path, file: &Path) -> Option<String> {
    let file = file.canonicalize().ok()?;
    let common = root.components().zip(file.components()).take_while(|(a, b)| a == b).count();
    let up = root.components().skip(common).map(|_| Path::new(".."));
    let path: PathBuf = up.collect::<PathBuf>().join(file.components().skip(common).collect::<PathBuf>());
    Some(text(&path))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

//! Places of a bundle's files: below `sources`, each where it is relative to the recipe, so that the recipe finds it there; and texts
//! in which paths of the author's machine are relative, too.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Component, Path, PathBuf},
};

use fs_err as fs;

use super::SOURCES;
use crate::{
    host::project_of,
    plan::{CodeFile, Digests, Plan, normal, relative},
    record::ABSENT,
};

/// Replaces, in a bundle, the name of a folder above the recipe's, because that name may be private.
const ABOVE: &str = "@";

/// The files of a study on the machine that has them.
#[derive(Debug)]
pub(super) struct Places {
    /// The folder of the recipes.
    root: PathBuf,
    /// Folders above it that a bundle has, because files are in them.
    pub(super) above: usize,
    /// Paths of this machine, the longest first, with their replacements.
    hidden: Vec<(String, String)>,
}

/// A file or a folder that jobs read.
#[derive(Debug)]
pub(super) struct Needed {
    /// Its path on this machine.
    pub(super) path: PathBuf,
    /// Its path from the folder of the recipes.
    pub(super) place: PathBuf,
    /// Its digest when the jobs were planned.
    pub(super) digest: String,
    /// Patterns of its ignored files.
    ignored: Vec<String>,
}

/// Files that jobs read: their inputs, and the code that their earlier runs were observed to read.
#[derive(Debug, Default)]
pub(super) struct AllNeeded {
    pub(super) inputs: Vec<Needed>,
    pub(super) code: Vec<Needed>,
    /// Undeclared files outside of the project. They may be private, so a bundle does not contain them.
    pub(super) outside: BTreeSet<PathBuf>,
}

impl AllNeeded {
    pub(super) fn of(plan: &Plan, root: &Path) -> Self {
        let needed_file = |(path, (digest, ignored)): (PathBuf, (String, Vec<String>))| Needed {
            place: relative(&path, root),
            path,
            digest,
            ignored,
        };
        let of_job = |(id, _)| plan.inputs_of(id).into_iter().map(move |input| (input, plan.ignored_by(id)));
        let inputs: BTreeMap<PathBuf, _> =
            plan.jobs().flat_map(of_job).map(|((path, digest), ignored)| (normal(&path), (digest, ignored))).collect();
        let code = plan.jobs().filter_map(|(_, job)| job.code.as_ref());
        let (mut files, mut outside) = (BTreeMap::new(), BTreeSet::new());
        let mut lists = BTreeSet::new();
        // Many jobs share one list.
        for code in code.filter(|code| lists.insert(std::sync::Arc::as_ptr(code))) {
            // Files of a variant do not belong to the project.
            let is_own = |file: &&CodeFile| code.real_path(&file.path) == code.path(&file.path);
            let (own_files, others): (Vec<_>, Vec<_>) = code
                .files
                .iter()
                .filter(|file| file.digest != ABSENT)
                .filter(is_own)
                .partition(|file| !file.path.starts_with('/'));
            outside.extend(others.iter().map(|file| normal(&code.path(&file.path))));
            let own_files = own_files.into_iter();
            files.extend(own_files.map(|file| (normal(&code.path(&file.path)), (file.digest.clone(), Vec::new()))));
        }
        files.retain(|path, _| !inputs.contains_key(path));
        outside.retain(|path| !inputs.keys().any(|input| path.starts_with(input)));
        Self {
            inputs: inputs.into_iter().map(needed_file).collect(),
            code: files.into_iter().map(needed_file).collect(),
            outside,
        }
    }

    /// All of it.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Needed> {
        self.inputs.iter().chain(&self.code)
    }
}

impl Places {
    /// The places for recipes in this folder, and for the files that jobs read.
    pub(super) fn new(root: &Path, needed: &AllNeeded, results: &Path) -> Self {
        let above = needed.iter().map(|needed| ups(&needed.place)).max().unwrap_or(0);
        let mut hidden: BTreeMap<String, String> = BTreeMap::new();
        let mut hide = |path: &Path, replacement: String| {
            // The root of the file system reveals nothing private.
            if let Some(text) = path.to_str().filter(|_| path.components().count() > 1) {
                hidden.entry(text.to_owned()).or_insert(replacement);
            }
        };
        for needed in needed.iter() {
            hide(&needed.path, needed.place.display().to_string());
        }
        let place = |path: &Path| match relative(path, root) {
            place if place.as_os_str().is_empty() => ".".to_owned(),
            place => place.display().to_string(),
        };
        let canonical = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        for folder in [normal(root), canonical(root)] {
            hide(&folder, ".".to_owned());
        }
        let results = normal(results);
        for folder in [results.clone(), canonical(&results)] {
            hide(&folder, "results".to_owned());
        }
        let project = project_of(root);
        hide(&project, place(&project));
        if let Ok(current_folder) = std::env::current_dir() {
            hide(&current_folder, place(&current_folder));
        }
        if let Some(home) = std::env::home_dir() {
            hide(&canonical(&home), "~".to_owned());
            hide(&normal(&home), "~".to_owned());
        }
        let mut hidden: Vec<(String, String)> = hidden.into_iter().collect();
        hidden.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Self { root: root.to_owned(), above, hidden }
    }

    /// The name in the bundle of a file that is at this place from the folder of the recipes.
    pub(super) fn name(&self, place: &Path) -> String {
        name(self.above, place)
    }

    /// The name in the bundle of a recipe or of a file beside it; `None` if it is elsewhere.
    pub(super) fn source(&self, path: &Path) -> Option<(PathBuf, String)> {
        let place = path.strip_prefix(&self.root).ok()?.to_owned();
        let name = self.name(&place);
        Some((place, name))
    }

    /// A text in which the paths of this machine are relative to the recipe, `results` or `~`.
    pub(super) fn without_paths(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (path, replacement) in &self.hidden {
            if text.contains(path.as_str()) {
                text = replaced(&text, path, replacement);
            }
        }
        text
    }

    /// Replaces this machine's paths in all texts of a JSON value.
    pub(super) fn without_paths_in(&self, value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => *text = self.without_paths(text),
            serde_json::Value::Array(items) => items.iter_mut().for_each(|item| self.without_paths_in(item)),
            serde_json::Value::Object(entries) => entries.values_mut().for_each(|value| self.without_paths_in(value)),
            _ => {}
        }
    }
}

/// A text with another path in the place of one, and of the folder in longer paths.
fn replaced(text: &str, path: &str, replacement: &str) -> String {
    // Characters that can be part of a path's component or continue it.
    let is_part = |char: char| char.is_alphanumeric() || "_-.~".contains(char);
    let mut result = String::with_capacity(text.len());
    let mut remainder = text;
    while let Some(index) = remainder.find(path) {
        let (head, tail) = (&remainder[..index], &remainder[index + path.len()..]);
        let is_beginning = !head.chars().next_back().or_else(|| result.chars().next_back()).is_some_and(is_part);
        let is_end = !tail.starts_with(|char: char| is_part(char) && char != '.') && !is_longer(tail);
        result.push_str(head);
        remainder = tail;
        if !(is_beginning && is_end) {
            result.push_str(path);
        } else if let Some(inner) = tail.strip_prefix('/').filter(|_| replacement == ".") {
            // `./x` is `x`, unless nothing follows.
            if !inner.starts_with(is_part) {
                result.push_str("./");
            }
            remainder = inner;
        } else {
            result.push_str(replacement);
        }
    }
    result + remainder
}

/// Returns true if a period continues a name: `/a/b.py` is not `/a/b` at the end of a sentence.
fn is_longer(text: &str) -> bool {
    text.strip_prefix('.').is_some_and(|text| text.starts_with(|char: char| char.is_alphanumeric()))
}

/// The name in the bundle of the file at `place`, relative to the folder of the recipes. The bundle has `above` folders above that one.
pub(super) fn name(above: usize, place: &Path) -> String {
    let levels = ups(place).min(above);
    let mut parts = vec![SOURCES.to_owned()];
    parts.extend(std::iter::repeat_n(ABOVE.to_owned(), above - levels));
    let inner = place.components().filter(|part| matches!(part, Component::Normal(_)));
    parts.extend(inner.map(|part| part.as_os_str().to_string_lossy().into_owned()));
    parts.join("/")
}

/// The number of leading `..` in `place`.
fn ups(place: &Path) -> usize {
    place.components().filter(|part| *part == Component::ParentDir).count()
}

impl Needed {
    /// The files of an input that its digest counts: paths, and names below the input's.
    ///
    /// # Errors
    /// It cannot be read, or has an empty folder.
    pub(super) fn files(&self, digests: &mut Digests) -> io::Result<Vec<(PathBuf, PathBuf)>> {
        let tree = digests.tree(&self.path, &self.ignored)?;
        let mut entries = tree.iter().peekable();
        let mut files = Vec::new();
        while let Some((inner, digest)) = entries.next() {
            if digest.is_some() {
                let path = if inner.as_os_str().is_empty() { self.path.clone() } else { self.path.join(inner) };
                files.push((path, inner.clone()));
            } else if !entries.peek().is_some_and(|(next, _)| next.starts_with(inner)) {
                // The archive has files only, and an empty folder is a part of the input's digest.
                return Err(io::Error::other("it has an empty folder"));
            }
        }
        Ok(files)
    }
}

/// Links the files that a bundle lacks to files of a folder with the right content.
pub(super) fn supply<'n>(
    missing_files: impl Iterator<Item = (&'n PathBuf, &'n String)>,
    target_of: impl Fn(&Path) -> PathBuf,
    folder: &Path,
) -> io::Result<()> {
    let folder = std::path::absolute(folder)?;
    let mut digests = Digests::default();
    for (place, digest) in missing_files {
        let inner: PathBuf = place.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let name = place.file_name().map(PathBuf::from).unwrap_or_default();
        let candidates = [inner, name].into_iter().map(|name| folder.join(name));
        let candidate =
            candidates.into_iter().find(|path| digests.of(path).is_ok_and(|actual_digest| actual_digest == *digest));
        let target = target_of(place);
        if let Some(candidate) = candidate.filter(|_| !target.exists()) {
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::os::unix::fs::symlink(candidate, target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_relative_to_the_recipe() {
        for (path, place, name) in [
            ("/home/me/p/recipes/a.py", "a.py", "sources/@/@/@/@/a.py"),
            ("/home/me/p/data/a", "../data/a", "sources/@/@/@/data/a"),
            ("/data/x", "../../../../data/x", "sources/data/x"),
        ] {
            let relative_path = relative(Path::new(path), Path::new("/home/me/p/recipes"));
            assert_eq!((relative_path.as_path(), super::name(4, &relative_path).as_str()), (Path::new(place), name));
        }
    }

    #[test]
    fn paths_of_this_machine_are_replaced_whole() {
        let hidden = [
            ("/home/me/p/data/in.txt", "../data/in.txt"),
            ("/home/me/p/r", "."),
            ("/home/me/p", ".."),
            ("/home/me", "~"),
        ];
        let hidden = hidden.map(|(path, by)| (path.to_owned(), by.to_owned())).to_vec();
        let places = Places { root: PathBuf::from("/home/me/p/r"), above: 1, hidden };
        for (text, expected) in [
            ("/home/me/p/data/in.txt", "../data/in.txt"),
            ("--in=/home/me/p/data/in.txt,x", "--in=../data/in.txt,x"),
            ("cannot open '/home/me/p/r/a.py'.", "cannot open 'a.py'."),
            ("in /home/me/p/r.", "in .."),
            ("in /home/me/p/r/", "in ./"),
            ("/home/me/p/r.py", "../r.py"),
            ("/home/me/p/x /home/me/y /home/me", "../x ~/y ~"),
            ("/home/mean /mnt/home/me /home/me-too", "/home/mean /mnt/home/me /home/me-too"),
        ] {
            assert_eq!(places.without_paths(text), expected, "{text}");
        }
        let mut value = serde_json::json!({ "a": ["/home/me/p/r/x", 1], "b": { "c": "/home/me" } });
        places.without_paths_in(&mut value);
        assert_eq!(value, serde_json::json!({ "a": ["x", 1], "b": { "c": "~" } }));
    }
}

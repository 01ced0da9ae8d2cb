//! Properties of paths that programs asked for, as text: what a path was, and what it is now.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use fs_err as fs;

use super::{ABSENT, path_text};

/// A file, of which nothing but its existence was asked.
pub(crate) const FILE: &str = "file";
/// A folder.
pub(crate) const FOLDER: &str = "folder";
/// Neither a file nor a folder nor a link.
const OTHER: &str = "other";
/// Before the target of a link.
const LINK: &str = "link:";
/// Before the digest of the names in a folder.
const NAMES: &str = "names:";
/// Before the modules that Python looked for in a folder and did not find.
const WITHOUT: &str = "without:";
/// Before the modules that are there now although Python did not find them.
const WITH: &str = "with:";

/// Names that no program means: version control, Python's cache, and what editors and desktops leave.
const PASSED_OVER: [&str; 8] = [".git", ".hg", ".svn", "__pycache__", ".DS_Store", ".idea", ".vscode", "4913"];

/// True unless a name in a folder belongs to version control, a cache, an editor or a desktop.
fn counts(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let is_swap = bytes.starts_with(b".") && [&b".swp"[..], b".swo", b".swx"].iter().any(|end| bytes.ends_with(end));
    let is_backup = bytes.ends_with(b"~") || bytes.starts_with(b".#") || bytes.starts_with(b"#");
    !is_swap && !is_backup && !PASSED_OVER.iter().any(|passed| name == *passed)
}

/// The property of a link.
pub(crate) fn of_link(target: &Path) -> String {
    format!("{LINK}{}", path_text(target))
}

/// The property of a folder that was listed with these names.
pub(crate) fn of_names<'a>(names: impl Iterator<Item = &'a OsStr>) -> String {
    let names: BTreeSet<&OsStr> = names.filter(|name| counts(name)).collect();
    let mut hasher = blake3::Hasher::new();
    for name in names {
        hasher.update(name.as_bytes()).update(&[0]);
    }
    format!("{NAMES}{}", hasher.finalize().to_hex())
}

/// The property of a folder in which Python did not find these modules.
pub(crate) fn of_modules<'a>(modules: impl Iterator<Item = &'a str>) -> String {
    let modules: BTreeSet<&str> = modules.collect();
    format!("{WITHOUT}{}", modules.into_iter().collect::<Vec<_>>().join(" "))
}

/// True for the property of a folder that was listed.
pub(crate) fn is_names(fact: &str) -> bool {
    fact.starts_with(NAMES)
}

/// True for a property that a project's copy on another machine need not have: of names that are not in the copy.
pub(crate) fn is_local(fact: &str) -> bool {
    fact == ABSENT || fact.starts_with(NAMES) || fact.starts_with(WITHOUT)
}

/// The same property of a path now. `is_made` says which paths in a folder jobs have made.
pub(crate) fn now(fact: &str, path: &Path, is_made: &mut dyn FnMut(&Path) -> bool) -> String {
    if fact.starts_with(NAMES) {
        let Ok(names) = names(path) else { return state(path) };
        // A job may list what another one has made that has not ended yet.
        let all = of_names(names.iter().map(OsString::as_os_str));
        if all == fact {
            return all;
        }
        return of_names(
            names.iter().map(OsString::as_os_str).filter(|name| !counts(name) || !is_made(&path.join(name))),
        );
    }
    if let Some(modules) = fact.strip_prefix(WITHOUT) {
        let Ok(names) = names(path) else { return state(path) };
        let wanted: BTreeSet<&str> = modules.split(' ').filter(|module| !module.is_empty()).collect();
        let found: BTreeSet<&str> =
            names.iter().filter_map(|name| module(name)).filter(|name| wanted.contains(name)).collect();
        let found: Vec<&str> = found.into_iter().filter(|name| is_importable(path, name)).collect();
        return if found.is_empty() { fact.to_owned() } else { format!("{WITH}{}", found.join(" ")) };
    }
    state(path)
}

/// True if a property of a path is another one now, and not only another kind of property.
pub(crate) fn is_other(then: &str, now: &str) -> bool {
    let is_of_names = |fact: &str| fact.starts_with(NAMES);
    let is_of_modules = |fact: &str| fact.starts_with(WITHOUT) || fact.starts_with(WITH);
    then != now && is_of_names(then) == is_of_names(now) && is_of_modules(then) == is_of_modules(now)
}

/// What a path is, without following it if it is a link.
pub(crate) fn state(path: &Path) -> String {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => FILE.to_owned(),
        Ok(metadata) if metadata.is_dir() => FOLDER.to_owned(),
        Ok(metadata) if metadata.is_symlink() => {
            fs::read_link(path).map_or_else(|_| OTHER.to_owned(), |target| of_link(&target))
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            ABSENT.to_owned()
        }
        Ok(_) | Err(_) => OTHER.to_owned(),
    }
}

/// The names of the modules that a folder has.
pub(crate) fn modules(folder: &Path) -> BTreeSet<String> {
    let names = names(folder).unwrap_or_default();
    names.iter().filter_map(|name| module(name)).map(str::to_owned).collect()
}

/// The module that a file or a folder of this name would be.
fn module(name: &OsStr) -> Option<&str> {
    name.to_str()?.split('.').next()
}

/// True if Python would import a module from a folder: a file of source or machine code, or a folder.
fn is_importable(folder: &Path, module: &str) -> bool {
    let has = |end: &str| folder.join(format!("{module}{end}")).exists();
    let own = || names(folder).unwrap_or_default();
    let starts = format!("{module}.");
    folder.join(module).is_dir()
        || has(".py")
        || has(".pyc")
        || own().iter().filter_map(|name| name.to_str()).any(|name| name.starts_with(&starts) && is_library(name))
}

fn is_library(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "so")
}

fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
}

/// A change of a property for people: of what, from what, to what. Digests follow `content`.
pub(crate) fn change(path: &str, old: &str, new: &str, content: &str) -> (String, String, String) {
    let place = if path.is_empty() { "the project's folder" } else { path };
    let shown = |fact: &str| match fact.split_once(':') {
        Some(("link", target)) => target.to_owned(),
        Some(("names", digest)) => format!("{content}{}", digest.chars().take(12).collect::<String>()),
        Some(("with", modules)) => modules.to_owned(),
        _ if fact == ABSENT || fact.starts_with(WITHOUT) => ABSENT.to_owned(),
        _ if old == ABSENT => "there".to_owned(),
        _ => fact.to_owned(),
    };
    let what = match old.split_once(':') {
        Some(("names", _)) => format!("names in {place}"),
        Some(("without", _)) => format!("modules in {place}"),
        _ => place.to_owned(),
    };
    (what, shown(old), shown(new))
}

/// A folder without links.
pub(crate) fn real(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_holds_until_the_path_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let nobody = &mut |_: &Path| false;
        fs::write(path.join("a.txt"), "1").unwrap();
        let names = of_names([OsStr::new("a.txt"), OsStr::new(".a.txt.swp"), OsStr::new("__pycache__")].into_iter());
        assert_eq!(now(&names, path, nobody), names, "an editor's file does not count");
        let modules = of_modules(["numpy", "utils"].into_iter());
        assert_eq!(now(&modules, path, nobody), modules);
        assert_eq!(now(ABSENT, &path.join("utils.py"), nobody), ABSENT);
        fs::write(path.join(".hidden"), "").unwrap();
        assert_eq!(now(WITHOUT, path, nobody), WITHOUT, "no module was looked for");
        fs::remove_file(path.join(".hidden")).unwrap();

        fs::write(path.join("utils.py"), "").unwrap();
        assert_ne!(now(&names, path, nobody), names);
        assert_eq!(now(&names, path, &mut |made: &Path| made.ends_with("utils.py")), names, "a job has made it");
        assert_eq!(now(&modules, path, nobody), "with:utils");
        assert_eq!(now(ABSENT, &path.join("utils.py"), nobody), FILE);
        assert_eq!(now(ABSENT, &path.join("a.txt/x"), nobody), ABSENT, "a file is no folder");
        fs::os::unix::fs::symlink("v1", path.join("current")).unwrap();
        assert_eq!(state(&path.join("current")), of_link(Path::new("v1")));
    }
}

//! Properties of paths that programs looked up, as text: the recorded and the present property of a path.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    io,
    ops::Bound,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use fs_err as fs;
use sweep_job::Ignore;
use sweep_observer::Layer;

use super::{ABSENT, path_text};

/// A file of which only the existence was looked up.
pub const FILE: &str = "file";
/// A folder.
pub const FOLDER: &str = "folder";
/// Neither a file nor a folder nor a link.
const OTHER: &str = "other";
/// Prefix of the target of a symbolic link.
const LINK: &str = "link:";
/// Prefix of the digest of the names in a folder, each with its kind: folder or not.
const ENTRIES: &str = "entries:";
/// Prefix of the digest of names without their kinds, in records of earlier versions.
const NAMES: &str = "names:";
/// Prefix of the modules that Python looked for in a folder and did not find; see [`Found`].
const WITHOUT: &str = "without:";
/// Prefix of the modules that Python did not find and that are in the folder now.
const WITH: &str = "with:";

/// The path of the fact that has the place of a program in its project. No file has such a path.
pub const PLACE: &str = "//place";
/// Prefix of the place.
const AT: &str = "place:";

/// The path of the fact that has the patterns of names that were left out of listings. No file has such a path.
pub const IGNORE: &str = "//ignore";
/// Prefix of the patterns, with one pattern in each line.
const PATTERNS: &str = "ignored:";

/// Name of the file that Vim creates to test if it can write to a folder.
const PROBE: &str = "4913";
/// First and last bytes of all names that the patterns can match. Other names skip the regular expressions.
const FIRST: &[u8] = b".#~_Tds4";
const LAST: &[u8] = b"~pox";

/// True unless `name` is a file of version control, a cache, an editor or a desktop.
fn counts(name: &OsStr) -> bool {
    static IGNORED: LazyLock<Ignore> = LazyLock::new(|| Ignore::new(&[]).unwrap_or_default());
    let bytes = name.as_bytes();
    let is_plain = bytes.first().is_none_or(|byte| !FIRST.contains(byte));
    if is_plain && bytes.last().is_none_or(|byte| !LAST.contains(byte)) {
        return true;
    }
    name != PROBE && !bytes.starts_with(b"#") && !IGNORED.is_ignored(&name.to_string_lossy(), true)
}

/// The property of a link.
pub fn of_link(target: &Path) -> String {
    format!("{LINK}{}", path_text(target))
}

/// Returns the fact with the place of a program in its project; `None` if the program is in the project's own folder.
pub fn of_place(place: &str) -> Option<(String, String)> {
    (!place.is_empty()).then(|| (PLACE.to_owned(), at(place)))
}

/// The property of a program at `place` in its project.
pub fn at(place: &str) -> String {
    format!("{AT}{place}")
}

/// The property of listings that leave out the names that match `patterns`.
pub fn of_patterns(patterns: &[String]) -> String {
    format!("{PATTERNS}{}", patterns.join("\n"))
}

/// Returns `fact` if every pattern in it is still in `patterns`, else the property of `patterns`: the old listings lack
/// names that no longer match.
pub fn patterns_now(fact: &str, patterns: &[String]) -> String {
    let old_patterns = fact.strip_prefix(PATTERNS).unwrap_or_default();
    let is_covered = old_patterns.lines().all(|pattern| patterns.iter().any(|other| other == pattern));
    if is_covered { fact.to_owned() } else { of_patterns(patterns) }
}

/// The property of a folder, seen through `layer`, whose listing returned `names`.
pub fn of_entries<'a>(folder: &Path, layer: &Layer, names: impl Iterator<Item = &'a OsStr>) -> String {
    let kinds = layer.entries(folder).unwrap_or_default();
    listing(names.map(|name| (name, kinds.get(name).copied().unwrap_or(false))), ENTRIES)
}

/// The property of the names in a folder, each with true for a folder. `form` is its prefix: [`ENTRIES`] or [`NAMES`].
fn listing<'a>(entries: impl Iterator<Item = (&'a OsStr, bool)>, form: &str) -> String {
    let entries: BTreeMap<&OsStr, bool> = entries.filter(|(name, _)| counts(name)).collect();
    let mut hasher = blake3::Hasher::new();
    for (name, is_folder) in entries {
        let kind: &[u8] = if is_folder && form == ENTRIES { b"/" } else { b"" };
        hasher.update(name.as_bytes()).update(kind).update(&[0]);
    }
    format!("{form}{}", hasher.finalize().to_hex())
}

/// The kind of entry that Python finds in a folder for the name of a module, in ascending order of precedence. In a
/// property, a character after the module's name encodes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Nothing,
    /// A folder without `__init__.py` (a namespace package), which Python uses only if the whole path has nothing else:
    /// `.`.
    Portion,
    /// A source file or its bytecode: `/`.
    Source,
    /// A folder with `__init__.py`, or a shared library.
    First,
}

impl Found {
    /// Returns the kind of entry that a folder has for a module.
    fn of(folder: &Path, layer: &Layer, entries: &BTreeMap<OsString, bool>, module: &str) -> Self {
        let has_entry = |end: &str| entries.contains_key(OsStr::new(&format!("{module}{end}")));
        let is_folder = entries.get(OsStr::new(module)).is_some_and(|_| layer.at(&folder.join(module)).is_dir());
        let prefix = format!("{module}.");
        let later_names = entries
            .range::<OsStr, _>((Bound::Included(OsStr::new(&prefix)), Bound::Unbounded))
            .map(|(name, _)| name.as_bytes());
        let mut module_names = later_names.take_while(|name| name.starts_with(prefix.as_bytes()));
        if module_names.any(|name| name.ends_with(b".so"))
            || (is_folder && layer.at(&folder.join(module).join("__init__.py")).exists())
        {
            Self::First
        } else if has_entry(".py") || has_entry(".pyc") {
            Self::Source
        } else if is_folder {
            Self::Portion
        } else {
            Self::Nothing
        }
    }
}

/// The property of a folder in which Python looked for `modules`: the modules that a new entry would provide or take
/// precedence over.
pub fn of_modules(folder: &Path, layer: &Layer, modules: BTreeSet<&str>) -> String {
    let entries = layer.entries(folder).unwrap_or_default();
    let names = modules.into_iter().filter_map(|module| match Found::of(folder, layer, &entries, module) {
        Found::Nothing => Some(module.to_owned()),
        Found::Portion => Some(format!("{module}.")),
        Found::Source => Some(format!("{module}/")),
        Found::First => None,
    });
    format!("{WITHOUT}{}", names.collect::<Vec<_>>().join(" "))
}

/// True for the property of a folder that was listed.
pub fn is_names(fact: &str) -> bool {
    fact.starts_with(ENTRIES) || fact.starts_with(NAMES)
}

/// True for a property of missing or listed names. A project's copy on another machine need not have it.
pub fn is_local(fact: &str) -> bool {
    fact == ABSENT || is_names(fact) || fact.starts_with(WITHOUT)
}

/// True if `ignore` covers a path that the programs of `project` use: relative to the project inside of it, and to `/`
/// outside.
pub fn is_ignored(ignore: &Ignore, project: &Path, path: &Path) -> bool {
    ignore.covers(if path.starts_with(project) { project } else { Path::new("/") }, path)
}

/// Returns the present value of the property `fact` of `path`, seen through `layer`. `is_made` returns true for paths
/// that jobs have created.
pub fn now(fact: &str, path: &Path, layer: &Layer, is_made: &mut dyn FnMut(&Path) -> bool) -> String {
    let state = |path: &Path| state(&layer.at(path));
    if is_names(fact) {
        let Ok(entries) = layer.entries(path) else { return state(path) };
        let form = if fact.starts_with(ENTRIES) { ENTRIES } else { NAMES };
        let all = || entries.iter().map(|(name, is_folder)| (name.as_os_str(), *is_folder));
        // The recorded listing may contain files of a job that had not ended yet, so all names are compared first.
        let full_listing = listing(all(), form);
        if full_listing == fact {
            return full_listing;
        }
        return listing(all().filter(|(name, _)| !counts(name) || !is_made(&path.join(name))), form);
    }
    if let Some(modules) = fact.strip_prefix(WITHOUT) {
        let Ok(entries) = layer.entries(path) else { return state(path) };
        let is_there = |module: &&str| {
            let (name, old_kind) = match module.strip_suffix('/') {
                Some(name) => (name, Found::Source),
                None => module.strip_suffix('.').map_or((*module, Found::Nothing), |name| (name, Found::Portion)),
            };
            Found::of(path, layer, &entries, name) > old_kind
        };
        let new_modules: Vec<&str> = modules.split(' ').filter(|module| !module.is_empty()).filter(is_there).collect();
        return if new_modules.is_empty() { fact.to_owned() } else { format!("{WITH}{}", new_modules.join(" ")) };
    }
    state(path)
}

/// True if two properties of the same kind differ. Properties of different kinds cannot be compared.
pub fn is_other(old: &str, new: &str) -> bool {
    let is_of_names = |fact: &str| (fact.starts_with(NAMES), fact.starts_with(ENTRIES));
    let is_of_modules = |fact: &str| fact.starts_with(WITHOUT) || fact.starts_with(WITH);
    old != new && is_of_names(old) == is_of_names(new) && is_of_modules(old) == is_of_modules(new)
}

/// Returns the property of a path, without following a link.
pub fn state(path: &Path) -> String {
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

/// Describes a change of a property of `path` for people, as subject, old and new value. `content` precedes digests.
pub fn change(path: &str, old: &str, new: &str, content: &str) -> (String, String, String) {
    let place = if path.is_empty() { "the project's folder" } else { path };
    let text = |fact: &str| match fact.split_once(':') {
        Some(("link", target)) => target.to_owned(),
        Some(("names" | "entries", digest)) => format!("{content}{}", digest.chars().take(12).collect::<String>()),
        Some(("with", modules)) => modules.replace(['/', '.'], ""),
        Some(("place", place)) => place.to_owned(),
        Some(("ignored", "")) => "none".to_owned(),
        Some(("ignored", patterns)) => patterns.replace('\n', ", "),
        _ if fact == ABSENT || fact.starts_with(WITHOUT) => ABSENT.to_owned(),
        _ if old == ABSENT => "there".to_owned(),
        _ => fact.to_owned(),
    };
    let subject = match old.split_once(':') {
        Some(("names" | "entries", _)) => format!("names in {place}"),
        Some(("without", _)) => format!("modules in {place}"),
        Some(("place", _)) => "the place of the program".to_owned(),
        Some(("ignored", _)) => "patterns of `ignore`".to_owned(),
        _ => place.to_owned(),
    };
    (subject, text(old), text(new))
}

/// Returns `folder` with symbolic links resolved, or unchanged if it cannot be resolved.
pub fn real(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_holds_until_the_path_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let is_made = &mut |_: &Path| false;
        fs::write(path.join("a.txt"), "1").unwrap();
        let entries = [OsStr::new("a.txt"), OsStr::new(".a.txt.swp"), OsStr::new("__pycache__")];
        let names = of_entries(path, &Layer::default(), entries.into_iter());
        let old_listing = listing(entries.into_iter().map(|name| (name, false)), NAMES);
        assert_eq!(
            now(&old_listing, path, &Layer::default(), is_made),
            old_listing,
            "as a record of an earlier version has it"
        );
        assert_eq!(now(&names, path, &Layer::default(), is_made), names, "an editor's file does not count");
        let modules = of_modules(path, &Layer::default(), BTreeSet::from(["numpy", "utils"]));
        assert_eq!(now(&modules, path, &Layer::default(), is_made), modules);
        assert_eq!(now(ABSENT, &path.join("utils.py"), &Layer::default(), is_made), ABSENT);
        fs::write(path.join(".hidden"), "").unwrap();
        assert_eq!(now(WITHOUT, path, &Layer::default(), is_made), WITHOUT, "no module was looked for");
        fs::remove_file(path.join(".hidden")).unwrap();

        fs::write(path.join("utils.py"), "").unwrap();
        assert_ne!(now(&names, path, &Layer::default(), is_made), names);
        assert_eq!(
            now(&names, path, &Layer::default(), &mut |file: &Path| file.ends_with("utils.py")),
            names,
            "a job has made it"
        );
        assert_eq!(now(&modules, path, &Layer::default(), is_made), "with:utils");
        assert_eq!(now(ABSENT, &path.join("utils.py"), &Layer::default(), is_made), FILE);
        assert_eq!(now(ABSENT, &path.join("a.txt/x"), &Layer::default(), is_made), ABSENT, "a file is no folder");
        // Entries that take precedence over an existing module.
        fs::write(path.join("data.json"), "").unwrap();
        let modules = of_modules(path, &Layer::default(), BTreeSet::from(["data", "utils"]));
        assert_eq!(modules, "without:data utils/", "`data.json` is no module");
        fs::create_dir(path.join("utils")).unwrap();
        assert_eq!(
            now(&modules, path, &Layer::default(), is_made),
            modules,
            "a folder alone does not come before a file"
        );
        fs::write(path.join("utils/__init__.py"), "").unwrap();
        assert_eq!(now(&modules, path, &Layer::default(), is_made), "with:utils/");
        let names = of_entries(path, &Layer::default(), [OsStr::new("data.json")].into_iter());
        fs::remove_file(path.join("data.json")).unwrap();
        fs::create_dir(path.join("data.json")).unwrap();
        assert_ne!(
            of_entries(path, &Layer::default(), [OsStr::new("data.json")].into_iter()),
            names,
            "a folder is no file"
        );
        fs::os::unix::fs::symlink("v1", path.join("current")).unwrap();
        assert_eq!(state(&path.join("current")), of_link(Path::new("v1")));
    }
}

//! The order of the modules: imports go from later ones to earlier ones, so no two depend on each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
};

/// The packages of the engine, from the lowest to the highest.
const PACKAGES: &[&str] = &["base", "stats", "charts", "recipe", "plan", "run", "report", "worker", "engine"];

/// The modules of [`PACKAGES`], each of which may use only those before it.
const ENGINE: &[&str] = &[
    "format",
    "host",
    "record",
    "settings",
    "stats",
    "decide",
    "suggest",
    "charts",
    "recipe",
    "variant",
    "plan",
    "store",
    "hosts",
    "run",
    "host_server",
    "doctor",
    "remote",
    "progress",
    "analysis",
    "batches",
    "render",
    "session",
    "query",
    "export",
    "propose",
    "terminal",
    "web",
    "mcp",
    "worker",
    "init",
    "import",
    "shipped",
    "error",
    "cli",
];

/// Longest description of the architecture, in bytes.
const LONGEST_DESCRIPTION: usize = 12 << 10;

/// The modules of `crates/lab/src/`, likewise.
const LAB: &[&str] =
    &["error", "device", "ops", "files", "model", "optim", "prune", "backend", "measure", "data", "papers", "tasks"];

/// The modules inside the lab's `prune`, likewise.
const PRUNE: &[&str] = &[
    "score", "select", "masks", "pattern", "outputs", "host", "selects", "cpu", "gpu", "regrow", "cholesky", "sweep",
    "surgery",
];

/// The Rust files below a folder, each with the module of the folder that it belongs to.
fn files(root: &Path) -> io::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs_err::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let inner = path.strip_prefix(root).map_err(io::Error::other)?.to_string_lossy().into_owned();
                let first = inner.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
                found.push((first, fs_err::read_to_string(path)?));
            }
        }
    }
    Ok(found)
}

/// The code of a file, without comments.
fn code(text: &str) -> String {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    code.join("\n")
}

fn word(text: &str) -> String {
    text.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect()
}

/// The names that a file publishes from its modules, each with the module that it is from.
fn published(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for statement in code(text).split(';') {
        let Some((before, path)) = statement.split_once("use ") else { continue };
        if !before.trim_start().starts_with("pub") {
            continue;
        }
        let path = path.trim_start_matches("self::");
        let (module, rest) = (word(path), path.split_once("::").map_or("", |(_, rest)| rest));
        let names = rest.split(|char: char| !char.is_alphanumeric() && char != '_').filter(|name| !name.is_empty());
        found.extend(names.map(|name| (name.to_owned(), module.clone())));
    }
    found
}

/// The words that a file's paths after `root`, which is `crate::` or `super::`, begin with. Comments do not count.
fn uses(text: &str, root: &str) -> BTreeSet<String> {
    let code = code(text);
    let mut found = BTreeSet::new();
    for (at, path) in code.match_indices(root) {
        let rest = &code[at + path.len()..];
        // `$crate::` belongs to a macro.
        if code[..at].ends_with('$') {
            continue;
        }
        let Some(list) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        let (mut depth, mut start) = (0, true);
        for (index, char) in list.char_indices() {
            match char {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => start = true,
                char if start && char.is_alphanumeric() => {
                    found.insert(word(&list[index..]));
                    start = false;
                }
                _ => {}
            }
        }
    }
    found
}

/// Every import from a module to a later one, and every module that the order does not have. `top` is the file in `folder`
/// that has the modules; `root` is how a path that begins there is written.
fn violations(folder: &Path, top: &str, root: &str, order: &[&str]) -> io::Result<Vec<String>> {
    let place = |name: &str| order.iter().position(|known| *known == name);
    let published = published(&fs_err::read_to_string(folder.join(top)).unwrap_or_default());
    let mut found = BTreeSet::new();
    for (from, text) in files(folder)?.into_iter().filter(|(name, _)| !["lib", "main", "mod"].contains(&name.as_str()))
    {
        let Some(own) = place(&from) else {
            found.insert(format!("`{from}` has no place in the order"));
            continue;
        };
        let used = uses(&text, root).into_iter().map(|name| published.get(&name).cloned().unwrap_or(name));
        let later = used.filter(|to| place(to).is_some_and(|place| place > own));
        found.extend(later.map(|to| format!("`{from}` uses `{to}`, which comes later")));
    }
    Ok(found.into_iter().collect())
}

#[test]
fn the_description_has_the_modules_in_their_order() {
    let text = fs_err::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md")).unwrap();
    let (_, list) = text.split_once("the same for the lab): ").expect("ARCHITECTURE.md lists the modules");
    let names = list.split_once('.').unwrap().0.split(',').map(|name| name.trim().trim_matches('`'));
    assert_eq!(names.collect::<Vec<_>>(), ENGINE);
    assert!(text.len() <= LONGEST_DESCRIPTION, "ARCHITECTURE.md has {} bytes: files belong into headers", text.len());
}

/// ARCHITECTURE.md describes the modules together; the header of each says what it is for.
#[test]
fn every_module_has_a_header() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    for package in fs_err::read_dir(crates).unwrap() {
        let mut open = vec![package.unwrap().path().join("src")];
        while let Some(folder) = open.pop() {
            for entry in fs_err::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
                    let text = fs_err::read_to_string(&path).unwrap();
                    assert!(text.starts_with("//!"), "{} does not say what it is for", path.display());
                }
            }
        }
    }
}

#[test]
fn imports_of_the_engine_go_one_way() {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    for package in PACKAGES {
        let root = packages.join(package).join("src");
        assert_eq!(violations(&root, "lib.rs", "crate::", ENGINE).unwrap(), Vec::<String>::new(), "{package}");
    }
}

#[test]
fn imports_of_the_lab_go_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/lab/src");
    assert_eq!(violations(&root, "lib.rs", "crate::", LAB).unwrap(), Vec::<String>::new());
    assert_eq!(violations(&root.join("prune"), "mod.rs", "super::", PRUNE).unwrap(), Vec::<String>::new());
}

#[test]
fn a_circle_is_found() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::create_dir(folder.path().join("a")).unwrap();
    fs_err::write(folder.path().join("a/mod.rs"), "use crate::{std, b::{C, D}}; // crate::z").unwrap();
    fs_err::write(folder.path().join("b.rs"), "fn f() { crate::a::g() }").unwrap();
    fs_err::write(folder.path().join("new.rs"), "").unwrap();
    let found = violations(folder.path(), "lib.rs", "crate::", &["a", "b"]).unwrap();
    assert_eq!(found, ["`a` uses `b`, which comes later", "`new` has no place in the order"]);
}

#[test]
fn a_circle_through_a_name_of_the_root_is_found() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("mod.rs"), "mod a;\nmod b;\npub(crate) use self::b::{C, D as E};").unwrap();
    fs_err::write(folder.path().join("a.rs"), "use super::{E, b::F};").unwrap();
    fs_err::write(folder.path().join("b.rs"), "use super::a;").unwrap();
    let found = violations(folder.path(), "mod.rs", "super::", &["a", "b"]).unwrap();
    assert_eq!(found, ["`a` uses `b`, which comes later"]);
    fs_err::write(folder.path().join("a.rs"), "use super::E;").unwrap();
    assert_eq!(violations(folder.path(), "mod.rs", "super::", &["a", "b"]).unwrap(), found);
}

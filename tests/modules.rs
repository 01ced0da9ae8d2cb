//! The order of the modules: imports go from later ones to earlier ones, so no two depend on each other.

use std::{collections::BTreeSet, io, path::Path};

/// The modules of `src/`, each of which may use only those before it.
const ENGINE: &[&str] = &[
    "format", "host", "record", "stats", "charts", "recipe", "plan", "store", "run", "remote", "progress", "analysis",
    "render", "query", "export", "web", "worker", "error", "cli",
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

/// The modules that a file's paths begin with, `crate::` left out. Comments do not count.
fn uses(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let mut found = BTreeSet::new();
    let word = |text: &str| text.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect::<String>();
    for (at, path) in code.match_indices("crate::") {
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

/// Every import from a module to a later one, and every module that the order does not have.
fn violations(root: &Path, order: &[&str], outside: &[&str]) -> io::Result<Vec<String>> {
    let place = |name: &str| order.iter().position(|known| *known == name);
    let mut found = BTreeSet::new();
    for (from, text) in files(root)?.into_iter().filter(|(name, _)| !outside.contains(&name.as_str())) {
        let Some(own) = place(&from) else {
            found.insert(format!("`{from}` has no place in the order"));
            continue;
        };
        let later = uses(&text).into_iter().filter(|to| place(to).is_some_and(|place| place > own));
        found.extend(later.map(|to| format!("`{from}` uses `{to}`, which comes later")));
    }
    Ok(found.into_iter().collect())
}

#[test]
fn imports_of_the_engine_go_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(violations(&root, ENGINE, &["lib", "main"]).unwrap(), Vec::<String>::new());
}

#[test]
fn a_circle_is_found() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::create_dir(folder.path().join("a")).unwrap();
    fs_err::write(folder.path().join("a/mod.rs"), "use crate::{std, b::{C, D}}; // crate::z").unwrap();
    fs_err::write(folder.path().join("b.rs"), "fn f() { crate::a::g() }").unwrap();
    fs_err::write(folder.path().join("new.rs"), "").unwrap();
    let found = violations(folder.path(), &["a", "b"], &[]).unwrap();
    assert_eq!(found, ["`a` uses `b`, which comes later", "`new` has no place in the order"]);
}

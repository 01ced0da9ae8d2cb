//! The language grows in one place: each key and each kind of figure is declared in one file, from which reader, schema and
//! documentation are derived.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value;
use sweep_engine::recipe::schema;

/// The files of the engine that have a word, whatever its case.
fn naming(word: &str) -> BTreeSet<String> {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let mut found = BTreeSet::new();
    let mut open: Vec<_> = ["base", "stats", "charts", "recipe", "plan", "run", "report", "worker", "engine"]
        .map(|package| packages.join(package).join("src"))
        .into();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
                if text.split(|char: char| !char.is_alphanumeric() && char != '_').any(|found| found == word) {
                    let inner = path.strip_prefix(&packages).unwrap().components().skip(2);
                    found.insert(inner.collect::<PathBuf>().to_string_lossy().into_owned());
                }
            }
        }
    }
    found
}

#[test]
fn a_kind_of_figure_is_its_own_file_and_a_line_of_the_list() {
    for (kind, file) in [("histogram", "histogram.rs"), ("pareto", "dots.rs"), ("heat", "heat.rs")] {
        let files = [format!("charts/{file}"), "charts/mod.rs".to_owned()];
        assert_eq!(naming(kind), files.into(), "{kind}");
    }
}

#[test]
fn a_key_is_declared_where_it_is_read() {
    assert_eq!(naming("venue"), ["recipe/lower/recipe.rs".to_owned()].into());
    for key in ["heartbeat", "qos", "at_most", "noise"] {
        // Other tools' keys are answered with those of this one.
        let files = naming(key).into_iter().filter(|file| file.starts_with("recipe/") && file != "recipe/foreign.rs");
        assert_eq!(files.count(), 1, "{key}: {:?}", naming(key));
    }
}

#[test]
fn every_declared_key_is_in_the_schema_with_its_documentation() {
    fn properties<'s>(schema: &'s Value, found: &mut Vec<&'s serde_json::Map<String, Value>>) {
        match schema {
            Value::Object(entries) => {
                found.extend(entries.get("properties").and_then(Value::as_object));
                entries.values().for_each(|value| properties(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| properties(item, found)),
            _ => {}
        }
    }
    let schemas = [schema::recipe(), schema::sweep()];
    let mut found = Vec::new();
    for schema in &schemas {
        properties(schema, &mut found);
    }
    for mapping in schema::declarations().iter().filter(|mapping| mapping.name != "figure-kinds") {
        let mut names: Vec<&str> = mapping.keys.iter().map(|key| key.name).collect();
        names.sort_unstable();
        let is_own = |keys: &&&serde_json::Map<String, Value>| {
            let mut keys: Vec<&str> = keys.keys().map(String::as_str).collect();
            keys.sort_unstable();
            keys == names
        };
        let own: Vec<_> = found.iter().filter(is_own).collect();
        assert!(!own.is_empty(), "`{}` is not in a schema", mapping.name);
        for key in &mapping.keys {
            assert!(!key.doc.is_empty() && !key.accepts.is_empty(), "{}.{} is not documented", mapping.name, key.name);
            let documented = own.iter().any(|keys| keys[key.name]["description"] == key.doc);
            assert!(documented, "{}.{} has another description", mapping.name, key.name);
        }
    }
}

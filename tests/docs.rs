//! Agreement of documentation and code: its recipes plan, and its tables are the declarations.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use sweep::{
    plan::Plan,
    recipe::{Draft, Request},
};
use sweep_job::{Backend, Task};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn plan(path: &Path, text: String) -> Plan {
    let draft = Draft::parse(path, text, &[]).unwrap_or_else(|problems| panic!("{}", problems.render(false, 100)));
    match Plan::new(draft, Backend::Cpu) {
        Ok(plan) => plan,
        Err(sweep::plan::PlanError::Invalid(problems)) => panic!("{}", problems.render(false, 100)),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_shipped_recipe_plans() {
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("recipes")).unwrap() {
        let path = entry.unwrap().path();
        assert!(!plan(&path, std::fs::read_to_string(&path).unwrap()).is_empty(), "{}", path.display());
        count += 1;
    }
    assert!(count >= 2, "bitter and check, at least");
}

#[test]
fn every_shipped_sweep_plans() {
    for entry in std::fs::read_dir(root().join("sweeps")).unwrap() {
        let paths = [entry.unwrap().path()];
        let draft = Draft::load(&Request { paths: &paths, ..Request::default() }).unwrap();
        assert!(!Plan::new(draft, Backend::Cpu).unwrap().is_empty(), "{}", paths[0].display());
    }
}

#[test]
fn everything_in_the_documentation_plans() {
    // The files that the examples read.
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("example")).unwrap();
    for name in ["train.py", "corpus.txt"] {
        std::fs::write(folder.path().join("example").join(name), "").unwrap();
    }
    let example = folder.path().join("example.yaml");
    let mut sweeps = 0;
    for name in ["README.md", "docs/recipe.md"] {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        let blocks: Vec<&str> = text
            .split("```yaml\n")
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap())
            .filter(|block| block.lines().any(|line| !line.is_empty() && !line.starts_with('#')))
            .collect();
        assert!(!blocks.is_empty(), "{name} shows a recipe");
        // Those that build upon another one build upon the first.
        std::fs::write(&example, blocks[0]).unwrap();
        for block in blocks {
            if block.contains("steps:") {
                plan(&folder.path().join("other.yaml"), block.to_owned());
                continue;
            }
            sweeps += 1;
            let path = folder.path().join("sweep.yaml");
            std::fs::write(&path, block).unwrap();
            let draft = Draft::load(&Request { paths: &[path], ..Request::default() }).unwrap();
            assert!(!Plan::new(draft, Backend::Cpu).unwrap().is_empty(), "{block}");
        }
    }
    assert!(sweeps > 0, "sweep files are shown, too");
}

#[test]
fn the_tables_of_tasks_are_the_declarations() {
    let path = root().join("docs/recipe.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (start, end) = (text.find("<!-- tasks").unwrap(), text.find("<!-- /tasks -->").unwrap());
    let start = start + text[start..].find('\n').unwrap() + 1;
    let tables = tables();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{}{tables}{}", &text[..start], &text[end..])).unwrap();
    } else {
        assert!(text[start..end] == tables, "docs/recipe.md is stale: UPDATE_DOCS=1 cargo test --test docs");
    }
}

#[test]
fn every_promise_has_its_test() {
    let text = std::fs::read_to_string(root().join("docs/promises.md")).unwrap();
    let named: Vec<(&str, &str)> =
        text.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect();
    assert!(named.len() > 40, "{named:?}");
    for (file, name) in named {
        let path = if file.contains('/') {
            root().join(file)
        } else {
            root().join("tests/engine").join(file).with_extension("rs")
        };
        let path = if path.exists() { path } else { path.with_extension("").join("mod.rs") };
        let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(source.contains(&format!("fn {name}(")), "{} has no test `{name}`", path.display());
    }
}

fn tables() -> String {
    let mut text = String::new();
    for task in Task::ALL.iter().filter(|task| !task.hidden) {
        write!(text, "\n### `{}`\n\n", task.name).unwrap();
        let mut about = task.about.chars();
        let capital: String = about.next().into_iter().flat_map(char::to_uppercase).chain(about).collect();
        writeln!(text, "{capital}.\n\n| parameter | default | accepts | meaning |\n| --- | --- | --- | --- |").unwrap();
        for param in task.params() {
            let default = match (param.default)() {
                sweep_job::Value::Null => "–".to_owned(),
                value => format!("`{value}`"),
            };
            writeln!(text, "| `{}` | {default} | {} | {} |", param.name, param.accepts(), param.doc).unwrap();
        }
        text += "\n| metric | unit | meaning |\n| --- | --- | --- |\n";
        for metric in task.metrics() {
            writeln!(text, "| `{}` | {} | {} |", metric.name, metric.unit, metric.doc).unwrap();
        }
        if task.open_metrics {
            text += "| any other name |  | what the program reports |\n";
        }
    }
    text
}

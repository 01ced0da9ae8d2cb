//! The pages of examples: every command is run, and its output must equal the page's.

use std::{path::Path, process::Command};

use crate::{
    init::parsers,
    projects::has_views,
    sandbox::{Sandbox, repository},
};

/// The search path, first with the Python that has the packages of Hydra, where there is one.
fn path() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let python = parsers();
    let folder = python.as_deref().and_then(|python| Path::new(python).parent()).map(Path::to_path_buf);
    std::env::join_paths(folder.into_iter().chain(std::env::split_paths(&path))).unwrap()
}

#[test]
fn the_examples_of_the_documentation_print_what_the_pages_show() {
    if !has_views() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut command = Command::new("python3");
    command.arg(repository().join("scripts/cookbook.py")).arg(env!("CARGO_BIN_EXE_sweep-engine"));
    command.env("PATH", path()).env("TMPDIR", sandbox.path("")).env("NO_COLOR", "1");
    let ended = command.output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    println!("{said}");
    assert!(ended.status.success() && said.contains("all examples print what the pages show"), "{said}{errors}");
    for study in 1..=12 {
        assert!(said.contains(&format!("cookbook.md: {study}. ")), "{study} is neither run nor skipped: {said}");
    }
}

#[test]
fn an_example_that_prints_something_else_is_found() {
    let sandbox = Sandbox::new();
    let page = "## Sweep\n\n```sh\necho one\necho two 0.3 s\n```\n\n```text\none\ntwo … s\n```\n";
    sandbox.write("right.md", page);
    sandbox.write("wrong.md", &page.replace("two …", "three …"));
    sandbox.write("failing.md", &page.replace("echo one", "false"));
    sandbox.write("unnamed.md", "## Sweep\n\n```json\n{}\n```\n");
    for (name, code, message) in [
        ("right.md", 0, "all examples print what the pages show"),
        ("wrong.md", 1, "line 10: `three … s` is not in its place"),
        ("failing.md", 1, "line 3: exit code 1 of"),
        ("unnamed.md", 1, "line 3: a block of `json` needs a sentence that names its file"),
    ] {
        let mut command = Command::new("python3");
        command.arg(repository().join("scripts/cookbook.py")).arg(env!("CARGO_BIN_EXE_sweep-engine"));
        let ended = command.arg(sandbox.path(name)).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.status.code(), Some(code), "{name}: {said}");
        assert!(said.contains(message), "{name}: {said}");
    }
}

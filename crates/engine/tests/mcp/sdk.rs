//! The official Python SDK as a client: a study end to end, on standard input and output and by HTTP.

use std::{path::PathBuf, process::Command};

use crate::{client::Project, http::Server};

/// The Python with the SDK, if the tests' dependencies are installed.
fn python() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let folder = std::env::var_os("SWEEP_PYTHON_MCP").map(PathBuf::from);
    let folder = folder.or_else(|| Some(home?.join(".cache/sweep/mcp")))?;
    let found = folder.join("bin/python3").is_file();
    if !found {
        eprintln!("not run: there is no SDK in {}; scripts/python-deps.sh installs it", folder.display());
    }
    found.then(|| folder.join("bin/python3"))
}

/// Runs the session in `session.py`, which asserts on each answer.
fn session(project: &Project, python: PathBuf, args: &[&str]) {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/session.py");
    let ended = Command::new(python).arg(script).args(args).current_dir(project.root()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{stdout}\n{stderr}");
    assert_eq!(stdout, "supported refuted\n", "{stderr}");
    assert_eq!(project.records(), 6);
    let tools: Vec<String> = project.journal().iter().map(|line| line["tool"].as_str().unwrap().to_owned()).collect();
    let expected =
        ["describe", "validate", "plan", "plan", "run", "status", "report", "explain", "query", "resources/read"];
    assert_eq!(tools, expected);
}

#[test]
fn the_python_sdk_on_standard_streams() {
    let Some(python) = python() else { return };
    let project = Project::new();
    session(&project, python, &["stdio", env!("CARGO_BIN_EXE_sweep-engine"), project.outside().to_str().unwrap()]);
}

#[test]
fn the_python_sdk_by_http() {
    let Some(python) = python() else { return };
    let project = Project::new();
    let server = Server::start(&project, &["--allow-run", "study.yaml"]);
    let url = format!("http://127.0.0.1:{}/mcp", server.port);
    session(&project, python, &["http", &url, &server.token]);
}

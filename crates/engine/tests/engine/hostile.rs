//! Malicious and accidental input.

use std::fmt::Write as _;

use crate::{messages::Transcript, sandbox::Sandbox};

/// A recipe that must be refused in words, at once, and without harm.
fn refused(recipe: &str) -> String {
    let sandbox = Sandbox::with(recipe);
    let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert_eq!(ended.code, Some(3), "{}", &ended.stderr.chars().take(2_000).collect::<String>());
    let visible = ended.stderr.chars().all(|char| !char.is_control() || char == '\n');
    assert!(visible, "a control character reached standard error: {:?}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    ended.stderr
}

#[test]
fn names_that_lead_elsewhere() {
    let mut said = Transcript::default();
    for name in ["../../escape", "/etc/passwd", "a/b", "..", "a\\0b"] {
        said.add(name, &refused(&format!("steps: {{ \"{name}\": {{ uses: mock }} }}")));
        said.add(name, &refused(&format!("name: \"{name}\"\nsteps: {{ a: {{ uses: mock }} }}")));
    }
    assert_message!(said);
}

#[test]
fn ten_megabytes_of_recipe() {
    let mut recipe = "steps:\n".to_owned();
    while recipe.len() < 10 << 20 {
        let number = recipe.len();
        writeln!(recipe, "  s{number}: {{ uses: mock, wiht: [1, 2, 3] }}").unwrap();
    }
    assert!(refused(&recipe).len() < 10 << 20, "a long list of mistakes is cut");
}

#[test]
fn aliases_that_multiply() {
    let mut recipe = "params:\n  a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..12 {
        let before = level - 1;
        let nine = vec![format!("*a{before}"); 9].join(", ");
        writeln!(recipe, "  a{level}: &a{level} [{nine}]").unwrap();
    }
    refused(&(recipe + "steps: { a: { uses: mock } }\n"));
}

#[test]
fn depth_without_end() {
    refused(&format!(
        "params: {{ a: {}{} }}\nsteps: {{ a: {{ uses: mock }} }}\n",
        "[".repeat(100_000),
        "]".repeat(100_000)
    ));
}

#[test]
fn numbers_that_are_none() {
    for number in [".nan", ".inf", "-.inf", "1e999", "99999999999999999999", "1e-400000"] {
        let recipe = format!("steps: {{ a: {{ uses: mock, with: {{ value: 1, steps: {number} }} }} }}");
        refused(&recipe);
    }
}

#[test]
fn matrices_without_end() {
    let recipe = "steps: { a: { uses: mock, matrix: { value: { range: [0, 1000000000000] } } } }";
    assert!(refused(recipe).len() < 10_000);
}

#[test]
fn escapes_are_made_visible() {
    let evil = "\\e]0;owned\\a\\e[2J\\u202e";
    refused(&format!("steps: {{ \"{evil}\": {{ uses: mock }} }}"));
    refused(&format!("steps: {{ a: {{ uses: \"{evil}\" }} }}"));
    let recipe = format!(
        "steps: {{ a: {{ uses: command, matrix: {{ x: [\"{evil}\"] }}, with: {{ run: 'printf \"\\033[2J\\007\" >&2; exit 3', env: {{ X: '${{{{ matrix.x }}}}' }} }} }} }}"
    );
    let sandbox = Sandbox::with(&recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let status = sandbox.sweep(&["status"]);
    let label = sandbox.journal("failed")[0]["label"].as_str().unwrap().to_owned();
    let logs = sandbox.sweep(&["logs", &label]);
    assert!(logs.stdout.contains("\\u{1b}[2J"), "{:?}", logs.stdout);
    for text in [&ended.stderr, &status.stdout, &logs.stdout] {
        assert!(text.chars().all(|char| !char.is_control() || char == '\n'), "{text:?}");
        assert!(!text.contains('\u{202e}'), "{text:?}");
    }
}

#[test]
fn links_where_folders_should_be() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    fs_err::create_dir_all(sandbox.path("elsewhere")).unwrap();
    sandbox.write("elsewhere/file", "mine");
    fs_err::create_dir_all(sandbox.path("results/store")).unwrap();
    // A results folder on another disk is usual; a record that is a link is not.
    let first = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let key = sandbox.records()["a"]["key"].as_str().unwrap().to_owned();
    let folder = sandbox.path(&format!("results/store/{}/{key}", &key[..2]));
    fs_err::remove_dir_all(&folder).unwrap();
    fs_err::os::unix::fs::symlink(sandbox.path("elsewhere"), &folder).unwrap();
    let again = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(fs_err::symlink_metadata(&folder).unwrap().is_dir(), "the link was replaced by the record");
    assert_eq!(sandbox.read("elsewhere/file"), "mine");
}

#[test]
fn recipes_that_are_no_files() {
    let sandbox = Sandbox::with("extends: /dev/zero\n");
    fs_err::create_dir_all(sandbox.path("folder")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(sandbox.path("pipe")).status().unwrap();
    assert!(made.success());
    let large = fs_err::File::create(sandbox.path("large.yaml")).unwrap();
    large.set_len(33 << 20).unwrap();
    sandbox.write("pipe.yaml", "extends: pipe\n");
    sandbox.write("folder.yaml", "extends: folder\n");
    sandbox.write("sweep.yaml", "recipe: /dev/zero\n");
    sandbox.write("extends-large.yaml", "extends: large.yaml\n");
    let mut said = Transcript::default();
    for (named, code) in [
        ("recipe.yaml", 3),
        ("pipe.yaml", 3),
        ("folder.yaml", 3),
        ("sweep.yaml", 3),
        ("extends-large.yaml", 3),
        ("/dev/zero", 2),
        ("pipe", 2),
        ("folder", 2),
        ("large.yaml", 2),
    ] {
        // The limit of memory stops a program that reads without end.
        let limited = format!("ulimit -v 4000000; exec {} plan {named}", env!("CARGO_BIN_EXE_sweep-engine"));
        let mut command = std::process::Command::new("timeout");
        command.args(["60", "sh", "-c", &limited]).current_dir(sandbox.path(""));
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{named}: {stderr}");
        said.add(named, &stderr);
    }
    assert_message!(said);
}

/// The program, which may have so much memory, on a recipe.
fn limited(recipe: &str, args: &[&str]) -> (Option<i32>, String) {
    let sandbox = Sandbox::with(recipe);
    let script = format!("ulimit -v 6000000; exec {} plan recipe.yaml \"$@\"", env!("CARGO_BIN_EXE_sweep-engine"));
    let mut command = std::process::Command::new("timeout");
    command.args(["120", "sh", "-c", &script, "sh"]).args(args).current_dir(sandbox.path(""));
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn expressions_that_multiply() {
    let expressions = "${{ params.p }}".repeat(5_000);
    let text = "x".repeat(100_000);
    let mut messages = Transcript::default();
    // One text, at every point of a matrix.
    let recipe = format!(
        "params: {{ p: {text} }}\nsteps:\n  a:\n    uses: mock\n    seeds: 10000\n    with: {{ text: \"{expressions}\" }}\n"
    );
    let (code, said) = limited(&recipe, &[]);
    assert_eq!(code, Some(3), "{}", &said[..said.len().min(2000)]);
    messages.add("one text", &said);
    // Every text is small enough, all of them together are not.
    let recipe = recipe.replace(&expressions, "${{ params.p }}");
    let (code, said) = limited(&recipe, &[]);
    assert_eq!(code, Some(3), "{}", &said[..said.len().min(2000)]);
    messages.add("all texts together", &said);
    // On an axis, and where only the axes make it too long.
    let recipe = format!(
        "params: {{ p: {text} }}\nsteps:\n  a:\n    uses: mock\n    matrix: {{ text: [\"${{{{ params.p }}}}\"] }}\n    seeds: 10000\n"
    );
    let (code, said) = limited(&recipe, &[]);
    assert_eq!(code, Some(3), "{}", &said[..said.len().min(2000)]);
    messages.add("texts on an axis", &said);
    let expressions = "${{ matrix.x }}".repeat(20);
    let recipe = format!(
        "steps:\n  a:\n    uses: mock\n    matrix: {{ x: [{text}] }}\n    with: {{ text: \"{expressions}\" }}\n"
    );
    let (code, said) = limited(&recipe, &[]);
    assert_eq!(code, Some(3), "{}", &said[..said.len().min(2000)]);
    messages.add("axes that make a text too long", &said);
    assert_message!(messages);
    // Many jobs with short texts are accepted.
    let recipe = "params: { p: text }\nsteps:\n  a:\n    uses: mock\n    seeds: 20000\n    with: { text: \"${{ params.p }} ${{ matrix.seed }}\" }\n";
    let (code, said) = limited(recipe, &["--list"]);
    assert_eq!(code, Some(0), "{said}");
}

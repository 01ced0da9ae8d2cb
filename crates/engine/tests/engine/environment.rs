//! A program's environment: texts that can be passed, canonical numbers, secrets that are never stored.

use std::path::Path;

use serde_json::Value;

use crate::{
    messages::Transcript,
    sandbox::{Ended, Sandbox, list},
};

const SECRET: &str = "hf_4Zs9kQ0vTq7LmX2c";

/// A recipe with one step of a program, whose `with` this is.
fn step(with: &str) -> String {
    let with = with.replace('\n', "\n      ");
    format!("steps:\n  job:\n    uses: command\n    with:\n      {with}\n    resources: {{ cpus: 1 }}\n")
}

/// The files below a folder that have a text in them.
pub(crate) fn mentions(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for path in list(folder) {
        if path.is_dir() {
            found.extend(mentions(&path, text));
        } else if String::from_utf8_lossy(&fs_err::read(&path).unwrap()).contains(text) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// The program run with a variable set, or not.
fn run(sandbox: &Sandbox, args: &[&str], variable: Option<(&str, &str)>) -> Ended {
    let mut command = sandbox.command(args);
    command.env_remove("MY_TOKEN");
    command.envs(variable);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

#[test]
fn a_secret_reaches_the_program_and_nothing_that_is_kept() {
    let recipe = format!(
        "name: study\n{}tables: {{ t: {{ from: job, cells: [length] }} }}\n",
        step("run: 'echo length=${#HF_TOKEN}'\nenv: { HF_TOKEN: { from: MY_TOKEN }, OTHER: 1 }")
    );
    let sandbox = Sandbox::with(&recipe);
    let first = run(&sandbox, &["run", "recipe.yaml"], Some(("MY_TOKEN", SECRET)));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert!(!first.stderr.lines().any(|line| line.starts_with("warning")), "{}", first.stderr);
    let record = &sandbox.records()["job"];
    assert_eq!(record["outcome"]["metrics"]["length"]["value"], SECRET.len() as f64);
    let env = serde_json::json!({ "HF_TOKEN": { "from": "MY_TOKEN" }, "OTHER": "1" });
    assert_eq!(record["identity"]["params"]["env"], env, "the name is in the key");

    // Another value does not change the job, and finished jobs need no value.
    let second = run(&sandbox, &["run", "recipe.yaml"], Some(("MY_TOKEN", "another")));
    assert_eq!((second.code, sandbox.runs().len()), (Some(0), 1), "{}", second.stderr);
    let without = run(&sandbox, &["run", "recipe.yaml"], None);
    assert_eq!(without.code, Some(0), "{}", without.stderr);

    let bundle = run(&sandbox, &["bundle", "recipe.yaml"], Some(("MY_TOKEN", SECRET)));
    assert_eq!(bundle.code, Some(0), "{}", bundle.stderr);
    run(&sandbox, &["query", "--output", "records.csv", "--format", "csv"], Some(("MY_TOKEN", SECRET)));
    assert_eq!(mentions(&sandbox.path(""), SECRET), Vec::<String>::new());
    assert!(!mentions(&sandbox.path("results"), "MY_TOKEN").is_empty(), "the search finds what there is");
}

#[test]
fn a_variable_that_is_not_set_is_said_before_anything_runs() {
    let sandbox = Sandbox::with(&format!(
        "{}  first: {{ uses: mock }}\n",
        step("run: 'true'\nenv:\n  TOKEN: { from: MY_TOKEN }")
    ));
    let plan = run(&sandbox, &["plan", "recipe.yaml"], None);
    assert_eq!(plan.code, Some(0), "a plan needs no secrets: {}", plan.stderr);
    let ended = run(&sandbox, &["run", "recipe.yaml"], None);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert_message!(ended.stderr);
    assert!(sandbox.events().is_empty() && sandbox.records().is_empty());
    let only = run(&sandbox, &["run", "recipe.yaml", "--only", "first"], None);
    assert_eq!(only.code, Some(0), "what does not need it runs: {}", only.stderr);
}

#[test]
fn only_a_name_can_be_passed_on() {
    let mut said = Transcript::default();
    for env in ["{ A: { from: 'a b' } }", "{ A: { form: B } }", "{ A: { from: B, to: C } }", "{ A: { from: 3 } }"] {
        let sandbox = Sandbox::with(&step(&format!("run: 'true'\nenv: {env}")));
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{env}: {}", ended.stderr);
        said.add(env, &ended.stderr);
    }
    assert_message!(said);
}

/// Warnings, as the JSON plan has them; compared with those that `plan` and `run` print.
fn warnings(recipe: &str, args: &[&str]) -> Vec<(String, String, String)> {
    let sandbox = Sandbox::with(recipe);
    let plan = sandbox.sweep(&[&["plan", "recipe.yaml", "--format", "json"], args].concat());
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    let value: Value = serde_json::from_str(&plan.stdout).unwrap();
    let text = |warning: &Value, key: &str| warning[key].as_str().unwrap().to_owned();
    let warnings = value["warnings"].as_array().unwrap().iter();
    let warnings: Vec<_> =
        warnings.map(|found| (text(found, "at"), text(found, "message"), text(found, "help"))).collect();
    let run = sandbox.sweep(&[&["run", "recipe.yaml"], args].concat());
    for stderr in [&plan.stderr, &run.stderr] {
        let said: Vec<&str> = stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
        let expected: Vec<String> =
            warnings.iter().map(|(at, message, _)| format!("warning: {at}: {message}")).collect();
        assert_eq!(said, expected, "{stderr}");
    }
    warnings
}

#[test]
fn a_script_with_what_a_shell_acts_on_is_warned_of() {
    let recipe = |x: &str| {
        step("run: echo \"${{ matrix.x }} ${{ matrix.lr }}\"").replace(
            "    with:",
            &format!("    matrix: {{ x: [word, {x}], lr: [1e-3], y: [1] }}\n    if: matrix.y == 1\n    with:"),
        )
    };
    let found = warnings(&recipe("'$(touch /tmp/x)'"), &[]);
    let [(at, message, help)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(at, "recipe.yaml:7:18");
    assert_message!(format!("{message}\n{help}"));
    assert_eq!(warnings(&recipe("other/path-1.txt"), &[]), [], "nothing that a shell takes for more than a word");
}

#[test]
fn a_secret_that_is_written_out_is_warned_of_but_not_printed() {
    let with = "run: 'true'\nenv: { HF_TOKEN: '${{ params.token }}', MAX_TOKENS: many, TOKEN: 7, API_KEY: abc }";
    let recipe = format!("params: {{ token: none }}\n{}", step(with));
    let found = warnings(&recipe, &["--set", &format!("token={SECRET}")]);
    let places: Vec<&str> = found.iter().map(|(at, ..)| at.as_str()).collect();
    assert_eq!(places, ["--set token=…", "recipe.yaml:7:84"], "{found:?}");
    assert_message!(format!("{}\n{}", found[1].1, found[1].2));
    assert!(!format!("{found:?}").contains(SECRET));
}

#[test]
fn numbers_have_one_form_however_they_are_written() {
    let key = |number: &str| {
        let recipe = step(&format!("argv: [echo, --n, {number}, '--m=${{{{ matrix.m }}}}']\nenv: {{ N: {number} }}"));
        let sandbox =
            Sandbox::with(&recipe.replace("    with:", &format!("    matrix: {{ m: [{number}] }}\n    with:")));
        let plan = sandbox.sweep(&["plan", "recipe.yaml", "--format", "json"]);
        assert_eq!(plan.code, Some(0), "{}", plan.stderr);
        serde_json::from_str::<Value>(&plan.stdout).unwrap()["jobs"][0]["key"].as_str().unwrap().to_owned()
    };
    assert_eq!(key("1e16"), key("10000000000000000"));
    assert_eq!(key("1e3"), key("1000.0"));
    assert_ne!(key("9007199254740993"), key("9007199254740992.0"), "not the same number");
    let twice = |values: &str| {
        let sandbox = Sandbox::with(
            &step("argv: [echo, '${{ matrix.m }}']")
                .replace("    with:", &format!("    matrix: {{ m: [{values}] }}\n    with:")),
        );
        let code = sandbox.sweep(&["plan", "recipe.yaml"]).code;
        assert!(matches!(code, Some(0 | 3)), "{code:?}");
        code == Some(3)
    };
    assert!(twice("1e16, 10000000000000000") && twice("1, 1.0"));
    assert!(!twice("9007199254740993, 9007199254740992.0"));
}

#[test]
fn what_cannot_be_passed_to_a_program_is_refused_in_the_plan() {
    let long = "x".repeat(131_072);
    let fits = "x".repeat(131_071 - "A=".len());
    let mut said = Transcript::default();
    for (what, with) in [
        ("NUL in an argument", "argv: [echo, \"a\\0b\"]".to_owned()),
        ("a long argument", format!("argv: [echo, {long}]")),
        ("a long value", format!("argv: [echo]\nenv: {{ A: {long} }}")),
        ("NUL in a value", "argv: [echo]\nenv: { A: \"a\\0b\" }".to_owned()),
        ("a name and its value", format!("argv: [echo]\nenv: {{ AB: {fits} }}")),
        ("a long script", format!("run: {long}")),
        ("NUL in a script", "run: \"a\\0b\"".to_owned()),
        ("a long output", format!("run: 'true'\noutputs: [a/{}]", "n".repeat(300))),
        ("NUL in a file's name", "run: 'true'\nmetrics: \"a\\0b\"".to_owned()),
    ] {
        let sandbox = Sandbox::with(&step(&with));
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        let shown: String = ended.stderr.chars().take(2000).collect();
        assert_eq!(ended.code, Some(3), "{shown}");
        said.add(what, &ended.stderr);
    }
    assert_message!(said, "[xn]{20,}" => "[long]");
    let sandbox = Sandbox::with(&step(&format!("argv: [sh, -c, 'echo length=${{#A}}']\nenv: {{ A: {fits} }}")));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "what fits is passed: {}", ended.stderr);
    assert_eq!(sandbox.records()["job"]["outcome"]["metrics"]["length"]["value"], fits.len() as f64);
}

#[test]
fn names_are_no_longer_than_files_names() {
    let (long, fits) = ("n".repeat(300), "n".repeat(200));
    let study = |step: &str, table: &str, figure: &str, name: &str| {
        format!(
            "name: {name}\nsteps: {{ {step}: {{ uses: mock, matrix: {{ seed: [0, 1] }} }} }}\ntables: {{ {table}: {{ from: {step}, cells: [value] }} }}\nfigures: {{ {figure}: {{ from: {step}, kind: bar, x: seed, y: value }} }}\n"
        )
    };
    let mut said = Transcript::default();
    for (what, recipe) in [
        ("step", study(&long, "t", "f", "r")),
        ("table", study("s", &long, "f", "r")),
        ("figure", study("s", "t", &long, "r")),
        ("recipe", study("s", "t", "f", &long)),
    ] {
        let ended = Sandbox::with(&recipe).sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        said.add(what, &ended.stderr);
    }
    assert_message!(said, "n{20,}" => "[long]");
    let ended = Sandbox::with(&study(&fits, &fits, &fits, &fits)).sweep(&["run", "recipe.yaml", "--set", "a=1"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let ended = Sandbox::with(&study(&fits, &fits, &fits, &fits)).sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

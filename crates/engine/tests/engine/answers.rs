//! Answers of the commands as JSON: one object, with the commands that make sense next.

use std::{os::unix::fs::symlink, process::Command};

use serde_json::{Value, json};

use crate::{
    commands::commands,
    sandbox::{Sandbox, repository},
};

const STUDY: &str = "
name: study
params: { code: 3 }
steps:
  train:
    uses: mock
    matrix: { variant: [1, 2], seed: [0, 1] }
    with: { value: '${{ matrix.variant }}', variant: '${{ matrix.variant }}' }
  fails: { uses: command, with: { run: 'echo to the log; exit ${{ params.code }}' } }
tables:
  t: { from: train, rows: [variant], cells: [value] }
";

/// A study of which one job has failed, in a folder with the program as `bin/sweep`.
fn study() -> Sandbox {
    let sandbox = Sandbox::with(STUDY);
    with_program(&sandbox);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
    sandbox
}

fn with_program(sandbox: &Sandbox) {
    fs_err::create_dir(sandbox.path("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_sweep-engine"), sandbox.path("bin/sweep")).unwrap();
}

/// The answer of a command, and its exit code.
fn answer(sandbox: &Sandbox, args: &[&str]) -> (Value, Option<i32>) {
    let ended = sandbox.sweep(&[args, &["--format", "json"]].concat());
    let answer: Value =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {args:?} {ended:?}"));
    assert!(answer.is_object() && answer["next"].is_array(), "{args:?}: {answer:#}");
    (answer, ended.code)
}

/// The commands that make sense after an answer.
fn next(answer: &Value) -> Vec<&str> {
    answer["next"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

/// Runs the commands of an answer in a shell: each is a command of the program, and finds the files and jobs that it
/// names.
fn follow(sandbox: &Sandbox, answer: &Value) {
    for line in next(answer) {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(sandbox.path("")).env("PATH", "bin:/usr/local/bin:/usr/bin:/bin");
        shell.env("SWEEP_LOCKS", sandbox.path("")).env_remove("SWEEP_RESULTS");
        let ended = shell.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!matches!(ended.status.code(), Some(2 | 3 | 4 | 127) | None), "{line}: {said}");
    }
}

/// Every field is in the answer.
fn assert_fields(answer: &Value, fields: &str) {
    for field in fields.split_whitespace() {
        assert!(answer.get(field).is_some(), "no `{field}`: {answer:#}");
    }
}

#[test]
fn every_command_answers_with_one_object_and_commands_that_exist() {
    let sandbox = study();
    sandbox.write("runs.csv", "lr,seed,loss\n1,0,3\n1,1,2\n2,0,4\n2,1,5\n");
    let job = "train/variant=1,seed=0";
    let calls: &[(&[&str], i32, &str)] = &[
        (&["plan", "recipe.yaml"], 0, "format recipes request warnings jobs"),
        (&["plan", "recipe.yaml", "--only", "train"], 0, "jobs"),
        (&["run", "recipe.yaml"], 5, "runs summary failures reports"),
        (&["run", "recipe.yaml", "--only", "train"], 0, "runs summary failures reports"),
        (&["report", "recipe.yaml"], 0, "reports"),
        (&["best", "recipe.yaml", "--by", "value", "--direction", "min"], 0, "best metric notes"),
        (&["explain", "recipe.yaml", job], 0, "job key state record causes then lines"),
        (&["explain", "recipe.yaml", "fails"], 0, "job key state record causes then lines"),
        (&["explain", "recipe.yaml", "fails", "--set", "code=4"], 0, "causes"),
        (&["status"], 0, "run recipe summary jobs"),
        (&["logs", "fails"], 0, "job key run state log text whole"),
        (&["logs", "fails", "--follow"], 0, "text"),
        (&["show", "fails"], 0, "job key run state attempts log command"),
        (&["show", job], 0, "key label outcome provenance"),
        (&["query", "recipe.yaml"], 0, "records"),
        (&["query", "--output", "records.json"], 0, "output records"),
        (&["diff", "recipe.yaml", "recipe.yaml"], 0, "sides shared same only"),
        (&["bundle", "create", "recipe.yaml"], 0, "file bytes jobs open left_out"),
        (&["bundle", "verify", "study.sweep.tar"], 0, "good recipes sweep environment jobs records defects"),
        (&["bundle", "verify", "study.sweep.tar", "--rerun", "1", "--yes"], 0, "good reruns"),
        (&["cache", "ls"], 0, "records states"),
        (&["cache", "verify"], 0, "good records files defects"),
        (&["cache", "verify", "recipe.yaml", "--rerun", "1"], 0, "seed jobs left_out"),
        (&["cache", "export", "train/variant=2,seed=1", "--output", "one.tar"], 0, "file records"),
        (&["cache", "import", "one.tar"], 0, "added known refused"),
        (&["cache", "share"], 0, "shared"),
        (&["cache", "gc", "--recent", "0s"], 0, "removed records states bytes"),
        (&["hosts", "add", "box1"], 0, "host state"),
        (&["hosts", "list"], 0, "hosts"),
        (&["hosts", "rm", "box1"], 0, "host state"),
        (&["hosts", "cancel"], 0, "jobs errors"),
        (&["doctor"], 0, "executor good findings"),
        (&["devices"], 0, "devices rejected"),
        (&["tasks"], 0, "tasks"),
        (&["tasks", "mock"], 0, "name parameters metrics"),
        (&["import", "runs.csv"], 0, "recipe kind source runs records axes metrics skipped notices advice"),
        (&["ledger"], 0, "questions rate"),
        (&["ledger", "verify"], 0, "entries defects"),
    ];
    for (args, code, fields) in calls {
        let (answer, ended) = answer(&sandbox, args);
        assert_eq!(ended, Some(*code), "{args:?}: {answer:#}");
        assert_fields(&answer, fields);
        assert!(answer.get("error").is_none(), "{args:?}: {answer:#}");
        // The listed records are removed by a test of their own.
        if !args.starts_with(&["cache", "gc"]) {
            follow(&sandbox, &answer);
        }
    }
}

#[test]
fn a_run_names_its_failures_and_what_shows_them() {
    let sandbox = Sandbox::with(STUDY);
    with_program(&sandbox);
    let (planned, _) = answer(&sandbox, &["plan", "recipe.yaml", "--set", "code=5", "--only", "fails"]);
    assert_eq!(next(&planned), ["sweep run recipe.yaml --set code=5 --only fails"]);
    let (ran, code) = answer(&sandbox, &["run", "recipe.yaml"]);
    assert_eq!((code, &ran["runs"]), (Some(5), &json!(sandbox.runs())));
    assert_eq!((&ran["summary"]["done"], &ran["summary"]["failed"]), (&json!(4), &json!(1)));
    let failed = &ran["failures"][0];
    assert_eq!((&failed["job"], &failed["tolerated"]), (&json!("fails"), &json!(false)));
    assert_eq!(sandbox.read(failed["log"].as_str().unwrap()), "to the log\n");
    assert_eq!(next(&ran), ["sweep logs fails", "sweep show fails", "sweep run recipe.yaml"]);
    let table = &ran["reports"][0]["tables"][0];
    assert_eq!((&table["name"], &table["cells"][1]["at"]), (&json!("t"), &json!({ "variant": "2" })));
    assert_eq!((&table["cells"][1]["metric"], &table["cells"][1]["value"]), (&json!("value"), &json!(2.0)));
    let (reported, _) = answer(&sandbox, &["report", "recipe.yaml"]);
    assert_eq!(reported["reports"], ran["reports"]);
    let (log, _) = answer(&sandbox, &["logs", "fails"]);
    assert_eq!((&log["text"], &log["state"], &log["whole"]), (&json!("to the log"), &json!("failed"), &json!(true)));
    assert_eq!(next(&log), ["sweep show fails", "sweep run recipe.yaml --only fails"]);
    let (done, code) = answer(&sandbox, &["run", "recipe.yaml", "--set", "code=0"]);
    assert_eq!((code, next(&done)), (Some(0), vec!["sweep report recipe.yaml --set code=0"]));
}

#[test]
fn a_run_without_a_recipe_has_one_answer() {
    let sandbox = Sandbox::new();
    let command =
        ["run", "--format", "json", "--axis", "lr=1,2", "--", "sh", "-c", "echo loss=$0; echo --format", "{lr}"];
    let ended = sandbox.sweep(&command);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let cells = &answer["reports"][0]["tables"][0]["cells"];
    let is_loss = |cell: &Value| cell["metric"] == "loss" && cell["value"].is_f64();
    assert!(cells.as_array().unwrap().iter().any(is_loss), "{answer:#}");
    // Arguments after `--` belong to the program.
    let command = ["run", "--axis", "lr=1,2", "--", "sh", "-c", "echo loss=1", "--format", "json"];
    assert!(!sandbox.sweep(&command).stdout.starts_with('{'));
}

#[test]
fn the_cause_of_a_run_has_its_place() {
    let sandbox = study();
    let changed = STUDY.replace("value: '${{ matrix.variant }}'", "value: 7");
    sandbox.write("recipe.yaml", &changed);
    let (explained, _) = answer(&sandbox, &["explain", "recipe.yaml", "train/variant=1,seed=0"]);
    assert_eq!(
        (&explained["state"], &explained["record"]["job"]),
        (&json!("to run"), &json!("train/variant=1,seed=0"))
    );
    let cause = &explained["causes"][0];
    assert_eq!((&cause["kind"], &cause["what"], &cause["new"]), (&json!("changed"), &json!("value"), &json!("7")));
    let line = changed.lines().position(|line| line.contains("value: 7")).unwrap();
    assert_eq!((&cause["at"]["file"], &cause["at"]["line"]), (&json!("recipe.yaml"), &json!(line + 1)));
    assert_eq!(explained["then"], json!(["table t"]));
    assert_eq!(next(&explained), ["sweep run recipe.yaml --only train/variant=1,seed=0"]);
    let text = sandbox.sweep(&["explain", "recipe.yaml", "train/variant=1,seed=0"]).stdout;
    let lines: Vec<&str> = explained["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(lines, text.lines().collect::<Vec<_>>());
}

#[test]
fn mistakes_in_a_recipe_have_places_and_remedies() {
    let sandbox = Sandbox::with("steps:\n  a: { uses: mok }\n  b: { uses: mock, wiht: {} }\n");
    let commands: [&[&str]; 6] = [&["plan"], &["run"], &["report"], &["best"], &["query"], &["bundle", "create"]];
    for command in commands {
        let (wrong, code) = answer(&sandbox, &[command, &["recipe.yaml"]].concat());
        assert_eq!(code, Some(3), "{command:?}");
        assert_eq!((&wrong["error"]["exit_code"], &wrong["error"]["help"]), (&json!(3), &Value::Null));
        let mistakes = wrong["mistakes"].as_array().unwrap();
        let place = |mistake: &Value| (mistake["file"].clone(), mistake["line"].clone(), mistake["column"].clone());
        let places: Vec<_> = mistakes.iter().map(place).collect();
        let at = |line: u64, column: u64| (json!("recipe.yaml"), json!(line), json!(column));
        assert_eq!(places, [at(2, 14), at(3, 20)]);
        assert_eq!(
            (&mistakes[0]["message"], &mistakes[0]["label"]),
            (&json!("unknown task `mok`"), &json!("no task has this name"))
        );
        assert_eq!(mistakes[1]["help"], "did you mean `with`?");
        assert_eq!(next(&wrong), [format!("sweep {} recipe.yaml", command.join(" "))]);
    }
    sandbox.write("recipe.yaml", "steps: { a: { uses: mock } }");
    let (wrong, code) = answer(&sandbox, &["plan", "recipe.yaml", "--set", "x=it's"]);
    let mistake = &wrong["mistakes"][0];
    assert_eq!((code, &mistake["file"], &mistake["line"]), (Some(3), &json!("--set x=it's"), &json!(1)));
    assert_eq!(next(&wrong), [r"sweep plan recipe.yaml --set 'x=it'\''s'"]);
}

#[test]
fn other_failures_are_errors() {
    let sandbox = study();
    let calls: &[(&[&str], i32, &str, &str)] = &[
        (&["explain", "recipe.yaml", "tarin"], 2, "no job `tarin`", "`train/variant=1,seed=0`"),
        (&["logs", "fials"], 2, "no job `fials`", "did you mean `fails`?"),
        (&["show", "fials"], 2, "no record of a job `fials`", "jobs:"),
        (&["status", "2025"], 2, "no run `2025`", "runs:"),
        (&["cache", "rm", "fials"], 2, "no record of a job `fials`", "jobs:"),
        (&["best", "recipe.yaml", "--step", "tran"], 2, "`tran`", "did you mean `train`?"),
        (&["tasks", "trian"], 2, "unknown task `trian`", "did you mean `train`?"),
        (&["plan", "recpie.yaml"], 2, "there is no recipe `recpie.yaml`", "did you mean `recipe.yaml`?"),
        (&["plan", "recipe.yaml", "--only", "tran"], 4, "tran", ""),
        (&["logs", "fails", "--raw"], 2, "`--raw`", ""),
        (&["bundle", "verify", "none.tar"], 1, "cannot read the bundle", ""),
        // Command lines that the parser rejects.
        (&["run", "recipe.yaml", "--dry-run"], 2, "unexpected argument '--dry-run'", "`sweep plan recipe.yaml`"),
        (&["cache", "lst"], 2, "unrecognized subcommand 'lst'", ""),
    ];
    for (args, exit_code, message, help) in calls {
        let (wrong, code) = answer(&sandbox, args);
        let error = &wrong["error"];
        assert_eq!((code, &error["exit_code"]), (Some(*exit_code), &json!(exit_code)), "{args:?}: {wrong:#}");
        assert!(error["message"].as_str().unwrap().contains(message), "{args:?}: {wrong:#}");
        assert!(error["help"].as_str().unwrap_or_default().contains(help), "{args:?}: {wrong:#}");
        assert!(wrong.get("mistakes").is_none() && next(&wrong).is_empty(), "{args:?}: {wrong:#}");
        // People read the same beside it.
        assert_ne!(sandbox.sweep(&[args, &["--format", "json"][..]].concat()).stderr, "");
    }
}

#[test]
fn the_next_command_removes_what_was_listed() {
    let sandbox = study();
    let (listed, _) = answer(&sandbox, &["cache", "rm", "train/variant=1,seed=0"]);
    assert_eq!((&listed["removed"], listed["records"].as_array().unwrap().len()), (&json!(false), 1));
    assert_eq!(next(&listed), ["sweep cache rm train/variant=1,seed=0 --yes"]);
    follow(&sandbox, &listed);
    let jobs = |answer: &Value| answer["records"].as_array().unwrap().len();
    assert_eq!(jobs(&answer(&sandbox, &["cache", "ls"]).0), 3);
    let (removed, _) = answer(&sandbox, &["cache", "gc", "--recent", "0s", "--yes"]);
    assert_eq!((&removed["removed"], jobs(&removed), next(&removed).len()), (&json!(true), 3, 0));
    assert_eq!(jobs(&answer(&sandbox, &["cache", "ls"]).0), 0);
}

#[test]
fn defects_are_fields_and_no_error() {
    let sandbox = study();
    let key = sandbox.records()["train/variant=1,seed=0"]["key"].as_str().unwrap().to_owned();
    let path = format!("results/store/{}/{key}/record.json", &key[..2]);
    sandbox.write(&path, &sandbox.read(&path).replace("\"variant\": 1", "\"variant\": 9"));
    let (verified, code) = answer(&sandbox, &["cache", "verify"]);
    assert_eq!((code, &verified["good"], &verified["defects"][0]["key"]), (Some(1), &json!(false), &json!(key)));
}

#[test]
fn the_next_commands_name_another_results_folder() {
    let sandbox = Sandbox::with(STUDY);
    with_program(&sandbox);
    let (ran, code) = answer(&sandbox, &["--results", "it's other", "run", "recipe.yaml"]);
    assert_eq!((code, next(&ran)[0]), (Some(5), r"sweep --results 'it'\''s other' logs fails"));
    follow(&sandbox, &ran);
    assert!(!sandbox.path("results").exists());
}

#[test]
fn the_documentation_has_the_fields_of_every_command() {
    let page = fs_err::read_to_string(repository().join("docs/results.md")).unwrap();
    let table = page.split("| command | fields besides `next` |\n").nth(1).unwrap();
    let cells = table.lines().skip(1).filter_map(|row| row.strip_prefix("| ")?.split(" | ").next());
    let mut documented: Vec<String> =
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    let has_json = |help: &str| help.contains("json]") || help.contains("json,");
    let mut known: Vec<String> =
        commands().into_iter().filter(|(_, help)| has_json(help)).map(|(command, _)| command.join(" ")).collect();
    // `ledger` has a subcommand, and also runs without one.
    known.push("ledger".to_owned());
    documented.sort();
    known.sort();
    assert_eq!(documented, known);
}

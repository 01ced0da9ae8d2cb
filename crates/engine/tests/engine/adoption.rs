//! Adoption: after a change of the code, an earlier result holds if the program repeats its first steps bit for bit.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::sandbox::{Sandbox, list, until};

/// A training that counts its steps in a log; a step waits for the file `go` if `WAIT` names that step.
const TRAIN: &str = "
import json, os, time
import model
scratch = os.environ['SWEEP_SCRATCH']
resume = os.environ.get('SWEEP_RESUME')
x, first = 1.0, 0
if resume:
    first, x = json.load(open(resume))
with open(os.environ['SWEEP_REPORT'], 'a', buffering=1) as report, open(os.environ['STEPS'], 'a', buffering=1) as log:
    report.write(json.dumps({'total': 60}) + '\\n')
    for step in range(first, 60):
        x = model.update(step, x)
        report.write(json.dumps({'step': step, 'loss': x, 'step_ms': time.time() % 1}) + '\\n')
        log.write(f'{step}\\n')
        if step % 5 == 4:
            path = os.path.join(scratch, f'{step}.json')
            json.dump([step + 1, model.state(x)], open(path, 'w'))
            report.write(json.dumps({'checkpoint': f'{step}.json'}) + '\\n')
        time.sleep(0.02 if step < 40 else 0)
import late
print(f'accuracy={late.accuracy(x)}')
open('weights', 'w').write(str(x))
";

pub(crate) const MODEL: &str = "
def update(step, x):
    return x * 0.9 + 0.01 * step

def state(x):
    return x
";

pub(crate) const RECIPE: &str = "
steps:
  train:
    uses: command
    with: { argv: [python3, train.py], project: code, outputs: [weights], env: { LR: '1' } }
    adopt: { after: 10 }
tables: { t: { from: train, cells: [accuracy] } }
claims: { good: { value: { metric: accuracy, of: { step: train } }, expect: { at_least: -1000 } } }
";

/// A study, run once.
fn study() -> Sandbox {
    let sandbox = fresh();
    run(&sandbox, "");
    assert_eq!(steps(&sandbox), 60);
    sandbox
}

pub(crate) fn fresh() -> Sandbox {
    let sandbox = Sandbox::with(RECIPE);
    sandbox.write("code/pyproject.toml", "");
    sandbox.write("code/train.py", TRAIN);
    sandbox.write("code/model.py", MODEL);
    sandbox.write("code/late.py", "def accuracy(x):\n    return round(x, 3)\n");
    sandbox
}

fn try_run(sandbox: &Sandbox, fault: &str) -> std::process::Output {
    let mut command = sandbox.command(&["run", "recipe.yaml"]);
    // Outside of the project, in which each program sees its own files.
    let steps = sandbox.path("steps");
    let _ = fs_err::remove_file(&steps);
    command.env("STEPS", &steps).env("PYTHONDONTWRITEBYTECODE", "1");
    if !fault.is_empty() {
        command.env("SWEEP_FAILPOINTS", fault);
    }
    command.output().unwrap()
}

fn run(sandbox: &Sandbox, fault: &str) -> String {
    let ended = try_run(sandbox, fault);
    let text = String::from_utf8_lossy(&ended.stderr).into_owned() + &String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(0), "{text}");
    text
}

/// The number of steps that the latest run has made.
fn steps(sandbox: &Sandbox) -> usize {
    let text = fs_err::read_to_string(sandbox.path("steps")).unwrap_or_default();
    text.lines().count()
}

/// All records, also several of one label.
pub(crate) fn all(sandbox: &Sandbox) -> Vec<Value> {
    record_folders(sandbox).iter().map(|folder| record(folder)).collect()
}

fn record_folders(sandbox: &Sandbox) -> Vec<PathBuf> {
    let store = list(&sandbox.path("results/store"));
    store.iter().filter(|name| name.file_name().unwrap().len() == 2).flat_map(|shard| list(shard)).collect()
}

fn record(folder: &Path) -> Value {
    serde_json::from_slice(&fs_err::read(folder.join("record.json")).unwrap()).unwrap()
}

/// The adopted record.
fn adopted(sandbox: &Sandbox) -> Value {
    let mut found = all(sandbox);
    found.retain(|record| !record["provenance"]["adopted"].is_null());
    assert_eq!(found.len(), 1, "{found:?}");
    found.pop().unwrap()
}

fn stdout(sandbox: &Sandbox, args: &[&str]) -> String {
    let ended = sandbox.sweep(args);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

#[test]
fn an_edit_that_changes_nothing_is_adopted_and_everything_says_so() {
    let sandbox = study();
    let first = sandbox.records().remove("train").unwrap();
    sandbox.write("code/model.py", &MODEL.replace("x * 0.9", "0.9 * x"));
    let explained = stdout(&sandbox, &["explain", "recipe.yaml", "train"]);
    assert!(explained.contains("if its steps up to 10 are bit-identical to those of record"), "{explained}");
    let text = run(&sandbox, "");
    let made = steps(&sandbox);
    assert!((11..60).contains(&made), "{made}: {text}");
    assert!(text.contains("adopted from record"), "{text}");
    let record = adopted(&sandbox);
    for part in ["outcome", "files", "params"] {
        assert_eq!(record[part], first[part], "{part}");
    }
    let mark = &record["provenance"]["adopted"];
    assert_eq!((&mark["from"], &mark["after"], &mark["end"]), (&first["key"], &Value::from(10), &Value::from(59)));
    let step = mark["step"].as_u64().unwrap();
    assert_eq!(mark["values"], serde_json::json!({ "loss": step + 1 }), "every value up to the step, and no times");
    assert_eq!(mark["states"], serde_json::json!([4, 9]));
    let weights: BTreeSet<Vec<u8>> =
        record_folders(&sandbox).iter().map(|folder| fs_err::read(folder.join("files/weights")).unwrap()).collect();
    assert_eq!(weights.len(), 1, "the file of the record that ran to its end");
    // It is cached, as are the earlier ones after a step back.
    sandbox.assert_all_cached(&["recipe.yaml"]);
    let short = &first["key"].as_str().unwrap()[..12];
    let source =
        format!("adopted from record {short}, made with earlier code: the present code ran up to step {step} of 59");
    for args in
        [&["explain", "recipe.yaml", "train"][..], &["show", "train"], &["report", "recipe.yaml", "--format", "md"]]
    {
        let text = stdout(&sandbox, args);
        let expected = if args[0] == "report" { "1 of 1 record was adopted" } else { source.as_str() };
        assert!(text.contains(expected), "{args:?}: {text}");
    }
    let json: Value =
        serde_json::from_str(&stdout(&sandbox, &["explain", "recipe.yaml", "train", "--format", "json"])).unwrap();
    assert_eq!(json["adopted"]["from"], first["key"], "{json}");
    let claims: Value =
        serde_json::from_str(&stdout(&sandbox, &["report", "recipe.yaml", "--format", "json"])).unwrap();
    assert!(claims.to_string().contains("1 of 1 record was adopted"), "{claims}");
    let page = fs_err::read_to_string(sandbox.path("results/reports/recipe/index.html"));
    let page = page.unwrap_or_else(|_| format!("{:?}", list(&sandbox.path("results/reports"))));
    assert!(page.contains("adopted from record"), "{}", &page[..page.len().min(2000)]);
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
    sandbox.write("code/model.py", MODEL);
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

#[test]
fn what_the_earlier_run_read_after_the_first_steps_still_counts() {
    let sandbox = study();
    sandbox.write("code/model.py", &format!("# A comment.\n{MODEL}"));
    run(&sandbox, "");
    assert!(steps(&sandbox) < 60);
    sandbox.assert_all_cached(&["recipe.yaml"]);
    // `late.py` was not read by the run that was compared.
    sandbox.write("code/late.py", "def accuracy(x):\n    return round(x, 2)\n");
    assert_eq!(sandbox.planned(&["recipe.yaml"])["train"], "to run");
    let text = run(&sandbox, "");
    assert!(steps(&sandbox) < 60, "an edit that acts after the first steps is adopted: {text}");
    let records = all(&sandbox);
    assert_eq!(records.len(), 3);
    let origin = records.iter().find(|record| record["provenance"]["adopted"].is_null()).unwrap();
    for record in records.iter().filter(|record| record["key"] != origin["key"]) {
        assert_eq!(record["provenance"]["adopted"]["from"], origin["key"], "the record of the job that ran to its end");
    }
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

#[test]
fn an_edit_that_acts_in_the_first_steps_runs_on_to_its_end() {
    for (what, edit) in [
        ("`loss` differs at step 7", ("0.01 * step", "0.01 * step + (1e-9 if step == 7 else 0)")),
        ("the state at step 4 differs", ("return x\n", "return -x\n")),
    ] {
        let sandbox = study();
        sandbox.write("code/model.py", &MODEL.replace(edit.0, edit.1));
        let text = run(&sandbox, "");
        assert_eq!(steps(&sandbox), 60, "it goes on and does not begin again: {text}");
        assert!(text.contains(what), "{text}");
        assert!(all(&sandbox).iter().all(|record| record["provenance"]["adopted"].is_null()));
        sandbox.assert_all_cached(&["recipe.yaml"]);
    }
}

#[test]
fn a_program_that_is_not_deterministic_runs_to_its_end() {
    let sandbox = fresh();
    sandbox.write(
        "code/model.py",
        &MODEL.replace("def update", "import random\ndef update").replace("0.01 * step", "random.random()"),
    );
    run(&sandbox, "");
    sandbox.write("code/late.py", "def accuracy(x):\n    return x\n");
    let text = run(&sandbox, "");
    assert_eq!(steps(&sandbox), 60, "{text}");
    assert!(text.contains("`loss` differs at step 0"), "{text}");
}

#[test]
fn without_the_key_every_edit_runs() {
    let sandbox = study();
    sandbox.write("recipe.yaml", &RECIPE.replace("    adopt: { after: 10 }\n", ""));
    sandbox.assert_all_cached(&["recipe.yaml"]);
    sandbox.write("code/model.py", &format!("# A comment.\n{MODEL}"));
    run(&sandbox, "");
    assert_eq!(steps(&sandbox), 60);
}

#[test]
fn a_record_without_first_steps_is_compared_by_its_curves() {
    let sandbox = fresh();
    sandbox.write("recipe.yaml", &RECIPE.replace("    adopt: { after: 10 }\n", ""));
    run(&sandbox, "");
    sandbox.write("recipe.yaml", RECIPE);
    sandbox.write("code/model.py", &format!("# A comment.\n{MODEL}"));
    run(&sandbox, "");
    assert!(steps(&sandbox) < 60);
    let mark = &adopted(&sandbox)["provenance"]["adopted"];
    assert!(mark["states"].is_null() && mark["values"]["loss"].as_u64() > Some(10), "{mark}");
    assert!(stdout(&sandbox, &["show", "train"]).contains("no states were compared"));
}

#[test]
fn a_script_among_the_inputs_is_code() {
    let sandbox = fresh();
    let recipe = RECIPE.replace("project: code", "inputs: [code/train.py, code/model.py, code/late.py]");
    sandbox.write("recipe.yaml", &recipe);
    run(&sandbox, "");
    sandbox.write("code/model.py", &format!("# A comment.\n{MODEL}"));
    let text = run(&sandbox, "");
    assert!(steps(&sandbox) < 60, "{text}");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    // Another parameter is another job.
    sandbox.write("recipe.yaml", &recipe.replace("LR: '1'", "LR: '2'"));
    sandbox.write("code/model.py", MODEL);
    run(&sandbox, "");
    assert_eq!(steps(&sandbox), 60);
}

#[test]
fn killed_at_every_write_an_adoption_is_whole_or_not_there() {
    if !cfg!(debug_assertions) {
        eprintln!("not run: a release build cannot be made to break");
        return;
    }
    let sandbox = study();
    sandbox.write("code/model.py", &format!("# A comment.\n{MODEL}"));
    let kept = tempfile::tempdir().unwrap();
    let copy = |from: &Path, to: &Path| {
        let _ = fs_err::remove_dir_all(to);
        assert!(std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    };
    copy(&sandbox.path("results"), &kept.path().join("results"));
    for point in [
        "adopt: before the files",
        "adopt: files linked",
        "commit: in the record",
        "commit: before the rename",
        "commit: after the rename",
    ] {
        let killed = try_run(&sandbox, &format!("kill=1@{point}"));
        assert_eq!(killed.status.code(), None, "{point}: {}", String::from_utf8_lossy(&killed.stderr));
        until("no worker is left", || sandbox.workers().is_empty());
        let is_there = all(&sandbox).len() == 2;
        let text = run(&sandbox, "");
        assert_eq!(steps(&sandbox) == 0, is_there, "{point}: {text}");
        assert!(steps(&sandbox) < 60, "{point}: {text}");
        adopted(&sandbox);
        sandbox.assert_all_cached(&["recipe.yaml"]);
        assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0), "{point}");
        copy(&kept.path().join("results"), &sandbox.path("results"));
    }
}

#[test]
fn an_adopted_record_needs_no_other_one() {
    let sandbox = study();
    sandbox.write("code/model.py", &format!("# A comment.\n{MODEL}"));
    run(&sandbox, "");
    let key = adopted(&sandbox)["key"].clone();
    stdout(&sandbox, &["cache", "gc", "recipe.yaml", "--yes"]);
    let left = all(&sandbox);
    assert!(left.iter().any(|record| record["key"] == key), "{left:?}");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
    // A bundle names it, and a rerun runs it to its end.
    stdout(&sandbox, &["bundle", "recipe.yaml"]);
    let verified = stdout(&sandbox, &["bundle", "verify", "recipe.sweep.tar"]);
    assert!(verified.contains("adopted from record"), "{verified}");
}

/// A job whose earlier record loses its files, or whose files are changed, runs again, from its checkpoint on.
#[test]
fn an_earlier_result_that_is_gone_or_damaged_is_not_adopted() {
    let damages: [fn(&Path); 3] = [
        |files| fs_err::remove_dir_all(files).unwrap(),
        |files| fs_err::remove_file(files.join("weights")).unwrap(),
        |files| {
            fs_err::remove_file(files.join("weights")).unwrap();
            fs_err::write(files.join("weights"), "damaged").unwrap();
        },
    ];
    for damage in damages {
        let sandbox = study();
        damage(&record_folders(&sandbox)[0].join("files"));
        sandbox.write("code/model.py", &format!("# A comment.\n{MODEL}"));
        let text = run(&sandbox, "");
        assert!(text.contains("the earlier result was removed"), "{text}");
        assert!(steps(&sandbox) >= 60, "{text}");
        assert!(all(&sandbox).iter().all(|record| record["provenance"]["adopted"].is_null()));
        sandbox.assert_all_cached(&["recipe.yaml"]);
    }
}

#[test]
fn without_observation_the_key_says_that_it_has_no_effect() {
    let sandbox = fresh();
    sandbox.write("recipe.yaml", &RECIPE.replace("project: code", "project: code, tracks: declared"));
    let text = run(&sandbox, "");
    assert!(text.contains("`adopt` has no effect"), "{text}");
}

#[test]
fn mistakes_are_shown_with_their_remedies() {
    let sandbox = fresh();
    for (from, to, expected) in [
        ("after: 10", "after: 0", "`after` must be an integer from 1"),
        ("{ after: 10 }", "{}", "write `adopt: { after: 40 }`"),
        ("    adopt:", "    exclusive: true\n    adopt:", "times of earlier code"),
        (
            "uses: command\n    with: { argv: [python3, train.py], project: code, outputs: [weights], env: { LR: '1' } }",
            "uses: mock",
            "is for programs",
        ),
    ] {
        sandbox.write("recipe.yaml", &RECIPE.replace(from, to));
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{to}");
        assert!(ended.stderr.contains(expected) && ended.stderr.contains("recipe.yaml:"), "{to}: {}", ended.stderr);
    }
}

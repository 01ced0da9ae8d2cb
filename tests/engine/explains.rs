//! `sweep explain` names the field that changed, its values, and the place.

use crate::sandbox::{Sandbox, sealed};

const STUDY: &str = "
name: study
params: { value: 1 }
steps:
  prepare: { uses: mock, with: { value: 5 } }
  train:
    needs: prepare
    uses: mock
    matrix: { seed: [0, 1] }
    with:
      value: ${{ params.value }}
      input: data.txt
  evaluate:
    needs: train
    uses: mock
    matrix: { seed: '${{ needs.train.axes.seed }}' }
tables:
  t: { from: evaluate, rows: [seed], cells: [value] }
";

/// A study that has run.
fn study() -> Sandbox {
    let sandbox = Sandbox::with(STUDY);
    sandbox.write("data.txt", "first");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    sandbox
}

/// Explanation of a job after a change of the recipe.
fn said(sandbox: &Sandbox, from: &str, to: &str, args: &[&str]) -> String {
    assert!(STUDY.contains(from), "{from}");
    sandbox.write("recipe.yaml", &STUDY.replacen(from, to, 1));
    let args: Vec<&str> = ["explain", "recipe.yaml"].into_iter().chain(args.iter().copied()).collect();
    let ended = sandbox.sweep(&args);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // Keys of the records are part of other tests.
    let text = ended.stdout.lines().map(|line| line.replace(" min ago", "just now").replace("just now", "a while ago"));
    text.collect::<Vec<_>>().join("\n")
}

const JOB: &str = "train/seed=0";

#[test]
fn a_cached_job() {
    assert!(said(&study(), "name", "name", &[JOB]).contains("train/seed=0 is cached: record "));
}

#[test]
fn a_param() {
    let text = said(&study(), "value: 1 }", "value: 2 }", &[JOB]);
    assert!(text.contains("\n    value   1 → 2   recipe.yaml:3:18\n"), "{text}");
    assert!(text.contains("then also: 1 job of evaluate, table t"), "{text}");
    insta::with_settings!({ filters => [("[0-9a-f]{12}", "KEY")] }, { insta::assert_snapshot!(text) });
}

#[test]
fn a_set_on_the_command_line() {
    let text = said(&study(), "name", "name", &[JOB, "--set", "value=3"]);
    assert!(text.contains("value   1 → 3   --set value=3:1:7"), "{text}");
}

#[test]
fn a_value_that_becomes_its_default() {
    let text = said(&study(), "      value: ${{ params.value }}\n", "", &[JOB]);
    assert!(text.contains("value   1 → 0 (default)"), "{text}");
}

#[test]
fn an_edited_input() {
    let sandbox = study();
    sandbox.write("data.txt", "second");
    let text = said(&sandbox, "name", "name", &[JOB]);
    assert!(text.contains("input   content ") && text.contains("recipe.yaml:12:14"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains('→')).count(), 1, "{text}");
}

#[test]
fn an_edited_input_of_a_program() {
    let recipe = "steps: { a: { uses: command, with: { argv: [cat, data.txt], inputs: [other.txt, data.txt] } } }";
    let sandbox = Sandbox::with(recipe);
    sandbox.write("data.txt", "x=1\n");
    sandbox.write("other.txt", "");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    sandbox.write("data.txt", "x=2\n");
    let text = sandbox.sweep(&["explain", "recipe.yaml", "a"]).stdout;
    assert!(text.contains("inputs.2   content "), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains('→')).count(), 1, "{text}");
}

#[test]
fn a_new_seed() {
    let text = said(&study(), "seed: [0, 1]", "seed: [0, 2]", &["train/seed=2"]);
    assert!(text.contains("seed   ") && text.contains("→ 2   recipe.yaml:9:25"), "{text}");
}

#[test]
fn a_parents_param_to_the_root() {
    let text = said(&study(), "value: 5", "value: 6", &["evaluate/seed=1"]);
    let expected = "    it needs train/seed=1, which differs in\n      it needs prepare, which differs in\n        value   5 → 6   recipe.yaml:5:41";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn another_revision_and_another_backend() {
    let sandbox = study();
    let record = &sandbox.records()["prepare"];
    let key = record["key"].as_str().unwrap();
    let path = format!("results/store/{}/{key}/record.json", &key[..2]);
    // A record of an earlier program, which computed on another backend.
    let text = sandbox.read(&path).replace(
        "\"task\": \"mock\",\n    \"revision\": 1,",
        "\"task\": \"mock\",\n    \"revision\": 0,\n    \"backend\": \"cuda\",",
    );
    let old = "0".repeat(64);
    fs_err::create_dir_all(sandbox.path(&format!("results/store/00/{old}"))).unwrap();
    sandbox.write(&format!("results/store/00/{old}/record.json"), &sealed(&text.replace(key, &old)));
    fs_err::remove_dir_all(sandbox.path(&format!("results/store/{}/{key}", &key[..2]))).unwrap();
    let text = said(&sandbox, "name", "name", &["prepare"]);
    assert!(text.contains("task revision   0 → 1") && text.contains("backend   cuda → none"), "{text}");
}

#[test]
fn nothing_like_it() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    let ended = sandbox.sweep(&["explain", "recipe.yaml", "a"]);
    assert!(ended.stdout.contains("nothing like it has run"), "{}", ended.stdout);
}

#[test]
fn a_job_that_is_not_there() {
    let sandbox = study();
    let ended = sandbox.sweep(&["explain", "recipe.yaml", "trian/seed=0"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("did you mean `train/seed=0`?"), "{}", ended.stderr);
    let by_key = sandbox.records()["train/seed=0"]["key"].as_str().unwrap()[..8].to_owned();
    assert!(sandbox.sweep(&["explain", "recipe.yaml", &by_key]).stdout.contains("train/seed=0 is cached"));
}

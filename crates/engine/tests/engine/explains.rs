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
    ended.stdout
}

const JOB: &str = "train/seed=0";

#[test]
fn a_cached_job() {
    assert_message!(said(&study(), "name", "name", &[JOB]));
}

#[test]
fn a_param() {
    let text = said(&study(), "value: 1 }", "value: 2 }", &[JOB]);
    assert_message!(text);
}

#[test]
fn a_set_on_the_command_line() {
    assert_message!(said(&study(), "name", "name", &[JOB, "--set", "value=3"]));
}

#[test]
fn a_value_that_becomes_its_default() {
    assert_message!(said(&study(), "      value: ${{ params.value }}\n", "", &[JOB]));
}

#[test]
fn an_edited_input() {
    let sandbox = study();
    sandbox.write("data.txt", "second");
    let text = said(&sandbox, "name", "name", &[JOB]);
    assert_message!(text);
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
    assert_message!(text);
}

#[test]
fn a_new_seed() {
    let text = said(&study(), "seed: [0, 1]", "seed: [0, 2]", &["train/seed=2"]);
    assert_message!(text, r"seed   [01] → 2" => "seed   [another] → 2", r"seed=[01]" => "seed=[another]");
}

#[test]
fn a_parents_param_to_the_root() {
    assert_message!(said(&study(), "value: 5", "value: 6", &["evaluate/seed=1"]));
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
    assert_message!(said(&sandbox, "name", "name", &["prepare"]));
}

#[test]
fn nothing_like_it() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    let ended = sandbox.sweep(&["explain", "recipe.yaml", "a"]);
    assert_message!(ended.stdout);
}

#[test]
fn a_job_that_is_not_there() {
    let sandbox = study();
    let ended = sandbox.sweep(&["explain", "recipe.yaml", "trian/seed=0"]);
    assert_eq!(ended.code, Some(2));
    assert_message!(ended.stderr);
    let by_key = sandbox.records()["train/seed=0"]["key"].as_str().unwrap()[..8].to_owned();
    let explain = |job: &str| sandbox.sweep(&["explain", "recipe.yaml", job]).stdout;
    assert!(explain(&by_key).starts_with("train/seed=0 "), "{}", explain(&by_key));
}

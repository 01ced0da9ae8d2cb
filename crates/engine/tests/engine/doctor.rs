//! `sweep doctor`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::sandbox::{Ended, Running, Sandbox};

/// The verdict and the sentence of each finding, by name.
pub(crate) fn findings(ended: &Ended) -> BTreeMap<String, (String, String)> {
    let all: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
    assert_eq!(all["good"], ended.code == Some(0), "{all:#}");
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    let all = all["findings"].as_array().unwrap().iter();
    all.map(|finding| (text(finding, "name"), (text(finding, "verdict"), text(finding, "says")))).collect()
}

#[test]
fn this_machine_is_checked() {
    let sandbox = Sandbox::new();
    let ended = sandbox.sweep(&["doctor", "--format", "json"]);
    let found = findings(&ended);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    for name in ["machine", "results folder", "disk", "locks", "disk clock"] {
        assert_eq!(found[name].0, "good", "{found:?}");
    }
    // Nothing of the check is left.
    assert!(crate::sandbox::list(&sandbox.path("results")).is_empty());
    let text = sandbox.sweep(&["doctor", "local"]);
    assert!(text.stdout.contains("ok     locks: the file system supports file locks\n"), "{}", text.stdout);
    sandbox.write("file", "");
    let ended = sandbox.sweep(&["--results", "file", "doctor", "--format", "json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert_eq!(findings(&ended)["results folder"].0, "failed");
}

#[test]
fn presets_are_printed_and_names_are_checked() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    let preset = sandbox.sweep(&["doctor", "--preset", "sge"]);
    assert_eq!(preset.code, Some(0), "{}", preset.stderr);
    // The printed settings can replace the preset.
    let indented: String = preset.stdout.lines().flat_map(|line| ["    ", line, "\n"]).collect();
    sandbox.write("sweep.yaml", &format!("recipe: recipe.yaml\nexecutor:\n  batch:\n{indented}"));
    assert_eq!(sandbox.sweep(&["plan", "sweep.yaml"]).code, Some(0));
    let ended = sandbox.sweep(&["doctor", "slurmm"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("`slurmm` is neither an executor nor a sweep file"), "{}", ended.stderr);
    let none = sandbox.sweep(&["doctor", "batch", "--format", "json"]);
    assert_eq!((none.code, findings(&none)["client"].0.as_str()), (Some(1), "failed"));
}

#[test]
fn a_trial_job_runs_through_slurm() {
    let Some((cluster, _quiet)) = crate::slurm::cluster::shared() else { return };
    let sandbox = Sandbox::new();
    let ended = cluster.sweep(&sandbox, &["doctor", "slurm", "--gpus", "1", "--format", "json"]);
    let found = findings(&ended);
    assert_eq!(ended.code, Some(0), "{found:?}");
    for name in ["queue", "trial job", "clock", "GPUs"] {
        assert_eq!(found[name].0, "good", "{found:?}");
    }
}

#[test]
fn a_trial_job_finds_what_is_wrong_in_grid_engine() {
    let Some((cell, _quiet)) = crate::gridengine::cell::shared() else { return };
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    let write = |settings: &str| {
        sandbox
            .write("sweep.yaml", &format!("recipe: recipe.yaml\nexecutor: {{ batch: {{ preset: sge{settings} }} }}\n"));
    };
    let doctor =
        |more: &[&str]| cell.command(&sandbox, &[&["doctor", "sweep.yaml", "--format", "json"], more].concat());
    let end = |mut command: std::process::Command| Running::from(command.spawn().unwrap()).wait();
    write("");
    let well = end(doctor(&[]));
    assert_eq!((well.code, findings(&well)["trial job"].0.as_str()), (Some(0), "good"), "{}", well.stdout);
    // The job's clock is an hour behind: the variable comes with the job's environment.
    let mut skewed = doctor(&[]);
    skewed.env("SWEEP_CLOCK", "-3600");
    let skewed = end(skewed);
    let (verdict, says) = &findings(&skewed)["clock"];
    assert!(verdict == "doubtful" && (says.contains("off by 36") || says.contains("off by 35")), "{}", skewed.stdout);
    // No machine has that.
    write(", options: [-l, arch=none]");
    let never = end(doctor(&["--wait", "3"]));
    let (verdict, says) = &findings(&never)["trial job"];
    assert_eq!((never.code, verdict.as_str()), (Some(1), "failed"), "{}", never.stdout);
    assert!(says.contains("it has not run within 3 s and was canceled"), "{says}");
    write(", options: [-q, nothing]");
    let refused = end(doctor(&[]));
    assert_eq!(findings(&refused)["submission"].0, "failed", "{}", refused.stdout);
    // The job's process cannot reach its folder.
    write(", options: [-S, /bin/false]");
    let died = end(doctor(&["--wait", "5"]));
    assert_eq!(findings(&died)["trial job"].0, "failed", "{}", died.stdout);
    cell.until_nothing_is_left(&sandbox);
}

#[test]
fn a_system_that_does_not_answer_is_said_at_once() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    sandbox.write(
        "sweep.yaml",
        "recipe: recipe.yaml\nexecutor: { batch: { preset: sge, submit: ['true'], status: ['false'] } }\n",
    );
    let ended = sandbox.sweep(&["doctor", "sweep.yaml", "--format", "json"]);
    assert_eq!((ended.code, findings(&ended)["queue"].0.as_str()), (Some(1), "failed"), "{}", ended.stdout);
}

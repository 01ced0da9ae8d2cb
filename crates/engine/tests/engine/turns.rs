//! Times that are judged only if they were measured in turns: those of effects, laws and differences of runs, like those of
//! comparisons.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Times in proportion to the size, with a part of each seed; `VERSION` moves all of them.
const STUDY: &str = "\
name: study
params: { version: 0 }
steps:
  a:
    uses: command
    matrix: { n: [10, 20, 40, 80] }
    seeds: 3
    with: { run: 'echo \"wait=$((N * 10 + N * SWEEP_SEED / 5 + VERSION)) ms\"; echo loss=$N.$SWEEP_SEED', env: { N: '${{ matrix.n }}', VERSION: '${{ params.version }}' } }
    resources: { cpus: 1 }
metrics: { wait: { unit: ms } }
tables:
  effect: { from: a, where: { n: [10, 80] }, effects: { factors: [n] }, cells: [wait, loss] }
  law: { from: a, fit: { x: n }, cells: [wait, loss] }
claims:
  law: { law: { metric: wait, of: { step: a }, x: n }, expect: { at_least: 0.9 } }
";

fn run(sandbox: &Sandbox, args: &[&str]) -> String {
    let ended = sandbox.sweep(&[&["run", "recipe.yaml"], args].concat());
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    ended.stdout
}

#[test]
fn effects_and_laws_of_times_need_turns() {
    let sandbox = Sandbox::with(STUDY);
    let text = run(&sandbox, &[]);
    assert!(text.contains("wait: in proportion to n to the power 1") && !text.contains("in turns"), "{text}");
    let sandbox = Sandbox::with(STUDY);
    run(&sandbox, &["--only", "a/n=10", "--only", "a/n=20"]);
    let text = run(&sandbox, &[]);
    let law = "wait: no law: the sides were not measured in turns, but in 2 runs";
    assert!(text.contains(law) && text.contains("loss: in proportion to n"), "{text}");
    let csv = sandbox.read("results/reports/study/tables/effect.csv");
    let line = |metric: &str| csv.lines().find(|line| line.contains(metric)).unwrap_or_default().to_owned();
    assert!(text.contains("undecided: the sides were not measured in turns"), "{text}");
    assert!(line("wait").contains("unlike") && line("loss").contains("70"), "{csv}");
}

#[test]
fn differences_of_the_times_of_two_runs_are_not_judged() {
    let sandbox = Sandbox::with(STUDY);
    run(&sandbox, &[]);
    run(&sandbox, &["--set", "version=7"]);
    let runs = sandbox.runs();
    let ended = sandbox.sweep(&["diff", &runs[0], &runs[1], "--all"]);
    assert!(ended.stdout.contains("+7.00 ms (not judged)"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("  not judged: the sides were not measured in turns, but in 2 runs"),
        "{}",
        ended.stdout
    );
    let json = sandbox.sweep(&["diff", &runs[0], &runs[1], "--format", "json"]).stdout;
    let difference: Value = serde_json::from_str(&json).unwrap();
    let times = difference["metrics"].as_array().unwrap().iter().filter(|change| change["metric"] == "wait");
    let judged: Vec<&Value> = times.filter(|change| !change["p"].is_null() || change["unlike"].is_null()).collect();
    assert!(judged.is_empty(), "{judged:?}");
}

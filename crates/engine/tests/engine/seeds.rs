//! Adaptive seeds.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Four methods with numbers by seed: y is far from x, z is not, and w is the same as x but for noise.
const STUDY: &str = "\
name: adaptive
steps:
  a:
    uses: command
    matrix:
      zip:
        method: [x, y, z, w]
        values: ['10 11 12 13 14 15', '20 21.1 22 23 24.1 25', '11 12.4 12.9 14.1 15 16', '10.5 10.4 12.6 12.3 14.5 14.6']
    seeds: { min: 3, max: 6, until: decided }
    with:
      run: set -- $VALUES; shift $SWEEP_SEED; echo value=$1
      env: { VALUES: '${{ matrix.values }}', METHOD: '${{ matrix.method }}' }
    resources: { cpus: 1 }
claims:
  CLAIMS
";

fn claim(name: &str, of: &str, least: f64) -> String {
    format!(
        "{name}: {{ difference: {{ metric: value, of: {{ step: a, method: {of} }}, to: {{ step: a, method: x }} }}, expect: {{ at_least: {least} }} }}"
    )
}

/// Number of seeds of a method.
fn seeds(sandbox: &Sandbox, method: &str) -> usize {
    sandbox.records().keys().filter(|label| label.contains(&format!("method={method},"))).count()
}

fn verdicts(sandbox: &Sandbox) -> Vec<Value> {
    serde_json::from_str(&sandbox.read("results/reports/adaptive/claims.json")).unwrap()
}

#[test]
fn seeds_are_added_only_where_they_are_needed() {
    let claims = [claim("far", "y", 5.0), claim("near", "z", 0.5), claim("never", "w", 0.2)].join("\n  ");
    let sandbox = Sandbox::with(&STUDY.replace("CLAIMS", &claims));
    let planned = sandbox.planned(&["recipe.yaml"]);
    let count = |state: &str| planned.values().filter(|planned| *planned == state).count();
    assert_eq!((count("to run"), count("in reserve")), (12, 12), "{planned:?}");
    assert_message!(sandbox.sweep(&["plan", "recipe.yaml"]).stdout.lines().next().unwrap());
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(seeds(&sandbox, "y"), 3, "what is decided at once gets no additional seed: {}", ended.stderr);
    assert_eq!((seeds(&sandbox, "w"), seeds(&sandbox, "x")), (6, 6), "what stays undecided uses up its seeds");
    let z = seeds(&sandbox, "z");
    assert!((4..6).contains(&z), "z has {z} seeds");
    let states: Vec<Value> = verdicts(&sandbox).iter().map(|verdict| verdict["state"].clone()).collect();
    assert_eq!(states, ["supported", "supported", "undecided"]);

    // The journal says why.
    let added = sandbox.journal("added");
    assert_eq!(added.len(), sandbox.records().len() - 12);
    for line in &added {
        let because = line["event"]["added"]["because"].as_str().unwrap();
        let label = line["label"].as_str().unwrap();
        assert!(because.contains("`near`") || because.contains("`never`"), "{because}");
        assert!(!label.contains("method=y"), "{label}");
    }
    assert_message!(added[0]["event"]["added"]["because"].as_str().unwrap());
    assert_message!(ended.stderr.lines().find(|line| line.starts_with("more: ")).unwrap());
    assert!(ended.stderr.contains(&format!("[{0}/{0}]", sandbox.records().len())), "{}", ended.stderr);

    // Nothing is left to do, and a seed that was not needed is not missing.
    let before = sandbox.records().len();
    let again = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!((again.code, sandbox.records().len()), (Some(0), before), "{}", again.stderr);
    assert_eq!(again.stdout, ended.stdout);
}

/// A marked comparison of equal variants; a run with a larger budget continues where the last run ended.
#[test]
fn comparisons_and_larger_budgets() {
    let sandbox = Sandbox::with(
        "\
name: adaptive
params: { most: 3 }
steps:
  a:
    uses: command
    matrix: { variant: [0, 1] }
    seeds: { min: 2, max: '${{ params.most }}', until: decided }
    with: { run: 'echo value=$(( (SWEEP_SEED + VARIANT) % 2 )).$SWEEP_SEED', env: { VARIANT: '${{ matrix.variant }}' } }
tables:
  pairs: { from: a, compare: { axis: variant, pairs: [[1, 0]], decide: true }, cells: [value] }
",
    );
    let records = |args: &[&str]| {
        let ended = sandbox.sweep(&[&["run", "recipe.yaml"], args].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        sandbox.records().len()
    };
    assert_eq!(records(&[]), 6);
    let because = sandbox.journal("added")[0]["event"]["added"]["because"].clone();
    assert_eq!(because, "1 − 0 in table `pairs` is within the noise");
    assert_eq!(records(&["--set", "most=5"]), 10);
    // Whoever names seeds gets those, and no others.
    assert_eq!(records(&["--set", "most=9", "--only", "a/seed=8"]), 12);
    assert_eq!(records(&["--axis", "seed=20"]), 14);
}

/// A budget that is used up leaves the claim undecided.
#[test]
fn seeds_end_with_their_budget() {
    let sandbox = Sandbox::with(
        &STUDY
            .replace("CLAIMS", &claim("never", "w", 0.2))
            .replace("until: decided }", "until: decided, budget: \"${{ params.budget }}\" }")
            .replace("steps:\n", "params: { budget: 1ms }\nsteps:\n"),
    );
    let number = sandbox.sweep(&["plan", "recipe.yaml", "--set", "budget=60"]);
    assert!(number.code == Some(3) && number.stderr.contains("`budget` cannot be read"), "{}", number.stderr);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!((seeds(&sandbox, "w"), seeds(&sandbox, "x")), (4, 4), "one round takes longer: {}", ended.stderr);
    let status = sandbox.sweep(&["status", "--all"]).stdout;
    assert_message!(status.lines().skip(1).filter(|line| !line.starts_with("  done")).collect::<Vec<_>>().join("\n"));
}

/// Later steps get the seeds with which they are needed; a lost record does not remove others.
#[test]
fn steps_that_follow() {
    let recipe = "\
name: adaptive
steps:
  a: { uses: command, seeds: { min: 2, max: 5, until: decided }, with: { run: 'test $SWEEP_SEED -ne 2' } }
  b: { uses: mock, needs: [a], matrix: { seed: '${{ needs.a.axes.seed }}' }, with: { value: '${{ matrix.seed }}' } }
claims:
  mean: { value: { metric: value, of: { step: b } }, expect: { at_least: 1.5 }, missing: ignore }
";
    let sandbox = Sandbox::with(recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let labels: Vec<String> = sandbox.records().into_keys().collect();
    let expected = ["a/seed=0", "a/seed=1", "a/seed=3", "a/seed=4", "b/seed=0", "b/seed=1", "b/seed=3", "b/seed=4"];
    assert_eq!(labels, expected, "{}", ended.stderr);

    let decided = Sandbox::with(&recipe.replace("at_least: 1.5", "at_least: -1000"));
    assert_eq!(decided.sweep(&["run", "recipe.yaml"]).code, Some(0));
    assert_eq!(decided.records().len(), 4);

    let all = recipe.replace(
        "matrix: { seed: '${{ needs.a.axes.seed }}' }, with: { value: '${{ matrix.seed }}' }",
        "with: { value: 1 }",
    );
    let ended = Sandbox::with(&all).sweep(&["plan", "recipe.yaml"]);
    assert_eq!(ended.code, Some(3));
    assert_message!(ended.stderr);
}

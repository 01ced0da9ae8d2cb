//! Older forms of commands and older names of metrics, which are still accepted.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

const RECIPE: &str = "\
name: study
steps: { a: { uses: mock, matrix: { value: [1, 2] } } }
tables: { t: { from: a, rows: [value], cells: [value] } }
";

fn done() -> Sandbox {
    let sandbox = Sandbox::with(RECIPE);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    sandbox
}

/// Asserts that a command and its older form print the same.
fn same(sandbox: &Sandbox, new: &[&str], old: &[&str]) {
    let (new, old) = (sandbox.sweep(new), sandbox.sweep(old));
    assert_eq!((new.code, old.code), (Some(0), Some(0)), "{}{}", new.stderr, old.stderr);
    assert_eq!((new.stdout, new.stderr), (old.stdout, old.stderr));
}

#[test]
fn bundle_without_a_verb_creates() {
    let sandbox = done();
    same(&sandbox, &["bundle", "create", "recipe.yaml"], &["bundle", "recipe.yaml"]);
    let bytes = |name: &str| fs_err::read(sandbox.path(name)).unwrap();
    same(&sandbox, &["bundle", "create", "recipe.yaml", "-o", "b.tar"], &["bundle", "recipe.yaml", "-o", "b.tar"]);
    assert_eq!(bytes("study.sweep.tar"), bytes("b.tar"));
    let help = sandbox.sweep(&["bundle", "--help"]).stdout;
    assert!(help.contains("create") && !help.contains("--axis"), "{help}");
}

#[test]
fn verify_is_bundle_verify() {
    let sandbox = done();
    assert_eq!(sandbox.sweep(&["bundle", "create", "recipe.yaml"]).code, Some(0));
    let arguments = ["study.sweep.tar"];
    same(&sandbox, &[&["bundle", "verify"][..], &arguments].concat(), &[&["verify"][..], &arguments].concat());
    assert!(!sandbox.sweep(&["--help"]).stdout.contains("  verify"));
}

#[test]
fn cache_export_takes_the_file_first_too() {
    let sandbox = done();
    same(
        &sandbox,
        &["cache", "export", "recipe.yaml", "--output", "x.tar"],
        &["cache", "export", "x.tar", "recipe.yaml"],
    );
    assert!(sandbox.path("x.tar").is_file());
    let nowhere = sandbox.sweep(&["cache", "export", "recipe.yaml"]);
    assert_eq!(nowhere.code, Some(2));
    assert!(nowhere.stderr.contains("--output FILE"), "{}", nowhere.stderr);
    assert_eq!(sandbox.read("recipe.yaml"), RECIPE, "a recipe is no place to write to");
}

#[test]
fn export_takes_the_folder_first_too() {
    let sandbox = done();
    same(&sandbox, &["export", "mlflow", "recipe.yaml", "-o", "m"], &["export", "mlflow", "m", "recipe.yaml"]);
    same(&sandbox, &["export", "tensorboard", "--output", "tb"], &["export", "tensorboard", "tb"]);
    assert!(sandbox.path("m").is_dir() && sandbox.path("tb").is_dir());
}

/// Tasks with the names that their metrics had, and those that they have.
const RENAMED: [(&str, &str, &str); 9] = [
    ("train", "steps.left_out", "steps.skipped"),
    ("parity", "steps.left_out", "steps.skipped"),
    ("train", "compute.ceiling", "peak.compute"),
    ("train", "bandwidth.ceiling", "peak.bandwidth"),
    ("pair/bandwidth", "ratio.ceiling", "peak.ratio"),
    ("pair/arithmetic-intensity", "compute.ceiling", "peak.compute"),
    ("train", "utilisation.compute", "utilization.compute"),
    ("k1", "utilisation.memory", "utilization.memory"),
    ("gradprobe", "utilisation.cpu", "utilization.cpu"),
];

/// A recipe that speaks of a metric wherever a recipe can.
fn about(task: &str, metric: &str) -> String {
    format!(
        "name: r
steps:
  a: {{ uses: {task}, matrix: {{ seed: [0, 1] }} }}
  b: {{ uses: mock, needs: a, matrix: {{ seed: '${{{{ needs.a.axes.seed }}}}' }}, with: {{ value: '${{{{ needs.a.metrics.{metric} }}}}' }} }}
tables:
  t: {{ from: a, rows: [seed], cells: [{metric}], best: {{ {metric}: max }}, paper: [{{ seed: 0, {metric}: 0.25 }}] }}
figures:
  f: {{ from: a, kind: scatter, x: {metric}, y: {metric} }}
claims:
  c: {{ value: {{ metric: {metric}, of: {{ step: a }} }}, expect: {{ at_most: 1 }} }}
"
    )
}

/// Writes a record with this metric for each job of step `a`, as an earlier version did.
fn record(sandbox: &Sandbox, task: &str, metric: &str) {
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--backend", "cpu", "--format", "json"]);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap_or_else(|_| panic!("{}", plan.stderr));
    for job in plan["jobs"].as_array().unwrap().iter().filter(|job| job["label"].as_str().unwrap().starts_with("a/")) {
        let key = job["key"].as_str().unwrap();
        let record = json!({
            "format": 1, "key": key, "label": job["label"], "params": {},
            "identity": { "format": 1, "task": task, "revision": 1 },
            "outcome": { "metrics": { metric: { "value": 0.5, "unit": "1" } } },
            "provenance": { "sweep": "0", "started": "2026-01-01T00:00:00Z", "seconds": 60.0, "threads": 1, "host": "here" },
        });
        sandbox.write(&format!("results/store/{}/{key}/record.json", &key[..2]), &record.to_string());
    }
}

#[test]
fn renamed_metrics_are_found_under_both_names() {
    for (task, old, new) in RENAMED {
        for (recipe, stored) in [(old, old), (old, new), (new, old)] {
            let sandbox = Sandbox::with(&about(task, recipe));
            record(&sandbox, task, stored);
            let report = sandbox.sweep(&["report", "recipe.yaml", "--backend", "cpu"]);
            assert_eq!(report.code, Some(0), "{}", report.stderr);
            let table = sandbox.read("results/reports/r/tables/t.csv");
            assert!(table.contains(recipe) && table.matches("0.5").count() >= 2, "{task} {recipe} {stored}: {table}");
            let claims: Value = serde_json::from_str(&sandbox.read("results/reports/r/claims.json")).unwrap();
            assert!(claims.to_string().contains("0.5"), "{claims}");
        }
    }
}

#[test]
fn a_query_may_use_a_metrics_earlier_name() {
    for (task, old, new) in RENAMED {
        let sandbox = Sandbox::with(&about(task, new));
        record(&sandbox, task, old);
        let ask = |name: &str| {
            let condition = format!("{name} < 1");
            let arguments = ["query", "--select", name, "--sort", name, "--where", &condition, "--format", "csv"];
            let answer = sandbox.sweep(&arguments);
            assert_eq!(answer.code, Some(0), "{}", answer.stderr);
            answer.stdout
        };
        assert_eq!(ask(old), format!("{new}\n0.5\n0.5\n"));
        assert_eq!(ask(new), ask(old));
        assert_eq!(ask(&format!("metrics.{old}")), ask(old));
        let shown = sandbox.sweep(&["show", "a/seed=0", "--format", "json"]).stdout;
        assert!(shown.contains(new) && !shown.contains(old), "{shown}");
    }
}

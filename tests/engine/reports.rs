//! Tables, and what is printed where.

use crate::sandbox::Sandbox;

const STUDY: &str = "
name: study
steps:
  train:
    uses: mock
    matrix:
      variant: [1, 2]
      value: [0.5, 0.25]
      end: [done]
      exclude: [{ variant: 2, value: 0.25 }]
      include: [{ variant: 3, value: 1000000, end: fail }]
tables:
  means:
    title: Mean of | the values
    from: train
    rows: [variant]
    cells: [value]
  by-end:
    from: train
    where: { variant: [1, 2] }
    rows: [variant]
    columns: [end]
    cells: [value]
";

#[test]
fn the_same_cells_in_every_format() {
    let sandbox = Sandbox::with(STUDY);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    insta::assert_snapshot!(ended.stdout);
    insta::assert_snapshot!(sandbox.read("results/reports/study/tables/means.md"));
    insta::assert_snapshot!(sandbox.read("results/reports/study/tables/by-end.csv"));
    let report = sandbox.sweep(&["report", "recipe.yaml", "--format", "md"]);
    assert!(report.stdout.starts_with(&sandbox.read("results/reports/study/tables/means.md")));
}

#[test]
fn in_a_pipe_there_is_no_control_character() {
    let sandbox = Sandbox::with(STUDY);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    let control = |text: &str| text.chars().any(|char| char.is_control() && char != '\n');
    assert!(!control(&ended.stdout) && !control(&ended.stderr), "{ended:?}");
}

#[test]
fn a_plan_runs_nothing_and_says_what_would() {
    let sandbox = Sandbox::with(STUDY);
    insta::assert_snapshot!(sandbox.sweep(&["plan", "recipe.yaml"]).stdout);
    assert!(!sandbox.path("results").exists());
    sandbox.sweep(&["run", "recipe.yaml"]);
    insta::assert_snapshot!(sandbox.sweep(&["plan", "recipe.yaml", "--list"]).stdout);
}

#[test]
fn a_plan_in_every_format() {
    let sandbox = Sandbox::with(
        "
name: graph
steps:
  a: { uses: mock }
  b: { uses: mock, needs: a, matrix: { x: ['say \"hi\"', 1] }, if: matrix.x != null, with: { value: 2 } }
  c: { uses: mock, needs: [a, b], with: { value: 3 } }
",
    );
    sandbox.sweep(&["run", "recipe.yaml", "--only", "a"]);
    let print = |format: &str| sandbox.sweep(&["plan", "recipe.yaml", "--format", format]).stdout;
    let plan: serde_json::Value = serde_json::from_str(&print("json")).unwrap();
    assert_eq!((&plan["format"], &plan["recipes"][0]), (&1.into(), &"graph".into()));
    let jobs = plan["jobs"].as_array().unwrap();
    let states: Vec<_> =
        jobs.iter().map(|job| (job["label"].as_str().unwrap(), job["state"].as_str().unwrap())).collect();
    assert_eq!(
        states,
        [("a", "cached"), ("b/x=say \"hi\"", "to run"), ("c", "to run")],
        "the second point of b is the same job"
    );
    assert_eq!(jobs[2]["needs"].as_array().unwrap().len(), 2);
    assert!(jobs[1]["needs"][0] == jobs[0]["key"]);
    insta::assert_snapshot!(print("dot"));
    insta::assert_snapshot!(print("mermaid"));
}

#[test]
fn help_touches_no_driver() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["--help"]);
    let output = command.env("LD_DEBUG", "files").output().unwrap();
    assert!(output.status.success());
    let loaded = String::from_utf8_lossy(&output.stderr);
    assert!(loaded.contains("libc.so"), "the loader says what it loads: {loaded}");
    for driver in ["libcuda", "libvulkan", "libnvidia", "libEGL"] {
        assert!(!loaded.contains(driver), "{driver} was loaded");
    }
    assert_eq!(std::fs::read_dir(sandbox.path(".")).unwrap().count(), 0, "nothing was written");
}

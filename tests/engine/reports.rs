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

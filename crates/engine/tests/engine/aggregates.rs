//! Tables of aggregates over tasks.

use crate::sandbox::Sandbox;

/// Two methods on four tasks with three runs each. `rliable` gives 0.69 and 0.64 for `aggregate_iqm`, and
/// 0.8055… for `probability_of_improvement`.
const STUDY: &str = "\
name: study
steps:
  a:
    uses: command
    matrix:
      method: [ours, base]
      task: [t1, t2, t3, t4]
    seeds: 3
    with:
      run: |
        case $METHOD-$TASK in
          ours-t1) set -- 0.80 0.82 0.79 ;; ours-t2) set -- 0.55 0.60 0.58 ;;
          ours-t3) set -- 0.30 0.35 0.28 ;; ours-t4) set -- 0.91 0.90 0.93 ;;
          base-t1) set -- 0.75 0.78 0.80 ;; base-t2) set -- 0.50 0.52 0.49 ;;
          base-t3) set -- 0.33 0.31 0.29 ;; base-t4) set -- 0.90 0.88 0.89 ;;
        esac
        shift $SWEEP_SEED
        test $METHOD-$TASK-$SWEEP_SEED != FAILS && echo accuracy=$1
      env: { METHOD: '${{ matrix.method }}', TASK: '${{ matrix.task }}' }
    continue-on-error: true
metrics: { accuracy: { better: max } }
tables:
  overall: { from: a, aggregate: { axis: method, baseline: base }, cells: [accuracy] }
";

#[test]
fn aggregates_are_those_of_rliable() {
    let sandbox = Sandbox::with(STUDY);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    insta::assert_snapshot!(ended.stdout);
    let csv = sandbox.sweep(&["report", "recipe.yaml", "--format", "csv"]).stdout;
    let value = |row: &str, measure: &str| -> f64 {
        let line = csv.lines().find(|line| line.starts_with(row) && line.contains(measure)).unwrap();
        line.split(',').nth(4).unwrap().parse().unwrap()
    };
    for (row, measure, wanted) in [
        ("ours", "interquartile mean", 0.69),
        ("base", "interquartile mean", 0.64),
        ("ours", "improvement", 0.805_555_555_555_555_6),
    ] {
        assert!((value(row, measure) - wanted).abs() < 1e-9, "{row} {measure}: {csv}");
    }
}

#[test]
fn a_missing_run_blocks_an_aggregate() {
    let sandbox = Sandbox::with(&STUDY.replace("FAILS", "ours-t2-1"));
    sandbox.sweep(&["run", "recipe.yaml"]);
    insta::assert_snapshot!(sandbox.sweep(&["report", "recipe.yaml"]).stdout);
    sandbox.write(
        "recipe.yaml",
        &STUDY.replace("FAILS", "ours-t2-1").replace("cells: [accuracy]", "cells: [accuracy], missing: ignore"),
    );
    let ignored = sandbox.sweep(&["report", "recipe.yaml"]).stdout;
    assert!(ignored.contains("of 11 to 12 runs of 4 tasks"), "{ignored}");
}

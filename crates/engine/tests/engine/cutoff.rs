//! Early cutoff: a job whose needed jobs have run again, and have left the same files and values, has the result that it had.

use crate::sandbox::{Ended, Sandbox};

const RECIPE: &str = r#"
steps:
  prep:
    uses: command
    with: { argv: [python3, prep.py], inputs: [prep.py, raw.txt], outputs: [data] }
  train:
    uses: command
    needs: prep
    matrix: { lr: [1, 2] }
    with:
      run: 'echo "train $LR" >> "$STARTS"; cat "$DATA" > model; echo "loss=$LR.$(cat "$DATA")"'
      env: { DATA: "${{ needs.prep.artifacts.data }}", LR: "${{ matrix.lr }}", STARTS: "STARTS-FILE" }
      outputs: [model]
  eval:
    uses: command
    needs: train
    with:
      run: 'echo eval >> "$STARTS"; echo "score=$SUM"; cat "$MODEL" > /dev/null'
      env:
        SUM: "${{ needs.train.metrics.loss }}"
        MODEL: "${{ needs.train.artifacts.model }}"
        STARTS: "STARTS-FILE"
    matrix: { lr: [1, 2] }
tables: { t: { from: eval, rows: [lr], cells: [score] } }
"#;

const PREP: &str = "text = open('raw.txt').read()\nopen('data', 'w').write(text.strip())\nprint('rows=1.5')\n";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let starts = sandbox.path("starts").display().to_string();
    sandbox.write("recipe.yaml", &RECIPE.replace("STARTS-FILE", &starts));
    sandbox.write("prep.py", PREP);
    sandbox.write("raw.txt", "5");
    run(&sandbox);
    assert_eq!(started(&sandbox), 4);
    sandbox
}

fn run(sandbox: &Sandbox) -> Ended {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended
}

/// The number of starts of programs other than `prep`.
fn started(sandbox: &Sandbox) -> usize {
    sandbox.read("starts").lines().count()
}

#[test]
fn equal_files_of_a_needed_job_run_nothing_again() {
    let sandbox = sandbox();
    sandbox.write("prep.py", &format!("# A comment.\n{PREP}"));
    let ended = run(&sandbox);
    assert_eq!(started(&sandbox), 4, "{}", ended.stderr);
    assert!(ended.stderr.contains("the jobs that it needs have left the same files and values"), "{}", ended.stderr);
    assert!(ended.stdout.contains("1.5"), "{}", ended.stdout);
    sandbox.assert_all_cached(&["recipe.yaml"]);
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
    // Other spaces in the raw data give the same data.
    sandbox.write("raw.txt", " 5\n");
    run(&sandbox);
    assert_eq!(started(&sandbox), 4);
    // Other data run all again, and the first data find the first results.
    sandbox.write("raw.txt", "7");
    assert!(run(&sandbox).stdout.contains("1.7"));
    assert_eq!(started(&sandbox), 8);
    sandbox.write("raw.txt", "5");
    assert!(run(&sandbox).stdout.contains("1.5"));
    assert_eq!(started(&sandbox), 8);
}

#[test]
fn a_change_of_the_job_itself_runs_it_again() {
    let sandbox = sandbox();
    sandbox.write("prep.py", &format!("# A comment.\n{PREP}"));
    sandbox.write("recipe.yaml", &sandbox.read("recipe.yaml").replace("cat \"$DATA\" > model", "cat \"$DATA\" >model"));
    run(&sandbox);
    // The models are the same, so the evaluations hold.
    assert_eq!(started(&sandbox), 6);
}

/// Points that need other jobs with equal files are repetitions that somebody wants: each of them runs.
#[test]
fn points_with_equal_files_run_each() {
    let sandbox = Sandbox::new();
    let starts = sandbox.path("starts").display().to_string();
    sandbox.write(
        "recipe.yaml",
        &r#"
steps:
  prep: { uses: command, matrix: { way: [a, b] }, with: { run: 'echo same > data', outputs: [data], env: { WAY: "${{ matrix.way }}" } } }
  train:
    uses: command
    needs: prep
    matrix: { way: [a, b] }
    with: { run: 'echo train >> STARTS-FILE; cat "$DATA"; echo loss=1.5', env: { DATA: "${{ needs.prep.artifacts.data }}" } }
"#
        .replace("STARTS-FILE", &starts),
    );
    run(&sandbox);
    assert_eq!(started(&sandbox), 2);
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

/// A job that leaves no file may have effects that nobody sees.
#[test]
fn a_needed_job_without_files_counts_by_its_key() {
    let sandbox = Sandbox::new();
    let starts = sandbox.path("starts").display().to_string();
    let recipe = r"
steps:
  prep: { uses: command, with: { run: 'echo rows=1.5' } }
  train: { uses: command, needs: prep, with: { run: 'echo train >> STARTS-FILE; echo loss=1.5' } }
"
    .replace("STARTS-FILE", &starts);
    sandbox.write("recipe.yaml", &recipe);
    run(&sandbox);
    sandbox.write("recipe.yaml", &recipe.replace("echo rows", "echo  rows"));
    run(&sandbox);
    assert_eq!(started(&sandbox), 2);
}

//! `sweep measure`: the files of finished jobs are measured, and nothing is trained.

use crate::sandbox::Sandbox;

/// A step that keeps a file for each of four jobs, and a step that reads them.
fn project() -> Sandbox {
    let sandbox = Sandbox::with(
        "name: study
steps:
  train:
    uses: command
    matrix: { lr: [0.1, 0.2] }
    seeds: 2
    with:
      argv: [python3, train.py, '${{ matrix.lr }}']
      outputs: [out/model.txt]
  evaluate:
    needs: train
    uses: command
    matrix: { lr: '${{ needs.train.axes.lr }}', seed: '${{ needs.train.axes.seed }}' }
    with: { argv: [python3, eval.py, '${{ needs.train.artifacts.out/model.txt }}'] }
tables:
  loss: { from: train, rows: [lr], cells: [loss] }
claims:
  low: { says: The loss is low., value: { metric: loss, of: { step: train } }, expect: { at_most: 1 } }
",
    );
    sandbox.write(
        "train.py",
        "import os, sys\nos.makedirs('out')\nlr = float(sys.argv[1])\nseed = int(os.environ['SWEEP_SEED'])\n\
         open('out/model.txt', 'w').write(str(lr + seed))\nprint('loss=%g' % (lr / (1 + seed)))\n",
    );
    sandbox.write(
        "eval.py",
        "import sys\nprint('accuracy=%g' % (float(open(sys.argv[1]).read()) * float((sys.argv + ['1'])[2])))\n",
    );
    sandbox
}

/// The labels of the records of a step.
fn records(sandbox: &Sandbox, step: &str) -> Vec<String> {
    let label = |label: String| Some(label.strip_prefix(&format!("{step}/"))?.to_owned());
    sandbox.records().into_keys().filter_map(label).collect()
}

#[test]
fn a_command_line_measures_the_files_of_finished_jobs() {
    let sandbox = project();
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--only", "train/lr=0.1"]).code, Some(0));
    let measure = ["measure", "recipe.yaml", "--only", "train", "--", "python3", "eval.py", "{out/model.txt}", "{lr}"];
    let ended = sandbox.sweep(&measure);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("measures 2 of 4 jobs of `train`; nothing is trained"), "{}", ended.stderr);
    // The files `0.1` and `1.1` have three bytes each.
    let unknown = "cost: 2 jobs to run, for an unknown time, because no job of their step has a record; kept files that they can read: 6.00 B\n";
    assert!(ended.stderr.contains(unknown), "{}", ended.stderr);
    let [cost, first] = ["cost: ", "eval/lr"].map(|text| ended.stderr.find(text));
    assert!(first.is_none_or(|first| cost.is_some_and(|cost| cost < first)), "the cost is first: {}", ended.stderr);
    assert!(ended.stdout.contains("accuracy"), "{}", ended.stdout);
    assert!(
        !ended.stdout.contains("loss"),
        "the tables of the recipe are not those of the measurement: {}",
        ended.stdout
    );
    assert_eq!(records(&sandbox, "study-eval"), ["lr=0.1,seed=0", "lr=0.1,seed=1"]);
    let accuracy = |label: &str| sandbox.records()[label]["outcome"]["metrics"]["accuracy"]["value"].clone();
    assert_eq!(accuracy("study-eval/lr=0.1,seed=1"), 0.11);
    assert_eq!(records(&sandbox, "train").len(), 2);

    // Those that are measured are cached, and those that were trained meanwhile are measured.
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--only", "train"]).code, Some(0));
    let ended = sandbox.sweep(&measure);
    assert!(ended.stderr.contains("measures 4 of 4 jobs of `train`"), "{}", ended.stderr);
    assert!(ended.stderr.contains("cost: 2 jobs to run, about "), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("cached", 6), ("done", 2)]);
    let ended = sandbox.sweep(&measure);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(records(&sandbox, "study-eval").len(), 4);
}

#[test]
fn the_steps_that_need_finished_jobs_run() {
    let sandbox = project();
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--only", "train/lr=0.2"]).code, Some(0));
    let ended = sandbox.sweep(&["measure", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("2 jobs that need no other result; 4 jobs without a result are left"),
        "{}",
        ended.stderr
    );
    assert_eq!(records(&sandbox, "evaluate"), ["lr=0.2,seed=0", "lr=0.2,seed=1"]);
    assert_eq!(records(&sandbox, "train").len(), 2, "nothing is trained");
}

#[test]
fn mistakes_say_which_files_there_are() {
    let sandbox = project();
    let fails = |args: &[&str]| {
        let ended = sandbox.sweep(args);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        ended.stderr
    };
    let said = fails(&["measure", "recipe.yaml", "--", "python3", "eval.py", "{model}"]);
    assert!(said.contains("no finished job of the recipe keeps files: list them in `outputs`"), "{said}");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--only", "train/lr=0.2"]).code, Some(0));
    let said = fails(&["measure", "recipe.yaml", "--", "python3", "eval.py", "{model}"]);
    assert!(said.contains("has no place for a file that the jobs of `train` keep"), "{said}");
    assert!(said.contains("their files: `{out/model.txt}`"), "{said}");
    let said = fails(&["measure", "recipe.yaml", "recipe.yaml"]);
    assert!(said.contains("takes one recipe"), "{said}");
}

//! Any program as a step.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    messages::{Transcript, sorted},
    sandbox::{Sandbox, list, until},
};

/// A recipe with one step, whose `with` this is.
fn step(with: &str) -> String {
    let with = with.replace('\n', "\n      ");
    format!("steps:\n  job:\n    uses: command\n    with:\n      {with}\n    resources: {{ cpus: 1 }}\n")
}

/// The program run on one step, and the record that it left.
fn record(sandbox: &Sandbox) -> Value {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    sandbox.records().remove("job").unwrap()
}

/// Kept files of the step, as paths, sorted.
fn kept(sandbox: &Sandbox, record: &Value) -> Vec<String> {
    fn walk(folder: &Path, root: &Path, found: &mut Vec<String>) {
        for path in list(folder) {
            if path.is_dir() && !path.is_symlink() {
                walk(&path, root, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    let mut found = Vec::new();
    let files = files(sandbox, record);
    walk(&files, &files, &mut found);
    found
}

fn files(sandbox: &Sandbox, record: &Value) -> PathBuf {
    let key = record["key"].as_str().unwrap();
    sandbox.path("results/store").join(&key[..2]).join(key).join("files")
}

fn metric(record: &Value, name: &str) -> Option<f64> {
    record["outcome"]["metrics"][name]["value"].as_f64()
}

/// The failure of the only step of a recipe.
fn failure(sandbox: &Sandbox) -> String {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(sandbox.records().is_empty(), "a failure leaves no record");
    assert!(list(&sandbox.path("results/store/staging")).is_empty(), "nor anything else");
    let message = sandbox.failure("job")["message"].as_str().unwrap().to_owned();
    let said = ended.stderr.lines().any(|line| message.lines().all(|part| line.contains(part.trim())));
    assert!(said, "{message}: {}", ended.stderr);
    message
}

/// Processes that work somewhere in the sandbox, workers and the engine left out.
fn programs(sandbox: &Sandbox) -> Vec<PathBuf> {
    let own = fs_err::canonicalize(sandbox.path("results")).unwrap_or_default();
    let inside = |path: &PathBuf| std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&own));
    list(Path::new("/proc")).into_iter().filter(inside).collect()
}

#[test]
fn the_shipped_recipe() {
    let recipe = fs_err::read_to_string(crate::sandbox::repository().join("recipes/command.yaml")).unwrap();
    let sandbox = Sandbox::with(&recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 27)]);
    insta::assert_snapshot!(ended.stdout.split("\n\n").next().unwrap());
    sandbox.assert_all_cached(&["recipe.yaml"]);
    let record = &sandbox.records()["descend/momentum=0,lr=0.01,seed=0"];
    let path = fs_err::read_to_string(files(&sandbox, record).join("path.csv")).unwrap();
    assert_eq!(path.lines().count(), 101);
}

#[test]
fn lines_are_metrics_and_noise_is_not() {
    let sandbox = Sandbox::with(&step(
        r#"run: |
  echo loss=3; echo 'loss = 2.5'; echo "no metric: a=b"; echo 'a b=1'
  echo progress 1/2; echo progress 2/1; echo progress
  printf 'early=1\rlate=1e-3\r\n'
  printf '\377\376\000=1\n\033[2J\n{"done":{"metrics":{}}}\n'
  head -c 300000 /dev/zero | tr '\0' x; echo
  echo 'diverged=1'; echo diverged=nan
  printf last=7"#,
    ));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_message!(ended.stderr);
    let record = &sandbox.records()["job"];
    let names: Vec<_> = record["outcome"]["metrics"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["early", "last", "late", "loss", "time.run"]);
    let values = ["early", "last", "late", "loss"].map(|name| metric(record, name).unwrap());
    assert_eq!(values, [1.0, 7.0, 0.001, 2.5]);
    assert_eq!(kept(&sandbox, record), Vec::<String>::new());
    let log = list(&list(&sandbox.path("results/runs"))[0].join("logs")).remove(0);
    let log = fs_err::read(log).unwrap();
    assert!(log.starts_with(b"loss=3\n") && log.ends_with(b"last=7"), "the log has what was said, as it was said");
}

#[test]
fn a_json_file_is_metrics_instead() {
    let sandbox = Sandbox::with(&step(
        r#"run: |
  echo loss=3
  echo '{"loss": 2.5, "memory": {"weights": 1e9}, "note": "x", "list": [1]}' > metrics.json
metrics: ./metrics.json"#,
    ));
    let record = record(&sandbox);
    assert_eq!((metric(&record, "loss"), metric(&record, "memory.weights")), (Some(2.5), Some(1e9)));
    assert_eq!(kept(&sandbox, &record), [".sweep/metrics.json"], "metrics can be taken from it again");
    assert!(record["outcome"]["artifacts"].is_null(), "other jobs get it if it is an output, too");
}

#[test]
fn only_outputs_are_kept_and_inputs_are_links() {
    let sandbox = Sandbox::with(&step(
        r#"run: |
  cat a.txt data/b.txt > out.txt
  test "$(cat "$SWEEP_INPUT_1" "$SWEEP_INPUT_2/b.txt")" = "$(cat out.txt)"
  mkdir -p model/deep scratch/read-only
  echo 1 > model/deep/weights; ln -s deep/weights model/latest
  echo 2 > model/left-out; echo 3 > scratch/read-only/x; chmod 500 scratch/read-only scratch
  echo "length=$(wc -c < out.txt)"
inputs: [../a.txt, data]
outputs: [out.txt, model/deep, model/latest]"#,
    ));
    fs_err::create_dir_all(sandbox.path("study/data")).unwrap();
    fs_err::rename(sandbox.path("recipe.yaml"), sandbox.path("study/recipe.yaml")).unwrap();
    sandbox.write("a.txt", "one\n");
    sandbox.write("study/data/b.txt", "two\n");
    let ended = sandbox.sweep(&["run", "study/recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let record = &sandbox.records()["job"];
    assert_eq!(metric(record, "length"), Some(8.0));
    assert_eq!(kept(&sandbox, record), ["model/deep/weights", "model/latest", "out.txt"]);
    assert_eq!(fs_err::read_to_string(files(&sandbox, record).join("model/latest")).unwrap(), "1\n");
    let artifacts = serde_json::json!({
        "model/deep": "model/deep", "model/latest": "model/latest", "out.txt": "out.txt"
    });
    assert_eq!(record["outcome"]["artifacts"], artifacts);
    assert_eq!(sandbox.read("a.txt"), "one\n", "the input itself is where it was");
}

#[test]
fn the_environment() {
    let sandbox = Sandbox::with(&step(
        r#"argv: [sh, -c, 'env; echo "arguments=$#"; test -t 0 || cat; echo "cwd=$(pwd)"', name, 1, 6e-4, true, '']
env: { NUMBER: 6e-4, TEXT: a b, HOME: /elsewhere }
seed: 7
outputs: []"#,
    ));
    let mut command = sandbox.command(&["run", "recipe.yaml"]);
    let output = command.env("INHERITED", "yes").env_remove("OMP_NUM_THREADS").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let log = list(&list(&sandbox.path("results/runs"))[0].join("logs")).remove(0);
    let log = fs_err::read_to_string(log).unwrap();
    for line in [
        "NUMBER=0.0006",
        "TEXT=a b",
        "HOME=/elsewhere",
        "INHERITED=yes",
        "SWEEP_SEED=7",
        "SWEEP_THREADS=1",
        "OMP_NUM_THREADS=1",
        "arguments=4",
    ] {
        assert!(log.lines().any(|found| found == line), "{line}: {log}");
    }
}

#[test]
fn what_decides_the_result_runs_again_and_nothing_else() {
    let recipe = |run: &str, input: &str| step(&format!("run: {run}\ninputs: [{input}]"));
    let key = |sandbox: &Sandbox| record(sandbox)["key"].as_str().unwrap().to_owned();
    let cached = |sandbox: &Sandbox| sandbox.plan_tally(&["recipe.yaml"]) == (1, 0);
    let sandbox = Sandbox::with(&recipe("cat data.txt", "data.txt"));
    sandbox.write("data.txt", "x=1\n");
    let first = key(&sandbox);
    assert!(cached(&sandbox));

    let elsewhere = Sandbox::with(&recipe("cat data.txt", "data.txt"));
    elsewhere.write("data.txt", "x=1\n");
    assert_eq!(key(&elsewhere), first, "another folder");
    fs_err::create_dir(sandbox.path("moved")).unwrap();
    sandbox.write("moved/data.txt", "x=1\n");
    sandbox.write("recipe.yaml", &recipe("cat data.txt # the same\nseed: 0\nenv: {}", "moved/data.txt"));
    assert!(cached(&sandbox), "another path to the same content, defaults written out, a YAML comment");

    sandbox.write("moved/data.txt", "x=2\n");
    assert!(!cached(&sandbox), "another content");
    sandbox.write("recipe.yaml", &recipe("cat data.txt data.txt", "data.txt"));
    assert!(!cached(&sandbox), "another script");
    sandbox.write("other.txt", "x=1\n");
    sandbox.write("recipe.yaml", &recipe("cat data.txt", "other.txt"));
    assert!(!cached(&sandbox), "another name, which the program sees");
    sandbox.write("recipe.yaml", &recipe("cat data.txt\noutputs: [y]", "data.txt"));
    assert!(!cached(&sandbox), "other outputs");
    sandbox.write("recipe.yaml", &recipe("cat data.txt\nenv: { A: 1 }", "data.txt"));
    assert!(!cached(&sandbox), "another environment");
    sandbox.write("recipe.yaml", &recipe("cat data.txt", "data.txt"));
    assert!(cached(&sandbox), "as it was");

    let identity = &sandbox.records()["job"]["identity"];
    assert_eq!(identity["params"], serde_json::json!({ "run": "cat data.txt", "inputs": ["data.txt"] }));
    assert_eq!(identity["inputs"].as_object().unwrap().keys().collect::<Vec<_>>(), ["inputs.1"]);
}

#[test]
fn axes_that_are_no_parameters_and_metrics_that_nobody_declared() {
    let sandbox = Sandbox::with(
        "
name: study
steps:
  job:
    uses: command
    matrix: { lr: [6e-4, 1], word: [a] }
    with:
      argv: [echo, 'loss=${{ matrix.lr }}']
      env: { WORD: '${{ matrix.word }}' }
tables:
  t: { from: job, rows: [lr], cells: [loss] }
",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // The first metrics of the program are shown.
    assert_message!(sorted(&ended.stderr));
    let table = sandbox.read("results/reports/study/tables/t.md");
    assert!(table.contains("| 0.0006 | 0.000600 |") && table.contains("| 1 | 1.00 |"), "{table}");
}

#[test]
fn each_failure_says_why() {
    let mut said = Transcript::default();
    for with in [
        "run: 'echo first >&2; echo second >&2; exit 3'",
        "run: exit 4",
        "run: 'echo $UNKNOWN_VARIABLE; echo x=1'",
        "run: 'false; echo x=1'",
        "run: kill -SEGV $$",
        "run: kill -KILL $$",
        "run: trap '' TERM; kill 0; echo x=1",
        "argv: [no-such-program, x]",
        "argv: [./no-such-program]",
        "argv: [./recipe.yaml]\ninputs: [recipe.yaml]",
        "run: 'true'\noutputs: [a/model.pt]",
        "run: ln -s / root\noutputs: [root/etc]",
        "run: ln -s /etc/passwd x\noutputs: [x]",
        "run: mkdir d; ln -s ../../.. d/x\noutputs: [d]",
        "run: echo > y; ln -s y x\noutputs: [x]",
        "run: mkfifo x\noutputs: [x]",
        "run: 'true'\nmetrics: m.json",
        "run: echo NaN > m.json\nmetrics: m.json",
        "run: mkfifo m.json\nmetrics: m.json",
    ] {
        said.add(&with.replace('\n', ", "), &failure(&Sandbox::with(&step(with))));
    }
    // Messages about unset variables differ between shells.
    assert_message!(said, r"exit code \d+: .*UNKNOWN_VARIABLE.*" => "exit code [code]: [the shell's message]");
}

#[test]
fn nothing_outlives_the_job() {
    let sandbox = Sandbox::with(&step(
        "run: |
  sleep 1000 & (sleep 1000 &) ; setsid sleep 1000 & echo x=1
  sleep 0.2",
    ));
    let record = record(&sandbox);
    assert_eq!(metric(&record, "x"), Some(1.0));
    assert!(programs(&sandbox).is_empty());
    assert!(metric(&record, "time.run").unwrap() < 60.0);
}

#[test]
fn nothing_outlives_the_engine() {
    let sandbox = Sandbox::with(&step("run: sleep 1000 & sleep 1000"));
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    until("the program runs", || programs(&sandbox).len() == 3);
    engine.signal(Signal::KILL);
    until("everything is gone", || programs(&sandbox).is_empty() && sandbox.workers().is_empty());
    assert!(sandbox.records().is_empty());
}

#[test]
fn nothing_outlives_the_worker() {
    let sandbox = Sandbox::with(&step("run: sleep 1000 & sleep 1000"));
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    until("the program runs", || programs(&sandbox).len() == 3);
    for worker in sandbox.workers() {
        let worker = rustix::process::Pid::from_raw(i32::try_from(worker).unwrap()).unwrap();
        rustix::process::kill_process(worker, Signal::KILL).unwrap();
    }
    assert_eq!(engine.wait().code, Some(5));
    assert_eq!(sandbox.failure("job")["kind"], "crash");
    until("everything is gone", || programs(&sandbox).is_empty());
}

#[test]
fn a_program_that_is_told_to_stop_may_tidy_up_but_has_no_result() {
    let sandbox = Sandbox::with(&step(
        "run: |
  trap 'echo stopped > $MARK; exit 0' TERM
  sleep 1000 & wait
env: { MARK: MARKER }",
    ));
    let marker = sandbox.path("marker");
    sandbox.write("recipe.yaml", &sandbox.read("recipe.yaml").replace("MARKER", marker.to_str().unwrap()));
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    until("the program runs", || programs(&sandbox).len() == 2);
    engine.signal(Signal::INT);
    until("the engine has heard it", || sandbox.events().iter().any(|(_, kind)| kind == "stopping"));
    engine.signal(Signal::INT);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("skipped", 1)]);
    assert_eq!(sandbox.read("marker"), "stopped\n");
    assert!(sandbox.records().is_empty() && programs(&sandbox).is_empty());
}

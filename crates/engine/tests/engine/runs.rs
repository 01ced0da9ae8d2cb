//! Runs: the jobs that run or do not, and the results.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::sandbox::{Sandbox, list, until};

const GRID: &str = "
name: grid
params: { seconds: 0 }
steps:
  first: { uses: mock }
  grid:
    needs: [first]
    uses: mock
    matrix:
      value: [1.5, 2.5]
      seed: [0, 1]
    with: { seconds: '${{ params.seconds }}', steps: 5 }
    resources: { cpus: 1 }
  last: { uses: mock, needs: grid }
";

#[test]
fn a_second_run_runs_nothing() {
    let sandbox = Sandbox::with(GRID);
    let first = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert_eq!(sandbox.tally(), [("done", 6)]);
    let before = sandbox.records();
    assert_eq!(before.len(), 6);

    let second = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(second.code, Some(0));
    assert_message!(second.stderr);
    assert_eq!(sandbox.records(), before, "records are never edited");
    assert_eq!(list(&sandbox.path("results/runs")).len(), 1, "a run without jobs writes no journal");
    assert_eq!(sandbox.starts(), before.into_keys().map(|label| (label, 1)).collect());
}

#[test]
fn only_what_a_change_reaches_runs_again() {
    let sandbox = Sandbox::with(GRID);
    sandbox.sweep(&["run", "recipe.yaml"]);
    sandbox.write("recipe.yaml", &GRID.replace("[1.5, 2.5]", "[1.5, 3.5]").replace("grid:\n", "grid: # renumbered\n"));
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(sandbox.tally(), [("cached", 3), ("done", 3)]);
}

#[test]
fn the_same_recipe_elsewhere_has_the_same_keys() {
    let keys = |sandbox: &Sandbox| -> BTreeMap<String, String> {
        sandbox.sweep(&["run", "recipe.yaml"]);
        sandbox.records().into_iter().map(|(label, record)| (label, record["key"].to_string())).collect()
    };
    let with_input = format!("{GRID}  read: {{ uses: mock, with: {{ input: data.txt }} }}\n");
    let (here, there) = (Sandbox::with(&with_input), Sandbox::with(&with_input));
    here.write("data.txt", "some text");
    there.write("data.txt", "some text");
    assert_eq!(keys(&here), keys(&there));
}

#[test]
fn an_edited_input_runs_again() {
    let sandbox = Sandbox::with("steps: { read: { uses: mock, with: { input: data.txt } } }");
    sandbox.write("data.txt", "four");
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(sandbox.records()["read"]["outcome"]["metrics"]["bytes"]["value"], 4.0);
    sandbox.write("data.txt", "seven!!");
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(sandbox.tally(), [("done", 1)]);
}

#[test]
fn a_part_with_what_it_needs() {
    let sandbox = Sandbox::with(GRID);
    let labels = |sandbox: &Sandbox| sandbox.records().into_keys().collect::<Vec<_>>();
    assert_eq!(sandbox.plan_tally(&["recipe.yaml", "--only", "grid/seed=1"]), (0, 3));
    let part = sandbox.sweep(&["run", "recipe.yaml", "--only", "grid/value=2.5,seed=1"]);
    assert_eq!(part.code, Some(0), "{}", part.stderr);
    assert_eq!(sandbox.tally(), [("done", 2)]);
    assert_eq!(labels(&sandbox), ["first", "grid/value=2.5,seed=1"]);
    sandbox.sweep(&["run", "recipe.yaml", "--only", "first", "--only", "grid/seed=1"]);
    assert_eq!(labels(&sandbox), ["first", "grid/value=1.5,seed=1", "grid/value=2.5,seed=1"]);
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(sandbox.tally(), [("cached", 3), ("done", 3)]);

    let mut messages = String::new();
    for only in ["gird", "grid/sead=1", "grid/seed=7", "grid/seed", "last/seed=1"] {
        let ended = sandbox.sweep(&["run", "recipe.yaml", "--only", only]);
        assert_eq!(ended.code, Some(4), "{only}: {}", ended.stderr);
        messages += &ended.stderr;
    }
    assert_message!(messages);
}

#[test]
fn a_damaged_record_runs_again_and_a_newer_one_stops() {
    let sandbox = Sandbox::with(&format!("{GRID}tables: {{ t: {{ from: grid, rows: [value], cells: [value] }} }}\n"));
    let first = sandbox.sweep(&["run", "recipe.yaml"]);
    let records = sandbox.records();
    let key = records["grid/value=1.5,seed=0"]["key"].as_str().unwrap();
    let path = format!("results/store/{}/{key}/record.json", &key[..2]);
    let whole = sandbox.read(&path);
    let cut = whole.find(key).unwrap() + 10;
    sandbox.write(&path, &whole[..cut]);
    let second = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!((second.code, &second.stdout), (Some(0), &first.stdout), "{}", second.stderr);
    assert_message!(second.stderr);
    assert_eq!(sandbox.tally(), [("cached", 5), ("done", 1)]);

    sandbox.write(&path, &whole.replace("\"format\": 1", "\"format\": 99"));
    let third = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(third.code, Some(1));
    assert_message!(third.stderr);
}

#[test]
fn what_means_the_same_is_one_job_and_what_does_not_is_not() {
    let sandbox = Sandbox::with(
        "
steps:
  zero: { uses: mock, matrix: { value: [0.0] } }
  minus: { uses: mock, with: { value: -0.0 } }
  text: { uses: mock, with: { input: x.txt } }
  tokens: { uses: mock, with: { input: x.bin } }
",
    );
    sandbox.write("x.txt", "same");
    sandbox.write("x.bin", "same");
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (0, 3), "a `.bin` is read as tokens");
}

#[test]
fn each_bad_end_fails_its_own_job_and_names_its_log() {
    let sandbox = Sandbox::with(
        "
steps:
  ends:
    uses: mock
    matrix: { end: [fail, panic, kill, silent, noise, done] }
  after:
    uses: mock
    needs: ends
    matrix: { end: [done] }
  hopeless:
    uses: mock
    needs: ends
",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_message!(ended.stderr);
    for (end, kind) in [("fail", "experiment"), ("panic", "crash"), ("kill", "crash"), ("silent", "crash")] {
        let label = format!("ends/end={end}");
        assert_eq!(sandbox.failure(&label)["kind"], kind, "{end}");
        let failed = sandbox.journal("failed").into_iter().find(|line| line["label"] == label.as_str()).unwrap();
        let log = failed["event"]["failed"]["log"].as_str().unwrap();
        assert!(ended.stderr.contains(log), "{log}: {}", ended.stderr);
        assert!(sandbox.read(log).contains("mock job"), "{end}");
    }
    let done: Vec<String> = sandbox.records().into_keys().collect();
    assert_eq!(done, ["after/end=done", "ends/end=done", "ends/end=noise"]);
    assert_eq!(sandbox.skipped()["hopeless"], "ends/end=fail");
    assert!(list(&sandbox.path("results/store/staging")).is_empty(), "a failed job leaves nothing in the store");
    assert!(list(&sandbox.path("results/store/locks")).is_empty());

    let again = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(again.code, Some(5), "a failure is not cached");
    assert_eq!(sandbox.tally(), [("cached", 3), ("failed", 4), ("skipped", 1)]);
}

#[test]
fn fail_fast_starts_nothing_after_a_failure() {
    let recipe = "steps: { a: { uses: mock, with: { end: fail } }, b: { uses: mock, with: { value: 1 } } }";
    let sandbox = Sandbox::with(recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1", "--fail-fast"]);
    assert_eq!(ended.code, Some(5));
    assert!(sandbox.records().is_empty(), "{}", ended.stderr);
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1"]);
    assert_eq!((ended.code, sandbox.records().len()), (Some(5), 1));
}

#[test]
fn after_the_engine_was_killed_the_rest_is_run_and_nobody_is_left_behind() {
    let sandbox = Sandbox::with(GRID);
    let engine = sandbox.start(&["run", "recipe.yaml", "--set", "seconds=0.5", "--jobs", "2"]);
    until("two jobs are done and another is running", || sandbox.records().len() >= 2 && !sandbox.workers().is_empty());
    engine.signal(Signal::KILL);
    drop(engine);
    until("the kernel has ended the workers", || sandbox.workers().is_empty());
    let done = sandbox.records();

    let second = sandbox.sweep(&["run", "recipe.yaml", "--set", "seconds=0.5"]);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert_eq!(sandbox.records().len(), 6);
    let starts = sandbox.starts();
    for (label, record) in &done {
        assert_eq!(starts[label], 1, "{label} was done and ran again");
        assert_eq!(sandbox.records()[label], *record);
    }
    assert!(list(&sandbox.path("results/store/staging")).is_empty());
}

#[test]
fn cores_are_shared_out() {
    let recipe = "
steps:
  narrow: { uses: mock, matrix: { value: [1, 2, 3] }, resources: { cpus: 1 } }
  wide: { uses: mock, with: { value: 9 } }
";
    let sandbox = Sandbox::with(recipe);
    sandbox.sweep(&["run", "recipe.yaml"]);
    let cpus = std::thread::available_parallelism().unwrap().get();
    for (label, record) in sandbox.records() {
        let threads = record["provenance"]["threads"].as_u64().unwrap();
        assert_eq!(threads, if label == "wide" { cpus as u64 } else { 1 }, "{label}");
    }
}

#[test]
fn the_same_point_in_two_steps_is_one_job() {
    let sandbox = Sandbox::with(
        "steps: { a: { uses: mock, with: { value: 1 } }, b: { uses: mock, matrix: { value: [1.0, 2] } } }",
    );
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(sandbox.tally(), [("done", 2)]);
}

#[test]
fn an_unwritable_results_folder_is_one_sentence() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    sandbox.write("results", "a file where the folder should be");
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert_message!(ended.stderr);
}

#[test]
fn a_failed_job_is_shown_with_its_attempts_its_log_and_how_to_run_it_again() {
    let recipe = "
params: { code: 3 }
steps:
  a:
    uses: command
    matrix: { x: [it's] }
    retries: 1
    with: { run: 'echo \"to $X\" >&2; exit ${{ params.code }}', env: { X: '${{ matrix.x }}' } }
  b: { uses: mock, needs: a }
";
    let sandbox = Sandbox::with(recipe);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--set", "code=4"]).code, Some(5));
    let shown = sandbox.sweep(&["show", "a/x=it's"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert_message!(shown.stdout);
    let json = sandbox.sweep(&["show", "a/x=it's", "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["state"], "failed");
    assert_eq!(json["attempts"][1]["failure"]["message"], "the program ended with exit code 4: to it's");
    let by_key = sandbox.sweep(&["show", &json["key"].as_str().unwrap()[..12]]);
    assert_eq!(by_key.stdout.lines().next(), shown.stdout.lines().next());
    assert_message!(sandbox.sweep(&["show", "b"]).stdout);
    // Once there is a record, that is shown; and a failure that came later again.
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--set", "code=0"]).code, Some(0));
    let show = || -> serde_json::Value {
        serde_json::from_str(&sandbox.sweep(&["show", "a/x=it's", "--format", "json"]).stdout).unwrap()
    };
    assert!(show()["outcome"].is_object(), "{}", show());
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
    assert_eq!((&show()["state"], &show()["attempts"].as_array().unwrap().len()), (&"failed".into(), &2));
}

/// A name means the job of the latest run that ran something, whose record may be older than that of another variant.
#[test]
fn a_name_means_the_job_of_the_latest_run() {
    let sandbox = Sandbox::new();
    for (number, word) in ["first", "second", "first"].into_iter().enumerate() {
        let step = |name: &str, run: &str| {
            format!("  {name}: {{ uses: command, with: {{ run: 'echo {run}; echo value=1' }} }}\n")
        };
        sandbox.write("r.yaml", &format!("steps:\n{}{}", step("a", word), step("b", &number.to_string())));
        let ended = sandbox.sweep(&["run", "r.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    for command in ["show", "logs"] {
        let text = sandbox.sweep(&[command, "a"]).stdout;
        assert!(text.contains("first") && !text.contains("second"), "{command}: {text}");
    }
}

/// A run in which all jobs are cached leaves no folder: a name means the job that the recipe plans now.
#[test]
fn a_name_means_the_job_that_the_recipe_plans_now() {
    let sandbox = Sandbox::new();
    for word in ["first", "second", "first"] {
        sandbox.write(
            "r.yaml",
            &format!("steps: {{ a: {{ uses: command, with: {{ run: 'echo {word}; echo value=1' }} }} }}\n"),
        );
        assert_eq!(sandbox.sweep(&["run", "r.yaml"]).code, Some(0));
    }
    for command in ["show", "logs"] {
        let text = sandbox.sweep(&[command, "a"]).stdout;
        assert!(text.contains("first") && !text.contains("second"), "{command}: {text}");
    }
}

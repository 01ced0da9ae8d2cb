//! Observation of runs and records: `status`, `logs`, `show`.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    conditions::change,
    sandbox::{Sandbox, until},
};

const RECIPE: &str = "
name: looks
steps:
  first: { uses: mock, with: { value: 1 }, resources: { cpus: 1 } }
  hang: { uses: mock, needs: first, with: { end: hang }, resources: { cpus: 1 } }
  after: { uses: mock, needs: hang }
  turn: { uses: mock, matrix: { value: [7, 8] }, resources: { cpus: 1 }, needs: first }
";

/// Pattern of the number of free cores, which depends on the machine.
const CORES: &str = r"(waits for) \d+ cores?, \d+ of \d+ free";

/// The state of each job.
fn states(status: &Value) -> Vec<(&str, &str)> {
    let jobs = status["jobs"].as_array().unwrap().iter();
    jobs.map(|job| (job["job"].as_str().unwrap(), job["state"].as_str().unwrap())).collect()
}

#[test]
fn a_live_run_says_what_everything_waits_for() {
    let sandbox = Sandbox::with(RECIPE);
    let engine = sandbox.start(&["run", "recipe.yaml", "--jobs", "1"]);
    until("the job hangs", || sandbox.events().iter().any(|(job, kind)| job == "hang" && kind == "progress"));
    let status = sandbox.sweep(&["status"]);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    assert_message!(status.stdout, CORES => "$1 [cores]");
    // Finished jobs are listed only with `--all`.
    assert_message!(sandbox.sweep(&["status", "--all"]).stdout, CORES => "$1 [cores]");
    let json = sandbox.status();
    assert_eq!(json["live"], true);
    assert_eq!(
        states(&json),
        [
            ("first", "done"),
            ("hang", "running"),
            ("after", "waiting"),
            ("turn/value=7", "waiting"),
            ("turn/value=8", "waiting")
        ]
    );
    for job in json["jobs"].as_array().unwrap() {
        let silent = ["cached", "done"].contains(&job["state"].as_str().unwrap());
        assert!(silent || !job["says"].as_str().unwrap().is_empty(), "whatever is not done has a reason: {job}");
    }

    engine.signal(Signal::KILL);
    drop(engine);
    let json = sandbox.status();
    assert_eq!((&json["live"], &json["summary"]), (&Value::Bool(false), &Value::Null));
    assert_eq!(states(&json).iter().filter(|(_, state)| *state == "lost").count(), 4, "{json}");
    assert_message!(sandbox.sweep(&["status"]).stdout);
}

#[test]
fn a_run_that_has_ended_says_how() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, with: { end: fail } }, b: { uses: mock, needs: a } }");
    assert_message!(sandbox.sweep(&["status"]).stderr);
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_message!(sandbox.sweep(&["status"]).stdout);
}

#[test]
fn a_wait_for_resources_names_them() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        eprintln!("not run: on one core everything waits for that");
        return;
    }
    let recipe = "
steps:
  holds: { uses: mock, with: { end: hang }, resources: { cpus: 1, gpus: 1, memory: 900GiB } }
  gpu: { uses: mock, with: { value: 1 }, resources: { cpus: 1, gpus: 1 } }
  memory: { uses: mock, with: { value: 2 }, resources: { cpus: 1, memory: 1MiB } }
  again: { uses: mock, with: { value: 4, end: fail }, resources: { cpus: 1 }, retries: 9 }
  alone: { uses: mock, with: { value: 3 }, resources: { cpus: 1 }, exclusive: true }
";
    let sandbox = Sandbox::with(recipe);
    let mut command = sandbox.command(&["run", "recipe.yaml", "--jobs", "8"]);
    let engine = crate::sandbox::Running::from(command.env("CUDA_VISIBLE_DEVICES", "0").spawn().unwrap());
    let mut json = Value::Null;
    until("one hangs and one waits for another attempt", || {
        if sandbox.runs().is_empty() {
            return false;
        }
        json = sandbox.status();
        let states = states(&json);
        states.contains(&("holds", "running")) && states.contains(&("again", "retrying"))
    });
    let says = json["jobs"].as_array().unwrap().iter();
    let says = says.map(|job| format!("{}: {}\n", job["job"].as_str().unwrap(), job["says"].as_str().unwrap()));
    assert_message!(says.collect::<Vec<_>>().concat(), "holds: .* m?s  GPU 0.*" => "holds: [time]  GPU 0", r"again in [^:]+:" => "again in [time]:");
    drop(engine);
}

/// A recipe whose jobs reach different states.
const STATES: &str = r#"
name: states
steps:
  ends: { uses: mock, with: { value: 1 }, resources: { cpus: 1 } }
  fails: { uses: mock, with: { value: 2, end: fail }, resources: { cpus: 1 } }
  needs: { uses: mock, needs: fails, with: { value: 3 } }
  again: { uses: mock, with: { value: 4, end: fail }, resources: { cpus: 1 }, retries: 9 }
  talks:
    uses: command
    resources: { cpus: 1 }
    with: { run: 'echo "{\"step\": 3, \"total\": 9, \"loss\": 2.5}" >> "$SWEEP_REPORT"; sleep 600' }
"#;

#[test]
fn each_state_has_its_details_as_fields() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        eprintln!("not run: on one core a job that goes on leaves no room for the others");
        return;
    }
    let sandbox = Sandbox::with(STATES);
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    let mut status = Value::Null;
    until("every job is in its state", || {
        if sandbox.runs().is_empty() {
            return false;
        }
        status = sandbox.status();
        let states = states(&status);
        let expected =
            [("ends", "done"), ("fails", "failed"), ("needs", "skipped"), ("again", "retrying"), ("talks", "running")];
        states == expected && status["jobs"][4]["steps_done"] == 3
    });
    assert_eq!(
        ["run", "recipe", "live", "stopping", "in_slurm", "summary"].map(|field| &status[field]),
        [&json!(sandbox.runs()[0]), &json!("states"), &json!(true), &json!(false), &json!(false), &Value::Null]
    );
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let jobs = status["jobs"].as_array().unwrap();
    assert!(jobs.iter().all(|job| job["key"].as_str().unwrap().len() == 64), "{status:#}");
    let [ends, fails, needs, again, talks] = jobs.as_slice() else { panic!("{status:#}") };
    assert!(ends["seconds"].as_f64().unwrap() >= 0.0, "{ends}");
    assert_eq!((&fails["failure"]["message"], &fails["tolerated"]), (&json!("it was told to fail"), &json!(false)));
    assert!(fails["seconds"].as_f64().unwrap() >= 0.0, "{fails}");
    assert_eq!(needs["needs"], "fails");
    assert_eq!(again["failure"]["message"], "it was told to fail");
    assert!(again["again_in"].as_f64().unwrap() >= 0.0 && time(&again["again_at"]) > time(&status["begun"]), "{again}");
    assert!(talks["seconds"].as_f64().unwrap() >= 0.0 && time(&talks["since"]) > time(&status["begun"]), "{talks}");
    assert_eq!(
        ["attempt", "gpus", "gpu_part", "host", "steps_done", "steps_total", "latest"].map(|field| &talks[field]),
        [
            &json!(1),
            &json!([]),
            &Value::Null,
            &Value::Null,
            &json!(3),
            &json!(9),
            &json!({ "loss": { "step": 3, "value": 2.5 } })
        ]
    );
    drop(engine);
}

#[test]
fn what_was_not_measured_is_grouped_by_its_reason() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    change(&sandbox, "a", |record| {
        record["outcome"]["facts"] = json!({
            "note": "one",
            "absent.utilization.compute": "there is no GPU",
            "absent.compute.mfu": "`ceiling` is off",
            "absent.memory.device.peak": "there is no GPU",
        });
    });
    let shown = sandbox.sweep(&["show", "a"]);
    let groups = "facts\n  note: one\nnot measured\n  compute.mfu: `ceiling` is off\n  \
                  memory.device.peak, utilization.compute: there is no GPU\n";
    assert!(shown.stdout.contains(groups), "{}\n{}", shown.stdout, shown.stderr);
    let json = sandbox.sweep(&["show", "a", "--format", "json"]).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["outcome"]["facts"]["absent.compute.mfu"], "`ceiling` is off");
}

#[test]
fn logs_are_printed_and_followed() {
    let script = "printf 'one\\ntwo \\033[31mred\\033[0m\\n'; sleep 0.5; printf '50%%\\r100%%\\nlast ä\\n'";
    let sandbox = Sandbox::new();
    sandbox.write("recipe.yaml", &format!("steps:\n  talk:\n    uses: command\n    with: {{ run: {script:?} }}\n"));
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    until("it has begun", || !sandbox.journal("started").is_empty());
    let followed = sandbox.sweep(&["logs", "-f", "talk"]);
    assert_eq!(followed.stdout, "one\ntwo \\u{1b}[31mred\\u{1b}[0m\n50%\n100%\nlast ä\n", "{}", followed.stderr);
    assert_eq!(engine.wait().code, Some(0));
    let key = sandbox.records()["talk"]["key"].as_str().unwrap()[..8].to_owned();
    assert_eq!(sandbox.sweep(&["logs", &key]).stdout, followed.stdout);
    assert!(sandbox.sweep(&["logs", "--raw", &key]).stdout.contains("\u{1b}[31mred"));

    let unknown = sandbox.sweep(&["logs", "takl"]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.stderr);
    assert_message!(unknown.stderr);
}

#[test]
fn a_record_is_shown() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, matrix: { value: [1.5], seed: [3] } } }");
    sandbox.sweep(&["run", "recipe.yaml"]);
    for name in ["a/value=1.5,seed=3", "a value=1.5 seed=3"] {
        let shown = sandbox.sweep(&["show", name]);
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        for part in ["a/value=1.5,seed=3 · record ", "task mock\n  seed: 3\n  value: 1.5\n", "metrics\n  value: 1.50\n"]
        {
            assert!(shown.stdout.contains(part), "{}", shown.stdout);
        }
    }
    let key = sandbox.records()["a/value=1.5,seed=3"]["key"].as_str().unwrap()[..7].to_owned();
    let json: Value = serde_json::from_str(&sandbox.sweep(&["show", &key, "--format", "json"]).stdout).unwrap();
    assert_eq!(json["label"], "a/value=1.5,seed=3");
    assert_eq!(sandbox.sweep(&["show", "b"]).code, Some(2));
}

#[test]
fn the_last_that_a_job_said_of_itself_is_in_the_journal_while_it_runs() {
    let script = "run: 'echo progress 1/100; sleep 0.3; echo progress 99/100; sleep 1000'";
    let sandbox = Sandbox::with(&format!("steps: {{ a: {{ uses: command, with: {{ {script} }} }} }}"));
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    let last = || sandbox.journal("progress").last().map(|line| line["event"]["progress"]["progress"]["done"].clone());
    until("the last progress is written", || last() == Some(99.into()));
    let status = sandbox.sweep(&["status"]).stdout;
    assert!(status.contains(" 99/100"), "{status}");
    drop(engine);
}

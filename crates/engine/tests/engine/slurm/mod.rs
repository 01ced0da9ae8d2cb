//! Runs through a real Slurm, on loopback.

mod adoption;
pub(crate) mod cluster;
mod cutoff;
mod preemption;
mod search;
mod shares;

use std::{collections::BTreeMap, time::Duration};

use rustix::process::Signal;
use serde_json::Value;

use self::cluster::{Cluster, alone, shared};
use crate::{
    messages::{Transcript, sorted},
    sandbox::{Sandbox, list, until},
};

const FAST: [&str; 4] = ["--executor", "slurm", "--poll", "0.2"];

fn run<'a>(recipe: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["run", recipe], &FAST[..], more].concat()
}

/// The state of the latest run, seen from where Slurm can be asked.
fn status(cluster: &Cluster, sandbox: &Sandbox) -> Value {
    let ended = cluster.sweep(sandbox, &["status", "--format", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Number of starts of each job's process in allocations, over all runs.
pub(crate) fn starts(sandbox: &Sandbox) -> BTreeMap<String, usize> {
    let mut starts = BTreeMap::new();
    for folder in list(&sandbox.path("results/runs")) {
        let parts = [list(&folder.join("jobs")), list(&folder.join("pilots"))].concat();
        for text in parts.iter().map(|part| fs_err::read_to_string(part).unwrap()) {
            for line in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
                if !line["event"]["started"].is_null() {
                    *starts.entry(line["label"].as_str().unwrap().to_owned()).or_default() += 1;
                }
            }
        }
    }
    starts
}

/// The parts of records that do not differ between runs.
pub(crate) fn results(sandbox: &Sandbox) -> BTreeMap<String, (Value, Value)> {
    let records = sandbox.records().into_iter();
    records.map(|(label, record)| (label, (record["key"].clone(), record["outcome"].clone()))).collect()
}

/// 40 jobs: 24 of one step, 10 that each need some of them, one job that needs the 10; a retry, a time-out, and a failure with those that
/// need it.
pub(crate) const FORTY: &str = "
name: forty
steps:
  a:
    uses: mock
    matrix: { value: { range: [0, 8] }, seed: [0, 1, 2] }
    resources: { cpus: 1 }
  b:
    uses: mock
    needs: [{ step: a, where: { seed: [0, 1] } }]
    matrix: { variant: { range: [0, 10] } }
    resources: { cpus: 1 }
  c: { uses: mock, needs: b, with: { value: 7, text: whole } }
  again: { uses: mock, with: { failures: 1 }, retries: 1 }
  slow: { uses: mock, with: { end: hang }, timeout: 1s }
  bad: { uses: mock, needs: again, with: { end: fail } }
  after: { uses: mock, needs: bad, with: { seed: 4 } }
  last: { uses: mock, needs: after, with: { seed: 5 } }
tables: { t: { from: a, rows: [value], cells: [value] } }
";

#[test]
fn forty_jobs_end_as_they_do_on_one_machine() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = Sandbox::with(FORTY);
    let ended = cluster.sweep(&sandbox, &run("recipe.yaml", &[]));
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let tally = [("done", 36), ("failed", 2), ("skipped", 2)];
    assert_eq!(sandbox.tally(), tally);
    assert_eq!(sandbox.journal("retrying").iter().map(|line| &line["label"]).collect::<Vec<_>>(), ["again"]);
    assert_eq!(
        (&sandbox.failure("slow")["kind"], &sandbox.failure("bad")["kind"]),
        (&"timeout".into(), &"experiment".into())
    );
    assert_eq!((&*sandbox.skipped()["after"], &*sandbox.skipped()["last"]), ("bad", "after"));
    let starts = starts(&sandbox);
    assert_eq!((starts["again"], starts.get("after"), starts.values().sum::<usize>()), (2, None, 39), "{starts:?}");

    // No job began before the records that it needs existed.
    let time = |record: &Value, end: bool| {
        let begun: jiff::Timestamp = record["provenance"]["started"].as_str().unwrap().parse().unwrap();
        let took = record["provenance"]["seconds"].as_f64().unwrap();
        begun + Duration::from_secs_f64(if end { took } else { 0.0 })
    };
    let records = sandbox.records();
    let of = |step: &'static str| records.iter().filter(move |(label, _)| label.starts_with(step));
    let last_b = of("b/").map(|(_, record)| time(record, true)).max().unwrap();
    assert!(last_b <= time(&records["c"], false));
    let first_b = of("b/").map(|(_, record)| time(record, false)).min().unwrap();
    let needed = of("a/").filter(|(label, _)| !label.contains("seed=2")).map(|(_, record)| time(record, true));
    assert!(needed.max().unwrap() <= first_b);

    // The same, on this machine alone.
    let local = Sandbox::with(FORTY);
    let here = local.sweep(&["run", "recipe.yaml"]);
    assert_eq!((here.code, &here.stdout), (ended.code, &ended.stdout));
    assert_eq!(results(&local), results(&sandbox));

    // Look at it afterwards.
    let count = |kind: &str| sandbox.status()["summary"][kind].as_u64().unwrap();
    assert_eq!(tally.map(|(kind, _)| (kind, count(kind))), tally);
    let log = sandbox.sweep(&["logs", "slow"]);
    assert!(log.stdout.contains("mock job"), "{}", log.stderr);
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
    cluster.until_nothing_is_left(&sandbox);
}

#[test]
fn what_was_begun_on_one_machine_is_finished_by_slurm_and_the_other_way_round() {
    let Some((cluster, _quiet)) = shared() else { return };
    let recipe = "
steps:
  a: { uses: mock, matrix: { value: [1, 2, 3] } }
  b: { uses: mock, needs: a, matrix: { value: [1, 2, 3] }, with: { variant: 1 } }
  c: { uses: mock, needs: b, with: { value: 9 } }
";
    let sandbox = Sandbox::with(recipe);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--only", "b/value=2"]).code, Some(0));
    let before = sandbox.records();
    let middle = cluster.sweep(&sandbox, &run("recipe.yaml", &["--only", "b"]));
    assert_eq!(middle.code, Some(0), "{}", middle.stderr);
    assert_eq!(sandbox.tally(), [("cached", 2), ("done", 4)]);
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(sandbox.tally(), [("cached", 6), ("done", 1)]);
    let records = sandbox.records();
    assert!(before.iter().all(|(label, record)| records[label] == *record), "nothing was repeated");
    let runs = sandbox.runs();
    let again = cluster.sweep(&sandbox, &run("recipe.yaml", &[]));
    assert_eq!((again.code, sandbox.runs()), (Some(0), runs), "{}", again.stderr);
}

const SLOW: &str = "
steps:
  a: { uses: mock, matrix: { value: { range: [0, 10] } }, with: { seconds: 1.5 }, resources: { cpus: 1 } }
  b: { uses: mock, needs: a, with: { value: 1 } }
";

#[test]
fn a_killed_submitter_is_followed_by_one_that_takes_its_jobs_over() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = Sandbox::with(SLOW);
    let first = cluster.start_sweep(&sandbox, &run("recipe.yaml", &[]));
    until("a job is done", || !sandbox.records().is_empty());
    // By SIGKILL.
    drop(first);
    assert_eq!(status(cluster, &sandbox)["in_slurm"], true);
    assert_message!(cluster.sweep(&sandbox, &["status"]).stdout.lines().next().unwrap());
    let second = cluster.sweep(&sandbox, &run("recipe.yaml", &[]));
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    let notes: Vec<&str> = second.stderr.lines().filter(|line| line.starts_with("note: ")).collect();
    assert_message!(notes.join("\n"), r"\b\d+ jobs?\b" => "[count] jobs");
    let starts = starts(&sandbox);
    assert_eq!(starts.len(), 11);
    assert!(starts.values().all(|count| *count == 1), "nothing ran twice: {starts:?}");
    cluster.until_nothing_is_left(&sandbox);
}

#[test]
fn a_detached_run_goes_on_and_can_be_looked_at_and_waited_for() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = Sandbox::with(SLOW);
    let detached = cluster.sweep(&sandbox, &run("recipe.yaml", &["--detach"]));
    assert_eq!(detached.code, Some(0), "{}", detached.stderr);
    assert_message!(detached.stderr);
    assert!(sandbox.records().len() < 11);
    let look = status(cluster, &sandbox);
    assert_eq!(look["in_slurm"], true);
    let b = look["jobs"].as_array().unwrap().iter().find(|job| job["job"] == "b").unwrap().clone();
    assert_eq!(b["state"], "waiting");
    assert_message!(b["says"].as_str().unwrap(), r"\d+" => "[id]", ": .*" => "");
    // A second sweep at the same time waits for the same jobs.
    let others = [(); 2].map(|()| cluster.start_sweep(&sandbox, &run("recipe.yaml", &[])));
    for other in others {
        let other = other.wait();
        assert_eq!(other.code, Some(0), "{}", other.stderr);
    }
    assert!(starts(&sandbox).values().all(|count| *count == 1), "{:?}", starts(&sandbox));
    let look = cluster.sweep(&sandbox, &["status", &sandbox.runs()[0], "--format", "json"]).stdout;
    let look: Value = serde_json::from_str(&look).unwrap();
    assert!(look["jobs"].as_array().unwrap().iter().all(|job| job["state"] == "done"), "{look}");
}

const HANG: &str = "
steps:
  a: { uses: mock, matrix: { value: [1, 2] }, with: { end: hang }, resources: { cpus: 4 } }
  quick: { uses: mock, matrix: { value: { range: [10, 16] } }, with: { seconds: 2 }, resources: { cpus: 4 } }
  b: { uses: mock, needs: a, with: { value: 1 } }
";

#[test]
fn the_first_interrupt_cancels_what_waits_and_the_second_what_runs() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = Sandbox::with(HANG);
    let engine = cluster.start_sweep(&sandbox, &run("recipe.yaml", &[]));
    until("a job runs", || sandbox.events().iter().any(|(_, kind)| kind == "started"));
    engine.signal(Signal::INT);
    until("pending jobs are canceled", || {
        let jobs = cluster.jobs(&sandbox);
        jobs.iter().any(|(_, state, _)| state == "CANCELLED") && !jobs.iter().any(|(_, state, _)| state == "PENDING")
    });
    assert!(!cluster.live(&sandbox).is_empty(), "what runs may go on");
    engine.signal(Signal::INT);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert!(matches!(sandbox.tally()[..], [("skipped", _)] | [("done", _), ("skipped", _)]), "{}", ended.stderr);
    assert!(cluster.live(&sandbox).is_empty(), "{:?}", cluster.live(&sandbox));
    cluster.until_nothing_is_left(&sandbox);
}

#[test]
fn two_gpus_are_shared_and_each_job_sees_its_own() {
    let Some((cluster, _quiet)) = shared() else { return };
    let recipe = "
steps:
  one:
    uses: command
    seeds: 4
    with: { run: 'date +from=%s.%N; sleep 0.7; echo gpu=$CUDA_VISIBLE_DEVICES; date +to=%s.%N' }
    resources: { cpus: 1, gpus: 1 }
  two:
    uses: command
    with: { run: 'test $CUDA_VISIBLE_DEVICES = 0,1; echo threads=$OMP_NUM_THREADS' }
    resources: { cpus: 3, gpus: 2 }
  part: { uses: command, with: { run: 'test ${#CUDA_VISIBLE_DEVICES} = 1; echo share=$SWEEP_GPU_SHARE' }, resources: { cpus: 1, gpus: 0.5 } }
";
    let sandbox = Sandbox::with(recipe);
    let ended = cluster.sweep(&sandbox, &run("recipe.yaml", &[]));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let records = sandbox.records();
    let metric = |record: &Value, name: &str| record["outcome"]["metrics"][name]["value"].as_f64().unwrap();
    let ones: Vec<_> = records.iter().filter(|(label, _)| label.starts_with("one")).map(|(_, record)| record).collect();
    let mut gpus: Vec<f64> = ones.iter().map(|record| metric(record, "gpu")).collect();
    gpus.sort_by(f64::total_cmp);
    assert!(gpus.iter().all(|gpu| [0.0, 1.0].contains(gpu)) && gpus[0] != gpus[3], "{gpus:?}");
    for (index, one) in ones.iter().enumerate() {
        for other in &ones[index + 1..] {
            let apart = metric(one, "to") <= metric(other, "from") || metric(other, "to") <= metric(one, "from");
            assert!(apart || metric(one, "gpu") != metric(other, "gpu"), "a GPU was given twice at once");
        }
    }
    assert_eq!(metric(&records["two"], "threads"), 3.0);
    assert_eq!(metric(&records["part"], "share"), 0.5, "of a GPU that Slurm gives it whole");
}

#[test]
fn what_can_never_start_is_said() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = Sandbox::with(
        "
steps:
  wide: { uses: mock, with: { seed: 1 }, resources: { cpus: 64 } }
  large: { uses: mock, with: { seed: 2 }, resources: { cpus: 1, memory: 10TiB } }
  lost: { uses: mock, needs: large, with: { seed: 3 } }
",
    );
    let engine = cluster.start_sweep(&sandbox, &run("recipe.yaml", &[]));
    until("both are said", || {
        let kinds: Vec<String> = sandbox.events().into_iter().map(|(_, kind)| kind).collect();
        kinds.contains(&"note".to_owned()) && kinds.contains(&"failed".to_owned())
    });
    engine.signal(Signal::TERM);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(143), "{}", ended.stderr);
    assert_eq!(sandbox.skipped()["lost"], "large");
    assert_message!(sorted(&ended.stderr), "refuses it: .*" => "refuses it: [its message]");
    cluster.until_nothing_is_left(&sandbox);
}

#[test]
fn a_sweep_file_says_what_is_asked_of_slurm() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = Sandbox::with(
        "
steps:
  a: { uses: mock, resources: { cpus: 2 }, timeout: 10m }
  b: { uses: mock, with: { seed: 1 } }
",
    );
    sandbox.write(
        "sweep.yaml",
        "
recipe: recipe.yaml
executor: { slurm: { partition: frail, time: 3h, steps: { a: { partition: debug, options: [--nice=7] } } } }
",
    );
    let ended = cluster.sweep(&sandbox, &["run", "sweep.yaml", "--poll", "0.2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ids = cluster.jobs(&sandbox);
    let mut jobs: Vec<String> =
        ids.iter().map(|(id, ..)| cluster.slurm("scontrol", &["show", "job", "-o", id])).collect();
    jobs.sort_by_key(|job| job.contains("Partition=frail"));
    for expected in ["Partition=debug", "NumCPUs=2", "TimeLimit=03:00:00", "Nice=7", "Requeue=1"] {
        assert!(jobs[0].contains(expected), "{expected}: {}", jobs[0]);
    }
    assert!(jobs[1].contains("Partition=frail") && jobs[1].contains("Nice=0"), "{}", jobs[1]);
    // The command line has the last word.
    let local = cluster.sweep(&sandbox, &["run", "sweep.yaml", "--executor", "local", "--set", "x=1"]);
    assert_eq!(local.code, Some(3), "there is no such param: {}", local.stderr);
}

#[test]
fn pilots_share_the_jobs() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = Sandbox::with(
        "
steps:
  a: { uses: mock, matrix: { value: { range: [0, 30] } }, with: { seconds: 0.05 }, resources: { cpus: 1 } }
  b: { uses: mock, needs: a, with: { value: 1 } }
  again: { uses: mock, with: { failures: 1 }, retries: 1 }
  bad: { uses: mock, with: { end: fail } }
  after: { uses: mock, needs: bad, with: { seed: 1 } }
",
    );
    let ended = cluster.sweep(&sandbox, &run("recipe.yaml", &["--pilot", "2"]));
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 32), ("failed", 1), ("skipped", 1)]);
    assert_eq!(sandbox.failure("bad")["kind"], "experiment");
    let mut starts = starts(&sandbox);
    assert_eq!(starts.remove("again"), Some(2));
    assert!(starts.len() == 32 && starts.values().all(|count| *count == 1), "{starts:?}");
    cluster.until_nothing_is_left(&sandbox);
}

#[test]
fn what_many_jobs_need_is_in_the_orders_once() {
    let Some((cluster, _quiet)) = shared() else { return };
    for pilot in [&[][..], &["--pilot", "1"]] {
        let sandbox = Sandbox::with(
            "
steps:
  a: { uses: mock, matrix: { value: [1, 2, 3, 4] }, resources: { cpus: 1 } }
  b: { uses: mock, needs: a, matrix: { seed: [0, 1, 2] }, with: { value: -1 }, resources: { cpus: 1 } }
",
        );
        let ended = cluster.sweep(&sandbox, &run("recipe.yaml", pilot));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let folder = format!("results/runs/{}", sandbox.runs()[0]);
        assert_eq!(sandbox.read(&format!("{folder}/needs.jsonl")).lines().count(), 1);
        for spec in sandbox.read(&format!("{folder}/orders.jsonl")).lines() {
            let spec: Value = serde_json::from_str(spec).unwrap();
            assert!(spec["identity"]["needs"].is_null() && spec["needs"].as_array().unwrap().is_empty(), "{spec}");
        }
        let records = sandbox.records();
        assert_eq!(records["b/seed=1"]["identity"]["needs"].as_array().unwrap().len(), 4);
        assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0), "the identities are whole");
        cluster.until_nothing_is_left(&sandbox);
    }
}

#[test]
fn a_job_that_slurm_lets_run_too_early_does_not() {
    let Some((cluster, _quiet)) = alone() else { return };
    let sandbox = Sandbox::with(
        "
steps:
  bad: { uses: mock, with: { end: fail } }
  after: { uses: mock, needs: bad, with: { seed: 1 } }
",
    );
    assert_eq!(cluster.sweep(&sandbox, &run("recipe.yaml", &[])).code, Some(5));
    let bad = cluster.jobs(&sandbox).iter().find(|(_, state, _)| state == "FAILED").unwrap().0.clone();
    cluster.send("forget");
    // Slurm treats a dependency on a forgotten job as satisfied.
    let specs = sandbox.read(&format!("results/runs/{}/orders.jsonl", sandbox.runs()[0]));
    let spec: Value = serde_json::from_str(specs.lines().nth(1).unwrap()).unwrap();
    let at = specs.find('\n').unwrap() + 1;
    let command = format!(
        "{} --results {} exec-job {} --at {at} --key {}",
        env!("CARGO_BIN_EXE_sweep-engine"),
        sandbox.path("results").display(),
        sandbox.runs()[0],
        spec["key"].as_str().unwrap()
    );
    let output = sandbox.path("output");
    let dependency = format!("--dependency=afterok:{bad}");
    let output = output.to_str().unwrap();
    let mut id = String::new();
    until("Slurm takes it", || {
        id = cluster.slurm("sbatch", &["--parsable", &dependency, "-o", output, "--wrap", &command]);
        !id.trim().is_empty()
    });
    let mut state = String::new();
    until("Slurm has run it", || {
        state = cluster.slurm("scontrol", &["show", "job", "-o", id.trim()]);
        state.contains("JobState=FAILED") || state.contains("JobState=COMPLETED")
    });
    assert!(state.contains("ExitCode=75:0"), "{state}");
    assert_message!(sandbox.read("output"));
    assert!(!starts(&sandbox).contains_key("after") && sandbox.records().is_empty());
}

#[test]
fn a_controller_that_starts_again_is_waited_for() {
    let Some((cluster, _quiet)) = alone() else { return };
    let sandbox = Sandbox::with(SLOW);
    let engine = cluster.start_sweep(&sandbox, &run("recipe.yaml", &[]));
    until("a job is done", || !sandbox.records().is_empty());
    cluster.send("restart");
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 11)]);
    assert!(starts(&sandbox).values().all(|count| *count == 1), "{:?}", starts(&sandbox));
}

/// Slow: Slurm takes its time to notice that a node is gone.
#[test]
fn slow_a_node_that_dies_takes_no_result_with_it() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = Sandbox::with(
        "
steps:
  a: { uses: mock, matrix: { value: [1, 2, 3, 4] }, with: { seconds: 6 }, resources: { cpus: 2 } }
  b: { uses: mock, needs: a, with: { value: 5 } }
",
    );
    sandbox.write("sweep.yaml", "recipe: recipe.yaml\nexecutor: { slurm: { partition: frail } }\n");
    let engine = cluster.start_sweep(&sandbox, &["run", "sweep.yaml", "--poll", "0.2"]);
    // More than four have started if a node did not answer for the five seconds after which Slurm gives its jobs to the other.
    until("the jobs run", || sandbox.events().iter().filter(|(_, kind)| kind == "started").count() >= 4);
    cluster.send("kill n3");
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 5)]);
    let starts: usize = starts(&sandbox).values().sum();
    assert!(starts >= 7, "two jobs were on the node, and began once more: {starts}");
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn slurm_is_asked_for_only_where_it_is() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    sandbox.write("bin/x", "");
    let mut command = sandbox.command(&run("recipe.yaml", &[]));
    let ended = command.env("PATH", sandbox.path("bin")).output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{stderr}");
    let mut said = Transcript::default();
    said.add("no Slurm", &stderr);
    for flags in [&["--detach"][..], &["--pilot", "2"]] {
        let ended = sandbox.sweep(&[&["run", "recipe.yaml"], flags].concat());
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        said.add(&flags.join(" "), &ended.stderr);
    }
    assert_message!(said);
    assert!(sandbox.records().is_empty());
}

#[test]
fn a_secret_comes_with_the_jobs_environment_or_its_lack_is_said() {
    let Some((cluster, _quiet)) = shared() else { return };
    let secret = "hf_4Zs9kQ0vTq7LmX2c";
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, with: { run: 'echo length=${#TOKEN}', env: { TOKEN: { from: MY_TOKEN } } } } }",
    );
    let submit = |token: Option<&str>, export: &str| {
        let mut command = cluster.command(&sandbox, &run("recipe.yaml", &[]));
        command.env_remove("MY_TOKEN").envs(token.map(|token| ("MY_TOKEN", token))).env("SBATCH_EXPORT", export);
        crate::sandbox::Running::from(command.spawn().unwrap()).wait()
    };
    let missing = submit(None, "ALL");
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    assert_message!(missing.stderr);
    // A cluster that does not pass it on.
    let kept_back = submit(Some(secret), "PATH,SLURM_CONF");
    assert_eq!(kept_back.code, Some(5), "{}", kept_back.stderr);
    assert_message!(sandbox.failure("a")["message"].as_str().unwrap());
    let passed = submit(Some(secret), "ALL");
    assert_eq!(passed.code, Some(0), "{}", passed.stderr);
    assert_eq!(sandbox.records()["a"]["outcome"]["metrics"]["length"]["value"], secret.len() as f64);
    assert_eq!(crate::environment::mentions(&sandbox.path(""), secret), Vec::<String>::new());
}

//! Batch jobs and pilot jobs that Slurm, or a person, interrupts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    cluster::{Cluster, shared},
    run, starts,
};
use crate::sandbox::{Sandbox, list, until};

/// A training of 30 steps that saves only when it is asked to stop, and notes every step that it has trained. It goes beyond
/// step 12 of its first attempt only if it was asked.
const TRAIN: &str = r#"
import json, os, signal, sys, time
scratch, stop = os.environ["SWEEP_SCRATCH"], os.environ["SWEEP_STOP"]
report = open(os.environ["SWEEP_REPORT"], "a")
def say(**values):
    report.write(json.dumps(values) + "\n")
    report.flush()
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
resume = os.environ.get("SWEEP_RESUME")
first = int(open(resume).read()) + 1 if resume else 0
say(total=30)
with open(os.environ["TRAINED"], "a") as trained:
    for step in range(first, 30):
        print(os.environ["SWEEP_SEED"], step, file=trained, flush=True)
        say(step=step, loss=10.0 - step / 10)
        while step == 12 and not (asked or os.path.exists(stop)):
            time.sleep(0.02)
        if step == 12:
            with open(os.path.join(scratch, "checkpoint"), "w") as file:
                file.write(str(step))
            say(checkpoint="checkpoint")
            say(stopped=True)
            sys.exit(0)
say(resumed=first)
"#;

fn sandbox(jobs: usize) -> Sandbox {
    let sandbox = Sandbox::with(&format!(
        "
steps:
  a:
    uses: command
    seeds: {jobs}
    with: {{ argv: [python3, train.py], inputs: [train.py], env: {{ TRAINED: {{ from: TRAINED }} }} }}
    resources: {{ cpus: 1 }}
  b: {{ uses: mock, needs: a, with: {{ value: 1 }} }}
"
    ));
    sandbox.write("train.py", TRAIN);
    sandbox
}

fn start(cluster: &Cluster, sandbox: &Sandbox, more: &[&str]) -> crate::sandbox::Running {
    let mut command = cluster.command(sandbox, &run("recipe.yaml", more));
    command.env("TRAINED", sandbox.path("trained")).spawn().unwrap().into()
}

/// Number of times that each step of each seed was trained.
fn trained(sandbox: &Sandbox) -> BTreeMap<(u64, u64), usize> {
    let mut trained = BTreeMap::new();
    for line in fs_err::read_to_string(sandbox.path("trained")).unwrap_or_default().lines() {
        let (seed, step) = line.split_once(' ').unwrap();
        *trained.entry((seed.parse().unwrap(), step.parse().unwrap())).or_default() += 1;
    }
    trained
}

fn at_step_12(sandbox: &Sandbox, jobs: u64) {
    until("every job is at its twelfth step", || (0..jobs).all(|seed| trained(sandbox).contains_key(&(seed, 12))));
}

/// Checks that everything is done, that nothing failed, and that every step was trained once.
fn whole(sandbox: &Sandbox, jobs: u64) {
    assert_eq!(sandbox.tally(), [("done", jobs + 1)]);
    assert!(sandbox.journal("failed").is_empty() && sandbox.journal("retrying").is_empty());
    let expected: BTreeMap<(u64, u64), usize> =
        (0..jobs).flat_map(|seed| (0..30).map(move |step| ((seed, step), 1))).collect();
    assert_eq!(trained(sandbox), expected);
    for (label, record) in sandbox.records().iter().filter(|(label, _)| label.starts_with("a/")) {
        let metric = |name: &str| record["outcome"]["metrics"][name]["value"].as_f64().unwrap();
        assert_eq!((metric("resumed"), metric("attempts")), (13.0, 2.0), "{label}");
    }
}

#[test]
fn a_job_that_slurm_puts_back_into_the_queue_continues_from_its_checkpoint() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = sandbox(2);
    let engine = start(cluster, &sandbox, &[]);
    at_step_12(&sandbox, 2);
    for (id, state, _) in cluster.live(&sandbox).iter().filter(|(_, state, _)| state == "RUNNING") {
        eprintln!("{id} {state}");
        cluster.slurm("scontrol", &["requeue", id]);
    }
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    whole(&sandbox, 2);
}

#[test]
fn a_job_that_gets_sigterm_is_submitted_again_and_does_not_count_as_failed() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = sandbox(2);
    let engine = start(cluster, &sandbox, &[]);
    at_step_12(&sandbox, 2);
    for (id, ..) in cluster.live(&sandbox).iter().filter(|(_, state, _)| state == "RUNNING") {
        cluster.slurm("scancel", &["--batch", "--signal=TERM", id]);
    }
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    whole(&sandbox, 2);
    let note = "it was interrupted in Slurm (the program stopped at step 12 of 30; its checkpoint of step 12 is kept), and is submitted again";
    let notes = sandbox.journal("note");
    assert_eq!(notes.iter().filter(|line| line["event"]["note"]["text"] == note).count(), 2, "{notes:?}");
}

#[test]
fn a_job_without_a_checkpoint_that_gets_sigterm_begins_anew() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = Sandbox::with("steps: { a: { uses: mock, with: { seconds: 6 }, resources: { cpus: 1 } } }");
    let engine = cluster.start_sweep(&sandbox, &run("recipe.yaml", &[]));
    until("it runs", || !sandbox.journal("started").is_empty());
    let id = cluster.live(&sandbox)[0].0.clone();
    cluster.slurm("scancel", &["--full", "--signal=TERM", &id]);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!((sandbox.tally(), starts(&sandbox)["a"]), (vec![("done", 1)], 2));
    assert!(sandbox.journal("failed").is_empty(), "{}", ended.stderr);
}

#[test]
fn pilots_join_and_leave_a_running_sweep_and_their_jobs_continue() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = sandbox(3);
    let first = start(cluster, &sandbox, &["--pilot", "1"]);
    until("a pilot is at work", || !trained(&sandbox).is_empty());
    // A pilot has one core, so others have to join.
    let second = start(cluster, &sandbox, &["--pilot", "2"]);
    at_step_12(&sandbox, 3);
    for (id, ..) in cluster.live(&sandbox) {
        cluster.slurm("scancel", &["--batch", "--signal=TERM", &id]);
    }
    for engine in [first, second] {
        let ended = engine.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    whole(&sandbox, 3);
    let parts = list(&sandbox.path("results/runs")).iter().map(|run| list(&run.join("pilots")).len()).sum::<usize>();
    assert!(parts > 3, "three pilots, and those in their places: {parts}");
}

/// `sweep run` itself is the batch job, which Slurm puts back into the queue.
#[test]
fn a_sweep_in_a_batch_job_that_is_put_back_continues() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = sandbox(1);
    let script = format!(
        "#!/bin/sh\nexec {} run recipe.yaml --executor local >>out.txt 2>&1\n",
        env!("CARGO_BIN_EXE_sweep-engine")
    );
    sandbox.write("job.sh", &script);
    let folder = sandbox.path(".").display().to_string();
    let exported = format!("--export=ALL,TRAINED={}", sandbox.path("trained").display());
    let path = sandbox.path("job.sh").display().to_string();
    let id = cluster
        .slurm("sbatch", &["--parsable", "--requeue", "--chdir", &folder, "--output=/dev/null", &exported, &path]);
    at_step_12(&sandbox, 1);
    cluster.slurm("scontrol", &["requeue", id.trim()]);
    until("both jobs have records", || sandbox.records().len() == 2);
    until("the run has ended", || sandbox.journal("ended").len() == 2);
    whole(&sandbox, 1);
    let interrupted: Vec<Value> =
        sandbox.journal("ended").iter().map(|line| line["event"]["ended"]["interrupted"].clone()).collect();
    assert_eq!(interrupted, [Value::from(15), Value::Null]);
}

//! Runs through a real Ray, on loopback, by its Jobs API.

pub(crate) mod cluster;

use rustix::process::Signal;

use self::cluster::Cluster;
use crate::{
    forty::{Size, assert_as_locally, assert_once, recipe, states},
    sandbox::{Sandbox, until},
    slurm::starts,
};

const RUN: [&str; 6] = ["run", "recipe.yaml", "--executor", "ray", "--poll", "0.2"];

/// One test, because a cluster takes nine seconds of processor time to start. Slow: a job takes another one.
#[test]
fn slow_a_cluster_runs_jobs_as_one_machine_does_and_hands_them_over() {
    let Some(cluster) = Cluster::start() else { return };
    jobs_end_as_they_do_on_one_machine(&cluster);
    a_killed_submitter_is_followed_and_what_runs_can_be_stopped(&cluster);
    crate::takeover::slurm_and_this_machine_finish_what_ray_has_begun(&cluster);
}

fn jobs_end_as_they_do_on_one_machine(cluster: &Cluster) {
    let sandbox = Sandbox::with(&recipe(Size::Sixteen));
    let ended = cluster.sweep(&sandbox, &RUN);
    assert_as_locally(&sandbox, Size::Sixteen, &ended);
    let starts = starts(&sandbox);
    assert_eq!((starts["again"], starts.get("after"), starts.values().sum::<usize>()), (2, None, 15), "{starts:?}");
    cluster.until_nothing_is_left(&sandbox);
}

fn a_killed_submitter_is_followed_and_what_runs_can_be_stopped(cluster: &Cluster) {
    let sandbox = Sandbox::with(
        "
steps:
  a: { uses: mock, matrix: { value: [1, 2, 3] }, with: { seconds: 3 }, resources: { cpus: 2 } }
  b: { uses: mock, needs: a, with: { value: 1 } }
",
    );
    let first = cluster.start_sweep(&sandbox, &RUN);
    until("a job is done", || !sandbox.records().is_empty());
    // By SIGKILL.
    drop(first);
    let status = cluster.sweep(&sandbox, &["status", "--format", "json"]);
    assert!(states(&status.stdout)["a/value=3"]["state"] != "lost", "{}", status.stdout);
    let second = cluster.sweep(&sandbox, &RUN);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert!(second.stderr.contains("already in the queue"), "{}", second.stderr);
    assert_once(&sandbox, 4);

    let doctor = cluster.sweep(&sandbox, &["doctor", "ray", "--gpus", "1", "--format", "json"]);
    assert_eq!(doctor.code, Some(0), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("version 2."), "{}", doctor.stdout);

    // A secret of the submitter is not sent, and resources arrive.
    let sandbox = Sandbox::with(
        "
steps:
  hang: { uses: mock, with: { end: hang }, resources: { cpus: 1 } }
  gpus: { uses: command, with: { run: 'echo gpus=$(echo $CUDA_VISIBLE_DEVICES | tr , \"\\n\" | wc -l)' }, resources: { gpus: 2 } }
  never: { uses: mock, needs: hang, with: { seed: 1 } }
",
    );
    let mut command = cluster.command(&sandbox, &RUN);
    command.env("RAY_JOB_HEADERS", r#"{"x-secret":"hf_4Zs9kQ0vTq7LmX2c"}"#);
    let engine: crate::sandbox::Running = command.spawn().unwrap().into();
    until("the job with GPUs is done and the other one runs", || {
        sandbox.records().contains_key("gpus") && !sandbox.workers().is_empty()
    });
    engine.signal(Signal::INT);
    until("it stops", || !sandbox.journal("stopping").is_empty());
    engine.signal(Signal::INT);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(sandbox.records()["gpus"]["outcome"]["metrics"]["gpus"]["value"], 2.0);
    cluster.until_nothing_is_left(&sandbox);
    assert_eq!(crate::environment::mentions(&sandbox.path(""), "hf_4Zs9kQ0vTq7LmX2c"), Vec::<String>::new());
    assert!(!format!("{:?}", cluster.jobs(&sandbox)).contains("hf_4Zs9kQ0vTq7LmX2c"));
}

/// Nothing listens there, or something else.
#[test]
fn an_address_that_is_none_is_said() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    for (address, why) in [
        ("auto", "does not begin with `http://`"),
        ("http://user:secret@127.0.0.1:1", "it contains credentials, which are read from the environment"),
        ("http://127.0.0.1:1/?x=1", "it must end with the port"),
    ] {
        let mut command = sandbox.command(&RUN);
        let ended = crate::sandbox::Running::from(command.env("RAY_ADDRESS", address).spawn().unwrap()).wait();
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    }
    let mut command = sandbox.command(&RUN);
    let engine: crate::sandbox::Running = command.env("RAY_ADDRESS", "http://127.0.0.1:1").spawn().unwrap().into();
    until("it is said", || {
        sandbox.journal("notice").iter().any(|line| line.to_string().contains("Ray does not respond"))
    });
    engine.signal(Signal::HUP);
    let ended = engine.wait();
    assert!(ended.stderr.contains("Connection refused"), "{}", ended.stderr);
}

#[test]
fn a_cluster_that_never_answers_ends_the_run() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    let ray = "{ address: 'http://127.0.0.1:1', answers-within: 2s }";
    sandbox.write("sweep.yaml", &format!("recipe: recipe.yaml\nexecutor: {{ ray: {ray} }}\n"));
    let ended = sandbox.sweep(&["run", "sweep.yaml", "--poll", "0.2"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    for part in [
        "Ray has not responded within 2.0 s: http://127.0.0.1:1: ",
        "Connection refused",
        "the same command takes them over",
    ] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    assert_eq!((&sandbox.status()["live"], sandbox.records().len()), (&false.into(), 0));
    // The job is as it was before.
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
}

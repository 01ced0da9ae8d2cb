//! Workers that stay: one serves programs in turn, as if each had a separate worker.

use crate::sandbox::{Sandbox, until};

/// The worker of each job, which is the parent of its program.
fn parents(sandbox: &Sandbox) -> Vec<(String, f64)> {
    let records = sandbox.records().into_iter();
    records.map(|(label, record)| (label, record["outcome"]["metrics"]["parent"]["value"].as_f64().unwrap())).collect()
}

#[test]
fn one_worker_serves_many_programs_and_a_fresh_one_follows_a_failure() {
    let sandbox = Sandbox::with(
        "
steps:
  a:
    uses: command
    matrix: { number: [0, 1, 2, 3, 4, 5] }
    with: { argv: [sh, -c, 'echo parent=$PPID; echo number $0 >&2; test $0 != 2', '${{ matrix.number }}'] }
    resources: { cpus: 1 }
",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let parents = parents(&sandbox);
    let of = |number: usize| parents.iter().find(|(label, _)| *label == format!("a/number={number}")).unwrap().1;
    assert_eq!(parents.len(), 5);
    assert_eq!(of(0), of(1), "one worker");
    assert_ne!(of(1), of(3), "a fresh one after a failure");
    assert!(of(3) == of(4) && of(4) == of(5), "{parents:?}");
    // Each job has its own log.
    for number in [1, 4, 5] {
        let log = sandbox.sweep(&["logs", &format!("a/number={number}")]).stdout;
        let numbers: Vec<&str> = log.lines().filter(|line| line.starts_with("number ")).collect();
        assert_eq!(numbers, [format!("number {number}")], "{log}");
    }
    until("no worker is left", || sandbox.workers().is_empty());
}

#[test]
fn a_worker_serves_only_jobs_with_its_settings_and_leaves_nothing_of_them() {
    let sandbox = Sandbox::with(
        "
steps:
  a:
    uses: command
    with: { run: 'sleep 600 & echo left=$!; echo parent=$PPID; echo threads=$SWEEP_THREADS', seed: 1 }
    resources: { cpus: 1 }
  b: { uses: command, needs: a, with: { run: 'echo parent=$PPID; echo threads=$SWEEP_THREADS', seed: 2 }, resources: { cpus: 1 } }
  c:
    uses: command
    needs: b
    with: { run: 'echo parent=$PPID; echo threads=$SWEEP_THREADS', seed: 3 }
    resources: { cpus: 2 }
",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let records = sandbox.records();
    let metric = |step: &str, name: &str| records[step]["outcome"]["metrics"][name]["value"].as_f64().unwrap();
    assert_eq!(metric("a", "parent"), metric("b", "parent"));
    assert_ne!(metric("b", "parent"), metric("c", "parent"));
    assert_eq!(["a", "b", "c"].map(|step| metric(step, "threads")), [1.0, 1.0, 2.0]);
    let left = metric("a", "left");
    assert!(
        !std::path::Path::new(&format!("/proc/{left}")).exists(),
        "what a program leaves running ends with its job"
    );
}

#[test]
fn an_idle_worker_that_is_killed_is_no_failure() {
    let sandbox = Sandbox::with(
        "
steps:
  a: { uses: command, with: { run: 'echo parent=$PPID' }, resources: { cpus: 1 } }
  kill:
    uses: mock
    needs: a
    with: { seconds: 2 }
  b: { uses: command, needs: kill, with: { run: 'echo parent=$PPID', seed: 1 }, resources: { cpus: 1 } }
",
    );
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    until("the first one is done", || sandbox.records().contains_key("a"));
    let idle = sandbox.records()["a"]["outcome"]["metrics"]["parent"]["value"].as_f64().unwrap();
    assert!(std::path::Path::new(&format!("/proc/{idle}")).exists(), "it waits");
    let pid = rustix::process::Pid::from_raw(idle.to_string().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_ne!(sandbox.records()["b"]["outcome"]["metrics"]["parent"]["value"].as_f64(), Some(idle));
}

//! Ctrl-C, once and twice, and a stop of the process.

use rustix::process::Signal;

use crate::sandbox::{Sandbox, list, until};

const SLOW: &str = "
steps:
  slow:
    uses: mock
    matrix: { value: [1, 2, 3] }
    with: { seconds: 1 }
";

#[test]
fn the_first_lets_the_running_jobs_end() {
    let sandbox = Sandbox::with(SLOW);
    let engine = sandbox.start(&["run", "recipe.yaml", "--jobs", "1"]);
    until("a job runs", || !sandbox.workers().is_empty());
    engine.signal(Signal::INT);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(sandbox.records().len(), 1, "the running job ended and nothing else began: {}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 1), ("skipped", 2)]);
    assert_message!(ended.stderr);

    let rest = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(sandbox.tally(), [("cached", 1), ("done", 2)]);
    assert_eq!((rest.code, sandbox.records().len()), (Some(0), 3));
}

#[test]
fn the_second_ends_them() {
    let sandbox = Sandbox::with("steps: { hang: { uses: mock, with: { end: hang } } }");
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    until("the job runs", || !sandbox.workers().is_empty());
    engine.signal(Signal::TERM);
    until("the engine has heard it", || sandbox.events().iter().any(|(_, kind)| kind == "stopping"));
    engine.signal(Signal::INT);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(143), "the first signal counts: {}", ended.stderr);
    assert_eq!(sandbox.tally(), [("skipped", 1)], "what the user ended did not fail: {}", ended.stderr);
    assert!(sandbox.records().is_empty() && sandbox.workers().is_empty());
}

#[test]
fn whoever_sends_sigterm_need_not_send_it_twice() {
    let sandbox = Sandbox::with("steps: { hang: { uses: mock, with: { end: hang } } }");
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    until("the job runs", || !sandbox.workers().is_empty());
    engine.signal(Signal::TERM);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(143), "{}", ended.stderr);
    assert_message!(ended.stderr);
    assert!(sandbox.records().is_empty() && sandbox.workers().is_empty());
}

#[test]
fn a_program_ends_with_its_worker_even_if_nobody_is_left_to_end_it() {
    let recipe = "steps: { a: { uses: command, with: { run: 'echo $$ > pid; exec sleep 600' } } }";
    let sandbox = Sandbox::with(recipe);
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    let mut program = String::new();
    until("the program runs", || {
        let jobs = list(&sandbox.path("results/store/staging"));
        let pid = jobs.first().and_then(|job| std::fs::read_to_string(job.join("files/pid")).ok());
        program = pid.unwrap_or_default().trim().to_owned();
        let name = std::fs::read_to_string(format!("/proc/{program}/comm")).unwrap_or_default();
        name.trim() == "sleep"
    });
    // The engine cannot do anything any more, as if it had been killed at the same instant.
    engine.signal(Signal::STOP);
    let worker = rustix::process::Pid::from_raw(i32::try_from(sandbox.workers()[0]).unwrap()).unwrap();
    rustix::process::kill_process(worker, Signal::KILL).unwrap();
    until("the kernel has ended the program", || {
        let status = std::fs::read_to_string(format!("/proc/{program}/stat")).unwrap_or_default();
        // Whoever inherits it may not have waited for it yet.
        status.is_empty() || status.contains(") Z ")
    });
    drop(engine);
}

/// Stops the engine, and whatever else, for longer than the limits of its jobs.
fn stop_for_a_while(engine: &crate::sandbox::Running, others: &[u32]) {
    let groups = || others.iter().filter_map(|pid| rustix::process::Pid::from_raw(i32::try_from(*pid).unwrap()));
    engine.signal(Signal::STOP);
    groups().for_each(|group| rustix::process::kill_process_group(group, Signal::STOP).unwrap());
    std::thread::sleep(std::time::Duration::from_secs(5));
    groups().for_each(|group| rustix::process::kill_process_group(group, Signal::CONT).unwrap());
    engine.signal(Signal::CONT);
}

#[test]
fn jobs_outlive_a_stop_of_the_engine_that_is_longer_than_their_limits() {
    for stops_workers in [false, true] {
        let sandbox = Sandbox::with(
            "
steps:
  quiet:
    uses: command
    matrix: { seed: [1, 2, 3] }
    with: { run: 'for i in 1 2 3 4 5 6; do sleep 1; echo loss=$i; done' }
    heartbeat: 3s
    resources: { cpus: 1 }
  limited:
    uses: command
    with: { run: 'for i in 1 2 3 4 5 6 7 8; do sleep 0.5; done; echo loss=1' }
    timeout: 8s
    resources: { cpus: 1 }
",
        );
        let engine = sandbox.start(&["run", "recipe.yaml"]);
        until("jobs run", || sandbox.journal("started").len() >= 2);
        let workers = if stops_workers { sandbox.workers() } else { Vec::new() };
        stop_for_a_while(&engine, &workers);
        let ended = engine.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(sandbox.starts().values().all(|starts| *starts == 1), "{:?}", sandbox.starts());
    }
}

#[test]
fn a_job_that_hangs_is_found_after_a_stop_of_the_engine() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, with: { end: hang }, heartbeat: 2s } }");
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    until("the job runs", || !sandbox.workers().is_empty());
    stop_for_a_while(&engine, &[]);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(sandbox.failure("a")["kind"], "stalled");
}

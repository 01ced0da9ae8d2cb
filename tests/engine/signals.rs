//! Ctrl-C, once and twice.

use rustix::process::Signal;

use crate::sandbox::{Sandbox, until};

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
    assert!(ended.stderr.contains("3 jobs: 1 done, 2 skipped"), "{}", ended.stderr);

    let rest = sandbox.sweep(&["run", "recipe.yaml"]);
    assert!(rest.stderr.contains("1 of 3 jobs cached"), "{}", rest.stderr);
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
    assert!(ended.stderr.contains("1 job: 1 skipped"), "what the user ended did not fail: {}", ended.stderr);
    assert!(sandbox.records().is_empty() && sandbox.workers().is_empty());
}

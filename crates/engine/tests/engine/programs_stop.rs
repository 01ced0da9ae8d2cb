//! Programs that are asked to stop, and that resume from their checkpoints.

use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{Running, Sandbox, list, until};

/// A training of 40 steps, which saves every tenth step and when it is asked to stop. `MODE` makes it behave in other ways.
const TRAIN: &str = r#"
import json, os, signal, sys, time
mode = os.environ.get("MODE", "")
scratch, report = os.environ["SWEEP_SCRATCH"], open(os.environ["SWEEP_REPORT"], "a")
def say(**values):
    report.write(json.dumps(values) + "\n")
    report.flush()
def save(step):
    name = "ckpt-%d" % step
    with open(os.path.join(scratch, name), "w") as file:
        file.write(str(step))
    say(checkpoint=name)
resume = os.environ.get("SWEEP_RESUME")
first = int(open(resume).read()) + 1 if resume else 0
print("first step", first, flush=True)
say(total=40)
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for step in range(first, 40):
    say(step=step, loss=10.0 - step / 10)
    if step % 10 == 9:
        save(step)
    if os.path.exists(os.environ["SWEEP_STOP"]) and mode in ("", "quiet"):
        save(step)
        if mode == "":
            say(stopped=True)
        sys.exit(0)
    pace = os.environ.get("PACE")
    while not resume and pace and step >= int(pace) and not (mode == "ends" and os.path.exists(os.environ["SWEEP_STOP"])):
        if os.path.exists(os.environ["SWEEP_STOP"]) and mode in ("", "quiet"):
            break
        time.sleep(0.01)
say(final=1.0, resumed=first)
"#;

fn sandbox(env: &str, step: &str) -> Sandbox {
    let recipe = format!(
        "steps: {{ a: {{ uses: command, with: {{ argv: [python3, train.py], inputs: [train.py], env: {{ {env} }} }}{step} }} }}"
    );
    let sandbox = Sandbox::with(&recipe);
    sandbox.write("train.py", TRAIN);
    sandbox
}

/// Starts a run, and waits until its program has reported a step.
fn at_step(sandbox: &Sandbox, step: u64) -> Running {
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    until("the program has reported the step", || {
        let jobs = list(&sandbox.path("results/store/partial"));
        let report = jobs.first().and_then(|job| std::fs::read_to_string(job.join(".sweep/report.jsonl")).ok());
        report.is_some_and(|report| report.contains(&format!("\"step\": {step},")))
    });
    engine
}

fn stopped(sandbox: &Sandbox) -> String {
    let line = sandbox.journal("stopped").pop().expect("the job has stopped");
    line["event"]["stopped"]["how"].as_str().unwrap().to_owned()
}

fn metric(sandbox: &Sandbox, name: &str) -> f64 {
    let records = sandbox.records();
    records["a"]["outcome"]["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("{name}: {records:#?}"))
}

/// Checks that the next run resumes at this step and finishes.
fn resumes_at(sandbox: &Sandbox, step: f64, attempts: f64) {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!((metric(sandbox, "resumed"), metric(sandbox, "attempts")), (step, attempts));
    assert!(list(&sandbox.path("results/store/partial")).is_empty(), "what it left goes when it is done");
}

#[test]
fn a_program_that_is_asked_to_stop_keeps_its_checkpoint() {
    let sandbox = sandbox("PACE: 12", "");
    let engine = at_step(&sandbox, 12);
    engine.signal(Signal::INT);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert!(sandbox.records().is_empty(), "what has stopped has no result");
    assert_eq!(sandbox.tally(), [("stopped", 1)]);
    assert_message!(ended.stderr, r"step 1[23]" => "step [step]");
    let status = sandbox.status();
    assert_eq!(status["jobs"][0]["state"], "stopped");
    assert!(status["jobs"][0]["says"].as_str().unwrap().ends_with("is kept"), "{status:#}");
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (0, 1));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(metric(&sandbox, "resumed") >= 13.0);
    assert_eq!(metric(&sandbox, "attempts"), 2.0);
    let curve = &sandbox.records()["a"]["outcome"]["curves"]["loss"];
    let steps: Vec<u64> = curve["at"].as_array().unwrap().iter().map(|step| step.as_u64().unwrap()).collect();
    assert_eq!(steps, (0..40).collect::<Vec<_>>(), "the curve has the steps of both attempts");
}

#[test]
fn a_program_that_ends_before_its_last_step_has_stopped_without_a_word() {
    let sandbox = sandbox("MODE: quiet, PACE: 12", "");
    let engine = at_step(&sandbox, 12);
    engine.signal(Signal::INT);
    assert_eq!(engine.wait().code, Some(130));
    assert!(sandbox.records().is_empty());
    assert!(stopped(&sandbox).contains("after a request to stop"), "{}", stopped(&sandbox));
}

#[test]
fn a_program_that_finishes_anyway_is_done() {
    let sandbox = sandbox("MODE: ends, PACE: 12", "");
    let engine = at_step(&sandbox, 12);
    engine.signal(Signal::INT);
    let ended = engine.wait();
    assert_eq!((ended.code, sandbox.tally()), (Some(130), vec![("done", 1)]), "{}", ended.stderr);
}

#[test]
fn a_program_that_reports_nothing_is_not_asked() {
    let recipe = "steps: { a: { uses: command, with: { run: 'touch $SWEEP_SCRATCH/began; while [ ! -e $SWEEP_SCRATCH/go ]; do sleep 0.02; done; test ! -e $SWEEP_STOP; echo x=1' } } }";
    let sandbox = Sandbox::with(recipe);
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    let scratch = || list(&sandbox.path("results/store/partial")).pop();
    until("the program runs", || scratch().is_some_and(|scratch| scratch.join("began").exists()));
    engine.signal(Signal::INT);
    until("the engine has heard it", || sandbox.events().iter().any(|(_, kind)| kind == "stopping"));
    fs_err::write(scratch().unwrap().join("go"), "").unwrap();
    let ended = engine.wait();
    assert_eq!((ended.code, sandbox.tally()), (Some(130), vec![("done", 1)]), "{}", ended.stderr);
}

#[test]
fn the_second_signal_does_not_wait_for_the_grace() {
    let sandbox = sandbox("MODE: hangs, PACE: 12", ", grace: 1h");
    let engine = at_step(&sandbox, 12);
    engine.signal(Signal::INT);
    until("the engine has heard it", || sandbox.events().iter().any(|(_, kind)| kind == "stopping"));
    engine.signal(Signal::INT);
    let ended = engine.wait();
    assert_eq!((ended.code, sandbox.tally()), (Some(130), vec![("stopped", 1)]), "{}", ended.stderr);
    assert!(stopped(&sandbox).contains("its checkpoint of step 9 is kept"), "{}", stopped(&sandbox));
    resumes_at(&sandbox, 10.0, 2.0);
}

#[test]
fn a_timeout_leaves_the_grace_and_the_retry_resumes() {
    let sandbox = sandbox("MODE: hangs, PACE: 12", ", timeout: 4s, grace: 500ms, retries: 1");
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let failure = sandbox.journal("retrying")[0]["event"]["retrying"]["failure"].clone();
    assert_eq!(failure["kind"], "timeout");
    assert!(failure["message"].as_str().unwrap().ends_with("its checkpoint of step 9 is kept"), "{failure}");
    assert_eq!((metric(&sandbox, "resumed"), metric(&sandbox, "attempts")), (10.0, 2.0));
    let lost = metric(&sandbox, "time.lost");
    assert!(lost > 1.0, "the time after the checkpoint: {lost}");
}

#[test]
fn a_program_that_hears_nothing_is_killed_after_the_grace() {
    let sandbox = sandbox("MODE: deaf, PACE: 12", ", timeout: 4s, grace: 200ms");
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(sandbox.failure("a")["kind"], "timeout");
    resumes_at(&sandbox, 10.0, 2.0);
}

#[test]
fn whatever_is_killed_resumes() {
    for whose in ["engine", "worker", "program"] {
        let sandbox = sandbox("MODE: hangs, PACE: 12", "");
        let engine = at_step(&sandbox, 12);
        // The reports are read ten times a second.
        until("the checkpoint is known", || {
            let jobs = list(&sandbox.path("results/store/partial"));
            let state = jobs.first().and_then(|job| std::fs::read_to_string(job.join(".sweep/attempts.json")).ok());
            state.is_some_and(|state| state.contains("ckpt-9"))
        });
        let worker = sandbox.workers()[0];
        let pid = match whose {
            "engine" => engine.pid(),
            "worker" => worker,
            _ => child_of(worker),
        };
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
        engine.wait();
        until("the worker is gone", || sandbox.workers().is_empty());
        resumes_at(&sandbox, 10.0, 2.0);
    }
}

fn child_of(parent: u32) -> u32 {
    let children = format!("/proc/{parent}/task/{parent}/children");
    let found = list(std::path::Path::new(&format!("/proc/{parent}/task"))).into_iter().find_map(|task| {
        let children = std::fs::read_to_string(task.join("children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    });
    found.unwrap_or_else(|| panic!("{children} has no child"))
}

#[test]
fn a_checkpoint_that_was_declared_just_before_the_kill_counts() {
    let sandbox = sandbox("MODE: hangs, PACE: 9", "");
    let engine = at_step(&sandbox, 9);
    // Between the step and the checkpoint a kill would leave nothing to resume from, and the program would hang again.
    until("the checkpoint is declared", || {
        let job = list(&sandbox.path("results/store/partial")).pop();
        let report = job.and_then(|job| std::fs::read_to_string(job.join(".sweep/report.jsonl")).ok());
        report.is_some_and(|report| report.contains("ckpt-9"))
    });
    // The worker may or may not have read of it.
    engine.signal(Signal::KILL);
    engine.wait();
    until("the worker is gone", || sandbox.workers().is_empty());
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(metric(&sandbox, "resumed"), 10.0);
}

#[test]
fn an_emptied_checkpoint_is_not_offered_and_the_one_before_it_is() {
    let sandbox = sandbox("MODE: hangs, PACE: 25", ", timeout: 4s, grace: 0s");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
    let job = list(&sandbox.path("results/store/partial")).pop().unwrap();
    fs_err::write(job.join("ckpt-19"), "").unwrap();
    resumes_at(&sandbox, 10.0, 2.0);
}

#[test]
fn a_checkpoint_elsewhere_is_refused() {
    let recipe = "steps: { a: { uses: command, with: { run: 'echo ''{\"step\": 1, \"x\": 1}'' > $SWEEP_REPORT; echo ''{\"checkpoint\": \"/etc/passwd\"}'' >> $SWEEP_REPORT; sleep 0.5; exit 1' } } }";
    let sandbox = Sandbox::with(recipe);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
    let notes: Vec<_> = sandbox.journal("note").iter().map(|line| line["event"]["note"]["text"].to_string()).collect();
    assert!(notes.iter().any(|note| note.contains("/etc/passwd")), "{notes:?}");
    let failure = sandbox.failure("a")["message"].to_string();
    assert!(!failure.contains("kept"), "{failure}");
}

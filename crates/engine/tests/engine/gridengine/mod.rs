//! Runs through a real Grid Engine, on loopback, by command templates.

pub(crate) mod cell;

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use rustix::process::Signal;

use self::cell::{alone, shared};
use crate::{
    forty::{Size, assert_as_locally, assert_once, recipe, states},
    messages::Transcript,
    sandbox::{Sandbox, until},
    slurm::starts,
};

const RUN: [&str; 4] = ["run", "sweep.yaml", "--poll", "0.2"];

/// A sandbox with a recipe, and a sweep file that runs it through Grid Engine.
fn sandbox(recipe: &str) -> Sandbox {
    with_settings(recipe, "preset: sge")
}

fn with_settings(recipe: &str, settings: &str) -> Sandbox {
    let sandbox = Sandbox::with(recipe);
    sandbox.write("sweep.yaml", &format!("recipe: recipe.yaml\nexecutor: {{ batch: {{ {settings} }} }}\n"));
    sandbox
}

#[test]
fn forty_jobs_end_as_they_do_on_one_machine() {
    let Some((cell, _quiet)) = shared() else { return };
    let sandbox = sandbox(&recipe(Size::Forty));
    let ended = cell.sweep(&sandbox, &RUN);
    assert_as_locally(&sandbox, Size::Forty, &ended);
    let starts = starts(&sandbox);
    assert_eq!((starts["again"], starts.get("after"), starts.values().sum::<usize>()), (2, None, 39), "{starts:?}");
    cell.until_nothing_is_left(&sandbox);
    // A run on this machine finds the results of the cluster, and vice versa, so that no job is left.
    let local = sandbox.sweep(&["run", "recipe.yaml", "--only", "c"]);
    assert_eq!(local.code, Some(0), "{}", local.stderr);
}

const SLOW: &str = "
steps:
  a: { uses: mock, matrix: { value: { range: [0, 10] } }, with: { seconds: 1.5 }, resources: { cpus: 1 } }
  b: { uses: mock, needs: a, with: { value: 1 } }
";

#[test]
fn a_killed_submitter_is_followed_by_one_that_takes_its_jobs_over() {
    let Some((cell, _quiet)) = shared() else { return };
    let sandbox = sandbox(SLOW);
    let first = cell.start_sweep(&sandbox, &RUN);
    until("a job is done", || !sandbox.records().is_empty());
    // By SIGKILL.
    drop(first);
    let status = cell.sweep(&sandbox, &["status", "--format", "json"]);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    // The templates of the run are known without its sweep file.
    assert_eq!(states(&status.stdout)["b"]["state"], "waiting", "{}", status.stdout);
    let second = cell.sweep(&sandbox, &RUN);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert!(second.stderr.contains("already in the queue"), "{}", second.stderr);
    assert_once(&sandbox, 11);
    cell.until_nothing_is_left(&sandbox);
}

#[test]
fn this_machine_takes_over_from_grid_engine() {
    let Some((cell, _quiet)) = shared() else { return };
    let sandbox = sandbox(SLOW);
    let first = cell.start_sweep(&sandbox, &RUN);
    until("a job is done", || !sandbox.records().is_empty());
    // By SIGKILL.
    drop(first);
    let second = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert_eq!(sandbox.records().len(), 11);
    let here = sandbox.journal("started").into_iter().map(|line| line["label"].as_str().unwrap().to_owned());
    let mut begun: Vec<String> = here.collect();
    let there = starts(&sandbox);
    // The journal of the first run repeats the journals of its jobs' processes.
    begun.retain(|label| !there.contains_key(label));
    assert_eq!(begun.len() + there.values().sum::<usize>(), 11, "here {begun:?}, there {there:?}");
    cell.until_nothing_is_left(&sandbox);
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn numbers_are_kept_where_the_system_shows_no_labels() {
    let Some((cell, _quiet)) = shared() else { return };
    // The plain output of `qstat`, whose names are cut. Here the engine submits a job when its needed jobs are done.
    let settings = "preset: sge, status: [qstat], \
        job: '(?m)^ *(?P<id>[0-9]+) +[0-9.]+ +\\S+ +\\S+ +(?P<state>[a-zA-Z]+) ', \
        submit: [qsub, -terse, -V, -N, x, [-o, '${output}'], -j, y, -S, /bin/sh, '${script}']";
    let sandbox = with_settings(SLOW, settings);
    let first = cell.start_sweep(&sandbox, &RUN);
    until("a job is done", || !sandbox.records().is_empty());
    assert!(
        !sandbox.events().iter().any(|(label, kind)| label == "b" && kind == "submitted"),
        "its needs are not done"
    );
    drop(first);
    let second = cell.sweep(&sandbox, &RUN);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert!(second.stderr.contains("already in the queue"), "{}", second.stderr);
    assert_once(&sandbox, 11);
}

const HANG: &str = "
steps:
  a: { uses: mock, matrix: { value: [1, 2] }, with: { end: hang }, resources: { cpus: 2 } }
  b: { uses: mock, needs: a, with: { value: 1 } }
";

#[test]
fn the_second_interrupt_cancels_what_runs() {
    let Some((cell, _quiet)) = shared() else { return };
    let sandbox = sandbox(HANG);
    let engine = cell.start_sweep(&sandbox, &RUN);
    until("a job runs", || sandbox.events().iter().any(|(_, kind)| kind == "started"));
    engine.signal(Signal::INT);
    until("what waits is canceled", || cell.jobs(&sandbox).iter().all(|(_, _, state)| !state.contains('q')));
    engine.signal(Signal::INT);
    let ended = engine.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("skipped", 3)], "{}", ended.stderr);
    cell.until_nothing_is_left(&sandbox);
}

#[test]
fn a_job_that_somebody_deletes_fails_and_one_that_is_lost_is_submitted_again() {
    let Some((cell, _quiet)) = shared() else { return };
    let sandbox = sandbox(
        "
steps:
  deleted: { uses: mock, with: { seconds: 60, seed: 1 } }
  lost: { uses: mock, with: { seconds: 8, seed: 2 } }
",
    );
    let engine = cell.start_sweep(&sandbox, &RUN);
    until("both run", || sandbox.events().iter().filter(|(_, kind)| kind == "started").count() == 2);
    let submitted = sandbox.journal("submitted");
    let id_of = |label: &str| {
        let line = submitted.iter().find(|line| line["label"] == label).unwrap();
        line["event"]["submitted"]["id"].to_string()
    };
    cell.ask("qdel", &[&id_of("deleted")]);
    cell.send(&format!("lose {}", id_of("lost")));
    let ended = engine.wait();
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 1), ("failed", 1)], "{}", ended.stderr);
    assert!(sandbox.failure("deleted")["message"].as_str().unwrap().contains("signal 9"), "{}", ended.stderr);
    let again = sandbox.journal("retrying");
    assert_eq!(again.iter().map(|line| &line["label"]).collect::<Vec<_>>(), ["lost"], "{}", ended.stderr);
    cell.until_nothing_is_left(&sandbox);
}

#[test]
fn a_limit_of_jobs_is_waited_for() {
    let Some((cell, _quiet)) = alone() else { return };
    cell.send("limit 3");
    let sandbox = sandbox("steps: { a: { uses: mock, matrix: { value: { range: [0, 8] } }, with: { seconds: 0.5 } } }");
    let ended = cell.sweep(&sandbox, &RUN);
    cell.send("limit 0");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("accepts no more jobs for now, the rest are submitted later"), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 8)]);
}

#[test]
fn a_master_that_does_not_answer_is_waited_for() {
    let Some((cell, _quiet)) = alone() else { return };
    let sandbox = Sandbox::with(SLOW);
    // As the system's own `qstat`, which hangs, but with an end that a test can wait for.
    sandbox.write("bin/status", "#!/bin/sh\ntest -e hangs && exec sleep 600\nexec qstat -xml\n");
    let script = sandbox.path("bin/status");
    fs_err::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = format!("preset: sge, answers-within: 1s, status: [{}]", script.display());
    sandbox.write("sweep.yaml", &format!("recipe: recipe.yaml\nexecutor: {{ batch: {{ {settings} }} }}\n"));
    let engine = cell.start_sweep(&sandbox, &RUN);
    until("a job is done", || !sandbox.records().is_empty());
    sandbox.write("hangs", "");
    until("it is said", || {
        sandbox.journal("notice").iter().any(|line| line.to_string().contains("does not respond within"))
    });
    fs_err::remove_file(sandbox.path("hangs")).unwrap();
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("Grid Engine answers again"), "{}", ended.stderr);
    assert_once(&sandbox, 11);
    // A master that is there and silent: nothing is lost, whatever its clients say of it.
    let sandbox = self::sandbox(SLOW);
    let engine = cell.start_sweep(&sandbox, &RUN);
    until("a job is done", || !sandbox.records().is_empty());
    cell.send("stop");
    std::thread::sleep(Duration::from_secs(2));
    cell.send("continue");
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_once(&sandbox, 11);
}

#[test]
fn pilots_share_the_jobs() {
    let Some((cell, _quiet)) = shared() else { return };
    let sandbox = sandbox(
        "
steps:
  a: { uses: mock, matrix: { value: { range: [0, 20] } }, with: { seconds: 0.05 }, resources: { cpus: 2 } }
  b: { uses: mock, needs: a, with: { value: 1 } }
  bad: { uses: mock, with: { end: fail } }
  after: { uses: mock, needs: bad, with: { seed: 1 } }
",
    );
    let ended = cell.sweep(&sandbox, &[&RUN[..], &["--pilot", "2"]].concat());
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", 21), ("failed", 1), ("skipped", 1)], "{}", ended.stderr);
    cell.until_nothing_is_left(&sandbox);
}

#[test]
fn resources_and_options_of_steps_reach_the_system() {
    let Some((cell, _quiet)) = shared() else { return };
    let sandbox = sandbox(
        "
steps:
  wide:
    uses: command
    with: { run: 'echo slots=$NSLOTS; echo threads=$OMP_NUM_THREADS; echo priority=$(qstat -j $JOB_ID | sed -n \"s/^priority: *//p\")' }
    resources: { cpus: 3, memory: 600MiB }
    timeout: 10m
",
    );
    sandbox.write(
        "sweep.yaml",
        "
recipe: recipe.yaml
executor:
  batch:
    preset: sge
    options: [-p, '-1']
    steps: { wide: { options: [-p, '-7'], time: 1h } }
",
    );
    let ended = cell.sweep(&sandbox, &RUN);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let record = &sandbox.records()["wide"];
    let metric = |name: &str| record["outcome"]["metrics"][name]["value"].as_f64().unwrap();
    assert_eq!((metric("slots"), metric("threads"), metric("priority")), (3.0, 3.0, -7.0));
    let id = sandbox.journal("submitted")[0]["event"]["submitted"]["id"].to_string();
    let mut accounted = String::new();
    until("it is in the accounting", || {
        accounted = cell.ask("qacct", &["-j", &id]);
        !accounted.is_empty()
    });
    assert!(accounted.contains("-l h_rt=3600,mem_free=200M -pe smp 3"), "{accounted}");
}

/// A command that answers nonsense must not end a job, or run anything.
#[test]
fn odd_answers_are_errors_with_a_sentence() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    let cases = [
        ("echo no job here", "in which there is no job", false),
        ("echo -rf; exit 0", "in which there is no job", false),
        ("echo 'this queue is closed' >&2; exit 1", "this queue is closed", true),
        ("kill -9 $$", "it failed without a message", true),
    ];
    for (submit, expected, refused) in cases {
        let text = format!(
            "recipe: recipe.yaml\nexecutor:\n  batch:\n    system: Odd\n    submit: [sh, -c, {submit:?}]\n    \
             id: '(?m)^(\\S*[0-9]+|-rf)$'\n    status: [sh, -c, 'cat queue 2>/dev/null; true']\n    \
             job: '(?m)^(?P<id>\\S+) (?P<state>\\w+)$'\n    states: {{ '.*': running }}\n    cancel: ['true']\n"
        );
        sandbox.write("sweep.yaml", &text);
        let engine = sandbox.start(&RUN);
        until(expected, || sandbox.journal("").iter().any(|line| line.to_string().contains(expected)));
        if refused {
            let ended = engine.wait();
            assert_eq!(ended.code, Some(5), "{}", ended.stderr);
        }
        fs_err::remove_dir_all(sandbox.path("results/runs")).unwrap();
    }
    assert!(sandbox.records().is_empty());
}

#[test]
fn templates_are_required_and_checked() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    let none = sandbox.sweep(&["run", "recipe.yaml", "--executor", "batch"]);
    assert_eq!(none.code, Some(2), "{}", none.stderr);
    let mut said = Transcript::default();
    said.add("no settings", &none.stderr);
    for settings in [
        "preset: sgee",
        "preset: sge, job: '(?P<id>[0-9]+'",
        "preset: sge, job: '(?P<id>[0-9]+)'",
        "preset: sge, states: { r: runing }",
        "preset: sge, submit: [qsub, '${memory}']",
        "preset: sge, cancel: qdel",
        "submit: [qsub]",
    ] {
        let sandbox = with_settings("steps: { a: { uses: mock } }", settings);
        let ended = sandbox.sweep(&["plan", "sweep.yaml"]);
        assert_eq!(ended.code, Some(3), "{settings}: {}", ended.stderr);
        said.add(settings, &ended.stderr);
    }
    assert_message!(said);
}

/// A preset names programs that are not on this machine.
#[test]
fn a_missing_program_is_said() {
    let sandbox = with_settings("steps: { a: { uses: mock } }", "preset: lsf");
    let ended = sandbox.sweep(&RUN);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("no `bsub` is on the PATH"), "{}", ended.stderr);
}

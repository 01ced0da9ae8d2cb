//! Files that are edited during a run: its jobs have them as they were when it began.

use fs_err as fs;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    projects::has_views,
    sandbox::{Running, Sandbox, until},
    tracking::run,
};

/// A project, and a folder outside of it for signs between its jobs and the test.
struct Project {
    sandbox: Sandbox,
    signs: TempDir,
}

/// A step of three jobs, one after the other, whose program waits for the sign `go` before its last import.
fn project(axis: &str) -> Project {
    let signs = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::with(&format!(
        "steps:
  a:
    uses: command
    matrix: {{ seed: [0, 1, 2]{axis} }}
    with: {{ argv: [python3, t.py], seed: '${{{{ matrix.seed }}}}' }}
tables:
  t: {{ from: a, rows: [seed], cells: [x, y] }}
claims:
  two: {{ says: x is near two, value: {{ metric: x, of: {{ step: a }} }}, expect: {{ at_least: 1, at_most: 3 }} }}
"
    ));
    sandbox.write(
        "t.py",
        &"import os, time
import lib
signs = 'SIGNS'
open(os.path.join(signs, str(len(os.listdir(signs)))), 'w').close()
while not os.path.exists(os.path.join(signs, 'go')):
    time.sleep(0.02)
import late
print('x=%g' % (lib.X + int(os.environ['SWEEP_SEED']) / 1000))
print('y=%d' % late.Y)
"
        .replace("SIGNS", signs.path().to_str().unwrap()),
    );
    sandbox.write("lib.py", "X = 2\n");
    sandbox.write("late.py", "Y = 3\n");
    Project { sandbox, signs }
}

impl Project {
    /// Starts a run of one job after the other, and waits until the first one has begun.
    fn start(&self) -> Running {
        let running = self.sandbox.start(&["run", "recipe.yaml", "-j", "1"]);
        until("the first job has begun", || self.signs.path().join("0").exists());
        running
    }

    fn go(&self) {
        fs::write(self.signs.path().join("go"), "").unwrap();
    }
}

/// The lines of the table, and the number of copies that are left.
fn shown(sandbox: &Sandbox) -> (Vec<String>, usize) {
    let report = sandbox.sweep(&["report", "recipe.yaml", "--format", "csv"]);
    let lines =
        report.stdout.lines().skip(1).map(|line| line.split(',').take(5).collect::<Vec<_>>().join(",")).collect();
    let copies = fs::read_dir(sandbox.path("results/code/moments"));
    (lines, copies.map_or(0, |copies| copies.flatten().filter(|entry| entry.path().is_dir()).count()))
}

#[test]
fn jobs_that_start_after_an_edit_have_the_files_of_the_beginning() {
    if !has_views() {
        return;
    }
    let project = project("");
    let sandbox = &project.sandbox;
    let running = project.start();
    sandbox.write("lib.py", "X = 50\n");
    project.go();
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let message =
        "`lib.py` changed during the run: 3 jobs ran with the version of the beginning, which tables and claims have";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
    let claims = sandbox.read("results/reports/recipe/claims.json");
    assert!(claims.contains("supported"), "{claims}");
    // They are results of the earlier version, which nothing asks for any more.
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (0, 3));
    sandbox.write("lib.py", "X = 2\n");
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (3, 0));
    sandbox.write("lib.py", "X = 50\n");
    run(sandbox);
    let (lines, copies) = shown(sandbox);
    assert!(
        lines.iter().filter(|line| line.contains(",x,")).all(|line| line.ends_with(",50") || line.contains("50")),
        "{lines:?}"
    );
    assert_eq!(copies, 0, "copies are removed with the end of a run");
}

#[test]
fn a_job_that_reads_an_edit_runs_again_with_the_file_of_the_beginning() {
    if !has_views() {
        return;
    }
    let project = project("");
    let sandbox = &project.sandbox;
    let running = project.start();
    sandbox.write("late.py", "Y = 70\n");
    project.go();
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let message = "files of its project were edited while it ran: it runs again";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("`late.py` changed during the run: 3 jobs ran with the version of the beginning"),
        "{}",
        ended.stderr
    );
    sandbox.write("late.py", "Y = 3\n");
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (3, 0));
    assert!(shown(sandbox).0.iter().all(|line| !line.contains("70")));
}

#[test]
fn files_that_are_removed_or_replaced_during_a_run_are_there_for_its_jobs() {
    if !has_views() {
        return;
    }
    let project = project("");
    let sandbox = &project.sandbox;
    fs::remove_file(sandbox.path("lib.py")).unwrap();
    sandbox.write("first.py", "X = 2\n");
    std::os::unix::fs::symlink("first.py", sandbox.path("lib.py")).unwrap();
    let running = project.start();
    sandbox.write("second.py", "X = 9\n");
    fs::remove_file(sandbox.path("lib.py")).unwrap();
    std::os::unix::fs::symlink("second.py", sandbox.path("lib.py")).unwrap();
    fs::remove_file(sandbox.path("late.py")).unwrap();
    fs::create_dir(sandbox.path("late.py")).unwrap();
    project.go();
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("3 jobs ran with the version of the beginning"), "{}", ended.stderr);
    let claims = sandbox.read("results/reports/recipe/claims.json");
    assert!(claims.contains("supported"), "{claims}");
}

#[test]
fn variants_lie_over_the_files_of_the_beginning() {
    if !has_views() {
        return;
    }
    let project = project(", code: [., { files: { late.py: other.py } }]");
    let sandbox = &project.sandbox;
    sandbox.write("other.py", "Y = 4\n");
    let running = project.start();
    sandbox.write("lib.py", "X = 50\n");
    sandbox.write("late.py", "Y = 70\n");
    project.go();
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("6 jobs ran with the version of the beginning"), "{}", ended.stderr);
    for (path, text) in [("lib.py", "X = 2\n"), ("late.py", "Y = 3\n")] {
        sandbox.write(path, text);
    }
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (6, 0));
    let measured = |label: &str| sandbox.records()[label]["outcome"]["metrics"]["y"]["value"].as_f64();
    assert_eq!((measured("a/seed=1,code=."), measured("a/seed=1,code=other")), (Some(3.0), Some(4.0)));
}

#[test]
fn files_that_a_job_writes_are_as_it_has_left_them() {
    if !has_views() {
        return;
    }
    // The first step has no view of the project, so the files that it writes are in the project, whether it was
    // observed or not.
    for tracks in ["code", "declared"] {
        let sandbox = Sandbox::with(&format!(
            "steps:
  prep: {{ uses: command, with: {{ argv: [python3, prep.py], inputs: [prep.py], tracks: {tracks} }} }}
  train: {{ needs: [prep], uses: command, with: {{ argv: [python3, t.py] }} }}
"
        ));
        let data = sandbox.path("data.txt");
        sandbox.write("prep.py", &format!("open('{}', 'w').write('5')\nprint('n=1')\n", data.display()));
        sandbox.write("t.py", "print('x=%d' % int(open('data.txt').read()))\n");
        sandbox.write("data.txt", "1");
        run(&sandbox);
        assert_eq!(sandbox.records()["train"]["outcome"]["metrics"]["x"]["value"], 5.0, "{tracks}");
    }
}

#[test]
fn copies_of_a_run_that_was_killed_are_removed_by_the_next() {
    let project = project("");
    let sandbox = &project.sandbox;
    let running = project.start();
    assert_eq!(shown(sandbox).1, 1);
    running.signal(Signal::KILL);
    assert_eq!(running.code(), None);
    project.go();
    assert_eq!(shown(sandbox).1, 1);
    run(sandbox);
    assert_eq!(shown(sandbox).1, 0);
}

#[test]
fn data_that_became_a_link_is_not_touched() {
    let sandbox = Sandbox::with("steps: { a: { uses: command, with: { argv: [python3, t.py] } } }");
    sandbox.write("t.py", "print('x=%d' % int(open('data/n').read()))\n");
    sandbox.write("data/n", "1");
    run(&sandbox);
    // The record names `data/n`, and `data` is a link now.
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(sandbox.path("data/n"), elsewhere.path().join("n")).unwrap();
    fs::remove_dir(sandbox.path("data")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), sandbox.path("data")).unwrap();
    let stamp = || fs::metadata(elsewhere.path().join("n")).unwrap().modified().unwrap();
    let before = stamp();
    sandbox.write("t.py", "print('x=%d' % (1 + int(open('data/n').read())))\n");
    run(&sandbox);
    assert_eq!(stamp(), before, "the file is not written");
}

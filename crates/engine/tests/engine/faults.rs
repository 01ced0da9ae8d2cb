//! The engine killed, or out of disk, before each of its writes in turn; workers that break; many sweeps on one store.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use serde_json::Value;

use crate::{
    messages::sorted,
    sandbox::{Sandbox, list, until},
};

const RECIPE: &str = "
steps:
  a: { uses: mock, with: { value: 1.25 }, retries: 1 }
  b: { uses: command, needs: a, with: { run: 'echo kept > out.txt; echo score=3', outputs: [out.txt] } }
tables: { t: { from: b, cells: [score] } }
";

/// Records without the fields that differ between two runs.
fn results(sandbox: &Sandbox) -> BTreeMap<String, Value> {
    let mut records = sandbox.records();
    for record in records.values_mut() {
        let record = record.as_object_mut().unwrap();
        record.remove("provenance");
        record.remove("digest");
        record["outcome"]["metrics"].as_object_mut().unwrap().remove("time.run");
    }
    records
}

/// A run that is to break in this way.
fn run(sandbox: &Sandbox, fault: &str) -> std::process::Output {
    sandbox.command(&["run", "recipe.yaml"]).env("SWEEP_FAILPOINTS", fault).output().unwrap()
}

/// The names of all points that an undisturbed run reaches, and its records.
fn undisturbed() -> (Vec<String>, BTreeMap<String, Value>) {
    let sandbox = Sandbox::with(RECIPE);
    let ended = run(&sandbox, &format!("trace={}", sandbox.path("trace").display()));
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    (sandbox.read("trace").lines().map(str::to_owned).collect(), results(&sandbox))
}

/// True if the program under test has fail points.
fn can_break() -> bool {
    if !cfg!(debug_assertions) {
        eprintln!("not run: a release build cannot be made to break");
    }
    cfg!(debug_assertions)
}

/// The fault that kills the engine at the point `index` of `trace`, by name: the number of the points that other threads
/// pass before it differs from run to run.
pub(crate) fn kill_at(trace: &[impl AsRef<str>], index: usize) -> String {
    let name = trace[index].as_ref();
    let count = trace[..=index].iter().filter(|point| point.as_ref().starts_with(name)).count();
    format!("kill={count}@{name}")
}

/// Does something with each number, on two threads.
fn each(numbers: std::ops::RangeInclusive<usize>, check: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for half in 0..2 {
            let (numbers, check) = (numbers.clone(), &check);
            scope.spawn(move || numbers.filter(|number| number % 2 == half).for_each(check));
        }
    });
}

/// Runs the interrupted study again and compares its records with the records of an undisturbed run.
fn recovers(sandbox: &Sandbox, expected: &BTreeMap<String, Value>, point: &str) {
    until("no worker is left", || sandbox.workers().is_empty());
    // Reading them proves that each is whole.
    let done = sandbox.records();
    let status = sandbox.sweep(&["status"]);
    assert!(!status.stderr.contains("panicked"), "{point}: {}", status.stderr);
    let runs: BTreeSet<PathBuf> = list(&sandbox.path("results/runs")).into_iter().collect();
    let again = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(again.code, Some(0), "{point}: {}", again.stderr);
    assert_eq!(&results(sandbox), expected, "{point}");
    for (label, record) in &done {
        assert_eq!(&sandbox.records()[label], record, "{point}: {label} was done, and is another record now");
    }
    for run in list(&sandbox.path("results/runs")).into_iter().filter(|run| !runs.contains(run)) {
        let journal = fs_err::read_to_string(run.join("journal.jsonl")).unwrap();
        for line in journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            let label = line["label"].as_str().unwrap_or_default();
            assert!(line["event"]["started"].is_null() || !done.contains_key(label), "{point}: {label} ran twice");
        }
    }
    assert!(list(&sandbox.path("results/store/staging")).is_empty(), "{point}");
    let verified = sandbox.sweep(&["cache", "verify"]);
    assert_eq!(verified.code, Some(0), "{point}: {}", verified.stdout);
}

#[test]
fn killed_at_every_write_the_engine_loses_nothing_and_repeats_nothing() {
    if !can_break() {
        return;
    }
    let (points, expected) = undisturbed();
    let names: BTreeSet<&String> = points.iter().collect();
    assert!(names.len() >= 25, "{} different points: {names:?}", names.len());
    each(1..=points.len(), |at| {
        let sandbox = Sandbox::with(RECIPE);
        let killed = run(&sandbox, &format!("kill@{at}"));
        assert_eq!(killed.status.code(), None, "point {at}, {}, was not reached", points[at - 1]);
        recovers(&sandbox, &expected, &points[at - 1]);
    });
}

#[test]
fn a_disk_that_fills_at_any_write_is_one_message_and_a_whole_store() {
    if !can_break() {
        return;
    }
    let (points, expected) = undisturbed();
    each(1..=points.len(), |at| {
        let sandbox = Sandbox::with(RECIPE);
        let ended = run(&sandbox, &format!("full@{at}"));
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        let point = &points[at - 1];
        assert!(!stderr.contains("panicked"), "{point}: {stderr}");
        let said = stderr.lines().filter(|line| line.starts_with("error: ") || line.starts_with("warning: ")).count();
        assert_eq!(said, 1, "{point}: {stderr}");
        // Only a journal may be incomplete without a failure: the records are complete without it.
        let warned = stderr.lines().any(|line| line.starts_with("warning: "));
        assert_eq!(ended.status.code(), Some(i32::from(!warned)), "{point}: {stderr}");
        assert!(!warned || point.starts_with("journal: "), "{point}: {stderr}");
        recovers(&sandbox, &expected, point);
    });
}

/// A separate file system, which is removed on drop.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, size: &str) -> Option<Self> {
        fs_err::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "sweep-test"]).arg(at);
        if mount.output().is_ok_and(|ended| ended.status.success()) {
            return Some(Self(at.to_owned()));
        }
        eprintln!("not run: this process may not mount a small disk");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn a_disk_that_is_really_full() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock }, b: { uses: mock, needs: a, with: { value: 2 } } }");
    let Some(_disk) = Disk::mount(&sandbox.path("results"), "800k") else { return };
    let filler = sandbox.path("results/filler");
    let mut size = 800 << 10;
    while std::fs::write(&filler, vec![1; size]).is_err() {
        size -= 4096;
    }
    let full = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(full.code, Some(1), "{}", full.stderr);
    assert_eq!(full.stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{}", full.stderr);
    let error = full.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert_message!(error, "failed to .*: No space" => "[what failed]: No space");
    fs_err::remove_file(filler).unwrap();
    let again = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!((again.code, sandbox.records().len()), (Some(0), 2), "{}", again.stderr);
}

#[test]
fn a_folder_that_nobody_may_write_to() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }\ntables: { t: { from: a, cells: [value] } }");
    let Some(disk) = Disk::mount(&sandbox.path("results"), "1m") else { return };
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let remount = |how: &str| {
        let mounted = Command::new("mount").args(["-o", how]).arg(&disk.0).output().unwrap();
        assert!(mounted.status.success(), "{mounted:?}");
    };
    remount("remount,ro");
    let cached = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(cached.code, Some(0), "what is done can be read: {}", cached.stderr);
    let report = sandbox.sweep(&["report", "recipe.yaml"]);
    assert!(report.code == Some(0) && report.stdout.contains("value"), "{report:?}");
    assert_eq!(cached.stdout.trim(), report.stdout.trim(), "the same tables");
    assert_message!(cached.stderr);
    sandbox.write("other.yaml", "steps: { b: { uses: mock, with: { value: 2 } } }");
    let refused = sandbox.sweep(&["run", "other.yaml"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert_message!(refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    remount("remount,rw");
}

#[test]
fn a_folder_of_somebody_else() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    fs_err::create_dir(sandbox.path("results")).unwrap();
    let mode = |name: &str, mode| {
        fs_err::set_permissions(sandbox.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(".", 0o755);
    mode("results", 0o555);
    // Other users may have no access to the folder of the built program. A separate process copies it, because a child of another test
    // could inherit a file that is open for writing here, and then the file could not be started.
    let program = sandbox.path("sweep");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_sweep-engine")).arg(&program).status().unwrap().success());
    let mut command = Command::new(program);
    command
        .args(["run", "recipe.yaml"])
        .current_dir(sandbox.path("."))
        .env("NO_COLOR", "1")
        .env_remove("SWEEP_RESULTS");
    if rustix::process::geteuid().is_root() {
        // Whoever may do everything is not refused anything.
        command.uid(65_534).gid(65_534);
    }
    let refused = command.output().unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert_message!(stderr);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    mode("results", 0o755);
}

#[test]
fn without_more_processes_there_is_one_sentence() {
    let steps = "{ uses: mock, matrix: { value: [1, 2, 3] }, resources: { cpus: 1 } }";
    for most in 1..=6 {
        let sandbox =
            Sandbox::with(&format!("steps: {{ a: {steps} }}\ntables: {{ t: {{ from: a, cells: [value] }} }}"));
        let program = sandbox.path("sweep");
        assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_sweep-engine")).arg(&program).status().unwrap().success());
        let everyone = std::fs::Permissions::from_mode(0o777);
        fs_err::set_permissions(sandbox.path("."), everyone).unwrap();
        let mut limited = Command::new("prlimit");
        limited
            .arg(format!("--nproc={most}"))
            .args(["./sweep", "run", "recipe.yaml"])
            .current_dir(sandbox.path("."))
            .env("NO_COLOR", "1")
            .env_remove("SWEEP_RESULTS");
        if rustix::process::geteuid().is_root() {
            // Who may do everything may start everything; and the processes of a user who has no others are counted.
            let user = 1_000_000 + std::process::id();
            limited.uid(user).gid(user);
        }
        let ended = limited.output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert!(!stderr.contains("panicked"), "{most}: {stderr}");
        let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        match ended.status.code() {
            Some(0) => assert_eq!(sandbox.records().len(), 3, "{most}: {stderr}"),
            Some(1) => assert!(errors.len() == 1 && errors[0].contains("`ulimit -u`"), "{most}: {stderr}"),
            code => panic!("{most}: {code:?}: {stderr}"),
        }
        assert!(most > 1 || ended.status.code() == Some(1), "{stderr}");
    }
}

#[test]
fn a_worker_may_end_in_any_way() {
    let ends = ["kill", "segfault", "panic", "silent"];
    let recipe = format!(
        "steps: {{ ends: {{ uses: mock, matrix: {{ end: [{}, garbage] }} }}, last: {{ uses: mock }} }}",
        ends.join(", ")
    );
    let sandbox = Sandbox::with(&recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    for end in ends {
        assert_eq!(sandbox.failure(&format!("ends/end={end}"))["kind"], "crash", "{end}");
    }
    assert_message!(sorted(&ended.stderr));
    let done: Vec<String> = sandbox.records().into_keys().collect();
    assert_eq!(done, ["ends/end=garbage", "last"], "100 MB that are no message do no harm");
    assert!(sandbox.workers().is_empty());
}

#[test]
fn a_clock_that_jumps_changes_names_only() {
    if !can_break() {
        return;
    }
    let sandbox = Sandbox::with(
        "params: { n: 1 }\nsteps: { a: { uses: mock, with: { value: '${{ params.n }}' }, timeout: 1h } }",
    );
    for (n, jump) in [("1", "86400"), ("2", "-86400"), ("3", "0"), ("3", "-31536000")] {
        let mut command = sandbox.command(&["run", "recipe.yaml", "--set", &format!("n={n}")]);
        let ended = command.env("SWEEP_CLOCK", jump).output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
        let status = sandbox.command(&["status"]).env("SWEEP_CLOCK", jump).output().unwrap();
        assert_eq!(status.status.code(), Some(0));
    }
    assert_eq!(sandbox.starts()["a"], 3, "the last one was cached, whatever the year");
    let explained = sandbox.sweep(&["explain", "recipe.yaml", "a"]);
    assert_eq!(explained.code, Some(0), "{}", explained.stderr);
}

#[test]
fn a_long_run_leaks_neither_files_nor_processes() {
    let recipe = "
steps:
  many: { uses: mock, matrix: { value: { range: [0, 150] } }, resources: { cpus: 1 } }
  hang: { uses: mock, needs: many, with: { end: hang } }
";
    let sandbox = Sandbox::with(recipe);
    let engine = sandbox.start(&["run", "recipe.yaml", "--jobs", "4"]);
    until("all but the last are done", || {
        sandbox.events().iter().any(|(job, kind)| job == "hang" && kind == "started")
    });
    let process = PathBuf::from(format!("/proc/{}", engine.pid()));
    let files = list(&process.join("fd")).len();
    assert!(files < 30, "{files} open files with one job running");
    let threads = list(&process.join("task")).len();
    assert!(threads < 10, "{threads} threads with one job running");
    let children = std::fs::read_to_string(process.join(format!("task/{}/children", engine.pid()))).unwrap();
    assert_eq!(children.split_whitespace().count(), 1, "only the last worker: {children}");
}

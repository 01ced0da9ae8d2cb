//! What a job costs beyond its work: mock jobs through real worker processes, beside ninja and GNU make running `true`.
//!
//! ```text
//! cargo bench --no-default-features --bench run
//! ```
//!
//! `process` is what starting and ending as many bare workers takes (`sweep worker` without a job, as many at once as the
//! engine has cores for); `overhead` is what a job costs on top of that: its lock, the order and the messages, the record
//! with its digests, five syncs to the disk, the journal. ninja and make are left out where they are not installed.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

fn main() {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("{cores} jobs at once; per job");
    println!("{:>8} {:>12} {:>12} {:>12} {:>12} {:>12}", "jobs", "sweep run", "process", "overhead", "ninja", "make");
    for jobs in [100, 1_000, 10_000] {
        let folder = tempfile::tempdir().unwrap();
        let recipe = format!(
            "name: scale\nsteps:\n  a:\n    uses: mock\n    matrix: {{ value: {{ range: [0, {}] }}, seed: {{ range: [0, 100] }} }}\n    resources: {{ cpus: 1 }}\n",
            jobs / 100
        );
        fs::write(folder.path().join("recipe.yaml"), recipe).unwrap();
        build_files(folder.path(), jobs);
        let sweep = env!("CARGO_BIN_EXE_sweep");
        let run = time(Command::new(sweep).args(["run", "recipe.yaml"]).current_dir(folder.path())).unwrap();
        let process = processes(sweep, jobs, cores);
        let at_once = cores.to_string();
        let ninja = time(Command::new("ninja").args(["-j", &at_once]).current_dir(folder.path()));
        let make = time(Command::new("make").args(["-s", "-j", &at_once]).current_dir(folder.path()));
        let each = |time: Option<Duration>| match time {
            Some(time) => format!("{:.2} ms", time.as_secs_f64() * 1e3 / jobs as f64),
            None => "–".to_owned(),
        };
        println!(
            "{jobs:>8} {:>12} {:>12} {:>12} {:>12} {:>12}",
            each(Some(run)),
            each(Some(process)),
            each(Some(run.saturating_sub(process))),
            each(ninja),
            each(make),
        );
    }
}

/// How long a program takes; `None` if it is not installed.
fn time(command: &mut Command) -> Option<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let status = command.status().ok()?;
    assert!(status.success(), "{command:?} failed");
    Some(begun.elapsed())
}

/// How long as many bare workers take, so many at once.
fn processes(sweep: &str, count: usize, at_once: usize) -> Duration {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    let mut worker = Command::new(sweep);
                    worker.args(["worker", "--engine", &std::process::id().to_string()]);
                    worker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                    worker.status().unwrap();
                }
            });
        }
    });
    begun.elapsed()
}

/// As many targets for ninja and for make, each of which runs `true`.
fn build_files(folder: &Path, targets: usize) {
    let mut ninja = "rule true\n  command = true\n".to_owned();
    let mut make = ".PHONY: all\n".to_owned();
    let mut all = "all:".to_owned();
    for target in 0..targets {
        writeln!(ninja, "build t{target}: true").unwrap();
        // The path keeps make from answering `true` without a process.
        writeln!(make, "t{target}:\n\t@/bin/true").unwrap();
        write!(all, " t{target}").unwrap();
    }
    fs::write(folder.join("build.ninja"), ninja).unwrap();
    fs::write(folder.join("Makefile"), format!("{all}\n{make}")).unwrap();
}

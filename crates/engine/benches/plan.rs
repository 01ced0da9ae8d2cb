//! Time of `sweep plan` and of a `sweep run` with nothing to do, compared with ninja's dry run of as many targets.
//!
//! ```text
//! cargo bench -p sweep-engine --bench plan
//! ```
//!
//! Every number is the best of several runs of the whole program, including process start. ninja is skipped if it is
//! not installed (Debian: `ninja-build`).

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

mod common;

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use common::finish_all;
use sweep_job::{Outcome, tasks::Mock};

const RUNS: usize = 5;

fn main() {
    println!("{:>8} {:>12} {:>12} {:>12} {:>12} {:>8}", "jobs", "plan", "memory", "no-op run", "ninja -n", "ratio");
    for jobs in [1_000, 10_000, 100_000] {
        let folder = tempfile::tempdir().unwrap();
        let recipe = format!(
            "name: scale\nsteps:\n  a:\n    uses: mock\n    matrix: {{ value: {{ range: [0, {}] }}, seed: {{ range: [0, 100] }} }}\n",
            jobs / 100
        );
        fs::write(folder.path().join("recipe.yaml"), &recipe).unwrap();
        let mut outcome = Outcome::default();
        outcome.set(&Mock::VALUE, 1.0);
        finish_all(folder.path(), recipe, |_| outcome.clone());
        ninja_file(folder.path(), jobs);
        let sweep = env!("CARGO_BIN_EXE_sweep-engine");
        let (plan, memory) = best(Command::new(sweep).args(["plan", "recipe.yaml"]).current_dir(folder.path()));
        let (run, _) = best(Command::new(sweep).args(["run", "recipe.yaml"]).current_dir(folder.path()));
        let mut ninja = Command::new("ninja");
        ninja.arg("-n").current_dir(folder.path());
        let ninja = Command::new("ninja").arg("--version").output().ok().map(|_| best(&mut ninja).0);
        let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        let ratio = ninja.map_or("–".to_owned(), |ninja| format!("{:.2}", plan.as_secs_f64() / ninja.as_secs_f64()));
        println!(
            "{jobs:>8} {:>12} {:>12} {:>12} {:>12} {ratio:>8}",
            milliseconds(plan),
            format!("{:.0} MiB", memory as f64 / 1024.0),
            milliseconds(run),
            ninja.map_or("–".to_owned(), milliseconds),
        );
    }
}

/// As many targets that are up to date.
fn ninja_file(folder: &Path, targets: usize) {
    fs::create_dir_all(folder.join("out")).unwrap();
    let mut text = "rule touch\n  command = touch $out\n".to_owned();
    for target in 0..targets {
        writeln!(text, "build out/{target}: touch").unwrap();
        fs::write(folder.join("out").join(target.to_string()), "").unwrap();
    }
    fs::write(folder.join("build.ninja"), text).unwrap();
    // Ninja treats the targets as built only if its log lists them.
    if Command::new("ninja").arg("--version").output().is_ok() {
        let status = Command::new("ninja").args(["-t", "restat"]).current_dir(folder).stdout(Stdio::null()).status();
        assert!(status.unwrap().success());
    }
}

/// The shortest time of several runs, and the largest resident memory seen in KiB.
fn best(command: &mut Command) -> (Duration, u64) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut memory = 0;
    let time = (0..RUNS).map(|_| {
        let begun = Instant::now();
        let mut child = command.spawn().unwrap();
        let status = format!("/proc/{}/status", child.id());
        while child.try_wait().unwrap().is_none() {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            memory = memory.max(line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0));
            std::thread::sleep(Duration::from_micros(200));
        }
        begun.elapsed()
    });
    (time.min().unwrap(), memory)
}

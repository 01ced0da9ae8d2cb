//! Cost of following the report of a program: processor time of the worker, as a share of a core.
//!
//! ```text
//! cargo bench -p sweep-engine --bench reports [-- SECONDS]
//! ```
//!
//! A program writes a given number of lines per second, one at a time, each with four values. `report` writes them to
//! `SWEEP_REPORT`, `elsewhere` to a file that nobody follows; both do the same otherwise. The processor time is that of
//! the worker's own threads, read from `/proc`; `reports` is the thread that follows. The difference of both rows is the
//! cost of following.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const PROGRAM: &str = r#"
import os, sys, time
rate, seconds, path = int(sys.argv[1]), float(sys.argv[2]), os.environ[sys.argv[3]]
out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
begun, step = time.monotonic(), 0
while True:
    now = time.monotonic() - begun
    if now >= seconds: break
    while step < now * rate:
        step += 1
        os.write(out, b'{"step":%d,"loss":%.6f,"lr":0.001,"grad_norm":%.5f,"tokens_per_s":12345.6}\n' % (step, 4 / (1 + step / 500), step % 7))
    time.sleep(0.001)
"#;

fn main() {
    let seconds: f64 = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(10.0);
    println!("{:>9} {:>10} {:>14} {:>16}", "lines/s", "file", "worker", "thread `reports`");
    for rate in [100, 1_000, 10_000, 50_000] {
        for (name, variable) in [("elsewhere", "ELSEWHERE"), ("report", "SWEEP_REPORT")] {
            let (all, reports) = measured(rate, seconds, variable);
            let share = |used: f64| format!("{:.3} %", 100.0 * used / seconds);
            println!("{rate:>9} {name:>10} {:>14} {:>16}", share(all), share(reports));
        }
    }
}

/// Seconds of processor time of the worker's threads, and of the thread that follows.
fn measured(rate: u32, seconds: f64, variable: &str) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("program.py", PROGRAM);
    write(
        "recipe.yaml",
        &format!(
            "steps:\n  job:\n    uses: command\n    with:\n      argv: [python3, -S, program.py, {rate}, {seconds}, {variable}]\n      \
             inputs: [program.py]\n      env: {{ ELSEWHERE: other.jsonl }}\n"
        ),
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_sweep-engine"));
    command.args(["run", "recipe.yaml"]).current_dir(folder.path()).env("SWEEP_LOCKS", folder.path());
    let mut engine = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let mut used = (0.0, 0.0);
    while engine.try_wait().unwrap().is_none() {
        // The last reading before the program's end counts.
        if begun.elapsed().as_secs_f64() < seconds
            && let Some(worker) = worker(engine.id())
        {
            used = threads(&worker);
        }
        thread::sleep(Duration::from_millis(50));
    }
    used
}

/// The worker of an engine.
fn worker(engine: u32) -> Option<PathBuf> {
    fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path()).find(|path| {
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parent == Some(engine)
    })
}

/// Seconds of processor time of the threads of a process, and of those named `reports`.
fn threads(process: &Path) -> (f64, f64) {
    let (mut all, mut reports) = (0.0, 0.0);
    for thread in fs::read_dir(process.join("task")).into_iter().flatten().filter_map(Result::ok) {
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let used = read("schedstat").split(' ').next().and_then(|time| time.parse::<f64>().ok()).unwrap_or(0.0) * 1e-9;
        all += used;
        if read("comm").trim() == "reports" {
            reports += used;
        }
    }
    (all, reports)
}

//! Time of `sweep query` and `sweep report` over many records, compared with reading the records' files once.
//!
//! ```text
//! cargo bench -p sweep-engine --bench results
//! ```
//!
//! Every number is the best of several runs of the whole program, including process start. The records are those of a
//! training: all its metrics, and two curves of a hundred points.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

mod common;

use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use common::finish_all;
use sweep_job::{Curve, Outcome, Task, Unit};

const RUNS: usize = 5;
const JOBS: usize = 10_000;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = format!(
        "name: scale\nsteps:\n  train:\n    uses: train\n    matrix: {{ lr: {{ linspace: [1e-4, 1e-2, {}] }}, prune: [none, magnitude] }}\n    seeds: 5\n\
         tables:\n  quality: {{ from: train, rows: [lr], columns: [prune], cells: [loss, perplexity, time.step, memory.peak] }}\n\
         figures:\n  trade: {{ from: train, kind: scatter, x: time.step, y: loss, color: prune }}\n\
         claims:\n  same:\n    ratio: {{ metric: loss, of: {{ step: train, prune: none }}, to: {{ step: train, prune: magnitude }} }}\n    expect: {{ at_most: 1.1 }}\n",
        JOBS / 10
    );
    fs::write(folder.path().join("recipe.yaml"), &recipe).unwrap();
    let files = finish_all(folder.path(), recipe, outcome);
    assert_eq!(files.len(), JOBS);
    let floor = (0..RUNS).map(|_| {
        let begun = Instant::now();
        let bytes: usize = files.iter().map(|file| fs::read(file).unwrap().len()).sum();
        assert!(bytes > 0);
        begun.elapsed()
    });
    let floor = floor.min().unwrap();
    println!("{JOBS} records; reading their files once takes {:.0} ms", floor.as_secs_f64() * 1e3);
    println!("{:<44} {:>10} {:>10}", "command", "time", "ratio");
    let commands: [&[&str]; 6] = [
        &["query", "--format", "csv"],
        &["query", "recipe.yaml", "--backend", "cpu", "--where", "loss < 2.5", "--sort", "loss", "--limit", "20"],
        &["query", "--format", "json"],
        &["query", "--format", "parquet"],
        &["report", "recipe.yaml", "--backend", "cpu"],
        &["report", "recipe.yaml", "--backend", "cpu", "--format", "csv"],
    ];
    for args in commands {
        let time = best(Command::new(env!("CARGO_BIN_EXE_sweep-engine")).args(args).current_dir(folder.path()));
        let ratio = time.as_secs_f64() / floor.as_secs_f64();
        println!("{:<44.44} {:>7.0} ms {ratio:>10.2}", args.join(" "), time.as_secs_f64() * 1e3);
    }
    let page = fs::metadata(folder.path().join("results/reports/scale/index.html")).unwrap().len();
    println!("the page has {:.1} MB", page as f64 / 1e6);
}

/// Outcome of a training.
fn outcome(index: usize) -> Outcome {
    let mut outcome = Outcome::default();
    let noise = (index * 7919 % 1000) as f64 / 1000.0;
    for (place, metric) in Task::info("train").unwrap().metrics().enumerate() {
        outcome.set(metric, 2.0 + noise + place as f64);
    }
    for name in ["loss", "lr"] {
        let at: Vec<u64> = (1..=100).collect();
        let values = at.iter().map(|at| 2.0 + noise / *at as f64).collect();
        outcome.curves.insert(name.into(), Curve { unit: Unit::Nats, at, values });
    }
    outcome
}

/// The shortest time of several runs, without the first run, which writes the derived files.
fn best(command: &mut Command) -> Duration {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().unwrap().success());
    let time = (0..RUNS).map(|_| {
        let begun = Instant::now();
        assert!(command.status().unwrap().success());
        begun.elapsed()
    });
    time.min().unwrap()
}

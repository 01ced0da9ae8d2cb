//! Thresholds and masks on the CPU: ours, PyTorch's and NumPy's, and a pass over the same bytes that computes nothing.
//!
//! ```text
//! cargo bench -p sweep-lab --no-default-features --bench select [WIDTH]
//! ```
//!
//! The workload is paper 001's: twelve square layers, 1024 wide (12.58 million weights) and 2048 (50.33 million), of which
//! half go by `bitter7`. Ours is exact; PyTorch's updates sample. Peers take part where `TORCH_PYTHON`, or else `python3`,
//! can import them. Measure on a quiet machine. `SWEEP_BENCH_CALLS` gives the timed calls of a row (9).

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

use std::{env, fs, path::Path, process::Command, time::Instant};

use rand_distr::{Distribution as _, Normal};
use rayon::prelude::*;
use sweep_job::tasks::{Prune, PruneMethod};
use sweep_lab::{
    rng,
    selection::{Formula, Found, Goal, Layer, Mask, NotANumber, bracket, by_bins, radix, stream},
};

const LAYERS: usize = 12;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", width] => measure(width.parse().unwrap()),
        [width] => compare(width.parse().unwrap()),
        _ => [1024, 2048].into_iter().for_each(compare),
    }
}

/// What was measured.
struct Row {
    name: String,
    /// Median and least milliseconds.
    median: f64,
    least: f64,
    /// By how many MB the first call raised resident memory.
    raised: f64,
}

/// Ours and the peers', each in a process of its own, one after the other.
fn compare(width: usize) {
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/peers/select.py");
    let python = env::var("TORCH_PYTHON").unwrap_or_else(|_| "python3".into());
    let has = |module: &str| {
        let found = Command::new(&python).args(["-c", &format!("import {module}")]).output();
        found.is_ok_and(|output| output.status.success())
    };
    let weights = LAYERS * width * width;
    println!(
        "\n{:.2} million weights, bitter7, half of them go; {} threads, load {}",
        weights as f64 / 1e6,
        std::thread::available_parallelism().map_or(1, usize::from),
        fs::read_to_string("/proc/loadavg").map_or_else(|_| "?".into(), |load| load[..4].to_owned()),
    );
    let mut rows = run(Command::new(env::current_exe().unwrap()).args(["measure", &width.to_string()]));
    if has("numpy") {
        if !has("torch") {
            println!("PyTorch is not measured: `{python}` cannot import torch (set TORCH_PYTHON)");
        }
        let sizes = [width.to_string(), LAYERS.to_string(), calls().to_string()];
        rows.extend(run(Command::new(&python).arg(&peer).args(sizes)));
    } else {
        println!("Neither NumPy nor PyTorch is measured: `{python}` cannot import numpy (set TORCH_PYTHON)");
    }
    for kind in ["threshold", "update"] {
        let of = |row: &&Row| row.name.starts_with(kind);
        let least = |name: &str| rows.iter().find(|row| row.name == format!("{kind} {name}")).unwrap().median;
        let (floor, ours) = (least("floor"), least("bracket, exact"));
        println!("  {kind}");
        for row in rows.iter().filter(of) {
            println!(
                "    {:<34} {:>8.2} ms (least {:>8.2}) {:>6.2}x floor {:>7.2}x ours  +{:.1} MB",
                &row.name[kind.len() + 1..],
                row.median,
                row.least,
                row.median / floor,
                row.median / ours,
                row.raised,
            );
        }
    }
}

fn calls() -> usize {
    env::var("SWEEP_BENCH_CALLS").ok().map_or(9, |calls| calls.parse().unwrap())
}

/// Runs a process that prints rows, and whatever else.
fn run(command: &mut Command) -> Vec<Row> {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut rows = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            [name, median, least, raised] => {
                let [median, least, raised] = [median, least, raised].map(|number| number.parse().unwrap());
                rows.push(Row { name: name.to_owned(), median, least, raised });
            }
            _ => println!("  {line}"),
        }
    }
    rows
}

/// Times ours in this process.
fn measure(width: usize) {
    sweep_lab::ops::compute_on_this_thread();
    let numbers = width * width;
    let normal = |name: &str, scale: f32| -> Vec<Vec<f32>> {
        let layer = |layer: usize| {
            let mut layer_numbers = vec![0.0; numbers];
            layer_numbers.par_chunks_mut(1 << 16).enumerate().for_each(|(part, numbers)| {
                let random = rng::stream(0, "bench", name, &[layer as u64, part as u64]);
                let drawn = Normal::new(0.0, scale).unwrap().sample_iter(random);
                numbers.iter_mut().zip(drawn).for_each(|(number, drawn)| *number = drawn);
            });
            layer_numbers
        };
        (0..LAYERS).map(layer).collect()
    };
    let (w, m, mut v) = (normal("w", 0.02), normal("m", 1e-4), normal("v", 1e-4));
    v.iter_mut().flatten().for_each(|v| *v *= *v);
    let layer = |at: usize| Layer { weights: &w[at], moments: Some([&m[at], &v[at]]), origin: None, mask: None };
    let layers: Vec<Layer<'_>> = (0..LAYERS).map(layer).collect();
    let formula = |prune| Formula::new(&Prune { prune, ..Prune::default() }, 0.5);
    let goal = |prune| Goal { layers: &layers, formula: formula(prune), k: LAYERS * numbers / 2 };
    let update = goal(PruneMethod::Bitter7);

    let scores: Vec<Vec<f32>> = (0..LAYERS)
        .map(|at| w[at].iter().zip(&v[at]).map(|(w, v)| w.abs() * (v.abs() + 1e-8).sqrt().sqrt()).collect())
        .collect();
    let given: Vec<Layer<'_>> = scores.iter().map(|scores| Layer::of(scores)).collect();
    let given = Goal { layers: &given, formula: Formula::GIVEN, k: update.k };
    row::<()>("threshold floor", &given, &|goal, masks| floor(goal, masks));
    row::<()>("threshold bracket, exact", &given, &|goal, masks| bracket(goal, 1, masks));
    row::<()>("threshold radix, exact", &given, &radix);
    row::<()>("threshold histogram", &given, &by_bins);

    row::<u8>("update floor", &update, &|goal, masks| floor(goal, masks));
    row::<u8>("update bracket, exact", &update, &|goal, masks| bracket(goal, 1, masks));
    row::<u64>("update floor, bits", &update, &|goal, masks| floor(goal, masks));
    row::<u64>("update bracket, exact, bits", &update, &|goal, masks| bracket(goal, 1, masks));
    row::<u8>("update radix, exact", &update, &radix);
    row::<u8>("update histogram", &update, &by_bins);
    for prune in [PruneMethod::Magnitude, PruneMethod::Bitter0, PruneMethod::Bitter3, PruneMethod::Bitter9] {
        row::<u8>(&format!("update floor of {prune}"), &goal(prune), &|goal, masks| floor(goal, masks));
        row::<u8>(&format!("update bracket, {prune}"), &goal(prune), &|goal, masks| bracket(goal, 1, masks));
    }
}

fn floor<M: Mask>(goal: &Goal<'_>, masks: &mut [&mut [M]]) -> Result<Found, NotANumber> {
    stream(goal, masks);
    Ok(Found { threshold: 0.0, pruned: Vec::new(), passes: 1, candidates: 0, extra: 0 })
}

/// A way to select.
type Way<'a, M> = &'a dyn Fn(&Goal<'_>, &mut [&mut [M]]) -> Result<Found, NotANumber>;

/// Prints a row, and what memory `way` says that it takes.
fn row<M: Mask>(name: &str, goal: &Goal<'_>, way: Way<'_, M>) {
    let mut masks: Vec<Vec<M>> =
        goal.layers.iter().map(|layer| vec![M::default(); M::words(layer.weights.len())]).collect();
    let mut masks: Vec<&mut [M]> = masks.iter_mut().map(|mask| &mut mask[..]).collect();
    // So that the pages of the masks are there.
    stream(goal, &mut masks);
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS:");
    let found = way(goal, &mut masks).unwrap();
    let raised = status("VmHWM:") - before;
    let mut times: Vec<f64> = (0..calls())
        .map(|_| {
            let begun = Instant::now();
            way(goal, &mut masks).unwrap();
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    if found.extra > 0 {
        let weights = goal.weights();
        let stored = 4 * weights + masks.iter().map(|mask| size_of_val(&**mask)).sum::<usize>();
        println!(
            "{name}: {} passes, {} candidates, {:.2} MB allocated at most, {:.2} % of scores and masks; {:.2} ns a weight",
            found.passes,
            found.candidates,
            found.extra as f64 / 1e6,
            100.0 * found.extra as f64 / stored as f64,
            times[times.len() / 2] * 1e6 / weights as f64,
        );
    }
    println!("{name}\t{}\t{}\t{raised}", times[times.len() / 2], times[0]);
}

/// An entry of this process's status, in MB.
fn status(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<f64>().unwrap() * 1024.0 / 1e6
}

//! Thresholds and masks on the CPU: this project's, PyTorch's and NumPy's, and a pass over the same bytes without
//! computation.
//!
//! ```text
//! cargo bench -p sweep-lab --no-default-features --bench select [WIDTH]
//! ```
//!
//! The workload is paper 001's: twelve square layers, 1024 wide (12.58 million weights) and 2048 (50.33 million), half
//! of which `bitter7` prunes. The kernels here are exact; PyTorch's updates sample. The other programs are measured if
//! `TORCH_PYTHON`, or else `python3`, can import them. Run it on an otherwise idle machine. `SWEEP_BENCH_CALLS` sets
//! the number of timed calls of a row (9).

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

/// A measurement.
struct Row {
    name: String,
    /// Median and least milliseconds.
    median: f64,
    least: f64,
    /// Mean milliseconds of processor time, on all cores together, which other programs affect least.
    cpu: f64,
    /// By how many MB the first call raised resident memory.
    raised: f64,
}

/// Measures our selection and the peers' selections, each in a separate process, one after the other.
fn compare(width: usize) {
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/thresholds.py");
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
        let own = |name: &str| rows.iter().find(|row| row.name == format!("{kind} {name}")).unwrap();
        let (floor, ours) = (own("floor"), own("bracket, exact"));
        println!("  {kind}");
        for row in rows.iter().filter(of) {
            println!(
                "    {:<34} {:>8.2} ms, least {:>8.2}; {:>6.2}x the floor, least {:>6.2}x; {:>6.2}x ours, least {:>6.2}x; cpu {:>8.2} ms, {:>6.2}x the floor, {:>6.2}x ours; +{:.1} MB",
                &row.name[kind.len() + 1..],
                row.median,
                row.least,
                row.median / floor.median,
                row.least / floor.least,
                row.median / ours.median,
                row.least / ours.least,
                row.cpu,
                row.cpu / floor.cpu,
                row.cpu / ours.cpu,
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
            [name, median, least, cpu, raised] => {
                let [median, least, cpu, raised] = [median, least, cpu, raised].map(|number| number.parse().unwrap());
                rows.push(Row { name: name.to_owned(), median, least, cpu, raised });
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
    let others = [PruneMethod::Magnitude, PruneMethod::Bitter0, PruneMethod::Bitter3, PruneMethod::Bitter9]
        .map(|prune| (prune, goal(prune)));
    let mut rows = vec![
        Contender::new::<()>("threshold floor", &given, &floor),
        Contender::new::<()>("threshold bracket, exact", &given, &|goal, masks| bracket(goal, 1, masks)),
        Contender::new::<()>("threshold radix, exact", &given, &radix),
        Contender::new::<()>("threshold histogram", &given, &by_bins),
        Contender::new::<u8>("update floor", &update, &floor),
        Contender::new::<u8>("update bracket, exact", &update, &|goal, masks| bracket(goal, 1, masks)),
        Contender::new::<u64>("update floor, bits", &update, &floor),
        Contender::new::<u64>("update bracket, exact, bits", &update, &|goal, masks| bracket(goal, 1, masks)),
        Contender::new::<u8>("update radix, exact", &update, &radix),
        Contender::new::<u8>("update histogram", &update, &by_bins),
    ];
    for (prune, goal) in &others {
        rows.push(Contender::new::<u8>(&format!("update floor of {prune}"), goal, &floor));
        let exact = &|goal: &Goal<'_>, masks: &mut [&mut [u8]]| bracket(goal, 1, masks);
        rows.push(Contender::new::<u8>(&format!("update bracket, {prune}"), goal, exact));
    }
    // In turn, so that all of them have the same company.
    for _ in 0..calls() {
        rows.iter_mut().for_each(Contender::call);
    }
    rows.iter_mut().for_each(Contender::print);
}

#[expect(clippy::unnecessary_wraps, reason = "a way to select, as the others are")]
fn floor<M: Mask>(goal: &Goal<'_>, masks: &mut [&mut [M]]) -> Result<Found, NotANumber> {
    stream(goal, masks);
    Ok(Found { threshold: 0.0, pruned: Vec::new(), passes: 1, candidates: 0, extra: 0 })
}

/// A way to select.
type Way<'a, M> = &'a dyn Fn(&Goal<'_>, &mut [&mut [M]]) -> Result<Found, NotANumber>;

/// A row in the making.
struct Contender<'a> {
    name: String,
    call: Box<dyn FnMut() + 'a>,
    milliseconds: Vec<f64>,
    cpu: f64,
    raised: f64,
}

impl<'a> Contender<'a> {
    /// Calls `way` once, untimed, and prints its report.
    fn new<M: Mask + 'a>(name: &str, goal: &'a Goal<'a>, way: Way<'a, M>) -> Self {
        let mut masks: Vec<Vec<M>> =
            goal.layers.iter().map(|layer| vec![M::default(); M::words(layer.weights.len())]).collect();
        let stored = 4 * goal.weights() + masks.iter().map(|mask| size_of_val(&mask[..])).sum::<usize>();
        // `stream` touches all masks, so that their pages are mapped before memory is measured.
        stream(goal, &mut slices(&mut masks));
        fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = status("VmRSS:");
        let found = way(goal, &mut slices(&mut masks)).unwrap();
        let raised = status("VmHWM:") - before;
        if found.extra > 0 {
            println!(
                "{name}: {} passes, {} candidates, {:.2} MB allocated at most, {:.2} % of scores and masks",
                found.passes,
                found.candidates,
                found.extra as f64 / 1e6,
                100.0 * found.extra as f64 / stored as f64,
            );
        }
        let call = move || drop(way(goal, &mut slices(&mut masks)).unwrap());
        Self { name: name.to_owned(), call: Box::new(call), milliseconds: Vec::new(), cpu: 0.0, raised }
    }

    fn call(&mut self) {
        let (begun, used) = (Instant::now(), processor_time());
        (self.call)();
        self.milliseconds.push(begun.elapsed().as_secs_f64() * 1e3);
        self.cpu += processor_time() - used;
    }

    fn print(&mut self) {
        self.milliseconds.sort_by(f64::total_cmp);
        let [median, least] = [self.milliseconds[self.milliseconds.len() / 2], self.milliseconds[0]];
        let cpu = self.cpu / self.milliseconds.len() as f64;
        println!("{}\t{median}\t{least}\t{cpu}\t{}", self.name, self.raised);
    }
}

fn slices<M>(masks: &mut [Vec<M>]) -> Vec<&mut [M]> {
    masks.iter_mut().map(|mask| &mut mask[..]).collect()
}

/// Milliseconds that all threads of this process have run.
fn processor_time() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let run = |task: std::io::Result<fs::DirEntry>| -> f64 {
        let times = fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
        times.split(' ').next().unwrap().parse().unwrap()
    };
    tasks.map(run).sum::<f64>() / 1e6
}

/// An entry of this process's status, in MB.
fn status(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<f64>().unwrap() * 1024.0 / 1e6
}

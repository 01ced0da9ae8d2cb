//! A training step on the CPU: with kernels, with plain operations, and PyTorch's, in turn.
//!
//! ```text
//! cargo bench -p sweep-lab --no-default-features --bench train
//! ```
//!
//! Every measurement is a process of its own, so that each has its own peak of memory. PyTorch takes part where
//! `TORCH_PYTHON`, or else `python3`, can import it. Measure on a quiet machine: PyTorch's threads spin, and suffer most
//! from company. `SWEEP_BENCH_STEPS` gives the timed steps of a process (10), `SWEEP_BENCH_ROUNDS` the processes (2).

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

use std::{
    env,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use burn::{
    backend::{Autodiff, Flex, flex::FlexDevice},
    tensor::{Int, Tensor, TensorData},
};
use rand::Rng;
use sweep_job::tasks::{Activation, Optimizer};
use sweep_lab::{
    model::{self, Gpt, GptDims, Network},
    ops,
    optim::{self, AdamW},
    rng,
};

type Train = Autodiff<Flex>;

/// A network and its batch.
struct Shape {
    name: &'static str,
    dims: GptDims,
    batch: usize,
}

fn shapes() -> [Shape; 2] {
    let dims = |n_layer, n_head, d_model, block_size, vocab_size| GptDims {
        n_layer,
        n_head,
        d_model,
        block_size,
        vocab_size,
        activation: Activation::Gelu,
        block: sweep_job::tasks::BlockSpec::GPT2,
    };
    [
        Shape { name: "small", dims: dims(4, 4, 128, 128, 256), batch: 8 },
        Shape { name: "large", dims: dims(6, 6, 384, 256, 512), batch: 8 },
    ]
}

fn number(name: &str, default: usize) -> usize {
    env::var(name).ok().map_or(default, |value| value.parse().unwrap())
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", shape, mode] => measure(shape, mode == "kernels"),
        _ => compare(arguments.first().map(String::as_str)),
    }
}

/// What one process found.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// Median and least milliseconds of a step.
    step: [f64; 2],
    /// Peak of resident memory in MB.
    peak: f64,
}

/// Runs all processes, those of one shape in turn, and prints what they found.
fn compare(only: Option<&str>) {
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/peers/train_gpt2.py");
    let python = env::var("TORCH_PYTHON").unwrap_or_else(|_| "python3".into());
    let torch = Command::new(&python).args(["-c", "import torch"]).output().is_ok_and(|output| output.status.success());
    if !torch {
        println!("PyTorch is not measured: `{python}` cannot import torch (set TORCH_PYTHON)");
    }
    for shape in shapes().iter().filter(|shape| only.is_none_or(|only| only == shape.name)) {
        let GptDims { n_layer, n_head, d_model, block_size, vocab_size, .. } = shape.dims;
        println!(
            "\n{}: {n_layer} layers, {n_head} heads, d {d_model}, {} x {block_size} tokens, vocab {vocab_size}; {} threads, load {}",
            shape.name,
            shape.batch,
            std::thread::available_parallelism().map_or(1, usize::from),
            std::fs::read_to_string("/proc/loadavg").map_or_else(|_| "?".into(), |load| load[..4].to_owned()),
        );
        let mut found: [Vec<Found>; 3] = [const { Vec::new() }; 3];
        for round in 0..number("SWEEP_BENCH_ROUNDS", 2) {
            let own = |mode| run(Command::new(env::current_exe().unwrap()).args(["measure", shape.name, mode]));
            found[0].push(own("kernels"));
            if torch {
                let numbers = [n_layer, n_head, d_model, block_size, vocab_size, shape.batch];
                let numbers = numbers.map(|number| number.to_string());
                let steps = number("SWEEP_BENCH_STEPS", 10).to_string();
                found[1].push(run(Command::new(&python).arg(&peer).args(numbers).arg(steps)));
            }
            // The slowest by far: once is enough.
            if round == 0 {
                found[2].push(own("plain"));
            }
        }
        let best = |found: &[Found]| found.iter().map(|found| found.step[1]).fold(f64::INFINITY, f64::min);
        let tokens = (shape.batch * block_size) as f64;
        let kernels = best(&found[0]);
        for (name, found) in ["kernels", "PyTorch", "plain"].into_iter().zip(&found) {
            let Some(first) = found.first() else { continue };
            let medians: Vec<String> = found.iter().map(|found| format!("{:.1}", found.step[0])).collect();
            println!(
                "  {name:<8} best {:>7.1} ms/step, {:>7.0} tokens/s, medians {} ms, peak {:.0} MB; kernels are {:.2}x as fast",
                best(found),
                tokens / best(found) * 1e3,
                medians.join(" / "),
                first.peak,
                best(found) / kernels,
            );
        }
    }
}

/// Runs a process, prints what it says, and reads its last line: `median least peak`.
fn run(command: &mut Command) -> Found {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<&str> = text.lines().collect();
    let numbers: Vec<f64> = lines.pop().unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
    for line in lines {
        println!("    {line}");
    }
    Found { step: [numbers[0], numbers[1]], peak: numbers[2] }
}

/// Times steps in this process.
fn measure(shape: &str, kernels: bool) {
    let Shape { dims, batch, .. } = shapes().into_iter().find(|found| found.name == shape).unwrap();
    ops::use_kernels(kernels);
    ops::compute_on_this_thread();
    let mut network = Gpt::<Train>::random(dims, 0, &FlexDevice).unwrap();
    let settings = Optimizer::default();
    let mut optimizer = AdamW::<Flex>::new(&settings, &model::infos(&network));
    let steps = number("SWEEP_BENCH_STEPS", 10);
    let mut total = Vec::new();
    let mut phases = [Vec::new(), Vec::new(), Vec::new()];
    for step in 0..steps + 2 {
        let [inputs, targets] = ["inputs", "targets"].map(|name| tokens(name, step, &dims, batch));
        let begun = Instant::now();
        let loss = network.loss(inputs, targets, 0.0);
        let lost = Instant::now();
        let mut gradients = loss.backward();
        let gradients = model::gradients(&network, &mut gradients);
        let derived = Instant::now();
        let gradients = optim::clip_global_norm(gradients, 1.0);
        network = optimizer.step::<Train, _>(network, gradients, 1e-4);
        let end = Instant::now();
        // The first steps fill caches and find memory.
        if step >= 2 {
            total.push(end.duration_since(begun));
            let spans = [(begun, lost), (lost, derived), (derived, end)].map(|(from, to)| to.duration_since(from));
            for (phase, time) in phases.iter_mut().zip(spans) {
                phase.push(time);
            }
        }
    }
    let peak = peak_memory();
    let [forward, backward, optimizer] = phases.map(|mut phase| milliseconds(&mut phase)[0]);
    println!(
        "{}: forward and loss {forward:.1}, backward {backward:.1}, clip and AdamW {optimizer:.1} ms; products reach {:.0} GFLOP/s",
        if kernels { "kernels" } else { "plain" },
        matmul_ceiling(),
    );
    let [median, least] = milliseconds(&mut total);
    println!("{median} {least} {peak}");
}

/// Random tokens.
fn tokens(name: &str, step: usize, dims: &GptDims, batch: usize) -> Tensor<Train, 2, Int> {
    let mut random = rng::stream(0, "bench", name, &[step as u64]);
    let vocab = i32::try_from(dims.vocab_size).unwrap();
    let ids: Vec<i32> = (0..batch * dims.block_size).map(|_| random.random_range(0..vocab)).collect();
    Tensor::from_data(TensorData::new(ids, [batch, dims.block_size]), &FlexDevice)
}

/// The median and the least.
fn milliseconds(times: &mut [Duration]) -> [f64; 2] {
    times.sort_unstable();
    [times[times.len() / 2], times[0]].map(|time| time.as_secs_f64() * 1e3)
}

/// Best speed of a product of 1024 x 1024 matrices, in GFLOP/s.
fn matmul_ceiling() -> f64 {
    let size = 1024;
    let ones = || Tensor::<Flex, 2>::ones([size, size], &FlexDevice);
    let (left, right) = (ones(), ones());
    let time = |()| {
        let begun = Instant::now();
        let product = left.clone().matmul(right.clone());
        let passed = begun.elapsed();
        assert_eq!(product.dims(), [size, size]);
        passed.as_secs_f64()
    };
    let least = (0..20).map(|_| time(())).fold(f64::INFINITY, f64::min);
    2.0 * (size as f64).powi(3) / least / 1e9
}

/// Peak of resident memory in MB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kibibytes.map_or(f64::NAN, |kibibytes| kibibytes * 1024.0 / 1e6)
}

//! A training step on the CPU: with kernels, with Burn's operations, and PyTorch's, eager and compiled, in turn.
//!
//! ```text
//! cargo bench -p sweep-lab --no-default-features --bench train [-- SHAPE]
//! ```
//!
//! Every measurement is a separate process, so that each has its own peak memory. A ratio is that of two consecutive
//! processes; the output has the median of these ratios and their range. PyTorch is measured if `TORCH_PYTHON`, or else
//! `python3`, can import it. Run it on an otherwise idle machine: PyTorch's threads spin, and suffer most from other
//! load. `SWEEP_BENCH_STEPS` sets the number of timed steps of a process (10), `SWEEP_BENCH_ROUNDS` that of processes
//! of each kind (3), and `SWEEP_BENCH_PEERS` the kinds besides the kernels (`eager,compiled,plain`). With
//! `SWEEP_BENCH_PRECISION=mixed` matrix products are in bfloat16, PyTorch's by autocast.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

use std::{
    env,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use burn::{
    backend::{Autodiff, Flex, flex::FlexDevice},
    tensor::{DType, Int, Tensor, TensorData},
};
use rand::Rng;
use sweep_job::tasks::{Ablation, Activation, Architecture, Model, Optimizer};
use sweep_lab::{
    model::{self, Gpt, GptDims, Network},
    ops::{self, autocast},
    optim::{self, AdamW, StepContext},
    rng,
};

type Train = Autodiff<Flex>;

/// A network and its batch.
struct Shape {
    name: &'static str,
    dims: GptDims,
    batch: usize,
}

fn shapes() -> [Shape; 5] {
    let dims = |n_layer, n_head, d_model, block_size, vocab_size| GptDims {
        n_layer,
        n_head,
        d_model,
        block_size,
        vocab_size,
        activation: Activation::Gelu,
        block: sweep_job::tasks::BlockSpec::GPT2,
    };
    let model =
        Model { n_layer: Some(6), n_head: Some(6), d_model: Some(384), block_size: Some(256), ..Model::default() };
    // MLA, reciprocal attention, gate, cross-token and RA-CT together.
    let mechanisms = Architecture { ablation: Ablation::Step16, ..Architecture::default() };
    [
        Shape { name: "nano", dims: dims(3, 4, 96, 64, 256), batch: 8 },
        Shape { name: "small", dims: dims(4, 4, 128, 128, 256), batch: 8 },
        Shape { name: "large", dims: dims(6, 6, 384, 256, 512), batch: 8 },
        Shape { name: "gpt2", dims: dims(12, 12, 768, 256, 50257), batch: 1 },
        Shape { name: "ratio", dims: GptDims::new(&model, &mechanisms, 512).unwrap(), batch: 4 },
    ]
}

impl Shape {
    /// True for GPT-2, the network that the PyTorch script trains.
    fn has_peer(&self) -> bool {
        self.dims.block == sweep_job::tasks::BlockSpec::GPT2
    }

    /// Floating-point operations of a step of GPT-2: 6 for each token and weight of a product, and the operations of
    /// causal attention.
    fn operations(&self) -> f64 {
        let GptDims { n_layer, d_model, block_size, vocab_size, .. } = self.dims;
        let weights = 12 * n_layer * d_model * d_model + vocab_size * d_model;
        let attention = n_layer * block_size * d_model;
        6.0 * (weights + attention) as f64 * (self.batch * block_size) as f64
    }
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

/// Measurements of one process.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// Median and least milliseconds of a step.
    step: [f64; 2],
    /// Peak of resident memory in MB.
    peak: f64,
}

/// Who makes the steps.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Kernels,
    Eager,
    Compiled,
    Plain,
}

impl Kind {
    const ALL: [(Self, &'static str); 4] =
        [(Self::Kernels, "kernels"), (Self::Eager, "eager"), (Self::Compiled, "compiled"), (Self::Plain, "plain")];

    fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(kind, _)| *kind == self).unwrap().1
    }

    /// A process that makes steps of `shape`.
    fn command(self, shape: &Shape, python: &str) -> Command {
        if matches!(self, Self::Kernels | Self::Plain) {
            let mut own = Command::new(env::current_exe().unwrap());
            own.args(["measure", shape.name, self.name()]);
            return own;
        }
        let GptDims { n_layer, n_head, d_model, block_size, vocab_size, .. } = shape.dims;
        let numbers = [n_layer, n_head, d_model, block_size, vocab_size, shape.batch, number("SWEEP_BENCH_STEPS", 10)];
        let mut peer = Command::new(python);
        peer.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/train_gpt2.py"));
        peer.args(numbers.map(|number| number.to_string())).arg(self.name());
        if mixed() {
            peer.args(["cpu", "bf16"]);
        }
        peer
    }
}

/// True if products are in bfloat16.
fn mixed() -> bool {
    env::var("SWEEP_BENCH_PRECISION").is_ok_and(|precision| precision == "mixed")
}

/// Runs all processes, the processes of one shape in turn, and prints their results.
fn compare(only: Option<&str>) {
    let python = env::var("TORCH_PYTHON").unwrap_or_else(|_| "python3".into());
    let torch = Command::new(&python).args(["-c", "import torch"]).output().is_ok_and(|output| output.status.success());
    if !torch {
        println!("PyTorch is not measured: `{python}` cannot import torch (set TORCH_PYTHON)");
    }
    let peers = env::var("SWEEP_BENCH_PEERS").unwrap_or_else(|_| "eager,compiled,plain".into());
    for shape in shapes().iter().filter(|shape| only.is_none_or(|only| only == shape.name)) {
        let GptDims { n_layer, n_head, d_model, block_size, vocab_size, .. } = shape.dims;
        println!(
            "\n{}{}: {n_layer} layers, {n_head} heads, d {d_model}, {} x {block_size} tokens, vocab {vocab_size}; {} threads, load {}",
            shape.name,
            if mixed() { ", products in bfloat16" } else { "" },
            shape.batch,
            std::thread::available_parallelism().map_or(1, usize::from),
            std::fs::read_to_string("/proc/loadavg").map_or_else(|_| "?".into(), |load| load[..4].to_owned()),
        );
        let takes_part = |kind: Kind| match kind {
            Kind::Kernels => true,
            Kind::Plain => peers.contains("plain"),
            Kind::Eager | Kind::Compiled => torch && shape.has_peer() && peers.contains(kind.name()),
        };
        let kinds: Vec<Kind> = Kind::ALL.into_iter().map(|(kind, _)| kind).filter(|kind| takes_part(*kind)).collect();
        let mut found: Vec<Vec<Found>> = vec![Vec::new(); kinds.len()];
        for round in 0..number("SWEEP_BENCH_ROUNDS", 3) {
            for (kind, found) in kinds.iter().zip(&mut found) {
                // The slowest by far: once is enough.
                if *kind != Kind::Plain || round == 0 {
                    found.push(run(&mut kind.command(shape, &python)));
                }
            }
        }
        for (kind, of_kind) in kinds.iter().zip(&found) {
            let mut steps: Vec<f64> = of_kind.iter().map(|found| found.step[0]).collect();
            let mut ratios: Vec<f64> = steps.iter().zip(&found[0]).map(|(peer, own)| peer / own.step[0]).collect();
            let step = median(&mut steps);
            let ratio = median(&mut ratios);
            let tokens = (shape.batch * block_size) as f64;
            let speed = if shape.has_peer() {
                format!(", {:.1} GFLOP/s", shape.operations() / step / 1e6)
            } else {
                String::new()
            };
            println!(
                "  {:<8} {step:>7.1} ms/step ({:.1} to {:.1}), {:>6.0} tokens/s{speed}, peak {:.0} MB; kernels are {ratio:.2}x as fast ({:.2} to {:.2})",
                kind.name(),
                steps[0],
                steps[steps.len() - 1],
                tokens / step * 1e3,
                of_kind[0].peak,
                ratios[0],
                ratios[ratios.len() - 1],
            );
        }
    }
}

/// The median; the numbers are in order afterwards.
fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Runs a process, prints its output, and parses its last line: `median least peak`.
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
    let products = mixed().then_some(DType::BF16);
    let mut total = Vec::new();
    let mut phases = [Vec::new(), Vec::new(), Vec::new()];
    for step in 0..steps + 2 {
        let [inputs, targets] = ["inputs", "targets"].map(|name| tokens(name, step, &dims, batch));
        let begun = Instant::now();
        let loss = autocast::with(products, || network.loss(inputs, targets, 0.0));
        let lost = Instant::now();
        let mut gradients = loss.backward();
        let gradients = model::gradients(&network, &mut gradients);
        let derived = Instant::now();
        let gradient_factor = optim::global_norm(&gradients).and_then(|norm| optim::clip_factor(norm, 1.0));
        let around = StepContext { gradient_factor, ..StepContext::default() };
        network = optimizer.step_with::<Train, _>(network, gradients, 1e-4, around).unwrap();
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

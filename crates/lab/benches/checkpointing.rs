//! Cost and savings of checkpointing on the CPU: step time and peak memory, compared with keeping everything.
//!
//! ```text
//! cargo bench -p sweep-lab --no-default-features --bench checkpointing
//! ```
//!
//! Every mode is a separate process with a counting allocator. The memory of a step is the most that is allocated at
//! once in the forward and backward pass of the first step, beyond the network itself: activations, and the gradients
//! made so far. Times are of later steps. Run it on an otherwise idle machine. `SWEEP_BENCH_STEPS` sets the number of
//! timed steps (10).

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]

use std::{env, process::Command, time::Instant};

use burn::{
    backend::{Autodiff, Flex, flex::FlexDevice},
    tensor::{Int, Tensor, TensorData},
};
use rand::Rng;
use sweep_job::tasks::{Activation, BlockSpec, Checkpointing, Computing, Optimizer};
use sweep_lab::{
    measure::heap,
    model::{self, Gpt, GptDims},
    ops,
    optim::{
        self, AdamW,
        gradient::{Dropout, Forward},
    },
    rng,
};

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

const BATCH: usize = 16;
const DIMS: GptDims = GptDims {
    n_layer: 12,
    n_head: 4,
    d_model: 128,
    block_size: 128,
    vocab_size: 256,
    activation: Activation::Gelu,
    block: BlockSpec::GPT2,
};
const MODES: [&str; 6] = ["off", "balanced", "segment:1", "segment:2", "segment:3", "segment:4"];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", mode] => measure(mode),
        _ => compare(),
    }
}

fn compare() {
    println!(
        "{} layers, d {}, {BATCH} x {} tokens, f32, {} threads, load {}",
        DIMS.n_layer,
        DIMS.d_model,
        DIMS.block_size,
        std::thread::available_parallelism().map_or(1, usize::from),
        std::fs::read_to_string("/proc/loadavg").map_or_else(|_| "?".into(), |load| load[..4].to_owned()),
    );
    let mut plain = None;
    for mode in MODES {
        let output = Command::new(env::current_exe().unwrap()).args(["measure", mode]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let [memory, step, loss] =
            text.trim().split(' ').map(|number| number.parse().unwrap()).collect::<Vec<f64>>()[..]
        else {
            panic!("three numbers")
        };
        let [plain_memory, plain_step, plain_loss] = *plain.get_or_insert([memory, step, loss]);
        println!(
            "  {mode:<10} {:>6.1} MB ({:>5.1} % of off), {:>6.1} ms/step ({:.2}x), loss after the steps {loss:.6} ({})",
            memory / 1e6,
            100.0 * memory / plain_memory,
            step,
            step / plain_step,
            if loss.to_bits() == plain_loss.to_bits() { "the same bits" } else { "differs" },
        );
    }
}

fn tokens(name: &str, step: usize) -> Tensor<Flex, 2, Int> {
    let mut random = rng::stream(0, "bench", name, &[step as u64]);
    let ids: Vec<i32> = (0..BATCH * DIMS.block_size).map(|_| random.random_range(0..256)).collect();
    Tensor::from_data(TensorData::new(ids, [BATCH, DIMS.block_size]), &FlexDevice)
}

/// Prints bytes, milliseconds and the last loss.
fn measure(mode: &str) {
    ops::compute_on_this_thread();
    let checkpointing = *Checkpointing::ALL.iter().find(|word| word.word() == mode).unwrap();
    let computing = Computing { checkpointing, ..Computing::default() };
    let mut network = Gpt::<Autodiff<Flex>>::random(DIMS, 0, &FlexDevice).unwrap();
    let mut optimizer = AdamW::<Flex>::new(&Optimizer::default(), &model::infos(&network));
    let steps = env::var("SWEEP_BENCH_STEPS").ok().map_or(10, |steps| steps.parse().unwrap());
    let (mut times, mut memory, mut last) = (Vec::new(), 0, 0.0);
    for step in 0..steps + 2 {
        let [inputs, targets] = ["inputs", "targets"].map(|name| tokens(name, step));
        heap::begin();
        let begun = Instant::now();
        let dropout = Dropout { p: 0.0, seed: 0, at: [step as u64, 0] };
        let forward = Forward::<Flex>::new(&network, inputs, targets, &computing, dropout);
        last = forward.loss().into_data().to_vec::<f32>().unwrap()[0];
        let gradients = forward.backward(1.0);
        let heap = heap::end().unwrap();
        if step == 0 {
            // Later steps find memory that the first one has left for them.
            memory = heap.peak;
        }
        network = optimizer.step::<Autodiff<Flex>, _>(network, optim::clip_global_norm(gradients, 1.0), 1e-3).unwrap();
        if step >= 2 {
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    times.sort_unstable_by(f64::total_cmp);
    println!("{memory} {} {last}", times[times.len() / 2]);
}

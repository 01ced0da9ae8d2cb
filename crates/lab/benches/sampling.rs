//! Cost of sampling: steps of a small training with and without the sampler of process and device, in turn.
//!
//! ```text
//! cargo bench -p sweep-lab --no-default-features --bench sampling
//! ```

use std::time::Instant;

use burn::{
    backend::{Flex, flex::FlexDevice},
    tensor::Tensor,
};
use sweep_job::Backend;
use sweep_lab::{measure::sampler::Sampler, ops};

fn main() {
    const ROUNDS: usize = 6;
    ops::compute_on_this_thread();
    let matrix = Tensor::<Flex, 2>::ones([512, 512], &FlexDevice);
    // A second of products, as a training would do them.
    let work = || {
        let begun = Instant::now();
        for _ in 0..150 {
            assert_eq!(matrix.clone().matmul(matrix.clone()).dims(), [512, 512]);
        }
        begun.elapsed().as_secs_f64()
    };
    work();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(work());
        let sampler = Sampler::start(Backend::Cpu);
        with.push(work());
        let sampled = sampler.finish();
        assert!(sampled.metrics.contains_key("memory.mean"));
    }
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let (without, with) = (least(&without), least(&with));
    println!(
        "best of {ROUNDS}: without {:.1} ms, with {:.1} ms: sampling costs {:+.2} %; load {}",
        without * 1e3,
        with * 1e3,
        (with / without - 1.0) * 100.0,
        std::fs::read_to_string("/proc/loadavg").map_or_else(|_| "?".into(), |load| load[..4].to_owned()),
    );
}

//! The step of AdamW on a GPU, or on a software implementation of one, compared with a loop in double precision.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod common;

use common::{Client, client, read};
use cubecl::{prelude::CubeElement as _, server::Handle};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use sweep_gpu_kernels::{AdamWFactors, Tensors, adamw_step};

/// Optional parts of a step.
#[derive(Debug, Clone, Copy)]
struct Beside {
    first: bool,
    amsgrad: bool,
    guarded: bool,
    mask: Option<bool>,
}

const FACTORS: AdamWFactors = AdamWFactors {
    keep: [0.9, 0.95],
    new: [0.1, 0.05],
    step_size: 3e-2,
    root_correction: 1.25,
    epsilon: 1e-8,
    weight: 0.999,
};

/// Numbers from -1 to 1.
fn numbers(length: usize, seed: u64) -> Vec<f32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..length).map(|_| random.random_range(-1.0..1.0)).collect()
}

fn squares(length: usize, seed: u64) -> Vec<f32> {
    numbers(length, seed).into_iter().map(|root| root * root + 1e-3).collect()
}

fn upload(client: &Client, numbers: &[f32]) -> Handle {
    client.create_from_slice(f32::as_bytes(numbers))
}

fn check(client: &Client, length: usize, beside: Beside) {
    let Beside { first, amsgrad, guarded, mask } = beside;
    let (weights, gradient) = (numbers(length, 1), numbers(length, 2));
    let (moment_1, moment_2, max) = (numbers(length, 3), squares(length, 4), squares(length, 5));
    let keep: Vec<f32> = numbers(length, 6).into_iter().map(|sign| f32::from(u8::from(sign > 0.0))).collect();
    let tensors = Tensors {
        length,
        weights: upload(client, &weights),
        gradient: upload(client, &gradient),
        moments: [upload(client, &moment_1), upload(client, &moment_2)],
        max_moment_2: amsgrad.then(|| upload(client, &max)),
        first,
        new_max: first,
        gradient_factor: guarded.then(|| upload(client, &[0.5])),
        keeps: guarded.then(|| [0.7, 0.8].map(|keep| upload(client, &[keep]))),
        mask: mask.map(|moments| (upload(client, &keep), moments)),
    };
    adamw_step(client, &tensors, &FACTORS);
    let found = [&tensors.weights, &tensors.moments[0], &tensors.moments[1]].map(|handle| read(client, handle, length));
    let found_max = tensors.max_moment_2.as_ref().map(|handle| read(client, handle, length));

    let keeps = if guarded { [0.7, 0.8] } else { FACTORS.keep.map(f64::from) };
    for at in 0..length {
        let old = |numbers: &[f32]| if first { 0.0 } else { f64::from(numbers[at]) };
        let g = f64::from(gradient[at]) * if guarded { 0.5 } else { 1.0 };
        let m = old(&moment_1) * keeps[0] + g * 0.1;
        let v = old(&moment_2) * keeps[1] + g * g * 0.05;
        let largest = if amsgrad { v.max(old(&max)) } else { v };
        let stays = if mask.is_some() { f64::from(keep[at]) } else { 1.0 };
        let stays_too = if mask == Some(true) { stays } else { 1.0 };
        let step = m * 3e-2 / (largest.sqrt() * 1.25 + 1e-8);
        let weight = (f64::from(weights[at]) * 0.999 - step) * stays;
        for (found, expected) in [(found[0][at], weight), (found[1][at], m * stays_too), (found[2][at], v * stays_too)]
        {
            assert!(
                (f64::from(found) - expected).abs() < 1e-5,
                "{beside:?}, {at} of {length}: {found}, not {expected}"
            );
        }
        if let Some(found) = &found_max {
            assert!((f64::from(found[at]) - largest * stays_too).abs() < 1e-5, "{beside:?}, {at} of {length}");
        }
        assert!(stays == 1.0 || found[0][at] == 0.0, "what is pruned is 0");
    }
}

#[test]
fn a_step_is_that_of_a_loop() {
    let client = client!();
    for length in [1, 255, 70_001] {
        for first in [false, true] {
            for amsgrad in [false, true] {
                for (guarded, mask) in [(false, None), (true, None), (false, Some(false)), (true, Some(true))] {
                    check(client, length, Beside { first, amsgrad, guarded, mask });
                }
            }
        }
    }
}

//! The step of AdamW, with all optional parts, compared with loops in double precision.

use burn::{
    backend::{Flex, flex::FlexDevice},
    tensor::Tensor,
};
use proptest::proptest;
use sweep_lab::ops::{AdamWState, AdamWStep, Mask, Ops, Parameter, plain};

use super::{host, narrow, normal, wide};

/// Optional parts of a step of AdamW.
#[derive(Debug, Clone, Copy, Default)]
struct Beside {
    decay: f64,
    amsgrad: bool,
    /// True if the device decides the factors of the moments and of the gradients.
    guarded: bool,
    /// Masks every third number, and with `true` its moments, too.
    masks: Option<bool>,
}

/// True if all numbers are equal to 1e-5 of the largest number, or of 1e-3: if there are few, all may be small
/// differences of large numbers.
fn equal(found: &[f32], expected: &[f32]) -> bool {
    let largest = expected.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    let allowed = 1e-5 * largest.max(1e-3);
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < allowed)
}

/// Steps of AdamW in double precision, in kernels, and in Burn's operations.
fn check_adamw(length: usize, beside: Beside, seed: u64) {
    let tensor = |values: &[f32]| Tensor::<Flex, 1>::from_floats(values, &FlexDevice);
    let step = AdamWStep {
        beta_1: 0.9,
        beta_2: 0.95,
        epsilon: 1e-8,
        step_size: 0.01,
        root_correction: 1.5,
        amsgrad: beside.amsgrad,
        keeps: beside.guarded.then(|| [tensor(&[0.6]), tensor(&[0.8])]),
        gradient_factor: beside.guarded.then(|| tensor(&[0.5])),
        fused: None,
    };
    let ([keep_1, keep_2], factor) = if beside.guarded { ([0.6, 0.8], 0.5) } else { ([0.9, 0.95], 1.0) };
    let keep: Vec<f32> = (0..length).map(|index| if index % 3 == 0 { 0.0 } else { 1.0 }).collect();
    let mask = tensor(&keep);
    let start = normal(length, seed);
    let (mut weights, mut means) = (wide(&start), [vec![0.0; length], vec![0.0; length], vec![0.0; length]]);
    let original = tensor(&start);
    let (mut kernels, mut kernel_state) = (original.clone(), None);
    let (mut plain, mut plain_state) = (original.clone(), None);
    for round in 0..3 {
        // The gradients grow smaller, so that the largest second mean is an earlier one.
        let gradient: Vec<f32> = normal(length, seed + 1 + round).iter().map(|x| x / (round + 1) as f32).collect();
        for (index, gradient) in wide(&gradient).into_iter().enumerate() {
            let gradient = gradient * factor;
            means[0][index] = means[0][index] * keep_1 + gradient * 0.1;
            means[1][index] = means[1][index] * keep_2 + gradient * gradient * 0.05;
            means[2][index] = means[2][index].max(means[1][index]);
            let second = means[if beside.amsgrad { 2 } else { 1 }][index];
            let change = 0.01 * means[0][index] / (second.sqrt() * 1.5 + 1e-8);
            weights[index] = weights[index] * (1.0 - beside.decay) - change;
            if beside.masks.is_some() && keep[index] == 0.0 {
                weights[index] = 0.0;
            }
            if beside.masks == Some(true) && keep[index] == 0.0 {
                for mean in &mut means {
                    mean[index] = 0.0;
                }
            }
        }
        let parameter = |weights: Tensor<Flex, 1>, state: Option<AdamWState<Flex>>| Parameter {
            weights,
            gradient: tensor(&gradient),
            state,
            decay: beside.decay,
            mask: beside.masks.map(|moments| Mask { keep: &mask, moments }),
        };
        let (next, state) = Flex::adamw_step(&step, parameter(kernels, kernel_state));
        (kernels, kernel_state) = (next, Some(state));
        let (next, state) = plain::adamw_step(&step, parameter(plain, plain_state));
        (plain, plain_state) = (next, Some(state));
    }
    let expected = |values: &[f64]| -> Vec<f32> { values.iter().copied().map(narrow).collect() };
    for (found, state) in [(kernels, kernel_state.unwrap()), (plain, plain_state.unwrap())] {
        assert!(equal(&host(found), &expected(&weights)), "{beside:?}");
        assert_eq!(state.max_moment_2.is_some(), beside.amsgrad);
        let found = [Some(state.moment_1), Some(state.moment_2), state.max_moment_2];
        for (found, mean) in found.into_iter().zip(&means) {
            let Some(found) = found else { continue };
            assert!(equal(&host(found), &expected(mean)), "{beside:?}");
        }
    }
    assert_eq!(host(original), start, "weights that something else uses are not written to");
    assert_eq!(host(mask), keep);
}

#[test]
fn adamw_over_many_pieces() {
    for (amsgrad, masks) in [(false, None), (true, Some(true)), (false, Some(false))] {
        check_adamw(40_001, Beside { decay: 0.01, amsgrad, guarded: amsgrad, masks }, 7);
    }
}

proptest! {
    #[test]
    fn adamw(
        length in 1..40_usize, decay in 0.0..0.1_f64, amsgrad: bool, guarded: bool, masks: Option<bool>, seed: u16,
    ) {
        check_adamw(length, Beside { decay, amsgrad, guarded, masks }, u64::from(seed));
    }
}

//! Mixed precision and scaling of the loss.

use burn::{backend::flex::FlexDevice, tensor::Tensor};
use serde_json::{Value, json};
use sweep_lab::optim::LossScale;

use super::{merged, metric};
use crate::common::Inner;

/// The factor after steps whose gradients are finite (`1`) or not (`0`), as PyTorch's `_amp_update_scale_` defines it: the
/// backoff halves the factor and resets the count of good steps; `interval` good steps double the factor.
fn reference(mut factor: f64, interval: u32, steps: &str) -> Vec<f64> {
    let mut good = 0;
    let step = |finite: char| {
        if finite == '1' {
            good += 1;
            if good == interval {
                (factor, good) = (factor * 2.0, 0);
            }
        } else {
            (factor, good) = (factor * 0.5, 0);
        }
        factor
    };
    steps.chars().map(step).collect()
}

#[test]
fn the_factor_follows_the_rules_of_pytorchs_scaler() {
    for (interval, steps) in [(3, "1110111110010111111111"), (1, "1101"), (2, "0000101011"), (2000, "1011")] {
        let mut scale = LossScale::with(1024.0, interval);
        for (place, (finite, expected)) in steps.chars().zip(reference(1024.0, interval, steps)).enumerate() {
            let number = if finite == '1' { 3.0 } else { [f32::NAN, f32::INFINITY][place % 2] };
            let gradients = vec![None, Some(Tensor::<Inner, 1>::from_floats([number, 1.0], &FlexDevice))];
            let factor = scale.factor();
            let found = scale.unscale(gradients).unwrap();
            assert_eq!(found.is_some(), finite == '1', "{steps} at {place}");
            if let Some(found) = found {
                let numbers: Vec<f32> = found[1].clone().unwrap().into_data().to_vec().unwrap();
                assert_eq!(f64::from(numbers[0]), 3.0 / factor, "gradients are unscaled");
            }
            assert_eq!(scale.factor(), expected, "{steps} at {place}");
        }
    }
}

fn half(more: &Value) -> Value {
    merged(json!({"precision": "mixed_f16"}), more)
}

#[test]
fn mixed_precision_learns_as_single_precision_does() {
    let longer = json!({"iters": 150, "lr": 3e-3});
    for attention in ["explicit", "fused"] {
        let base = merged(longer.clone(), &json!({"attention": attention}));
        let single = metric(&base, "loss");
        for precision in ["mixed_f16", "mixed_bf16"] {
            let found = metric(&merged(base.clone(), &json!({"precision": precision})), "loss");
            assert!((found - single).abs() < 0.05, "{attention} {precision}: {found}, {single}");
            assert_ne!(found, single, "{precision}: it is another format");
        }
    }
}

#[test]
fn a_factor_that_overflows_halves_and_its_steps_are_skipped() {
    let more = half(&json!({"loss_scale": 2_f64.powi(40)}));
    let (skipped, factor) = (metric(&more, "steps.skipped"), metric(&more, "loss_scale"));
    assert!((10.0..30.0).contains(&skipped), "{skipped}");
    #[expect(clippy::cast_possible_truncation, reason = "a count of steps")]
    let expected = 2_f64.powi(40 - skipped as i32);
    assert_eq!(factor, expected, "one halving for each of {skipped} steps");
    assert!(metric(&more, "parameters.updated") > 0.3, "of the steps that were made");
}

#[test]
fn a_skipped_step_changes_nothing() {
    // So large that no step is made; and steps of length 0.
    let skipped = half(&json!({"loss_scale": 1e30, "iters": 20}));
    assert_eq!(metric(&skipped, "steps.skipped"), 20.0);
    assert_eq!(metric(&skipped, "loss"), metric(&json!({"lr": 0, "iters": 20}), "loss"));
}

#[test]
fn good_steps_double_the_factor() {
    let more = half(&json!({"loss_scale": 256, "loss_scale_interval": 10}));
    assert_eq!((metric(&more, "steps.skipped"), metric(&more, "loss_scale")), (0.0, 2048.0));
}

#[test]
fn scaling_reads_one_number_in_every_step_and_keeps_small_gradients() {
    let reads = |more: &Value| metric(&half(more), "reads.per_step");
    // The loss at the three log points.
    assert!((reads(&json!({})) - 1.1).abs() < 1e-9, "{}", reads(&json!({})));
    assert!((reads(&json!({"loss_scaling": "off"})) - 0.1).abs() < 1e-9);
    let zeros = |more: &Value| metric(&half(more), "gradients.zero");
    let (with, without) = (zeros(&json!({"loss_scale": 1024})), zeros(&json!({"loss_scaling": "off"})));
    assert!(with <= without, "{with} {without}");
}

#[test]
fn pinned_memory_changes_no_result() {
    let loss = |more: Value| metric(&more, "loss");
    assert_eq!(loss(json!({})), loss(json!({"pinned": true})));
    assert_eq!(loss(json!({})), loss(json!({"pinned": true, "prefetch": 3})));
}

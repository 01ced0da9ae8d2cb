//! The z-loss of a training, compared with PyTorch (`scripts/lab-vectors.py`), and with everything that computes a loss in another
//! way.

use std::{collections::BTreeMap, path::Path};

use crate::{
    common::{Train, golden, host, merged, relative_error, run, task},
    parts::{Case, follow, formula, tokens},
};
use burn::backend::Flex;
use serde_json::{Value, json};
use sweep_job::{
    Outcome, Task, Value as Given,
    tasks::{Checkpointing, Computing, Precision},
};
use sweep_lab::{
    model::{Auxiliary, Gpt},
    optim::gradient::{Derived, Dropout, Forward},
};

fn cases() -> BTreeMap<String, Case> {
    serde_json::from_str(&std::fs::read_to_string(golden("objective.json")).unwrap()).unwrap()
}

fn forward(network: &Gpt<Train>, computing: &Computing, z_loss: f64) -> Forward<Flex> {
    let dropout = Dropout { p: 0.0, seed: 0, at: [0, 0] };
    let auxiliary = Auxiliary { z_loss, ..Auxiliary::default() };
    Forward::of(network, [tokens(0), tokens(3)], computing, dropout, Derived { auxiliary, ..Derived::default() })
}

fn z_loss(with: &Value) -> f64 {
    let Task::Train(train) = task("train", with.clone()) else { panic!("a training") };
    train.optimizer.z_loss
}

#[test]
fn losses_and_gradients_with_a_z_loss() {
    let cases = cases();
    assert_eq!(cases.len(), 3);
    for (name, case) in cases {
        follow(&name, case, |network, with| forward(network, &Computing::default(), z_loss(with)));
    }
}

/// The gradients of all parameters, one after the other.
fn gradients(network: &Gpt<Train>, computing: &Computing, z_loss: f64) -> Vec<f64> {
    let gradients = forward(network, computing, z_loss).backward(0.5);
    gradients.into_iter().flatten().flat_map(host).map(f64::from).collect()
}

fn difference(left: &[f64], right: &[f64]) -> Vec<f64> {
    left.iter().zip(right).map(|(left, right)| left - right).collect()
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

#[test]
fn a_z_loss_with_checkpointing_and_in_shorter_formats() {
    for with in cases().into_values().map(|case| case.with) {
        let network = formula(&with);
        let plain = Computing::default();
        let loss = host(forward(&network, &plain, z_loss(&with)).loss());
        let unchanged = host(forward(&network, &plain, 0.0).loss());
        assert!(relative_error(&loss, &unchanged) < 1e-6, "the loss is the cross-entropy");
        // A factor so large that most of the gradients is that of the z-loss.
        let expected = gradients(&network, &plain, 5.0);
        let added = norm(&difference(&expected, &gradients(&network, &plain, 0.0))) / norm(&expected);
        assert!(added > 0.6, "{with}: {added}");
        for (checkpointing, precision, limit) in [
            (Checkpointing::Segment1, Precision::F32, 1e-5),
            (Checkpointing::Balanced, Precision::F32, 1e-5),
            // Less than the z-loss, so that its omission is detected; Llama without it differs as much by rounding.
            (Checkpointing::Off, Precision::Mixed, 0.75 * added),
            (Checkpointing::Segment2, Precision::Bf16, 0.75 * added),
        ] {
            let computing = Computing { checkpointing, precision, ..Computing::default() };
            let error = relative_error(&host(forward(&network, &computing, z_loss(&with)).loss()), &loss);
            assert!(error < 0.05, "{with} {checkpointing} {precision}: the loss differs by {error:.1e}");
            let error = norm(&difference(&gradients(&network, &computing, 5.0), &expected)) / norm(&expected);
            assert!(error < limit, "{with} {checkpointing} {precision}: the gradients differ by {error:.1e}");
        }
    }
}

fn trained(more: &Value) -> Outcome {
    let base = json!({
        "n_layer": 1, "n_head": 2, "d_model": 32, "block_size": 16, "batch_size": 4, "eval_batches": 2, "iters": 40,
        "dropout": 0, "warmup_iters": 4, "lr": 0.01,
    });
    let folder = tempfile::tempdir().unwrap();
    run("train", merged(base, more), folder.path()).unwrap()
}

#[test]
fn losses_of_a_training_are_the_cross_entropy() {
    let one = |z_loss: f64| trained(&json!({"iters": 1, "z_loss": z_loss}));
    let [without, with] = [one(0.0), one(100.0)];
    let first = |outcome: &Outcome| outcome.curves["loss"].values[0];
    assert!((first(&without) - first(&with)).abs() < 1e-5, "before the first step");
    let [without, with] = [0.0, 0.1].map(|z_loss| trained(&json!({"z_loss": z_loss})).metrics["loss"].value);
    assert!(without != with && (without - with).abs() < 1.0, "{without} {with}");
}

#[test]
fn a_z_loss_is_averaged_over_micro_batches_and_scaled_in_half_precision() {
    // Two halves of a batch have the gradients of the whole one only if every token counts the same in both losses.
    for precision in ["f32", "mixed", "f16"] {
        let with = json!({"z_loss": 0.5, "precision": precision, "grad_accumulation": 2, "checkpointing": "segment:1"});
        let outcome = trained(&with);
        let loss = outcome.metrics["loss"].value;
        assert!(loss < 4.5, "{precision}: {loss}");
    }
}

#[test]
fn a_z_loss_that_is_no_factor_is_a_mistake() {
    let param = Task::info("train").unwrap().param("z_loss").unwrap();
    for bad in [-1e-9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e9] {
        assert!(param.check(&Given::Float(bad)).is_err(), "{bad}");
    }
    assert_eq!(param.check(&Given::Int(0)), Ok(Given::Float(0.0)));
    for task in ["train", "parity", "bench/batch-size"] {
        assert!(Task::info(task).unwrap().param("z_loss").is_some(), "{task}");
    }
    let parity =
        json!({"z_loss": 0.2, "n_layer": 1, "n_head": 2, "d_model": 32, "block_size": 16, "optimizer": "soap"});
    assert!(run("parity", parity, Path::new(".")).is_ok());
}

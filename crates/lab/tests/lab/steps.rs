//! Fifty steps of optimizers, compared with PyTorch and published formulas (`scripts/lab-vectors.py`), and Schedule-Free's two
//! sets of weights in a training.

use std::{collections::BTreeMap, path::Path};

use crate::{
    common::{Inner, Train, golden, run, task},
    parts::{cases, compare_changes, formula, given_gradients, values},
};
use burn::{backend::flex::FlexDevice, tensor::Tensor};
use serde::Deserialize;
use serde_json::{Value, json};
use sweep_job::{
    Task,
    tasks::{DecayOn, Optimizer, OptimizerKind},
};
use sweep_lab::{
    model::{self, ParamInfo},
    optim::{AdamW, Gradients},
};

#[derive(Deserialize)]
struct Steps {
    with: Value,
    #[serde(rename = "steps")]
    count: usize,
    /// Norm and projection of each parameter's change.
    changes: BTreeMap<String, [f64; 2]>,
    /// The same of the weights by which the network is evaluated, where they are others.
    averages: Option<BTreeMap<String, [f64; 2]>>,
}

/// Limit of the error of a change by all steps, relative to its norm: twice to four times the difference between PyTorch's own
/// single and double precision, which is 9.5e-6 for Schedule-Free, 2.6e-5 and 2.6e-4 for Adafactor with a high and a low rate,
/// 4.8e-4 for Lion, whose signs rounding decides, and 3.4e-4 for Muon; and ten times this difference for SOAP, whose bases amplify
/// how a processor rounds: 1.0e-5, 4.3e-5 and 9.2e-6 with the default, with bases that turn every third step, and with a limit of the
/// preconditioners.
fn limit(name: &str) -> f64 {
    match name {
        "schedulefree" => 4e-5,
        "adafactor-large" | "soap" | "soap-one-sided" => 1e-4,
        "adafactor" => 6e-4,
        "lion" => 2e-3,
        "soap-often" => 4e-4,
        _ => 1e-3,
    }
}

/// The script chooses it such that no two vectors of a basis have nearly the same eigenvalue: their order would be that of rounding.
const SALT: u64 = 2903;

/// The gradients of the script for SOAP, which have full rank.
fn unpatterned_gradients(infos: &[ParamInfo], step: usize) -> Gradients<Inner> {
    #[expect(clippy::cast_possible_truncation, reason = "gradients are in single precision")]
    let gradient = |info: &ParamInfo| {
        let letters = format!("{}.{step}", info.name).into_bytes().into_iter().enumerate();
        let mut state: u64 = SALT + letters.map(|(index, letter)| (index as u64 + 1) * u64::from(letter)).sum::<u64>();
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (0.1 * ((state >> 40) as f64 / f64::from(1_u32 << 23) - 1.0)) as f32
        };
        let numbers: Vec<f32> = (0..info.len()).map(|_| next()).collect();
        Some(Tensor::from_floats(&numbers[..], &FlexDevice))
    };
    infos.iter().map(gradient).collect()
}

#[test]
fn steps_of_every_optimizer() {
    let found: BTreeMap<String, Steps> =
        serde_json::from_str(&std::fs::read_to_string(golden("steps.json")).unwrap()).unwrap();
    assert_eq!(found.len(), 8);
    for (name, Steps { with, count: steps, changes, averages }) in found {
        let Task::Train(train) = task("train", with) else { panic!("a training") };
        let settings = Optimizer { decay_on: DecayOn::All, ..train.optimizer };
        let peak = if settings.lr == Optimizer::default().lr { 0.02 } else { settings.lr };
        let mut network = formula(&cases()["llama"].with);
        let infos = model::infos(&network);
        let before = values(&network);
        let mut optimizer = AdamW::<Inner>::new(&settings, &infos);
        let gradients = if settings.optimizer == OptimizerKind::Soap { unpatterned_gradients } else { given_gradients };
        for step in 0..steps {
            let rate = peak * (step as f64 / 10.0).min(1.0);
            network = optimizer.step::<Train, _>(network, gradients(&infos, step), rate).unwrap();
        }
        let trained = values(&network);
        compare_changes(&name, &infos, [&before, &trained], &changes, limit(&name));
        let averaged = values(&optimizer.averaged::<Train, _>(network));
        match averages {
            Some(averages) => {
                compare_changes(&name, &infos, [&before, &averaged], &averages, limit(&name));
                assert_ne!(averaged, trained);
            }
            None => assert_eq!(averaged, trained),
        }
    }
}

fn trained(more: &Value, folder: &Path) -> sweep_job::Outcome {
    let base = json!({
        "n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16, "batch_size": 4, "eval_batches": 2, "iters": 40,
        "dropout": 0, "warmup_iters": 4, "save": true,
    });
    run("train", crate::common::merged(base, more), folder).unwrap()
}

#[test]
fn new_optimizers_train_in_every_precision() {
    for (optimizer, schedule, lr) in
        [("adafactor", "cosine", 0.2), ("schedulefree", "constant", 0.01), ("soap", "cosine", 0.01)]
    {
        for precision in ["f32", "mixed", "bf16", "f16"] {
            let folder = tempfile::tempdir().unwrap();
            let with = json!({"optimizer": optimizer, "lr_schedule": schedule, "lr": lr, "precision": precision});
            let outcome = trained(&with, folder.path());
            let loss = outcome.metrics["loss"].value;
            assert!(loss < 4.5, "{optimizer} {precision}: {loss}");
        }
    }
}

#[test]
fn the_mean_of_schedule_free_is_evaluated_saved_and_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let with = json!({
        "optimizer": "schedulefree", "lr_schedule": "constant", "lr": 0.01, "prune": "magnitude", "prune_every": 4,
    });
    let outcome = trained(&with, folder.path());
    assert!((outcome.metrics["sparsity"].value - 0.5).abs() < 1e-3, "pruned weights stay 0 in the mean");
    let start = json!({"init": folder.path().join("checkpoint"), "eval_batches": 2, "batch_size": 4});
    let evaluated = run("eval", start, Path::new(".")).unwrap();
    let difference = (evaluated.metrics["loss"].value - outcome.metrics["loss"].value).abs();
    assert!(difference < 1e-6, "the loss of the saved network differs by {difference}");
}

#[test]
fn soap_trains_from_one_step_on_and_with_pruning() {
    // The first gradient begins the preconditioners; matrices do not change by it.
    for iters in [1, 2, 3] {
        let with = json!({"optimizer": "soap", "iters": iters, "warmup_iters": 0, "precondition_frequency": 1});
        assert!(trained(&with, tempfile::tempdir().unwrap().path()).metrics["loss"].value < 6.0, "{iters}");
    }
    for more in [
        json!({"prune": "magnitude", "prune_every": 4}),
        json!({"prune": "wanda", "prune_pattern": "2:4", "prune_every": 4, "calibration_batches": 1}),
        json!({"prune": "bitter1", "prune_every": 4, "precondition_limit": 40}),
        json!({"prune": "snip", "calibration_batches": 1}),
        json!({"prune": "rigl", "prune_every": 4}),
    ] {
        let soap = json!({"optimizer": "soap", "lr": 0.01, "precondition_frequency": 5, "iters": 20});
        let outcome = trained(&crate::common::merged(soap, &more), tempfile::tempdir().unwrap().path());
        assert!((outcome.metrics["sparsity"].value - 0.5).abs() < 5e-3, "{more}: pruned weights stay 0");
    }
}

#[test]
fn soap_trains_mechanisms_that_have_gradients_of_zero() {
    // Mechanisms that are coupled in later, heads' maps, and a network of parts without bias.
    for more in [
        json!({"ablation": "16", "coupling_warmup": 10}),
        json!({"ablation": "V13"}),
        json!({"activation": "relu2", "bias": false, "tie": false, "kv_heads": 1, "grad_clip": 0}),
    ] {
        let soap = json!({"optimizer": "soap", "lr": 0.003, "precondition_frequency": 6, "n_layer": 1, "iters": 30});
        let outcome = trained(&crate::common::merged(soap, &more), tempfile::tempdir().unwrap().path());
        let loss = outcome.metrics["loss"].value;
        assert!(loss < 5.0, "{more}: {loss}");
    }
}

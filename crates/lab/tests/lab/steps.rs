//! Fifty steps of optimizers, compared with PyTorch and published formulas (`scripts/lab-vectors.py`), and Schedule-Free's two
//! sets of weights in a training.

use std::{collections::BTreeMap, path::Path};

use crate::{
    common::{Inner, Train, golden, run, task},
    parts::{cases, compare_changes, formula, given_gradients, values},
};
use serde::Deserialize;
use serde_json::{Value, json};
use sweep_job::{
    Task,
    tasks::{DecayOn, Optimizer},
};
use sweep_lab::{model, optim::AdamW};

#[derive(Deserialize)]
struct Steps {
    with: Value,
    /// Norm and projection of each parameter's change.
    changes: BTreeMap<String, [f64; 2]>,
    /// The same of the weights by which the network is evaluated, where they are others.
    averages: Option<BTreeMap<String, [f64; 2]>>,
}

/// Limit of the error of a change by fifty steps, relative to its norm: twice to four times the difference between PyTorch's own
/// single and double precision, which is 9.5e-6 for Schedule-Free, 2.6e-5 and 2.6e-4 for Adafactor with a high and a low rate,
/// 4.8e-4 for Lion, whose signs rounding decides, and 3.4e-4 for Muon.
fn limit(name: &str) -> f64 {
    match name {
        "schedulefree" => 4e-5,
        "adafactor-large" => 1e-4,
        "adafactor" => 6e-4,
        "lion" => 2e-3,
        _ => 1e-3,
    }
}

#[test]
fn fifty_steps_of_every_optimizer() {
    let found: BTreeMap<String, Steps> =
        serde_json::from_str(&std::fs::read_to_string(golden("steps.json")).unwrap()).unwrap();
    assert_eq!(found.len(), 5);
    for (name, Steps { with, changes, averages }) in found {
        let Task::Train(train) = task("train", with) else { panic!("a training") };
        let settings = Optimizer { decay_on: DecayOn::All, ..train.optimizer };
        let peak = if settings.lr == Optimizer::default().lr { 0.02 } else { settings.lr };
        let mut network = formula(&cases()["llama"].with);
        let infos = model::infos(&network);
        let before = values(&network);
        let mut optimizer = AdamW::<Inner>::new(&settings, &infos);
        for step in 0..50 {
            let rate = peak * (step as f64 / 10.0).min(1.0);
            network = optimizer.step::<Train, _>(network, given_gradients(&infos, step), rate);
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
    for (optimizer, schedule, lr) in [("adafactor", "cosine", 0.2), ("schedulefree", "constant", 0.01)] {
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

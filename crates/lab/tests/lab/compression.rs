//! Pruning by Wanda and quantization, compared with PyTorch and numpy (`scripts/lab-vectors.py`), and both before an evaluation.

use std::{collections::BTreeMap, path::Path};

use crate::{
    common::{Inner, Train, golden, merged, run},
    parts::{formula, numbers, tokens, values},
};
use burn::module::AutodiffModule;
use serde::Deserialize;
use serde_json::{Value, json};
use sweep_job::tasks::{Optimizer, Prune, PruneMethod, PrunePattern};
use sweep_lab::{
    model::{self, Gpt, ParamInfo, Role, quantize},
    optim::AdamW,
    prune::Pruner,
};

#[derive(Deserialize)]
struct Case {
    with: Value,
    /// By matrix and method: the weights that stay, or those that are 0, and a projection.
    matrices: BTreeMap<String, BTreeMap<String, (usize, f64)>>,
    /// Size of all parameters by method.
    bytes: BTreeMap<String, usize>,
}

fn cases() -> BTreeMap<String, Case> {
    serde_json::from_str(&std::fs::read_to_string(golden("compression.json")).unwrap()).unwrap()
}

fn projection(values: &[f64]) -> f64 {
    values.iter().zip(numbers("projection", values.len())).map(|(a, b)| a * b).sum()
}

fn pruned(network: &Gpt<Train>, prune_pattern: PrunePattern) -> Gpt<Train> {
    let settings = Prune { prune: PruneMethod::Wanda, prune_pattern, ..Prune::default() };
    let infos = model::infos(network);
    let mut optimizer = AdamW::<Inner>::new(&Optimizer::default(), &infos);
    let mut pruner = Pruner::<Inner>::new(&settings, &infos);
    // In two batches, whose rows count together.
    let batches = [tokens(0).narrow(0, 0, 1), tokens(0).narrow(0, 1, 1)];
    pruner.calibrate(&network.valid(), batches).unwrap();
    let part = pruner.choose::<Train, _>(network, &optimizer, 0.5).unwrap();
    assert_eq!(part, 0.5);
    pruner.apply::<Train, _>(network.clone(), &mut optimizer)
}

#[test]
fn masks_of_wanda_are_those_of_pytorch() {
    for (name, Case { with, matrices, .. }) in cases() {
        let network = formula(&with);
        let infos = model::infos(&network);
        for (method, pattern) in [("wanda", PrunePattern::None), ("wanda-2:4", PrunePattern::TwoOf4)] {
            let weights = values(&pruned(&network, pattern));
            let mut compared = 0;
            for (info, weights) in infos.iter().zip(weights) {
                let Some(expected) = matrices.get(&info.name) else {
                    assert!(
                        weights.iter().all(|weight| *weight != 0.0) || info.role() == Role::Vector,
                        "{}",
                        info.name
                    );
                    continue;
                };
                let mask: Vec<f64> = weights.iter().map(|weight| f64::from(u8::from(*weight != 0.0))).collect();
                let (kept, expected) = expected[method];
                assert_eq!(mask.iter().filter(|keep| **keep > 0.0).count(), kept, "{name} {method} {}", info.name);
                let found = projection(&mask);
                assert!((found - expected).abs() < 1e-9, "{name} {method} {}: {found}, not {expected}", info.name);
                compared += 1;
            }
            assert_eq!(compared, matrices.len(), "{name}");
        }
    }
}

#[test]
fn scores_of_wanda_without_inputs_are_an_error() {
    let network = formula(&cases()["gpt2"].with);
    let infos = model::infos(&network);
    let settings = Prune { prune: PruneMethod::Wanda, ..Prune::default() };
    let optimizer = AdamW::<Inner>::new(&Optimizer::default(), &infos);
    let error = Pruner::<Inner>::new(&settings, &infos).choose::<Train, _>(&network, &optimizer, 0.5).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`prune: wanda` needs the inputs of `h.0.attn.c_attn.weight`, which no linear layer has seen: choose another `prune`, or \
         another architecture"
    );
}

fn rounded(info: &ParamInfo, weights: &[f32], method: &str) -> (Vec<f32>, usize) {
    let [inputs, outputs] = info.matrix();
    let (bits, group) = match method {
        "int8" => (8, inputs),
        "int4" => (4, inputs),
        _ => (4, 8),
    };
    let mut weights = weights.to_vec();
    quantize::round(&mut weights, outputs, group, bits);
    (weights, quantize::bytes(inputs * outputs, group, bits))
}

#[test]
fn rounded_weights_are_those_of_numpy() {
    for (name, Case { with, matrices, bytes }) in cases() {
        let network = formula(&with);
        let infos = model::infos(&network);
        for method in ["int8", "int4", "int4-8"] {
            let mut size = 0;
            for (info, weights) in infos.iter().zip(values(&network)) {
                let Some(expected) = matrices.get(&info.name) else {
                    size += 4 * weights.len();
                    continue;
                };
                let (weights, bytes) = rounded(info, &weights, method);
                size += bytes;
                let (zeros, expected) = expected[method];
                assert_eq!(weights.iter().filter(|weight| **weight == 0.0).count(), zeros, "{name} {method}");
                let found = projection(&weights.iter().map(|weight| f64::from(*weight)).collect::<Vec<_>>());
                assert!((found - expected).abs() < 1e-6, "{name} {method} {}: {found}, not {expected}", info.name);
            }
            assert_eq!(size, bytes[method], "{name} {method}");
        }
    }
}

#[test]
fn groups_without_a_scale_and_numbers_that_are_none() {
    let mut weights = [0.0, 1e-45, f32::NAN, 1.0];
    quantize::round(&mut weights, 2, 1, 8);
    assert_eq!(weights[..2], [0.0, 0.0], "smaller than the smallest scale");
    assert!(weights[2].is_nan(), "an evaluation finds it");
    assert!((weights[3] - 1.0).abs() < 1e-6);
}

/// Trains a network; returns the outcomes of its evaluations.
fn evaluations(settings: &[Value]) -> Vec<sweep_job::Outcome> {
    let folder = tempfile::tempdir().unwrap();
    let train = json!({
        "n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16, "batch_size": 4, "eval_batches": 2, "iters": 60,
        "dropout": 0, "warmup_iters": 4, "lr": 5e-3, "save": true,
    });
    run("train", train, folder.path()).unwrap();
    let base = json!({"init": folder.path().join("checkpoint"), "eval_batches": 4, "batch_size": 4});
    settings.iter().map(|more| run("eval", merged(base.clone(), more), Path::new(".")).unwrap()).collect()
}

#[test]
fn an_evaluation_compresses_before_it_measures() {
    let found = evaluations(&[
        json!({}),
        json!({"quantize": "int8"}),
        json!({"quantize": "int4"}),
        json!({"quantize": "int4", "group_size": 8}),
        json!({"post_prune": "magnitude"}),
        json!({"post_prune": "wanda"}),
        json!({"post_prune": "wanda", "post_pattern": "2:4", "quantize": "int8"}),
    ]);
    let [plain, int8, int4, groups, magnitude, wanda, both] = &found[..] else { panic!("seven") };
    let loss = |outcome: &sweep_job::Outcome| outcome.metrics["loss"].value;
    let size = |outcome: &sweep_job::Outcome| outcome.metrics["memory.weights"].value;
    let parameters = plain.metrics["parameters"].value;
    assert_eq!(size(plain), 4.0 * parameters);
    // Four matrices in two blocks: 12 d^2 weights with 9 d outputs each.
    let (weights, outputs) = (2.0 * 12.0 * 32.0 * 32.0, 2.0 * 9.0 * 32.0);
    assert_eq!(size(int8), 4.0 * parameters - 3.0 * weights + 4.0 * outputs);
    assert_eq!(size(int4), 4.0 * parameters - 3.5 * weights + 4.0 * outputs);
    assert_eq!(size(groups), 4.0 * parameters - 3.5 * weights + 4.0 * weights / 8.0);
    assert!((loss(int8) - loss(plain)).abs() < 0.01, "{} {}", loss(int8), loss(plain));
    let errors = [int8, groups, int4].map(|outcome| (loss(outcome) - loss(plain)).abs());
    assert!(errors.iter().all(|error| *error > 0.0) && errors[0] < errors[2], "{errors:?}");
    assert!(plain.metrics.get("sparsity").is_none(), "nothing was compressed");
    for (outcome, tolerance) in [(magnitude, 1e-3), (wanda, 1e-9)] {
        assert!((outcome.metrics["sparsity"].value - 0.5).abs() < tolerance);
        let difference = (loss(outcome) - loss(plain)).abs();
        assert!(difference > 0.0 && difference < 1.0, "{} {}", loss(outcome), loss(plain));
        assert_eq!(size(outcome), size(plain), "pruned weights take memory like others");
    }
    assert!(both.metrics["sparsity"].value >= 0.5);
    assert_eq!(size(both), size(int8));
}

#[test]
fn groups_must_divide_the_inputs() {
    let with = json!({"n_layer": 1, "n_head": 2, "d_model": 24, "block_size": 8, "quantize": "int8", "group_size": 7});
    let failure = run("eval", with, Path::new(".")).unwrap_err();
    let text = format!("{failure:?}");
    assert!(text.contains("`h.0.attn.c_attn.weight` has 24 inputs, which do not divide into groups of 7"), "{text}");
}

#[test]
fn a_training_is_pruned_by_wanda_with_and_without_a_pattern() {
    for (more, expected) in
        [(json!({}), 0.5), (json!({"sparsity": 0.75}), 0.75), (json!({"prune_pattern": "2:4"}), 0.5)]
    {
        let folder = tempfile::tempdir().unwrap();
        let train = json!({
            "n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16, "batch_size": 4, "eval_batches": 2, "iters": 40,
            "warmup_iters": 4, "lr": 1e-3, "prune": "wanda", "prune_every": 4, "calibration_batches": 2,
            "precision": "mixed", "optimizer": "lion", "beta_2": 0.99,
        });
        let outcome = run("train", merged(train, &more), folder.path()).unwrap();
        assert!((outcome.metrics["sparsity"].value - expected).abs() < 1e-9, "{more}");
        let curve = &outcome.curves["sparsity"].values;
        assert!(curve.is_sorted() && curve.len() > 4, "{more}: {curve:?}");
    }
}

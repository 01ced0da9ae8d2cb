//! GPTQ and SparseGPT, compared with PyTorch (`scripts/surgery-vectors.py`), and before an evaluation.

use std::{collections::BTreeMap, path::Path};

use crate::{
    common::{Train, golden, merged, run},
    parts::{formula, numbers, tokens, values},
};
use serde::Deserialize;
use serde_json::{Value, json};
use sweep_lab::{
    model::{self, Gpt, Role, quantize},
    prune::{Codes, Pruned, Surgery, sweep},
};

#[derive(Deserialize)]
struct Case {
    with: Value,
    methods: BTreeMap<String, Method>,
}

#[derive(Deserialize)]
struct Method {
    /// First of the calibration batches.
    start: i32,
    /// By matrix: zeros, and norm and projection of the weights.
    matrices: BTreeMap<String, (usize, f64, f64)>,
}

fn method(name: &str) -> (Pruned, Option<(u32, Option<usize>)>) {
    let pattern = Pruned::Pattern { kept: 2, size: 4 };
    match name {
        "gptq-int8" => (Pruned::Nothing, Some((8, None))),
        "gptq-int4" => (Pruned::Nothing, Some((4, None))),
        "gptq-int4-8" => (Pruned::Nothing, Some((4, Some(8)))),
        "sparsegpt" => (Pruned::Part(0.5), None),
        "sparsegpt-99" => (Pruned::Part(0.99), None),
        "sparsegpt-2:4" => (pattern, None),
        "sparsegpt-gptq" => (Pruned::Part(0.3), Some((4, Some(8)))),
        "sparsegpt-2:4-gptq" => (pattern, Some((4, Some(8)))),
        _ => panic!("no method {name}"),
    }
}

fn operated(network: Gpt<Train>, name: &str, start: i32) -> Result<Gpt<Train>, sweep_lab::LabError> {
    let (pruned, codes) = method(name);
    let batches = (0..8).map(|batch| tokens(start + 5 * batch));
    Surgery { pruned, codes, asked_by: "rounding: gptq" }.on(network, batches)
}

/// A code or a mask that differs changes a norm or a projection by more than a thousandth.
#[test]
fn networks_after_gptq_and_sparsegpt_are_those_of_pytorch() {
    let cases: BTreeMap<String, Case> =
        serde_json::from_str(&std::fs::read_to_string(golden("surgery.json")).unwrap()).unwrap();
    assert_eq!(cases.len(), 2);
    for (name, Case { with, methods }) in cases {
        assert_eq!(methods.len(), 8);
        let before = values(&formula(&with));
        for (method, Method { start, matrices }) in methods {
            let network = operated(formula(&with), &method, start).unwrap();
            let infos = model::infos(&network);
            let mut compared = 0;
            for ((info, weights), before) in infos.iter().zip(values(&network)).zip(&before) {
                let Some((zeros, norm, projection)) = matrices.get(&info.name) else {
                    assert_eq!(&weights, before, "{}", info.name);
                    continue;
                };
                assert_eq!(info.role(), Role::Linear);
                let found_zeros = weights.iter().filter(|weight| **weight == 0.0).count();
                assert_eq!(found_zeros, *zeros, "{name} {method} {}", info.name);
                let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
                let found = weights.iter().map(|weight| weight * weight).sum::<f64>().sqrt();
                let on: f64 = weights.iter().zip(numbers("projection", weights.len())).map(|(a, b)| a * b).sum();
                for (found, expected) in [(found, norm), (on, projection)] {
                    let error = (found - expected).abs() / norm;
                    assert!(error < 1e-5, "{name} {method} {}: {found}, not {expected}", info.name);
                }
                compared += 1;
            }
            assert_eq!(compared, matrices.len(), "{name}");
        }
    }
}

/// Numbers between -1 and 1.
fn given(name: &str, count: usize) -> Vec<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "weights are in single precision")]
    numbers(name, count).into_iter().map(|number| number as f32).collect()
}

/// `x^T x` of `rows` rows of an input.
fn products(name: &str, rows: usize, inputs: usize) -> Vec<f64> {
    let x = numbers(name, rows * inputs);
    let product = |row: usize, column: usize| (0..rows).map(|at| x[at * inputs + row] * x[at * inputs + column]).sum();
    (0..inputs * inputs).map(|place| product(place / inputs, place % inputs)).collect()
}

/// The squared change of a layer's outputs.
fn loss(products: &[f64], before: &[f32], after: &[f32]) -> f64 {
    let inputs = products.len().isqrt();
    let outputs = before.len() / inputs;
    let change = |input: usize, output: usize| {
        f64::from(after[input * outputs + output]) - f64::from(before[input * outputs + output])
    };
    (0..outputs)
        .map(|output| {
            (0..inputs * inputs)
                .map(|place| products[place] * change(place / inputs, output) * change(place % inputs, output))
                .sum::<f64>()
        })
        .sum()
}

#[test]
fn a_sweep_changes_outputs_less_than_rounding_and_pruning_alone() {
    // More inputs than a block has, in groups that reach over its end.
    let (inputs, outputs) = (144, 5);
    let products = products("x", 300, inputs);
    let weights = given("w", inputs * outputs);
    for group_size in [inputs, 48, 12] {
        let mut nearest = weights.clone();
        quantize::round(&mut nearest, outputs, group_size, 4);
        let mut found = weights.clone();
        sweep(&mut found, &products, Pruned::Nothing, Some(Codes { bits: 4, group_size })).unwrap();
        let [before, after] = [&nearest, &found].map(|after| loss(&products, &weights, after));
        assert!(after < 0.8 * before, "{group_size}: {after} {before}");
    }
    let mut pruned = weights.clone();
    sweep(&mut pruned, &products, Pruned::Part(0.5), None).unwrap();
    let alone: Vec<f32> =
        weights.iter().zip(&pruned).map(|(weight, pruned)| if *pruned == 0.0 { 0.0 } else { *weight }).collect();
    assert!(loss(&products, &weights, &pruned) < 0.8 * loss(&products, &weights, &alone));
}

#[test]
fn without_products_between_inputs_codes_are_the_nearest() {
    let (inputs, outputs) = (12, 3);
    let weights = given("w", inputs * outputs);
    let diagonal = |place: usize| if place.is_multiple_of(inputs + 1) { 1.0 + place as f64 } else { 0.0 };
    let products: Vec<f64> = (0..inputs * inputs).map(diagonal).collect();
    let [mut nearest, mut found] = [weights.clone(), weights.clone()];
    quantize::round(&mut nearest, outputs, 4, 8);
    sweep(&mut found, &products, Pruned::Nothing, Some(Codes { bits: 8, group_size: 4 })).unwrap();
    assert_eq!(found, nearest);
    let mut same = weights.clone();
    sweep(&mut same, &products, Pruned::Nothing, None).unwrap();
    assert_eq!(same, weights, "nothing is asked for");
    sweep(&mut same, &products, Pruned::Part(0.0), None).unwrap();
    assert_eq!(same, weights, "less than a weight");
}

#[test]
fn dead_inputs_few_tokens_and_numbers_that_are_none() {
    let (inputs, outputs) = (40, 6);
    let weights = given("w", inputs * outputs);
    let codes = Some(Codes { bits: 4, group_size: 8 });
    let pattern = Pruned::Pattern { kept: 2, size: 4 };
    // One token, and none: a Hessian of rank 1, and of rank 0.
    for rows in [1, 0] {
        for (pruned, codes) in [(Pruned::Nothing, codes), (Pruned::Part(0.99), None), (pattern, codes)] {
            let mut found = weights.clone();
            sweep(&mut found, &products("x", rows, inputs), pruned, codes).unwrap();
            assert!(found.iter().all(|weight| weight.is_finite()), "{rows} {pruned:?}");
            assert!(rows > 0 || found.iter().all(|weight| *weight == 0.0), "dead inputs lose their weights");
        }
    }
    let mut some_dead = products("x", 90, inputs);
    for (place, product) in some_dead.iter_mut().enumerate() {
        if place / inputs == 7 || place % inputs == 7 {
            *product = 0.0;
        }
    }
    let mut found = weights.clone();
    sweep(&mut found, &some_dead, Pruned::Nothing, Some(Codes { bits: 8, group_size: inputs })).unwrap();
    let is_zero = |input: usize| found[input * outputs..(input + 1) * outputs].iter().all(|weight| *weight == 0.0);
    assert!(is_zero(7) && !is_zero(6));

    let mut found = weights.clone();
    sweep(&mut found, &products("x", 90, inputs), Pruned::Part(0.99), None).unwrap();
    assert_eq!(found.iter().filter(|weight| **weight != 0.0).count(), 3, "of 240");
    // Slightly negative eigenvalues, as rounding leaves them.
    let mut indefinite = products("x", 1, inputs);
    for place in (0..inputs * inputs).step_by(inputs + 1) {
        indefinite[place] *= 0.98;
    }
    assert!(sweep(&mut weights.clone(), &indefinite, pattern, codes).is_some());
    for bad in [f32::NAN, f32::INFINITY] {
        let mut found = weights.clone();
        found[5] = bad;
        assert!(sweep(&mut found, &products("x", 90, inputs), pattern, codes).is_none());
        let mut products = products("x", 90, inputs);
        for place in [0, 1, inputs + 1] {
            let mut spoilt = products.clone();
            spoilt[place] = f64::from(bad);
            assert!(sweep(&mut weights.clone(), &spoilt, pattern, codes).is_none(), "{place}");
        }
        products.clear();
        assert!(sweep(&mut [], &products, pattern, codes).is_some());
    }
}

#[test]
fn what_is_pruned_stays_pruned_while_weights_are_rounded() {
    let (inputs, outputs) = (24, 4);
    let mut weights = given("w", inputs * outputs);
    weights.iter_mut().step_by(3).for_each(|weight| *weight = 0.0);
    let products = products("x", 60, inputs);
    let codes = Some(Codes { bits: 8, group_size: 8 });
    let [mut kept, mut free] = [weights.clone(), weights.clone()];
    sweep(&mut kept, &products, Pruned::Zeros, codes).unwrap();
    assert!(kept.iter().step_by(3).all(|weight| *weight == 0.0));
    sweep(&mut free, &products, Pruned::Nothing, codes).unwrap();
    assert!(free.iter().step_by(3).any(|weight| *weight != 0.0), "they would come back");
}

#[test]
fn weights_that_are_none_are_an_error_that_names_them() {
    let with = json!({"norm": "rmsnorm", "position": "rope"});
    let network = model::map_values::<Train, _>(formula(&with), &mut |index, weights| {
        if index == 3 { weights * f32::NAN } else { weights }
    });
    let name = &model::infos(&network)[3].name;
    let error = operated(network, "gptq-int4", 0).unwrap_err().to_string();
    let expected = "`: a weight or an input of it is NaN or infinite, because the training has diverged";
    assert!(error.starts_with("`rounding: gptq` cannot change `h.0.") && error.ends_with(expected), "{name}: {error}");
}

#[test]
fn an_evaluation_after_surgery() {
    let folder = tempfile::tempdir().unwrap();
    let train = json!({
        "n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16, "batch_size": 4, "eval_batches": 2, "iters": 60,
        "dropout": 0, "warmup_iters": 4, "lr": 5e-3, "save": true,
    });
    run("train", train, folder.path()).unwrap();
    let base = json!({"init": folder.path().join("checkpoint"), "eval_batches": 8, "batch_size": 4});
    let eval = |more: Value| run("eval", merged(base.clone(), &more), Path::new(".")).unwrap().metrics;
    let plain = eval(json!({}))["loss"].value;
    let [magnitude, sparse] = ["magnitude", "sparsegpt"].map(|method| {
        let found = eval(json!({"post_prune": method, "post_sparsity": 0.7}));
        assert!((found["sparsity"].value - 0.7).abs() < 1e-3, "{}", found["sparsity"].value);
        (found["loss"].value - plain).abs()
    });
    assert!(sparse < magnitude, "{sparse} {magnitude}");
    let whole = eval(json!({"quantize": "int8", "rounding": "gptq", "calibration_batches": 1}));
    assert!((whole["loss"].value - plain).abs() < 0.01, "{}", whole["loss"].value);
    for more in [
        json!({"post_prune": "sparsegpt", "post_pattern": "2:4", "quantize": "int4", "rounding": "gptq", "group_size": 16}),
        json!({"post_prune": "sparsegpt", "post_pattern": "2:4", "quantize": "int8"}),
        json!({"post_prune": "wanda", "post_pattern": "2:4", "quantize": "int8", "rounding": "gptq"}),
        json!({"post_prune": "magnitude", "quantize": "int8", "rounding": "gptq"}),
    ] {
        let found = eval(more.clone());
        assert!(found["sparsity"].value >= 0.499, "{more}: {}", found["sparsity"].value);
        assert!((found["loss"].value - plain).abs() < 1.0, "{more}");
        assert!(found["memory.weights"].value < 2.0 * found["parameters"].value, "{more}");
    }
}

#[test]
fn groups_must_divide_the_inputs_of_every_layer() {
    for (more, expected) in [
        (json!({"quantize": "int4", "rounding": "gptq", "group_size": 7}), "do not divide into groups of 7"),
        (
            json!({"post_prune": "sparsegpt", "post_pattern": "4:8", "d_model": 20, "n_head": 2}),
            "do not divide into groups of 8",
        ),
    ] {
        let with = merged(json!({"n_layer": 1, "n_head": 2, "d_model": 24, "block_size": 8}), &more);
        let failure = format!("{:?}", run("eval", with, Path::new(".")).unwrap_err());
        assert!(failure.contains(expected), "{failure}");
    }
}

#[test]
fn other_architectures_are_compressed_block_by_block_too() {
    for more in [
        json!({"attention": "mla"}),
        json!({"ablation": "16"}),
        json!({"ablation": "V13"}),
        json!({"kv_heads": 1, "glu": true, "mlp_hidden": 64, "tie": false, "qk_norm": true, "bias": false}),
    ] {
        let with = merged(
            json!({
                "n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16, "batch_size": 4, "eval_batches": 2,
                "post_prune": "sparsegpt", "quantize": "int8", "rounding": "gptq",
            }),
            &more,
        );
        let found = run("eval", with, Path::new(".")).unwrap().metrics;
        assert!(found["sparsity"].value >= 0.49, "{more}: {}", found["sparsity"].value);
    }
}

//! The parts in which decoders differ, from GPT-2 to Llama, compared with PyTorch and transformers
//! (`scripts/llama-vectors.py`), and combined with everything else that a network can have.

use std::{collections::BTreeMap, path::Path};

use crate::common::{Inner, Tensors, Train, golden, host, ids, merged, relative_error, run, task};
use burn::{
    backend::{Flex, flex::FlexDevice},
    tensor::{Int, Tensor, TensorData},
};
use serde::Deserialize;
use serde_json::{Value, json};
use sweep_job::{
    Task,
    tasks::{Checkpointing, Computing, DecayOn, Optimizer, Precision},
};
use sweep_lab::{
    model::{self, Cache, Gpt, GptDims, Network, cross_entropy, hub},
    optim::{
        AdamW, Gradients,
        gradient::{Dropout, Forward},
    },
};

/// Limit of relative errors in single precision, against vectors in double precision. PyTorch's own single precision differs from
/// the same vectors by up to 7.0e-6 in losses and 7.4e-6 in gradients.
pub(crate) const LIMIT: f64 = 1e-5;
/// Limit of the error of a change by four steps, relative to its norm: the weights that it is a difference of are rounded, and
/// Muon's iteration multiplies small singular values by 3.4 five times. PyTorch's single precision differs by 9.3e-5 for SGD and
/// by 1.4e-4 for Muon.
const CHANGE_LIMIT: f64 = 2e-4;

/// The settings of the vectors' AdamW.
pub(crate) fn adamw() -> Optimizer {
    Optimizer { beta_1: 0.9, beta_2: 0.95, weight_decay: 0.1, decay_on: DecayOn::All, ..Optimizer::default() }
}

fn flat<const D: usize>(tensor: Tensor<Inner, D>) -> Vec<f32> {
    let numbers = tensor.shape().num_elements();
    host(tensor.reshape([numbers]))
}

pub(crate) fn values(network: &Gpt<Train>) -> Vec<Vec<f32>> {
    model::values(network).into_iter().map(host).collect()
}

/// The network, its gradient and its weights after three steps are folders of the Hub.
#[test]
fn a_llama_of_transformers() {
    let expected = Tensors::read(&golden("llama/expected.safetensors"));
    let [mut network, gradient, after] =
        ["llama", "llama/gradient", "llama/after3"].map(|name| hub::load(&golden(name), &FlexDevice).unwrap());
    let (tokens, shape) = (expected.ints("input_ids"), expected.shape("input_ids"));
    let (batch, length) = (shape[0], shape[1]);
    let tokens = ids(&tokens, [batch, length]);
    let logits = flat(network.logits(tokens.clone(), 0.0).inner());
    let error = relative_error(&logits, &expected.floats("logits"));
    assert!(error < 1e-6, "logits differ by {error:.2e}");

    let infos = model::infos(&network);
    let mut optimizer = AdamW::<Inner>::new(&adamw(), &infos);
    let mut losses = Vec::new();
    for step in 0..3 {
        let logits = network.logits(tokens.clone(), 0.0);
        let vocab = logits.dims()[2];
        let targets = tokens.clone().slice([0..batch, 1..length]);
        let loss = cross_entropy(logits.slice([0..batch, 0..length - 1, 0..vocab]), targets);
        losses.extend(flat(loss.clone().inner()));
        let gradients = model::gradients(&network, &mut loss.backward());
        if step == 0 {
            for ((info, found), expected) in infos.iter().zip(&gradients).zip(values(&gradient)) {
                let error = relative_error(&host(found.clone().unwrap()), &expected);
                assert!(error < LIMIT, "gradient of {} differs by {error:.2e}", info.name);
            }
        }
        network = optimizer.step::<Train, _>(network, gradients, 1e-3).unwrap();
    }
    let error = relative_error(&losses, &expected.floats("losses"));
    assert!(error < 1e-6, "losses {losses:?} differ by {error:.2e}");
    for ((info, found), expected) in infos.iter().zip(values(&network)).zip(values(&after)) {
        let error = relative_error(&found, &expected);
        assert!(error < LIMIT, "{} differs by {error:.2e} after three steps", info.name);
    }
}

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) with: Value,
    pub(crate) losses: Vec<f64>,
    /// Norm and projection of each parameter's gradient.
    pub(crate) gradients: BTreeMap<String, [f64; 2]>,
}

/// `numbers` of the script.
pub(crate) fn numbers(name: &str, count: usize) -> Vec<f64> {
    let letters = name.bytes().enumerate().map(|(index, letter)| (index + 1) * usize::from(letter));
    let phase = letters.sum::<usize>() as f64;
    (1..=count)
        .map(|place| (place as f64 * 12.9898 + phase * 0.37).sin() * (place as f64 * 0.7 + phase).cos())
        .collect()
}

fn dims(given: Value) -> GptDims {
    let Task::Train(train) = task("train", given) else { panic!("a training") };
    GptDims::new(&train.model, &train.architecture, 40).unwrap()
}

/// A network with the numbers of the script.
pub(crate) fn formula(with: &Value) -> Gpt<Train> {
    let size = json!({"n_layer": 2, "n_head": 4, "d_model": 32, "block_size": 12});
    #[expect(clippy::cast_possible_truncation, reason = "weights are in single precision")]
    let weights = |info: &model::ParamInfo| {
        let is_gain = info.shape.len() == 1 && info.name.ends_with("weight");
        let scaled = |number: f64| if is_gain { 1.0 + 0.1 * number } else { 0.3 * number };
        numbers(&info.name, info.len()).into_iter().map(|number| scaled(number) as f32).collect()
    };
    Gpt::with_values(dims(merged(size, with)), &FlexDevice, |info| Ok(weights(info))).unwrap()
}

pub(crate) fn tokens(shift: i32) -> Tensor<Flex, 2, Int> {
    let ids: Vec<i32> = (0..24).map(|index| ((index * index + 7 * index) % 40 + shift) % 40).collect();
    Tensor::from_data(TensorData::new(ids, [2, 12]), &FlexDevice)
}

fn forward(network: &Gpt<Train>, computing: &Computing) -> Forward<Flex> {
    Forward::new(network, tokens(0), tokens(3), computing, Dropout { p: 0.0, seed: 0, at: [0, 0] })
}

pub(crate) fn cases() -> BTreeMap<String, Case> {
    serde_json::from_str(&std::fs::read_to_string(golden("parts.json")).unwrap()).unwrap()
}

/// The networks of `scripts/network-vectors.py`.
pub(crate) fn networks() -> BTreeMap<String, Case> {
    serde_json::from_str(&std::fs::read_to_string(golden("networks.json")).unwrap()).unwrap()
}

#[test]
fn each_part_alone_and_each_taken_back() {
    let cases = cases();
    assert_eq!(cases.len(), 20);
    for (name, case) in cases {
        follow(&name, case, |network, _| forward(network, &Computing::default()));
    }
}

/// Compares the losses of a case's steps and the gradients of the first one with PyTorch. `forward` gets the network and the
/// parameters of the case.
pub(crate) fn follow(
    name: &str,
    Case { with, losses, gradients }: Case,
    forward: impl Fn(&Gpt<Train>, &Value) -> Forward<Flex>,
) {
    let mut network = formula(&with);
    let infos = model::infos(&network);
    assert_eq!(infos, network.dims().parameters(), "{name}");
    let mut optimizer = AdamW::<Inner>::new(&adamw(), &infos).with_rates_of(network.dims(), &infos);
    for (step, expected) in losses.iter().enumerate() {
        let forward = forward(&network, &with);
        let loss = f64::from(host(forward.loss())[0]);
        assert!((loss - expected).abs() < LIMIT * expected, "{name}: loss {loss} of step {step} is not {expected}");
        let found = forward.backward(1.0);
        if step == 0 {
            compare(name, &infos, &found, &gradients);
        }
        network = optimizer.step::<Train, _>(network, found, 1e-3).unwrap();
    }
}

pub(crate) fn compare(
    name: &str,
    infos: &[model::ParamInfo],
    found: &Gradients<Inner>,
    expected: &BTreeMap<String, [f64; 2]>,
) {
    let names: Vec<&String> = infos.iter().map(|info| &info.name).collect();
    assert_eq!(names.len(), expected.len(), "{name}");
    for (info, gradient) in infos.iter().zip(found) {
        let gradient: Vec<f64> = host(gradient.clone().unwrap()).into_iter().map(f64::from).collect();
        let norm = gradient.iter().map(|number| number * number).sum::<f64>().sqrt();
        let projection: f64 = gradient.iter().zip(numbers("projection", gradient.len())).map(|(a, b)| a * b).sum();
        let [expected_norm, expected_projection] = expected[&info.name];
        for (found, expected) in [(norm, expected_norm), (projection, expected_projection)] {
            assert!(
                (found - expected).abs() < LIMIT * expected_norm.max(1e-3),
                "{name}: {}: {found}, not {expected}",
                info.name
            );
        }
    }
}

/// The parts in all combinations with mechanisms that are allowed.
fn combined() -> Vec<Value> {
    let llama = json!({
        "norm": "rmsnorm", "position": "rope", "kv_heads": 2, "bias": false, "glu": true, "activation": "silu", "tie": false,
    });
    let more = [
        json!({}),
        json!({"qk_norm": true, "logit_cap": 3.0, "rope_scaling": "llama3", "rope_original": 8}),
        json!({"ra": true}),
        json!({"mlp_gate": true}),
        json!({"cross_token": true}),
        json!({"ra_ct": "topk"}),
        json!({"ablation": "V17", "glu": false}),
        json!({"attention": "mla", "position": "none", "kv_heads": null, "latent_recip": true}),
    ];
    more.iter().map(|more| merged(llama.clone(), more)).collect()
}

#[test]
fn decoding_with_a_cache_gives_the_logits_of_whole_sequences() {
    let cases = cases().into_values().chain(networks().into_values());
    for with in cases.map(|case| case.with).chain(combined()) {
        let network = formula(&with);
        let whole = flat(network.logits(Tensor::from_inner(tokens(0)), 0.0).inner());
        let mut cache = Cache::new(2);
        let mut steps = Vec::new();
        for position in 0..12 {
            let token = Tensor::from_inner(tokens(0).narrow(1, position, 1));
            steps.push(network.decode(token, &mut cache).unwrap().inner());
        }
        let error = relative_error(&flat(Tensor::cat(steps, 1)), &whole);
        assert!(error < LIMIT, "{with}: {error:.2e}");
        if with["kv_heads"] == 2
            && with["ablation"].is_null()
            && with["cross_token"].is_null()
            && with["mlp_gate"].is_null()
        {
            let own = if with["ra"].is_null() { 0 } else { 2 * 2 * 2 * 4 * 8 };
            assert_eq!(cache.numbers() - own, 2 * 2 * 12 * 2 * 2 * 8, "{with}: shared heads are kept once");
        }
    }
}

#[test]
fn checkpointing_and_shorter_formats() {
    let cases = cases().into_iter().filter(|(name, _)| name.starts_with("gpt2+") || name == "llama");
    for with in cases.map(|(_, case)| case.with).chain(combined()) {
        let network = formula(&with);
        let plain = forward(&network, &Computing::default());
        let loss = host(plain.loss());
        let expected = plain.backward(1.0);
        for checkpointing in [Checkpointing::Segment1, Checkpointing::Balanced] {
            let found = forward(&network, &Computing { checkpointing, ..Computing::default() });
            assert_eq!(loss, host(found.loss()), "{with} {checkpointing}");
            for (found, expected) in found.backward(1.0).into_iter().zip(&expected) {
                let [found, expected] = [found, expected.clone()].map(|gradient| gradient.map_or(vec![0.0], host));
                if found.len() == expected.len() {
                    assert!(relative_error(&found, &expected) < 1e-4, "{with} {checkpointing}");
                }
            }
        }
        let shorter = if network.dims().block.is_plain() {
            vec![Precision::Mixed, Precision::Bf16]
        } else {
            vec![Precision::Mixed]
        };
        for precision in shorter {
            let found = forward(&network, &Computing { precision, ..Computing::default() });
            let error = relative_error(&host(found.loss()), &loss);
            assert!(error < 0.02, "{with} {precision}: the loss differs by {error:.1e}");
            assert!(
                found
                    .backward(1.0)
                    .iter()
                    .flatten()
                    .all(|gradient| host(gradient.clone()).iter().all(|x| x.is_finite()))
            );
        }
    }
}

fn saved_and_loaded(with: &Value) -> (Gpt<Train>, Value) {
    let network = formula(with);
    let folder = tempfile::tempdir().unwrap();
    hub::save(&network, folder.path()).unwrap();
    let loaded: Gpt<Train> = hub::load(folder.path(), &FlexDevice).unwrap();
    let mut expected = *network.dims();
    // A folder of GPT-2's shape does not say its usual width.
    if loaded.dims().block.mlp_hidden.is_none() && expected.block.mlp_hidden == Some(4 * expected.d_model) {
        expected.block.mlp_hidden = None;
    }
    assert_eq!(loaded.dims(), &expected, "{with}");
    assert_eq!(values(&loaded), values(&network), "{with}");
    let config = std::fs::read_to_string(folder.path().join("config.json")).unwrap();
    (loaded, serde_json::from_str(&config).unwrap())
}

#[test]
fn every_combination_is_saved_and_loaded_and_a_llama_is_one_for_other_programs() {
    let cases = cases().into_values().chain(networks().into_values());
    for with in cases.map(|case| case.with).chain(combined()) {
        let (network, config) = saved_and_loaded(&with);
        let is_llama = ["norm", "position", "glu"].map(|key| with[key].clone())
            == ["rmsnorm", "rope", "true"].map(|word| if word == "true" { json!(true) } else { json!(word) })
            && with["qk_norm"] != json!(true)
            && with["parametrization"].is_null()
            && with["value_embeddings"].is_null()
            && network.dims().block.is_plain();
        let kind = if is_llama {
            "llama"
        } else if network.dims().is_gpt2() {
            "gpt2"
        } else {
            "sweep-gpt"
        };
        assert_eq!(config["model_type"], kind, "{with}");
    }
}

/// A copy of the reference network after `change` of its configuration or its index.
fn changed(file: &str, change: impl FnOnce(&mut Value)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden("llama")).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    let path = folder.path().join(file);
    let mut content: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut content);
    std::fs::write(path, content.to_string()).unwrap();
    folder
}

fn refusal(folder: &Path) -> String {
    let error = hub::load::<Inner>(folder, &FlexDevice).unwrap_err();
    error.to_string().replace(&folder.display().to_string(), "DIR")
}

#[test]
fn llamas_that_are_not_supported() {
    for (key, value, wanted) in [
        ("hidden_act", json!("relu"), "hidden_act `relu` is not supported, only `gelu`, `gelu_new`, `silu`, `relu2`"),
        ("head_dim", json!(16), "head_dim 16 is not supported; it must be hidden_size / num_attention_heads"),
        ("mlp_bias", json!(true), "attention_bias and mlp_bias must be equal"),
        (
            "num_key_value_heads",
            json!(3),
            "`kv_heads: 3` does not divide `n_head: 4`; choose a `kv_heads` that divides `n_head`",
        ),
        ("num_key_value_heads", json!(0), "num_key_value_heads 0 is not supported; it must be from 1 to 1024"),
        (
            "max_position_embeddings",
            json!(131_072),
            "max_position_embeddings 131072 is not supported; it must be from 1 to 16384; write a smaller number there, \
             which limits the context and changes nothing else",
        ),
        ("rope_theta", json!(0.0), "rope_theta 0.0 is not supported; it must be from 1 to 1000000000000"),
        (
            "rope_scaling",
            json!({"rope_type": "yarn", "factor": 2.0}),
            "rope_type `yarn` is not supported, only `default`, `linear` and `llama3`",
        ),
        ("rope_scaling", json!({"type": "linear"}), "rope_scaling has no `factor`"),
        (
            "rope_scaling",
            json!({"type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 4,
                "original_max_position_embeddings": 16}),
            "low_freq_factor 4 must be less than high_freq_factor 4",
        ),
    ] {
        let folder = changed("config.json", |config| config[key] = value);
        assert_eq!(refusal(folder.path()), format!("DIR/config.json: {wanted}"));
    }
}

#[test]
fn an_index_that_is_wrong() {
    let index = "model.safetensors.index.json";
    let outside = changed(index, |index| index["weight_map"]["lm_head.weight"] = json!("../secret.safetensors"));
    let wanted = "DIR/model.safetensors.index.json: `../secret.safetensors` is not the name of a file in the folder";
    assert_eq!(refusal(outside.path()), wanted);
    let missing = changed(index, |index| {
        index["weight_map"]["model.layers.7.mlp.up_proj.weight"] = json!("model-00001-of-00004.safetensors");
    });
    let wanted = "DIR/model.safetensors.index.json: tensor `model.layers.7.mlp.up_proj.weight` is not in \
                  `model-00001-of-00004.safetensors`";
    assert_eq!(refusal(missing.path()), wanted);
    let empty = changed(index, |index| index["weight_map"] = json!({}));
    assert_eq!(refusal(empty.path()), "DIR/model.safetensors.index.json: the index names no file");
    let lost = changed(index, |_| {});
    std::fs::remove_file(lost.path().join("model-00002-of-00004.safetensors")).unwrap();
    assert!(refusal(lost.path()).contains("model-00002-of-00004.safetensors"));
    let twice = changed(index, |_| {});
    let folder = twice.path();
    std::fs::copy(folder.join("model-00001-of-00004.safetensors"), folder.join("model-00002-of-00004.safetensors"))
        .unwrap();
    assert!(refusal(folder).contains("appears twice"), "{}", refusal(folder));
}

#[test]
fn a_llama_trains_and_a_training_begins_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let given = json!({
        "n_layer": 2, "n_head": 4, "d_model": 32, "block_size": 16, "batch_size": 4, "eval_batches": 2, "iters": 12,
        "dropout": 0, "lr": 1e-2, "warmup_iters": 2, "save": true, "norm": "rmsnorm", "position": "rope", "kv_heads": 2,
        "bias": false, "glu": true, "activation": "silu", "tie": false, "prune": "bitter7", "prune_every": 3,
    });
    let outcome = run("train", given, folder.path()).unwrap();
    let curve = &outcome.curves["loss"].values;
    assert!(curve.last().unwrap() < &5.2, "{curve:?}");
    let start = json!({"init": folder.path().join("checkpoint"), "eval_batches": 2, "batch_size": 4});
    let evaluated = run("eval", start, Path::new(".")).unwrap();
    let difference = (evaluated.metrics["loss"].value - outcome.metrics["loss"].value).abs();
    assert!(difference < 1e-5, "the loss of the saved network differs by {difference}");
}

#[derive(Deserialize)]
struct Changes {
    with: Value,
    /// Norm and projection of each parameter's change.
    changes: BTreeMap<String, [f64; 2]>,
}

/// The gradients that the vectors of optimizers are given in step `step`.
pub(crate) fn given_gradients(infos: &[model::ParamInfo], step: usize) -> Gradients<Inner> {
    #[expect(clippy::cast_possible_truncation, reason = "gradients are in single precision")]
    let gradient = |info: &model::ParamInfo| {
        let numbers = numbers(&format!("{}.{step}", info.name), info.len());
        let numbers: Vec<f32> = numbers.into_iter().map(|number| (0.1 * number) as f32).collect();
        Some(Tensor::<Inner, 1>::from_floats(&numbers[..], &FlexDevice))
    };
    infos.iter().map(gradient).collect()
}

#[test]
fn steps_of_lion_sgd_and_muon() {
    let cases: BTreeMap<String, Changes> =
        serde_json::from_str(&std::fs::read_to_string(golden("optimizers.json")).unwrap()).unwrap();
    assert_eq!(cases.len(), 5);
    let with = &self::cases()["llama"].with;
    for (name, Changes { with: settings, changes }) in cases {
        let Task::Train(train) = task("train", settings) else { panic!("a training") };
        let settings = Optimizer { decay_on: DecayOn::All, ..train.optimizer };
        let network = formula(with);
        let infos = model::infos(&network);
        let before = values(&network);
        let mut optimizer = AdamW::<Inner>::new(&settings, &infos);
        let mut stepped = network;
        for step in 0..4 {
            stepped = optimizer.step::<Train, _>(stepped, given_gradients(&infos, step), 0.02).unwrap();
        }
        compare_changes(&name, &infos, [&before, &values(&stepped)], &changes, CHANGE_LIMIT);
    }
}

/// The changes of all parameters between two sets of weights are `expected`: norms and projections, to `limit` of the norm.
pub(crate) fn compare_changes(
    name: &str,
    infos: &[model::ParamInfo],
    [before, after]: [&[Vec<f32>]; 2],
    expected: &BTreeMap<String, [f64; 2]>,
    limit: f64,
) {
    assert_eq!((infos.len(), infos.len()), (before.len(), expected.len()), "{name}");
    for ((info, before), after) in infos.iter().zip(before).zip(after) {
        let change: Vec<f64> = before.iter().zip(after).map(|(b, a)| f64::from(*a) - f64::from(*b)).collect();
        let norm = change.iter().map(|number| number * number).sum::<f64>().sqrt();
        let projection: f64 = change.iter().zip(numbers("projection", change.len())).map(|(a, b)| a * b).sum();
        let [expected_norm, expected_projection] = expected[&info.name];
        for (found, expected) in [(norm, expected_norm), (projection, expected_projection)] {
            let error = (found - expected).abs() / expected_norm;
            assert!(error < limit, "{name}: {}: {found}, not {expected}: {error:.1e}", info.name);
        }
    }
}

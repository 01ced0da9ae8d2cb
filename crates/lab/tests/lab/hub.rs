//! Folders in the Hub's layout: written folders can be read, and defects are rejected by name.

use std::{collections::BTreeMap, path::Path};

use crate::common::{Inner, Tensors, Train, golden, host, ids, relative_error, run};
use burn::{
    backend::flex::FlexDevice,
    tensor::{bf16, f16},
};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::{Value, json};
use sweep_job::{
    FailureKind,
    tasks::{Ablation, Activation, Architecture, BlockSpec, Model},
};
use sweep_lab::model::{Gpt, GptDims, Network, hub};

type Stored = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// A copy of the reference network after `change`, which gets its configuration and its tensors.
fn changed(change: impl FnOnce(&mut Value, &mut Stored)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let config = std::fs::read_to_string(golden("gpt2/config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    let bytes = std::fs::read(golden("gpt2/model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors: Stored = file
        .iter()
        .map(|(name, tensor)| (name.to_owned(), (tensor.dtype(), tensor.shape().to_vec(), tensor.data().to_vec())))
        .collect();
    change(&mut config, &mut tensors);
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    let views = tensors
        .iter()
        .map(|(name, (dtype, shape, data))| (name.as_str(), TensorView::new(*dtype, shape.clone(), data).unwrap()));
    safetensors::serialize_to_file(views, None, &dir.path().join("model.safetensors")).unwrap();
    dir
}

fn logits(network: &Gpt<Train>) -> Vec<f32> {
    let logits = network.logits(ids(&[1, 5, 9, 200, 31, 7], [2, 3]), 0.0).inner();
    let numbers = logits.shape().num_elements();
    host(logits.reshape([numbers]))
}

fn load(folder: &Path) -> Gpt<Train> {
    hub::load(folder, &FlexDevice).unwrap()
}

/// Reason for rejecting the network in `folder`, without the folder's name.
fn refusal(folder: &Path) -> String {
    let error = hub::load::<Inner>(folder, &FlexDevice).unwrap_err();
    assert_eq!(error.kind(), FailureKind::Input);
    error.to_string().replace(&folder.display().to_string(), "DIR")
}

#[test]
fn what_is_saved_is_loaded() {
    for activation in [Activation::Gelu, Activation::GeluNew] {
        let dims = GptDims {
            n_layer: 2,
            n_head: 2,
            d_model: 8,
            block_size: 6,
            vocab_size: 256,
            activation,
            block: BlockSpec::GPT2,
        };
        let network = Gpt::<Train>::random(dims, 3, &FlexDevice).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        hub::save(&network, &folder).unwrap();
        let loaded = load(&folder);
        assert_eq!(loaded.dims(), &dims);
        assert_eq!(logits(&loaded), logits(&network));
        let written = Tensors::read(&folder.join("model.safetensors"));
        assert_eq!(written.shape("transformer.h.1.attn.c_attn.weight"), [8, 24]);
    }
}

/// A small network of a step of the ablation, and the folder it was saved to.
fn saved(ablation: Ablation, coupling: f64) -> (Gpt<Train>, tempfile::TempDir) {
    let model = Model { n_layer: Some(2), n_head: Some(2), d_model: Some(16), block_size: Some(8), ..Model::default() };
    let architecture = Architecture { ablation, ..Architecture::default() };
    let dims = GptDims::new(&model, &architecture, 256).unwrap();
    let mut network = Gpt::<Train>::random(dims, 3, &FlexDevice).unwrap();
    network.set_coupling(coupling);
    let dir = tempfile::tempdir().unwrap();
    hub::save(&network, dir.path()).unwrap();
    (network, dir)
}

fn config(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("config.json")).unwrap()).unwrap()
}

#[test]
fn every_architecture_is_saved_and_loaded() {
    for ablation in Ablation::ALL {
        let (network, dir) = saved(*ablation, 0.25);
        let loaded = load(dir.path());
        assert_eq!(loaded.dims(), network.dims(), "step {ablation}");
        assert_eq!(logits(&loaded), logits(&network), "step {ablation}");
        let is_gpt2 = matches!(ablation, Ablation::Step0 | Ablation::Step1 | Ablation::Step2 | Ablation::V0);
        let config = config(dir.path());
        assert_eq!(config["model_type"], if is_gpt2 { "gpt2" } else { "sweep-gpt" }, "step {ablation}");
        assert_eq!(config["architectures"].as_array().unwrap().len(), usize::from(is_gpt2), "step {ablation}");
        let written = Tensors::read(&dir.path().join("model.safetensors"));
        let prefix = if is_gpt2 { "transformer." } else { "" };
        assert_eq!(written.shape(&format!("{prefix}wpe.weight")), [8, 16], "step {ablation}");
    }
}

#[test]
fn another_width_of_the_mlp_is_still_a_gpt2() {
    let (_, dir) = saved(Ablation::Step2, 1.0);
    assert_eq!(config(dir.path())["n_inner"], 80);
    assert!(config(dir.path()).get("sweep").is_none());
}

#[test]
fn a_gpt2_that_claims_more_is_refused() {
    let (_, dir) = saved(Ablation::Step8, 1.0);
    let mut config = config(dir.path());
    config["model_type"] = json!("gpt2");
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    assert_eq!(refusal(dir.path()), "DIR/config.json: a network of model_type `gpt2` must not have the key `sweep`");
}

#[test]
fn a_saved_network_that_sees_the_future_is_not_trained() {
    let (_, dir) = saved(Ablation::Step3, 1.0);
    let mut config = config(dir.path());
    config["sweep"]["block"]["gate"]["pool"] = json!("sequence_mean");
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    let given = json!({"init": dir.path(), "iters": 2, "eval_batches": 1});
    let failure = run("train", given, dir.path()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Input);
    assert!(failure.message.contains("sees the tokens to predict"), "{}", failure.message);
}

#[test]
fn names_without_prefix_old_buffers_and_a_repeated_head() {
    let wanted = logits(&load(&golden("gpt2")));
    let dir = changed(|_, tensors| {
        *tensors = std::mem::take(tensors)
            .into_iter()
            .map(|(name, tensor)| (name.trim_start_matches("transformer.").to_owned(), tensor))
            .collect();
        tensors.insert("h.0.attn.bias".into(), (Dtype::U8, vec![1, 1, 2, 2], vec![1, 0, 1, 1]));
        let table = tensors["wte.weight"].clone();
        tensors.insert("lm_head.weight".into(), table);
    });
    assert_eq!(logits(&load(dir.path())), wanted);
}

#[test]
fn half_precision_is_converted() {
    type Narrow = fn(f32) -> [u8; 2];
    let wanted = logits(&load(&golden("gpt2")));
    let kinds: [(Dtype, Narrow, f64); 2] = [
        (Dtype::F16, |number| f16::from_f32(number).to_le_bytes(), 2e-3),
        (Dtype::BF16, |number| bf16::from_f32(number).to_le_bytes(), 2e-2),
    ];
    for (kind, narrow, tolerance) in kinds {
        let dir = changed(|_, tensors| {
            for (dtype, _, data) in tensors.values_mut() {
                *data = data.as_chunks::<4>().0.iter().flat_map(|bytes| narrow(f32::from_le_bytes(*bytes))).collect();
                *dtype = kind;
            }
        });
        let error = relative_error(&logits(&load(dir.path())), &wanted);
        assert!(error > 0.0 && error < tolerance, "{kind:?}: {error:.2e}");
    }
}

#[test]
fn tensors_that_are_wrong() {
    let name = "transformer.h.1.ln_1.bias";
    let missing = changed(|_, tensors| {
        tensors.remove(name);
    });
    assert_eq!(refusal(missing.path()), "DIR/model.safetensors: tensor `h.1.ln_1.bias` is missing");

    let extra = changed(|_, tensors| {
        let tensor = tensors[name].clone();
        tensors.insert("transformer.h.2.ln_1.bias".into(), tensor);
    });
    let wanted = "DIR/model.safetensors: tensor `h.2.ln_1.bias` is not part of a network with these dimensions";
    assert_eq!(refusal(extra.path()), wanted);

    let ill_shaped = changed(|_, tensors| {
        if let Some((_, shape, _)) = tensors.get_mut(name) {
            *shape = vec![32, 2];
        }
    });
    let wanted = "DIR/model.safetensors: tensor `h.1.ln_1.bias` has shape [32, 2], expected [64]";
    assert_eq!(refusal(ill_shaped.path()), wanted);

    let integers = changed(|_, tensors| {
        if let Some((dtype, _, _)) = tensors.get_mut(name) {
            *dtype = Dtype::I32;
        }
    });
    assert!(refusal(integers.path()).contains("has element type I32; only F32, F16 and BF16 are supported"));

    let untied = changed(|_, tensors| {
        let (dtype, shape, mut data) = tensors["transformer.wte.weight"].clone();
        data[0] ^= 1;
        tensors.insert("lm_head.weight".into(), (dtype, shape, data));
    });
    assert!(refusal(untied.path()).contains("`lm_head.weight` differs from `wte.weight`"));

    let cut = changed(|_, _| {});
    std::fs::write(cut.path().join("model.safetensors"), [1, 2, 3]).unwrap();
    assert!(refusal(cut.path()).starts_with("DIR/model.safetensors: "));
}

#[test]
fn configurations_that_are_not_supported() {
    let cases = [
        (
            "activation_function",
            json!("relu"),
            "activation_function `relu` is not supported, only `gelu`, `gelu_new`, `silu`, `relu2`",
        ),
        ("model_type", json!("bert"), "model_type `bert` is not supported, only `gpt2`, `llama` and `sweep-gpt`"),
        ("model_type", json!("sweep-gpt"), "a network of model_type `sweep-gpt` requires the key `sweep`"),
        ("tie_word_embeddings", json!(false), "tie_word_embeddings must be true, or as in the key `sweep`"),
        ("n_head", json!(7), "`d_model: 64` is not a multiple of `n_head: 7`"),
    ];
    for (key, value, wanted) in cases {
        let dir = changed(|config, _| config[key] = value);
        assert_eq!(refusal(dir.path()), format!("DIR/config.json: {wanted}"));
    }
    let empty = tempfile::tempdir().unwrap();
    let missing = refusal(empty.path());
    assert!(missing.starts_with("cannot read the network: ") && missing.contains("DIR/config.json"), "{missing}");
}

/// A network with any of these numbers would be counted, named or allocated for minutes, or overflow, before its tensors are
/// seen to be missing.
#[test]
fn sizes_that_no_recipe_may_ask_for_are_refused_at_once() {
    let huge = [
        ("n_layer", json!(1_000_000_000_u64), "from 1 to 1024"),
        ("n_layer", json!(0), "from 1 to 1024"),
        ("n_head", json!(4096), "from 1 to 1024"),
        ("n_embd", json!(u64::MAX), "from 1 to 65536"),
        ("n_embd", json!(0), "from 1 to 65536"),
        ("n_positions", json!(1_u64 << 40), "from 1 to 16384"),
        ("vocab_size", json!(1_u64 << 60), "from 2 to 1000000"),
        ("n_inner", json!(u64::MAX), "from 1 to 1000000"),
        ("n_inner", json!(0), "from 1 to 1000000"),
    ];
    for (key, value, allowed) in huge {
        let wanted = format!("DIR/config.json: {key} {value} is not supported; it must be {allowed}");
        let dir = changed(|config, _| config[key] = value);
        assert_eq!(refusal(dir.path()), wanted);
    }
    let negative = changed(|config, _| config["n_layer"] = json!(-1));
    assert!(refusal(negative.path()).contains("invalid value: integer `-1`"));

    let parts = [
        (Ablation::Step8, "/attention/latent/dim", "from 1 to 65536"),
        (Ablation::Step3, "/mlp_hidden", "from 1 to 1000000"),
        (Ablation::Step3, "/gate/dim", "from 1 to 65536"),
        (Ablation::Step4, "/cross/projection/bottleneck/dim", "from 1 to 65536"),
        (Ablation::Step4, "/cross/select/top_k/k", "from 1 to 65536"),
        (Ablation::Step5, "/reciprocal/window", "from 0 to 65536"),
        (Ablation::Step13, "/ra_ct/k", "from 1 to 65536"),
    ];
    for (ablation, place, allowed) in parts {
        let (_, dir) = saved(ablation, 1.0);
        let mut config = config(dir.path());
        *config.pointer_mut(&format!("/sweep/block{place}")).unwrap() = json!(u64::MAX);
        std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        let key = format!("sweep.block{}", place.replace('/', "."));
        let wanted = format!("DIR/config.json: {key} {} is not supported; it must be {allowed}", u64::MAX);
        assert_eq!(refusal(dir.path()), wanted);
    }
    for (ablation, place, wanted) in [
        (Ablation::V1, "/attention/folded/rank", "rank 0 does not fit into a head of width 8"),
        (Ablation::V3, "/r_mlp/low", "the reciprocal part of the MLP has a width of 0"),
    ] {
        let (_, dir) = saved(ablation, 1.0);
        let mut config = config(dir.path());
        *config.pointer_mut(&format!("/sweep/block{place}")).unwrap() = json!(0);
        std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        assert_eq!(refusal(dir.path()), format!("DIR/config.json: {wanted}"));
    }
}

#[test]
fn an_evaluation_starts_from_a_folder() {
    let given = json!({"init": golden("gpt2"), "batch_size": 2, "eval_batches": 2});
    let outcome = run("eval", given, Path::new(".")).unwrap();
    assert_eq!(outcome.metrics["parameters"].value, 120_576.0);
    assert!((outcome.metrics["loss"].value.exp() - outcome.metrics["perplexity"].value).abs() < 1e-6);
}

//! The maximal update parametrization: what it changes at which width, and coordinate checks that tell it from the standard one.

use std::{collections::BTreeMap, path::Path};

use crate::common::{Train, host, merged, run, task};
use burn::backend::flex::FlexDevice;
use serde_json::{Value, json};
use sweep_job::{Outcome, Task};
use sweep_lab::model::{self, Gpt, GptDims, Role, hub};

fn dims(more: &Value) -> GptDims {
    let size = json!({"n_layer": 2, "n_head": 4, "d_model": 64, "block_size": 16});
    let Task::Train(train) = task("train", merged(size, more)) else { panic!("a training") };
    GptDims::new(&train.model, &train.architecture, 40).unwrap()
}

fn mup(base: usize) -> Value {
    json!({"parametrization": "mup", "mup_base_width": base})
}

/// Standard deviations of initial weights, and factors of learning rates, by the name of a parameter.
fn spreads(dims: &GptDims) -> BTreeMap<String, (f64, f64)> {
    let network = Gpt::<Train>::random(*dims, 5, &FlexDevice).unwrap();
    let pairs = model::infos(&network).into_iter().zip(model::values(&network));
    pairs
        .map(|(info, values)| {
            let squares = host(values).into_iter().map(|value| f64::from(value) * f64::from(value));
            let spread = (squares.sum::<f64>() / info.len() as f64).sqrt();
            (info.name.clone(), (spread, dims.rate_factor(&info)))
        })
        .collect()
}

#[test]
fn weights_and_rates_by_role() {
    let more = json!({"tie": false, "experts": 2});
    let [standard, same, wide] =
        [json!({}), mup(64), mup(16)].map(|given| spreads(&dims(&merged(more.clone(), &given))));
    assert_eq!(standard, same, "at the base width");
    for info in dims(&more).parameters() {
        let ((spread, rate), (expected, _)) = (wide[&info.name], standard[&info.name]);
        // A quarter of the standard rate and half of the standard spread where both sides grow with the width.
        let (spread_factor, rate_factor) = if info.role() == Role::Linear { (0.5, 0.25) } else { (1.0, 1.0) };
        assert!((spread - spread_factor * expected).abs() < 1e-6, "{}: {spread}", info.name);
        assert_eq!(rate, rate_factor, "{}", info.name);
    }
}

fn coordinates(more: &Value, folder: &Path) -> Outcome {
    let base = json!({
        "n_layer": 2, "n_head": 4, "d_model": 64, "block_size": 16, "length": 16, "doublings": 3, "steps": 3, "lr": 0.01,
    });
    run("coordinates", merged(base, more), folder).unwrap()
}

#[test]
fn a_coordinate_check_tells_the_parametrizations_apart() {
    let folder = tempfile::tempdir().unwrap();
    let llama = json!({
        "norm": "rmsnorm", "position": "rope", "kv_heads": 2, "bias": false, "glu": true, "activation": "silu", "tie": false,
    });
    for more in [json!({}), llama, json!({"experts": 4, "mlp_hidden": 64})] {
        for seed in [0, 1] {
            let more = merged(more.clone(), &json!({"seed": seed}));
            let [standard, mup] =
                [json!({}), mup(64)].map(|given| coordinates(&merged(more.clone(), &given), folder.path()));
            let slope = |outcome: &Outcome, name: &str| outcome.metrics[name].value;
            for (name, at_least) in [("slope.change", 1.5), ("slope.logits", 0.5)] {
                let (of_standard, of_mup) = (slope(&standard, name), slope(&mup, name));
                let holds = of_standard > at_least && of_mup.abs() < 0.4;
                assert!(holds, "{more} {name}: {of_standard:.2} {of_mup:.2}");
            }
        }
    }
}

#[test]
fn the_artifact_has_every_width_step_and_layer() {
    let folder = tempfile::tempdir().unwrap();
    let outcome =
        coordinates(&merged(mup(32), &json!({"doublings": 1, "steps": 2, "optimizer": "adamwspam"})), folder.path());
    let table = std::fs::read_to_string(folder.path().join(&outcome.artifacts["coordinates"])).unwrap();
    // Embedding, two blocks and logits, after 0 to 2 steps, at two widths.
    assert_eq!(table.lines().count(), 1 + 2 * 4 * 3);
    assert!(table.contains("\n128,2,logits,"), "{table}");
    assert_eq!(outcome.curves["slope"].at, [0, 1, 2]);
    assert_eq!(outcome.curves["slope.change"].at, [1, 2]);
    let nothing = coordinates(&json!({"doublings": 1, "steps": 1, "lr": 0}), folder.path());
    assert!(nothing.metrics.contains_key("slope") && !nothing.metrics.contains_key("slope.change"));
    assert!(nothing.facts.contains_key("absent.slope.change"));
}

#[test]
fn trainings_in_the_maximal_update_parametrization() {
    let folder = tempfile::tempdir().unwrap();
    let base = json!({
        "n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16, "batch_size": 4, "eval_batches": 2, "iters": 40,
        "dropout": 0, "warmup_iters": 4, "lr": 0.01, "parametrization": "mup", "mup_base_width": 8, "save": true,
    });
    for more in [
        json!({"precision": "mixed", "checkpointing": "segment:1", "prune": "magnitude"}),
        json!({"precision": "bf16", "optimizer": "adamwspam"}),
        json!({"position": "rope", "kv_heads": 1, "glu": true, "qk_norm": true, "experts": 3}),
    ] {
        let loss = run("train", merged(base.clone(), &more), folder.path()).unwrap().metrics["loss"].value;
        assert!(loss < 4.8, "{more}: {loss}");
    }
    let checkpoint = folder.path().join("checkpoint");
    let network: Gpt<Train> = hub::load(&checkpoint, &FlexDevice).unwrap();
    assert_eq!(network.dims().width_ratio(), 4.0);
    let init = json!({"init": checkpoint, "iters": 2, "eval_batches": 2});
    run("train", init.clone(), folder.path()).unwrap();
    let error = run("train", merged(init, &json!({"optimizer": "muon"})), folder.path()).unwrap_err().to_string();
    assert!(error.contains("`parametrization: mup` are not defined for `optimizer: muon`"), "{error}");
    run(
        "check",
        json!({"n_layer": 2, "n_head": 2, "d_model": 32, "parametrization": "mup", "mup_base_width": 16}),
        folder.path(),
    )
    .unwrap();
}

//! Networks written in the Hub's layout: Hugging Face transformers loads them, and computes the same logits with them.
//!
//! Runs where a Python has PyTorch and transformers: `SWEEP_TEST_PYTHON`, else the one that `scripts/python-deps.sh` makes,
//! else `python3`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::common::{host, ids, relative_error};
use burn::{
    backend::{Autodiff, Flex, flex::FlexDevice},
    tensor::Tensor,
};
use serde_json::json;
use sweep_job::tasks::{Activation, BlockSpec, Parts, Position, RopeScaling, Train};
use sweep_lab::model::{Gpt, GptDims, Network, hub};

/// Returns a Python that can import the needed packages, or the reason why none was found.
pub(crate) fn python() -> Result<PathBuf, String> {
    let made = std::env::home_dir().map(|home| home.join(".cache/sweep/transformers/bin/python"));
    let named = std::env::var_os("SWEEP_TEST_PYTHON").map(PathBuf::from);
    let python = named.or(made.filter(|path| path.exists())).unwrap_or_else(|| "python3".into());
    match Command::new(&python).args(["-c", "import torch, transformers"]).output() {
        Ok(output) if output.status.success() => Ok(python),
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stderr);
            Err(format!("{}: {}", python.display(), told.lines().last().unwrap_or("it says nothing")))
        }
        Err(error) => Err(format!("{}: {error}", python.display())),
    }
}

/// The logits that transformers computes with the network in `folder`, of every sequence and position in turn.
fn theirs(python: &Path, folder: &Path, sequences: &[Vec<i32>]) -> Vec<f32> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check-hub.py");
    let list = |ids: &Vec<i32>| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let sequences = sequences.iter().map(list).collect::<Vec<_>>().join(";");
    let output = Command::new(python).arg(script).arg(folder).arg(sequences).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let logits: Vec<Vec<Vec<f32>>> = serde_json::from_slice(&output.stdout).unwrap();
    logits.into_iter().flatten().flatten().collect()
}

fn ours(network: &Gpt<Autodiff<Flex>>, sequences: &[Vec<i32>]) -> Vec<f32> {
    let shape = [sequences.len(), sequences[0].len()];
    let logits: Tensor<_, 3> = network.logits(ids(&sequences.concat(), shape), 0.0).inner();
    let numbers = logits.shape().num_elements();
    host(logits.reshape([numbers]))
}

fn sequences(length: i32) -> Vec<Vec<i32>> {
    (0..3)
        .map(|row| (0..length).map(|position| (row * 91 + position * 37 + position * position) % 256).collect())
        .collect()
}

#[test]
fn transformers_computes_the_same_logits() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => {
            eprintln!("not run: no PyTorch with transformers here ({reason}); scripts/python-deps.sh installs them");
            return;
        }
    };
    for activation in [Activation::Gelu, Activation::GeluNew] {
        let dims = GptDims {
            n_layer: 3,
            n_head: 4,
            d_model: 32,
            block_size: 24,
            vocab_size: 256,
            activation,
            block: BlockSpec::GPT2,
        };
        let network = Gpt::<Autodiff<Flex>>::random(dims, 5, &FlexDevice).unwrap();
        let folder = tempfile::tempdir().unwrap();
        hub::save(&network, folder.path()).unwrap();
        let sequences = sequences(24);
        let error = relative_error(&ours(&network, &sequences), &theirs(&python, folder.path(), &sequences));
        assert!(error < 1e-5, "{activation:?}: {error:e}");
    }

    llamas_are_the_same(&python);

    // The model that a training saves.
    let folder = tempfile::tempdir().unwrap();
    let given = json!({
        "n_layer": 2, "n_head": 2, "d_model": 16, "block_size": 16, "batch_size": 2, "iters": 6, "prune_every": 1,
        "prune": "magnitude", "sparsity": 0.5, "save": true,
    });
    crate::common::run("train", given, folder.path()).unwrap();
    let saved = folder.path().join(Train::CHECKPOINT);
    let network = hub::load::<Autodiff<Flex>>(&saved, &FlexDevice).unwrap();
    let sequences = sequences(16);
    let error = relative_error(&ours(&network, &sequences), &theirs(&python, &saved, &sequences));
    assert!(error < 1e-5, "trained: {error:e}");
}

/// Llamas with shared keys, tied and not, with biases, and with each scaling of RoPE.
fn llamas_are_the_same(python: &Path) {
    let scalings = [
        None,
        Some(RopeScaling::Linear { factor: 2.0 }),
        Some(RopeScaling::Llama3 { factor: 4.0, low: 1.0, high: 4.0, original: 12.0 }),
    ];
    for (scaling, tie) in scalings.into_iter().zip([true, false, true]) {
        let parts = Parts {
            kv_heads: Some(2),
            tie,
            bias: tie,
            position: Position::Rope { theta: 500.0, scaling },
            ..Parts::LLAMA
        };
        let dims = GptDims {
            n_layer: 3,
            n_head: 4,
            d_model: 32,
            block_size: 24,
            vocab_size: 256,
            activation: Activation::Silu,
            block: BlockSpec { mlp_hidden: Some(88), parts, ..BlockSpec::GPT2 },
        };
        let network = Gpt::<Autodiff<Flex>>::random(dims, 5, &FlexDevice).unwrap();
        let folder = tempfile::tempdir().unwrap();
        hub::save(&network, folder.path()).unwrap();
        let sequences = sequences(24);
        let error = relative_error(&ours(&network, &sequences), &theirs(python, folder.path(), &sequences));
        assert!(error < 1e-5, "{scaling:?}: {error:e}");
    }
}

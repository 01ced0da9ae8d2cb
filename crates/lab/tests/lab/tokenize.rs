//! Texts as tokens, trainings on them, and losses that are comparable between tokenizers.

use std::{path::Path, process::Command};

use crate::common::{merged, run};
use serde_json::{Value, json};
use sweep_job::FailureKind;
use sweep_lab::data::{KJV, Tokenizer};

/// Size of a tiny network.
fn tiny(more: &Value) -> Value {
    merged(json!({"n_layer": 1, "n_head": 1, "d_model": 8, "block_size": 16, "batch_size": 4}), more)
}

fn ids(file: &Path) -> Vec<u32> {
    let bytes = std::fs::read(file).unwrap();
    bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair).into()).collect()
}

#[test]
fn a_trained_tokenizer_gives_back_the_text_and_is_the_same_each_time() {
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let outcome = run("tokenize", json!({"vocab_size": 600}), first.path()).unwrap();
    run("tokenize", json!({"vocab_size": 600}), second.path()).unwrap();
    let folder = first.path().join(&outcome.artifacts["tokens"]);
    for file in ["train.bin", "val.bin", "tokenizer.json", "meta.json"] {
        let read = |dir: &Path| std::fs::read(dir.join("tokens").join(file)).unwrap();
        assert_eq!(read(first.path()), read(second.path()), "{file}");
    }

    let tokenizer = Tokenizer::open(&folder).unwrap();
    let [train, validation] = ["train.bin", "val.bin"].map(|file| ids(&folder.join(file)));
    let text = tokenizer.decode(&train).unwrap() + &tokenizer.decode(&validation).unwrap();
    assert_eq!(text.as_bytes(), KJV);
    let value = |name: &str| outcome.metrics[name].value;
    assert_eq!(value("vocabulary"), 600.0);
    assert_eq!([value("tokens"), value("tokens.held_out")], [train.len() as f64, validation.len() as f64]);
    let bytes = tokenizer.decode(&validation).unwrap().len() as f64;
    assert_eq!(value("bytes_per_token"), bytes / validation.len() as f64);
    assert!(value("bytes_per_token") > 1.5, "600 tokens are longer than bytes");
    assert_same_as_published(&folder, &tokenizer.decode(&validation).unwrap(), &validation);
}

/// Compares `expected` with the tokens that GPT-2's published encoder gives `text`, where a Python has the package `regex`.
fn assert_same_as_published(folder: &Path, text: &str, expected: &[u32]) {
    let python = match super::transformers::python() {
        Ok(python) => python,
        Err(reason) => {
            eprintln!(
                "not compared with the published encoder: {reason}; scripts/python-deps.sh installs its packages"
            );
            return;
        }
    };
    let file = folder.join("text");
    std::fs::write(&file, text).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check-tokenizer.py");
    let output = Command::new(python).arg(script).arg(folder.join("tokenizer.json")).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<u32> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found, expected);
}

#[test]
fn a_network_is_trained_on_tokens_evaluated_per_byte_and_writes_text() {
    let dir = tempfile::tempdir().unwrap();
    run("tokenize", json!({"vocab_size": 300}), dir.path()).unwrap();
    let tokens = dir.path().join("tokens");
    let trained = run("train", tiny(&json!({"data": tokens, "iters": 2, "save": true})), dir.path()).unwrap();
    let checkpoint = dir.path().join(&trained.artifacts["checkpoint"]);
    let config: Value = serde_json::from_slice(&std::fs::read(checkpoint.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["vocab_size"], 300, "one row for each token");

    let given = json!({"data": tokens, "init": checkpoint, "coverage": "whole", "batch_size": 64});
    let outcome = run("eval", given, dir.path()).unwrap();
    let value = |name: &str| outcome.metrics[name].value;
    let validation = ids(&tokens.join("val.bin"));
    assert_eq!(value("tokens"), validation.len() as f64 - 1.0);
    let text = Tokenizer::open(&tokens).unwrap().decode(&validation).unwrap();
    let bits = value("loss") / 2_f64.ln() * validation.len() as f64 / text.len() as f64;
    assert!((value("bits_per_byte") - bits).abs() < 1e-12);

    let given = json!({"init": checkpoint, "tokenizer": tokens, "prompt": "And God said", "max_new_tokens": 5});
    let outcome = run("generate", given, dir.path()).unwrap();
    let written = std::fs::read_to_string(dir.path().join(&outcome.artifacts["text"])).unwrap();
    assert!(written.starts_with("And God said"), "{written}");
}

#[test]
fn a_given_tokenizer_encodes_other_texts_without_training() {
    let dir = tempfile::tempdir().unwrap();
    run("tokenize", json!({"vocab_size": 400}), dir.path()).unwrap();
    let text = dir.path().join("text.txt");
    let words = "Ein Wort, 日本語, and a line.\n\n\tEnd ".repeat(30);
    std::fs::write(&text, &words).unwrap();
    let other = tempfile::tempdir().unwrap();
    let given = json!({"data": text, "tokenizer": dir.path().join("tokens/tokenizer.json")});
    run("tokenize", given, other.path()).unwrap();
    let tokenizer = Tokenizer::open(&dir.path().join("tokens")).unwrap();
    let [train, validation] = ["train.bin", "val.bin"].map(|file| ids(&other.path().join("tokens").join(file)));
    assert_eq!(tokenizer.decode(&train).unwrap() + &tokenizer.decode(&validation).unwrap(), words);
    assert_same_as_published(&other.path().join("tokens"), &tokenizer.decode(&train).unwrap(), &train);
}

#[test]
fn unusable_tokenizers_and_descriptions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let message = |task: &str, given: Value| {
        let failure = run(task, given, dir.path()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Input, "{}", failure.message);
        failure.message
    };
    let file = dir.path().join("tokenizer.json");
    std::fs::write(&file, "{}").unwrap();
    let wrong = message("tokenize", json!({"tokenizer": file}));
    assert!(wrong.contains("tokenizer.json: the tokenizer cannot be used: "), "{wrong}");
    let binary = message("tokenize", json!({"data": dir.path().join("a.bin")}));
    assert!(binary.ends_with("a.bin: is a token file; `tokenize` needs a text"), "{binary}");

    run("tokenize", json!({"vocab_size": 300}), dir.path()).unwrap();
    let tokens = dir.path().join("tokens");
    let few = message("generate", json!({"tokenizer": tokens}));
    assert!(few.contains("has 300 tokens, but the network has 256"), "{few}");
    std::fs::write(tokens.join("meta.json"), r#"{"vocab_size": 70000, "train": {}}"#).unwrap();
    let meta = message("eval", tiny(&json!({"data": tokens})));
    assert!(meta.contains("meta.json: missing field `tokens`"), "{meta}");
}

#[test]
fn a_whole_text_has_the_loss_of_its_tokens_one_by_one() {
    use burn::backend::flex::FlexDevice;
    use sweep_lab::model::{Gpt, GptDims, Network as _, hub};

    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text.txt");
    std::fs::write(&text, &KJV[..700]).unwrap();
    let held_out: Vec<i32> = KJV[630..700].iter().map(|byte| i32::from(*byte)).collect();
    let dims = GptDims {
        n_layer: 2,
        n_head: 2,
        d_model: 16,
        block_size: 12,
        vocab_size: 256,
        activation: sweep_job::tasks::Activation::Gelu,
        block: sweep_job::tasks::BlockSpec::GPT2,
    };
    let network = Gpt::<crate::common::Train>::random(dims, 5, &FlexDevice).unwrap();
    hub::save(&network, &dir.path().join("network")).unwrap();
    for stride in [12, 5, 1] {
        // The place of a window is the first from which its stride reaches the token.
        let mut nats = 0.0;
        for target in 1..held_out.len() {
            let windows = (0..target).step_by(stride);
            let start = windows.into_iter().find(|start| start + dims.block_size >= target).unwrap();
            let window = &held_out[start..target];
            let logits = network.logits(crate::common::ids(window, [1, window.len()]), 0.0).inner();
            let logits = crate::common::host(logits.reshape([window.len() * dims.vocab_size]));
            let last: Vec<f64> =
                logits[(window.len() - 1) * dims.vocab_size..].iter().map(|logit| f64::from(*logit)).collect();
            let normalizer = last.iter().map(|logit| logit.exp()).sum::<f64>().ln();
            nats += normalizer - last[usize::try_from(held_out[target]).unwrap()];
        }
        let expected = nats / (held_out.len() - 1) as f64;
        let given = json!({
            "data": text, "init": dir.path().join("network"), "coverage": "whole", "stride": stride, "batch_size": 3,
        });
        let outcome = run("eval", given, dir.path()).unwrap();
        let loss = outcome.metrics["loss"].value;
        assert!((loss - expected).abs() < 1e-6 * expected, "stride {stride}: {loss} instead of {expected}");
        assert_eq!(outcome.metrics["tokens"].value, 69.0);
        assert_eq!(outcome.metrics["bits_per_byte"].value, loss / std::f64::consts::LN_2);
    }
    let given = json!({"data": text, "init": dir.path().join("network"), "coverage": "whole", "stride": 13});
    let message = run("eval", given, dir.path()).unwrap_err().message;
    assert_eq!(message, "`stride: 13` is longer than the network's context of 12 tokens");
}

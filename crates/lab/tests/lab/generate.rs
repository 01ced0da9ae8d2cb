//! Text: the cache changes nothing, temperature 0 is greedy, and the same seed gives the same text.

use std::path::Path;

use crate::common::{Train, host, ids, run};
use burn::backend::flex::FlexDevice;
use serde_json::{Value, json};
use sweep_job::{
    FailureKind, Outcome, Unit,
    tasks::{Activation, BlockSpec},
};
use sweep_lab::model::{Gpt, GptDims, Network, hub};

const DIMS: GptDims = GptDims {
    n_layer: 2,
    n_head: 2,
    d_model: 16,
    block_size: 12,
    vocab_size: 256,
    activation: Activation::Gelu,
    block: BlockSpec::GPT2,
};

/// A network in a folder.
fn saved(dims: &GptDims, dir: &Path) -> Gpt<Train> {
    let network = Gpt::random(*dims, 5, &FlexDevice).unwrap();
    hub::save(&network, &dir.join("network")).unwrap();
    network
}

fn text(given: &Value, dir: &Path) -> (String, Outcome) {
    let given = crate::common::merged(json!({"init": dir.join("network")}), given);
    let outcome = run("generate", given, dir).unwrap();
    (std::fs::read_to_string(dir.join(&outcome.artifacts["text"])).unwrap(), outcome)
}

#[test]
fn greedy_text_is_that_of_whole_passes_also_where_the_window_is_full() {
    let dir = tempfile::tempdir().unwrap();
    // Tokens that are no bytes are written as numbers, which can be compared one by one.
    let dims = GptDims { vocab_size: 300, ..DIMS };
    let network = saved(&dims, dir.path());
    let (written, outcome) = text(&json!({"prompt": "7 250 3", "max_new_tokens": 30, "temperature": 0.0}), dir.path());

    // Whole passes over the same windows: they fill up, then lose their older half.
    let mut tokens = vec![7, 250, 3];
    let mut begin = 0;
    for _ in 0..30 {
        if tokens.len() - begin > DIMS.block_size {
            begin = tokens.len() - DIMS.block_size / 2;
        }
        let window = &tokens[begin..];
        let logits = network.logits(ids(window, [1, window.len()]), 0.0).inner();
        let logits = host(logits.reshape([window.len() * dims.vocab_size]));
        let last = &logits[(window.len() - 1) * dims.vocab_size..];
        let likeliest = (0..dims.vocab_size).max_by(|a, b| last[*a].total_cmp(&last[*b])).unwrap();
        tokens.push(i32::try_from(likeliest).unwrap());
    }
    let expected: Vec<String> = tokens.iter().map(i32::to_string).collect();
    assert_eq!(written, expected.join(" "));
    for (name, unit) in [
        ("throughput.tokens_per_s", Unit::TokensPerSecond),
        ("time.token", Unit::Seconds),
        ("time.prompt", Unit::Seconds),
        ("memory.cache", Unit::Bytes),
    ] {
        let metric = outcome.metrics[name];
        assert!(metric.unit == unit && metric.value > 0.0, "{name}: {metric:?}");
    }
}

#[test]
fn the_same_seed_writes_the_same_and_another_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    saved(&DIMS, dir.path());
    let write =
        |seed: u64| text(&json!({"prompt": "ab", "seed": seed, "top_k": 50, "max_new_tokens": 40}), dir.path()).0;
    assert_eq!(write(0), write(0));
    assert_ne!(write(0), write(1));
    assert!(write(3).starts_with("ab"), "the prompt is part of the text");
}

#[test]
fn a_prompt_longer_than_the_window_counts_by_its_end() {
    let dir = tempfile::tempdir().unwrap();
    saved(&DIMS, dir.path());
    let greedy = |prompt: &str| {
        let (written, _) = text(&json!({"prompt": prompt, "max_new_tokens": 1, "temperature": 0.0}), dir.path());
        written[prompt.len()..].to_owned()
    };
    assert_eq!(greedy("what was before; abcdefghijkl"), greedy("abcdefghijkl"));
}

#[test]
fn a_prompt_that_is_no_tokens_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    saved(&GptDims { vocab_size: 300, ..DIMS }, dir.path());
    let failure =
        run("generate", json!({"init": dir.path().join("network"), "prompt": "hello"}), dir.path()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Input);
    assert!(failure.message.contains("write token ids"), "{}", failure.message);
}

//! Training end to end on the text that ships with the program.
//!
//! The backend's generator is one per process, so the tests that use dropout take turns.

use std::{collections::BTreeMap, path::Path, sync::Mutex};

use crate::common::{Kept, Train, folders, host, ids, merged, relative_error, run, task};
use burn::backend::flex::FlexDevice;
use serde_json::{Value, json};
use sweep_job::{
    Backend, FailureKind, Outcome, Task,
    tasks::{BlockSpec, Data},
};
use sweep_lab::{
    data::{Dataset, KJV},
    model::{self, Gpt, GptDims, Network, VOCAB_BYTES, cross_entropy, hub},
    optim,
};

/// Held while the backend's generator must not be disturbed.
static GENERATOR: Mutex<()> = Mutex::new(());

/// Trains a small network with `more` parameters.
fn small(more: &Value, dir: &Path) -> Outcome {
    let base = json!({"n_layer": 2, "n_head": 2, "d_model": 16, "block_size": 16, "batch_size": 4, "eval_batches": 2});
    run("train", merged(base, more), dir).unwrap()
}

/// Entropy of single bytes of the text, in nats: the smallest loss of a model without context.
fn unigram_entropy() -> f64 {
    let mut counts = [0_u32; 256];
    for byte in KJV {
        counts[usize::from(*byte)] += 1;
    }
    let total = KJV.len() as f64;
    let parts = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / total);
    parts.map(|part| -part * part.ln()).sum()
}

#[test]
fn nano_learns_more_than_frequencies() {
    let dir = tempfile::tempdir().unwrap();
    let given = json!({"iters": 150, "dropout": 0, "lr": 2e-3, "eval_every": 75, "log_every": 25, "breakdown": true});
    let outcome = run("train", given, dir.path()).unwrap();
    let (loss, entropy) = (outcome.metrics["loss"].value, unigram_entropy());
    assert!(loss < entropy - 0.3, "held-out loss {loss} is not well below the entropy of bytes {entropy}");

    let info = Task::info("train").unwrap();
    let declared: Vec<_> = info.metrics().map(|metric| (metric.name, metric.unit)).collect();
    for (name, metric) in &outcome.metrics {
        assert!(declared.contains(&(name.as_str(), metric.unit)), "{name}");
    }
    assert_eq!(outcome.metrics["sparsity"].value, 0.0);
    assert_eq!(outcome.curves.keys().collect::<Vec<_>>(), ["loss", "lr", "val_loss"]);
    assert_eq!(outcome.curves["loss"].at, [25, 50, 75, 100, 125, 150]);
    assert_eq!(outcome.curves["val_loss"].at, [75, 150]);
    assert_eq!(outcome.curves["val_loss"].values[1], loss);
    assert_eq!(outcome.curves["loss"].values[5], outcome.metrics["train_loss"].value);
}

#[test]
fn where_the_time_goes_is_measured_if_asked() {
    let dir = tempfile::tempdir().unwrap();
    let parts = |more: Value| -> BTreeMap<String, bool> {
        let base = json!({"iters": 12, "prune": "bitter3", "prune_every": 2, "prune_ramp_end": 5, "dropout": 0,
            // The update in one pass stores no scores.
            "prune_update": "single_pass"});
        let outcome = small(&merged(base, &more), dir.path());
        let metrics = outcome
            .metrics
            .iter()
            .filter_map(|(name, metric)| Some((name.strip_prefix("time.")?.to_owned(), metric.value > 0.0)));
        let always = ["step", "step.p5", "step.p95", "first_step", "lost", "prune", "train"];
        metrics.filter(|(name, _)| !always.contains(&name.as_str())).collect()
    };
    assert_eq!(parts(json!({})).len(), 0);
    let all = ["backward", "data", "forward", "masking", "optimizer", "score", "spam", "threshold"];
    let found = parts(json!({"breakdown": true, "optimizer": "adamwspam"}));
    assert_eq!(found.keys().collect::<Vec<_>>(), all);
    assert!(found.values().all(|positive| *positive), "{found:?}");
}

#[test]
fn the_same_job_gives_the_same_bits() {
    let _alone = GENERATOR.lock().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let job = |more: Value| small(&merged(json!({"iters": 12, "log_every": 1}), &more), dir.path());
    let first = job(json!({}));
    let bits = |outcome: &Outcome| -> Vec<u64> {
        outcome.curves["loss"]
            .values
            .iter()
            .chain([&outcome.metrics["loss"].value])
            .map(|loss| loss.to_bits())
            .collect()
    };
    assert_eq!(bits(&first), bits(&job(json!({}))));
    let other = job(json!({"seed": 1}));
    assert!(bits(&first).iter().zip(bits(&other)).all(|(first, other)| *first != other));
    let evaluated = job(json!({"eval_every": 3}));
    assert_eq!(bits(&first), bits(&evaluated), "looking at the held-out loss does not change the training");
}

#[test]
fn pruning_reaches_its_target() {
    let dir = tempfile::tempdir().unwrap();
    for method in ["magnitude", "movement", "bitter0", "bitter3", "bitter5", "bitter7", "bitter9"] {
        for (sparsity, tied_head) in [(0.5, false), (0.9, true)] {
            let more = json!({
                "iters": 40, "prune": method, "sparsity": sparsity, "prune_tied_head": tied_head, "prune_every": 4,
                "dropout": 0, "save": true,
            });
            let outcome = small(&more, dir.path());
            let reached = outcome.metrics["sparsity"].value;
            assert!((reached - sparsity).abs() < 0.005, "{method}: sparsity {reached} instead of {sparsity}");
            let curve = &outcome.curves["sparsity"];
            assert_eq!(curve.at, [5, 9, 13, 17, 21, 25, 29, 33, 37]);
            assert!(curve.values.is_sorted() && curve.values[0] == 0.0, "{:?}", curve.values);
            assert!(outcome.metrics["time.prune"].value > 0.0);

            let network = hub::load::<Train>(&dir.path().join("checkpoint"), &FlexDevice).unwrap();
            let (mut zeros, mut total) = (0_usize, 0_usize);
            for (info, values) in model::infos(&network).iter().zip(model::values(&network)) {
                let found = host(values).into_iter().filter(|value| *value == 0.0).count();
                if info.prunable(tied_head) {
                    zeros += found;
                    total += info.len();
                } else {
                    assert_eq!(found, 0, "{method}: {} is not prunable", info.name);
                }
            }
            assert_eq!(zeros as f64 / total as f64, reached);
        }
    }
}

#[test]
fn every_way_to_a_threshold_reaches_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let base = json!({"iters": 40, "prune": "bitter7", "prune_every": 4, "dropout": 0});
    for (more, tolerance) in [
        (json!({"threshold": "histogram"}), 0.002),
        (json!({"threshold": "histogram", "prune_update": "double_pass", "prune_schedule": "linear"}), 0.002),
        (json!({"threshold": "sample", "sample_fraction": 0.2}), 0.05),
        (json!({"threshold": "sample", "sample_fraction": 0.2, "prune_update": "double_pass"}), 0.05),
        // Equal scores are pruned together, and 16 bits make many equal.
        (json!({"score_precision": "f16", "score_epsilon": 1e-5}), 0.01),
    ] {
        let outcome = small(&merged(base.clone(), &more), dir.path());
        let reached = outcome.metrics["sparsity"].value;
        assert!((reached - 0.5).abs() <= tolerance, "{more}: sparsity {reached}");
        assert!(*outcome.curves["sparsity"].values.last().unwrap() <= reached, "what is pruned stays pruned");
    }
}

#[test]
fn a_pattern_keeps_the_same_number_of_each_group() {
    let dir = tempfile::tempdir().unwrap();
    for (method, pattern, [kept, size]) in
        [("magnitude", "2:4", [2, 4]), ("movement", "4:8", [4, 8]), ("bitter9", "1:4", [1, 4])]
    {
        let more = json!({
            "iters": 40, "prune": method, "prune_pattern": pattern, "prune_every": 2, "dropout": 0, "save": true,
        });
        let outcome = small(&more, dir.path());
        assert_eq!(outcome.metrics["sparsity"].value, 1.0 - kept as f64 / size as f64, "{method}");
        let curve = &outcome.curves["sparsity"].values;
        let are_whole_weights = curve.iter().all(|part| (part * size as f64).fract() == 0.0);
        assert!(curve.is_sorted() && curve[0] == 0.0 && are_whole_weights, "{curve:?}");

        let network = hub::load::<Train>(&dir.path().join("checkpoint"), &FlexDevice).unwrap();
        for (info, values) in model::infos(&network).iter().zip(model::values(&network)) {
            if !info.prunable(false) {
                continue;
            }
            let (weights, outputs) = (host(values), info.shape[1]);
            for group in weights.chunks(size * outputs) {
                for output in 0..outputs {
                    let left = group.iter().skip(output).step_by(outputs).filter(|weight| **weight != 0.0).count();
                    assert_eq!(left, kept, "{method}: {}", info.name);
                }
            }
        }
    }
    let given = json!({"n_layer": 1, "n_head": 1, "d_model": 6, "iters": 20, "prune": "magnitude", "prune_pattern": "2:4", "prune_every": 2});
    let message = run("train", given, dir.path()).unwrap_err().message;
    assert!(message.contains("has 6 inputs, which do not divide into groups of 4"), "{message}");
}

#[test]
fn spam_trains_and_shows_what_it_saw() {
    let dir = tempfile::tempdir().unwrap();
    let more = json!({"iters": 40, "dropout": 0, "optimizer": "adamwspam", "spam_interval": 20, "spam_warmup": 5});
    let outcome = small(&more, dir.path());
    let losses = &outcome.curves["loss"].values;
    assert!(losses[3] < losses[0] - 0.1, "{losses:?}");
    assert_eq!(outcome.curves.keys().collect::<Vec<_>>(), ["grad_norm", "loss", "lr", "spikes"]);
    assert_eq!(outcome.curves["grad_norm"].at, [10, 20, 30, 40]);
    assert!(outcome.curves["grad_norm"].values.iter().all(|norm| *norm > 0.0 && norm.is_finite()));
    assert!(outcome.curves["spikes"].values.is_sorted());
    let plain = small(&json!({"iters": 40, "dropout": 0}), dir.path());
    let rate = |outcome: &Outcome, at: usize| outcome.curves["lr"].values[at];
    assert_eq!(rate(&outcome, 0), rate(&plain, 0));
    assert!((rate(&outcome, 1) - 1e-3 * rate(&plain, 1)).abs() < 1e-12, "the reset at iteration 20");
    assert_eq!(rate(&outcome, 2), rate(&plain, 2));
}

#[test]
fn two_halves_of_a_batch_average_to_the_whole() {
    let dims = GptDims {
        n_layer: 2,
        n_head: 2,
        d_model: 16,
        block_size: 16,
        vocab_size: VOCAB_BYTES,
        activation: sweep_job::tasks::Activation::Gelu,
        block: BlockSpec::GPT2,
    };
    let network = Gpt::<Train>::random(dims, 0, &FlexDevice).unwrap();
    let tokens = Dataset::open(&Data::default()).unwrap().train;
    let batch = tokens.random_batch(0, [0, 0], [8, 16], VOCAB_BYTES).unwrap();
    let gradients = |from: usize, to: usize, part: f64| {
        let of = |values: &[i32]| ids(&values[from * 16..to * 16], [to - from, 16]);
        let loss = cross_entropy(network.logits(of(&batch.inputs), 0.0), of(&batch.targets)) * part;
        model::gradients(&network, &mut loss.backward())
    };
    let whole = gradients(0, 8, 1.0);
    let halves = optim::add_gradients(gradients(0, 4, 0.5), gradients(4, 8, 0.5));
    for (whole, halves) in whole.into_iter().flatten().zip(halves.into_iter().flatten()) {
        let error = relative_error(&host(halves), &host(whole));
        assert!(error < 1e-5, "{error:.2e}");
    }
}

#[test]
fn accumulation_counts_every_token() {
    let dir = tempfile::tempdir().unwrap();
    let accumulated = small(&json!({"iters": 10, "grad_accumulation": 3, "dropout": 0, "log_every": 3}), dir.path());
    assert_eq!(accumulated.curves["loss"].at, [3, 6, 9, 10]);
    let single = small(&json!({"iters": 10, "dropout": 0, "log_every": 3}), dir.path());
    assert_ne!(accumulated.metrics["loss"], single.metrics["loss"]);
}

#[test]
fn a_checkpoint_evaluates_to_the_loss_of_its_training() {
    let dir = tempfile::tempdir().unwrap();
    let trained = small(&json!({"iters": 10, "dropout": 0, "save": true}), dir.path());
    assert_eq!(trained.artifacts["checkpoint"], "checkpoint");
    let given = json!({"init": dir.path().join("checkpoint"), "batch_size": 4, "eval_batches": 2});
    let evaluated = run("eval", given, dir.path()).unwrap();
    assert_eq!(evaluated.metrics["loss"], trained.metrics["loss"]);
    assert_eq!(evaluated.metrics["parameters"], trained.metrics["parameters"]);
}

#[test]
fn a_loss_that_is_no_number_ends_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let dims = GptDims {
        n_layer: 1,
        n_head: 1,
        d_model: 8,
        block_size: 8,
        vocab_size: VOCAB_BYTES,
        activation: sweep_job::tasks::Activation::Gelu,
        block: BlockSpec::GPT2,
    };
    let poisoned = Gpt::<Train>::with_values(dims, &FlexDevice, |info| {
        Ok(vec![if info.name == "ln_f.bias" { f32::NAN } else { 0.5 }; info.len()])
    });
    hub::save(&poisoned.unwrap(), dir.path()).unwrap();
    for (log_every, when) in [(1, "at iteration 1"), (3, "by iteration 3")] {
        let given = json!({"init": dir.path(), "iters": 5, "log_every": log_every, "eval_batches": 1, "dropout": 0});
        let failure = run("train", given, dir.path()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Experiment);
        assert_eq!(failure.message, format!("loss is NaN {when}"));
    }
}

/// The number of an ablation selects a network. A note mentions the pruning that the ablation adds to it, which is not done.
#[test]
fn ablation_1_says_that_its_pruning_is_declared_separately() {
    let dir = tempfile::tempdir().unwrap();
    for (given, said) in [
        (json!({"ablation": "1"}), 1),
        (json!({"ablation": "1", "prune": "bitter0", "optimizer": "adamwspam"}), 0),
        (json!({"ablation": "0"}), 0),
    ] {
        let base = json!({"n_layer": 1, "n_head": 2, "d_model": 16, "block_size": 16, "iters": 30, "eval_batches": 1});
        let mut report = Kept::default();
        let task = task("train", merged(base, &given));
        let outcome = sweep_lab::run(&task, Backend::Cpu, &folders(dir.path()), &mut report).unwrap();
        let notes =
            report.notes.iter().filter(|note| note.contains("`ablation: 1`") && note.contains("`prune: bitter0`"));
        assert_eq!(notes.count(), said, "{given}: {:?}", report.notes);
        assert_eq!(outcome.metrics["sparsity"].value > 0.4, given.get("prune").is_some(), "{given}");
    }
}

#[test]
fn a_check_tells_what_it_found() {
    let _alone = GENERATOR.lock().unwrap();
    let given = json!({"n_layer": 2, "d_model": 32, "vocab_size": 64});
    let outcome = run("check", given, Path::new(".")).unwrap();
    assert_eq!(outcome.metrics["assertions"].value, 13.0);
    assert_eq!(outcome.facts.len(), 13);
    assert!(outcome.facts.values().all(|fact| fact.starts_with("held: ")), "{:?}", outcome.facts);
    assert_eq!(outcome.facts["logits-shape"], "held: [2, 32, 64]");
}

/// Operations and bytes that are compared with peak rates agree with manual arithmetic.
#[test]
fn operations_and_bytes_are_those_of_the_arithmetic() {
    let tiny = json!({
        "n_layer": 1, "n_head": 2, "d_model": 16, "block_size": 8, "vocab_size": 256, "attention": "mla", "latent_dim": 4,
        "batch_size": 2, "eval_batches": 1, "iters": 4, "warmup_iters": 0, "ceiling": true, "breakdown": true,
        "dropout": 0,
    });
    // Of a weight in four bytes AdamW reads and writes the weight and two moments and reads the gradient: 7 x 4. AMSGrad reads
    // and writes the largest second moment too: 9 x 4. SPAM uses AMSGrad by default.
    for (more, bytes) in [
        (json!({}), 28.0),
        (json!({"amsgrad": true}), 36.0),
        (json!({"optimizer": "adamwspam"}), 36.0),
        (json!({"optimizer": "adamwspam", "amsgrad": false}), 28.0),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let metrics = run("train", merged(tiny.clone(), &more), dir.path()).unwrap().metrics;
        let of = |name: &str| metrics[name].value;
        let found = of("bandwidth.optimizer") * of("time.optimizer") * of("peak.bandwidth") / of("parameters");
        assert!((found - bytes).abs() < 1e-6, "{more}: {found} bytes");
        // Multiplications for one token: output layer 256 x 16, queries and output 2 x 16 x 16, latent keys and values
        // 2 x 16 x 4, two heads' maps to and from them 2 x 2 x 8 x 4, scores and context 2 x 2 x 8 x 4, MLP 2 x 16 x 64; each
        // is two operations, forward and twice backward.
        let operations = of("compute.flops") / of("throughput.tokens_per_s");
        assert!((operations - 6.0 * (4096.0 + 512.0 + 128.0 + 128.0 + 128.0 + 2048.0)).abs() < 1e-3, "{operations}");
    }
}

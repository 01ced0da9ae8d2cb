//! Metrics of the tasks of paper 001 apart from time, and the parts of a step that pruning takes.

use crate::common::{merged, run};
use serde_json::{Value, json};
use sweep_job::Outcome;

fn bench(task: &str, given: &Value) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let outcome = run(task, given.clone(), dir.path()).unwrap();
    for (name, metric) in &outcome.metrics {
        assert!(metric.value.is_finite(), "{name}: {}", metric.value);
    }
    outcome
}

fn value(outcome: &Outcome, name: &str) -> f64 {
    outcome.metrics.get(name).unwrap_or_else(|| panic!("no {name}: {:?}", outcome.facts)).value
}

#[test]
fn rounded_scores_are_equal_in_groups() {
    // A million scores. Between 0.25 and 0.5 numbers of 16 bits are 2^-9 apart, above twice as far, so 0.5 stands for those
    // from 0.5 - 2^-10 to 0.5 + 2^-9: three in a thousand.
    let scores = json!({"scores": "uniform", "n_layer": 4, "d_model": 500, "calls": 12});
    let with = |more: &Value| bench("bench/threshold", &merged(scores.clone(), more));
    let whole = with(&json!({"method": "bracket"}));
    assert!(value(&whole, "ties") < 1e-5 && (value(&whole, "sparsity.exact") - 0.5).abs() < 1e-5);
    assert_eq!((value(&whole, "error.max"), value(&whole, "memory.scores")), (0.0, 4e6));
    for method in ["bracket", "radix", "quickselect", "sort", "topk", "topk_indices"] {
        let rounded = with(&json!({"method": method, "score_format": "bf16"}));
        let (ties, sparsity) = (value(&rounded, "ties"), value(&rounded, "sparsity.exact"));
        assert!((ties - 3.0 / 1024.0).abs() < 3e-4, "{method}: {ties}");
        assert!((sparsity - 0.5 - 1.0 / 512.0).abs() < 2e-3, "{method}: {sparsity}");
        assert_eq!(value(&rounded, "error.threshold"), 0.0, "{method}");
        assert_eq!(value(&rounded, "sparsity"), sparsity, "{method}: what it prunes");
    }
    // A sample of 20,000 finds the same number or one next to it, which is 1/256 below or 1/128 above; every step between
    // numbers of 16 bits is at least that large, and the error without rounding is not a multiple of such a step.
    let sampled = with(&json!({"method": "sample", "score_format": "bf16"}));
    let steps = value(&sampled, "error.max") * 256.0;
    assert!((steps - steps.round()).abs() < 1e-9 && steps <= 8.0, "{steps}");
    assert!(value(&sampled, "error.mean") <= value(&sampled, "error.max"));
    let sampled = with(&json!({"method": "sample"}));
    let steps = value(&sampled, "error.max") * 256.0;
    assert!(steps > 0.0 && (steps - steps.round()).abs() > 1e-6, "{steps}");
    let quantile = with(&json!({"method": "quantile"}));
    assert!(value(&quantile, "error.max") < 1e-5, "a quantile is between two neighbors");
}

#[test]
fn the_time_of_all_updates_is_that_of_one_times_their_number() {
    let given = json!({"n_layer": 2, "d_model": 64, "calls": 3, "method": "quickselect", "updates": 50});
    let outcome = bench("bench/threshold", &given);
    assert_eq!(value(&outcome, "time.updates"), 50.0 * value(&outcome, "time.threshold"));
}

#[test]
fn indices_take_the_memory_that_they_have() {
    // 4 million scores: pairs of 16 bytes, and values and indices of half of them, against a copy. Memory that the process has
    // already does not count.
    let scores = json!({"scores": "uniform", "n_layer": 4, "d_model": 1000, "calls": 1});
    let extra = |method: &str| {
        value(&bench("bench/threshold", &merged(scores.clone(), &json!({"method": method}))), "memory.extra")
    };
    let (copy, pairs) = (extra("quickselect"), extra("topk_indices"));
    assert!((16e6..40e6).contains(&copy), "{copy}");
    assert!((72e6..112e6).contains(&pairs), "{pairs}");
}

#[test]
fn updates_that_mask_choose_the_same_weights() {
    let layers = json!({"n_layer": 3, "d_model": 96, "calls": 2});
    for (update, method) in [("double_pass", "sort"), ("single_pass", "sample"), ("fused", "bracket")] {
        for mask in ["f32", "u8", "bit"].into_iter().filter(|mask| update == "fused" || *mask == "f32") {
            let with = |apply: bool| {
                let given = json!({"update": update, "method": method, "mask": mask, "apply": apply});
                bench("bench/mask-update", &merged(layers.clone(), &given))
            };
            let (only, masks) = (with(false), with(true));
            for name in ["error.threshold", "sparsity", "memory.masks", "memory.concatenated", "weights"] {
                assert_eq!(value(&only, name), value(&masks, name), "{update} {mask}: {name}");
            }
            assert!(!masks.metrics.contains_key("ratio.floor"), "the floor masks nothing");
        }
    }
}

#[test]
fn one_pass_concatenates_a_sample_and_two_passes_all_scores() {
    let with = |update: &str| {
        let given = json!({"n_layer": 3, "d_model": 100, "calls": 1, "mask": "f32", "method": "sample",
            "sample_fraction": 0.01, "update": update});
        value(&bench("bench/mask-update", &given), "memory.concatenated")
    };
    assert_eq!((with("double_pass"), with("single_pass")), (120_000.0, 1200.0));
}

fn training(more: &Value) -> Outcome {
    let given = json!({
        "n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16, "batch_size": 4, "eval_batches": 2, "iters": 24,
        "lr": 1e-2, "warmup_iters": 2, "dropout": 0, "prune": "bitter7", "prune_every": 3, "breakdown": true,
    });
    bench("train", &merged(given, more))
}

#[test]
fn scores_are_measured_where_they_are_computed_apart() {
    let fused = training(&json!({}));
    for name in ["time.score", "share.score"] {
        assert!(!fused.metrics.contains_key(name), "{name}");
        let reason = &fused.facts[&format!("absent.{name}")];
        assert!(reason.contains("`prune_update: single_pass` measures them"), "{reason}");
    }
    let apart = training(&json!({"prune_update": "single_pass"}));
    assert!(value(&apart, "time.score") > 0.0);
    let none = training(&json!({"prune": "none"}));
    assert_eq!((value(&none, "time.score"), value(&none, "share.threshold")), (0.0, 0.0), "nothing is pruned");
    assert_eq!(value(&fused, "loss").to_bits(), value(&apart, "loss").to_bits());
    for outcome in [&fused, &apart] {
        let tokens_per_step = 4.0 * 16.0;
        let step = tokens_per_step / value(outcome, "throughput.tokens_per_s");
        for part in ["spam", "masking", "threshold"] {
            let (share, time) = (value(outcome, &format!("share.{part}")), value(outcome, &format!("time.{part}")));
            assert!((share * step - time).abs() <= 1e-9 * step, "{part}: {share} of {step} is not {time}");
            assert!((0.0..=1.0).contains(&share), "{part}: {share}");
        }
    }
}

#[test]
fn gradients_can_be_masked_less_often() {
    let every = |mask_every: u64| training(&json!({"mask_every": mask_every, "grad_clip": 0.5}));
    let (always, default) = (every(1), training(&json!({"grad_clip": 0.5})));
    assert_eq!(value(&always, "loss").to_bits(), value(&default, "loss").to_bits());
    let seldom = every(5);
    assert_ne!(
        value(&seldom, "loss").to_bits(),
        value(&default, "loss").to_bits(),
        "their norm counts in the clipping"
    );
    assert_eq!(value(&seldom, "sparsity"), value(&default, "sparsity"), "pruned weights stay 0");
    // Without clipping, masked moments alone keep pruned weights at 0, and other weights do not see the difference.
    let unclipped = |mask_every: u64| value(&training(&json!({"mask_every": mask_every, "grad_clip": 0})), "loss");
    assert_eq!(unclipped(1).to_bits(), unclipped(7).to_bits());
}

#[test]
fn masked_modules_are_counted() {
    let count = |more: &Value| {
        let outcome = training(more);
        (value(&outcome, "prunable.matrices"), value(&outcome, "prunable"))
    };
    // Four matrices in each block, of 12 times the square of the width; the table has 256 rows.
    let (blocks, table) = (f64::from(2 * 12 * 32 * 32), f64::from(256 * 32));
    assert_eq!(count(&json!({})), (8.0, blocks));
    assert_eq!(count(&json!({"prune_tied_head": true})), (9.0, blocks + table));
}

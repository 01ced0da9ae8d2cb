//! `uses: gradprobe`, as a whole.

use super::{Classifier, FlexDevice, Train, host, json, run, values};

#[test]
fn the_task_prunes_a_network_that_another_job_can_load() {
    let dir = tempfile::tempdir().unwrap();
    let small = json!({"n_layer": 2, "n_head": 2, "d_model": 16, "block_size": 16, "data": "stories"});
    let probe = json!({
        "mode": "layer_wise", "sparsity": 0.5, "tolerance": 0.5, "batch_size": 2, "save": true, "save_masks": true,
        "eval_batches": 2, "eval_batch_size": 2,
    });
    let outcome = run("gradprobe", crate::common::merged(small, &probe), dir.path()).unwrap();
    let metric = |name: &str| outcome.metrics[name].value;
    assert!(metric("sparsity") > 0.0 && metric("sparsity") <= metric("sparsity.candidates"));
    assert_eq!(metric("passes"), 2.0 * 10.0);
    assert!((metric("survival") - metric("sparsity") / metric("sparsity.candidates")).abs() < 1e-9);
    assert_eq!(outcome.facts["absent.accuracy"], "a language model is judged by its perplexity");

    let checkpoint = dir.path().join(&outcome.artifacts["checkpoint"]);
    let given = json!({"init": checkpoint, "data": "stories", "batch_size": 2, "eval_batches": 2});
    let loss = run("eval", given, dir.path()).unwrap().metrics["loss"].value;
    assert!((loss - metric("loss")).abs() < 1e-4, "{loss} and {}", metric("loss"));

    // The pruned network pruned again by the same masks: nothing is a candidate that is not 0 already.
    let masks = dir.path().join(&outcome.artifacts["masks"]);
    let again = tempfile::tempdir().unwrap();
    let given = json!({
        "init": checkpoint, "data": "stories", "sparsity": 0.0, "against": masks, "eval_batches": 2, "eval_batch_size": 2,
    });
    let none = run("gradprobe", given, again.path()).unwrap();
    assert!((none.metrics["agreement"].value - (1.0 - metric("sparsity"))).abs() < 1e-9);
    assert_eq!(none.metrics["sparsity.zeros"].value, metric("sparsity.zeros"));
}

#[test]
fn the_task_trains_prunes_and_tunes_a_classifier() {
    let dir = tempfile::tempdir().unwrap();
    let given = json!({
        "network": "mlp", "epochs": 3, "sparsity": 0.5, "tolerance": 10, "num_batches": 10, "batch_size": 32,
        "tune_epochs": 1,
    });
    let outcome = run("gradprobe", given, dir.path()).unwrap();
    let metric = |name: &str| outcome.metrics[name].value;
    assert_eq!(metric("weights"), f64::from(100 * 128 + 128 * 64 + 64 * 10));
    assert!(metric("accuracy.dense") > 0.3, "{}", metric("accuracy.dense"));
    assert!(metric("sparsity") > 0.1);
    assert_eq!(metric("sparsity.tuned"), metric("sparsity.zeros"), "fine-tuning keeps what was pruned");
    for name in ["accuracy", "accuracy.held_out", "accuracy.strategy", "accuracy.matched", "accuracy.tuned"] {
        assert!((0.0..=1.0).contains(&metric(name)), "{name}");
    }
}

#[test]
fn a_random_classifier_has_bounded_weights() {
    let classifier = Classifier::<Train>::random(&[25, 9, 2], 0, &FlexDevice);
    let all: Vec<Vec<f32>> = values(&classifier).into_iter().map(host).collect();
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [225, 9, 18, 2]);
    for (numbers, bound) in all.iter().zip([0.2, 0.2, 1.0 / 3.0, 1.0 / 3.0]) {
        assert!(numbers.iter().all(|number| number.abs() <= bound));
    }
}

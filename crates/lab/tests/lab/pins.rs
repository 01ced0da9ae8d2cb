//! Pinned results of every task on the CPU, at its current revision.
//!
//! If one of these numbers changes, finished records change their meaning: raise the task's `revision` in `crates/job`
//! together with the number here.

use crate::common::{merged, run};
use serde_json::{Value, json};
use sweep_job::Task;

/// The revisions of the tasks here.
const REVISIONS: [(&str, u32); 3] = [("train", 4), ("eval", 1), ("check", 2)];

fn small() -> Value {
    json!({"n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16})
}

fn pinned(task: &str, more: &Value, metric: &str, expected: f64) {
    let dir = tempfile::tempdir().unwrap();
    let outcome = run(task, merged(small(), more), dir.path()).unwrap();
    let found = outcome.metrics[metric].value;
    assert!((found - expected).abs() < 1e-3 * expected.abs(), "{task} {more}: {metric} is {found}, was {expected}");
}

#[test]
fn revisions_are_those_of_the_numbers() {
    for (task, revision) in REVISIONS {
        assert_eq!(Task::info(task).unwrap().revision, revision, "{task}: pin its numbers again");
    }
}

#[test]
fn train() {
    let loop_ = json!({
        "batch_size": 4, "eval_batches": 4, "iters": 30, "lr": 3e-3, "warmup_iters": 5, "dropout": 0, "prune_every": 5
    });
    for (prune, loss) in [("none", 3.570_619), ("magnitude", 3.571_132), ("bitter7", 3.570_673)] {
        pinned("train", &merged(loop_.clone(), &json!({"prune": prune})), "loss", loss);
    }
    let spam = json!({"optimizer": "adamwspam", "spam_interval": 10, "spam_warmup": 3, "spam_clip_after": 2});
    for (more, loss) in [
        (json!({"prune": "movement"}), 3.571_739),
        (json!({"prune": "bitter0"}), 3.577_063),
        (json!({"prune": "bitter4", "prune_tied_head": true}), 3.872_025),
        (json!({"prune": "bitter9", "threshold": "sample", "sample_fraction": 0.2}), 3.663_509),
        (json!({"prune": "bitter1"}), 3.571_099),
        (json!({"amsgrad": true}), 3.574_764),
        (merged(spam.clone(), &json!({"prune": "bitter8"})), 3.811_310),
        (merged(spam, &json!({"spam_reference": true})), 4.292_913),
    ] {
        pinned("train", &merged(loop_.clone(), &more), "loss", loss);
    }
}

#[test]
fn train_architectures() {
    let loop_ = json!({
        "batch_size": 4, "eval_batches": 4, "iters": 20, "lr": 3e-3, "warmup_iters": 5, "dropout": 0, "coupling_warmup": 10
    });
    for (ablation, loss) in
        [("3", 4.116_976), ("7", 4.119_043), ("12", 4.110_227), ("16", 4.109_044), ("18", 4.120_590)]
    {
        pinned("train", &merged(loop_.clone(), &json!({"ablation": ablation})), "loss", loss);
    }
}

#[test]
fn eval() {
    pinned("eval", &json!({"batch_size": 4, "eval_batches": 4, "seed": 3}), "loss", 5.531_065);
}

#[test]
fn check() {
    pinned("check", &json!({"vocab_size": 256, "length": 16, "dropout": 0}), "loss", 5.600_490);
}

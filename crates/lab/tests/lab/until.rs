//! A training that continues from the state of a shorter one has the same result as an uninterrupted training.

use std::{collections::BTreeMap, fs, path::Path};

use crate::common::{Kept, folders, merged, task};
use serde_json::{Value, json};
use sweep_job::{Backend, Outcome};

/// A training of 60 iterations whose log points and evaluations are not where it is cut.
fn train(more: &Value, folder: &Path) -> (Outcome, Vec<String>) {
    let base = json!({
        "n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16, "batch_size": 4, "eval_batches": 2, "iters": 60,
        "log_every": 7, "eval_every": 12, "warmup_iters": 5, "lr": 3e-3, "prune_every": 4, "dropout": 0.1, "save": true,
    });
    let mut report = Kept::default();
    let task = task("train", merged(base, more));
    let outcome = sweep_lab::run(&task, Backend::Cpu, &folders(folder), &mut report).unwrap();
    (outcome, report.notes)
}

/// Everything that must be the same: curves and metrics, but not times and memory, and the saved weights.
fn result(outcome: &Outcome, folder: &Path) -> String {
    let measured = ["time.", "throughput", "memory", "compute.", "bandwidth", "utilization", "attempts"];
    let timeless = |name: &&String| !measured.iter().any(|prefix| name.starts_with(prefix));
    let metrics: BTreeMap<_, _> = outcome.metrics.iter().filter(|(name, _)| timeless(name)).collect();
    let weights = blake3::hash(&fs::read(folder.join("checkpoint/model.safetensors")).unwrap());
    format!("{metrics:?} {:?} {weights}", outcome.curves)
}

/// Puts the state after some iterations, which a training has left, into the folder of another one, as the engine does.
fn offer(from: &Path, to: &Path, step: usize) {
    let name = format!("after-{step}");
    fs::create_dir_all(to.join(&name)).unwrap();
    for file in fs::read_dir(from.join(&name)).unwrap().flatten() {
        fs::copy(file.path(), to.join(&name).join(file.file_name())).unwrap();
    }
    fs::create_dir_all(to.join(".sweep")).unwrap();
    fs::write(to.join(".sweep/started.json"), json!({ "step": step }).to_string()).unwrap();
}

fn with(more: &Value, name: &str, value: impl Into<Value>) -> Value {
    merged(more.clone(), &json!({ name: value.into() }))
}

#[test]
fn a_training_in_parts_is_the_training_alone_bit_for_bit() {
    for more in [
        json!({}),
        json!({"dropout": 0, "eval_every": 0}),
        json!({"log_every": 20, "eval_every": 20}),
        json!({"grad_accumulation": 2, "prune": "bitter8", "optimizer": "adamwspam", "spam_interval": 14, "spam_warmup": 9}),
        json!({"prune": "movement", "amsgrad": true, "dropout": 0.2}),
        json!({"ablation": "16", "coupling_warmup": 30, "prune": "bitter4", "threshold": "sample", "sample_fraction": 0.3}),
        json!({"ablation": "V15", "coupling_start": "steady"}),
    ] {
        let [first, second, third, alone, whole] = [(); 5].map(|()| tempfile::tempdir().unwrap());
        train(&with(&more, "until", 20), first.path());
        offer(first.path(), second.path(), 20);
        let (part, notes) = train(&with(&more, "until", 40), second.path());
        assert_eq!(notes, ["resuming after iteration 20"], "{more}");
        let (expected, _) = train(&with(&more, "until", 40), alone.path());
        assert_eq!(result(&part, second.path()), result(&expected, alone.path()), "{more}");

        offer(second.path(), third.path(), 40);
        let (rest, _) = train(&more, third.path());
        let (expected, _) = train(&with(&more, "until", 60), whole.path());
        assert_eq!(result(&rest, third.path()), result(&expected, whole.path()), "{more}");
        let last = |name: &str| rest.curves.get(name).map(|curve| *curve.at.last().unwrap());
        assert_eq!(last("loss"), Some(60));
        assert!(!whole.path().join("after-60").exists(), "nothing continues from the end");
    }
}

#[test]
fn a_state_at_the_very_end_is_only_evaluated() {
    let more = json!({"until": 20, "prune": "bitter7"});
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (expected, _) = train(&more, first.path());
    offer(first.path(), second.path(), 20);
    let (again, notes) = train(&more, second.path());
    assert!(notes.contains(&"resuming after iteration 20".to_owned()), "{notes:?}");
    assert_eq!(result(&again, second.path()), result(&expected, first.path()));
}

#[test]
fn before_the_first_masks_all_methods_share_a_state() {
    // The first masks are chosen in iteration 8, so that 8 iterations are the same.
    let method = |prune: &str| json!({"prune": prune, "prune_warmup": 7, "eval_every": 0});
    for (by, of) in [("none", "movement"), ("movement", "bitter5"), ("bitter9", "none"), ("none", "bitter4")] {
        let [first, second, alone] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        train(&with(&method(by), "until", 8), first.path());
        offer(first.path(), second.path(), 8);
        let (shared, notes) = train(&method(of), second.path());
        assert_eq!(notes, ["resuming after iteration 8"], "{by} for {of}");
        let (expected, _) = train(&method(of), alone.path());
        assert_eq!(result(&shared, second.path()), result(&expected, alone.path()), "{by} for {of}");
    }
}

#[test]
fn rates_are_those_of_the_jobs_own_steps_and_totals_are_whole() {
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    train(&json!({"until": 20}), first.path());
    offer(first.path(), second.path(), 20);
    // Simulates a very slow other job.
    let path = second.path().join("after-20/progress.json");
    let mut progress: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    progress["train_time"] = json!(5000.0);
    progress["clock"] = json!({"time": 4000.0, "steps": 18, "samples": [222.0, 222.0, 222.0]});
    progress["first_step"] = json!(700.0);
    fs::write(&path, progress.to_string()).unwrap();
    let line = |name: &str| {
        let digest = blake3::hash(&fs::read(second.path().join("after-20").join(name)).unwrap());
        format!("{digest}  {name}\n")
    };
    fs::write(second.path().join("after-20/B3SUMS"), line("state.safetensors") + &line("progress.json")).unwrap();
    let (outcome, notes) = train(&json!({"until": 40}), second.path());
    assert_eq!(notes, ["resuming after iteration 20"]);
    let value = |name: &str| outcome.metrics[name].value;
    assert!(value("time.train") > 5000.0, "the whole training");
    assert!(value("time.step") < 100.0 && value("time.step.p95") < 100.0 && value("time.first_step") < 100.0);
    assert!(value("throughput.tokens_per_s") > 1.0);
    assert_eq!((value("attempts"), value("time.lost")), (1.0, 0.0));
    assert_eq!(outcome.facts["started"], "iterations 0 to 20 are those of another job, in 5000.0 s");
    assert!(!outcome.facts.contains_key("attempt.1"), "{:?}", outcome.facts);
}

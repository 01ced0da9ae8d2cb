//! A training that is interrupted goes on from its checkpoint as if nothing had happened.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use common::{folders, merged, task};
use serde_json::{Value, json};
use sweep_job::{Backend, Outcome, Progress, Report};

/// Ends the process, as far as a test can, when the training is so far; keeps what it is told.
#[derive(Default)]
struct Interrupting {
    at: Option<u64>,
    notes: Vec<String>,
    /// The first iteration that was reported.
    first: Option<u64>,
}

impl Report for Interrupting {
    fn progress(&mut self, progress: Progress) {
        self.first.get_or_insert(progress.done);
        assert!(self.at.is_none_or(|at| progress.done < at), "interrupted");
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

fn train(more: &Value, folder: &Path, report: &mut Interrupting) -> Outcome {
    let base = json!({
        "n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16, "batch_size": 4, "eval_batches": 2, "iters": 33,
        "log_every": 3, "eval_every": 12, "warmup_iters": 5, "lr": 3e-3, "prune_every": 4, "dropout": 0.1,
        "checkpoint_every": 10,
    });
    sweep_lab::run(&task("train", merged(base, more)), Backend::Cpu, &folders(folder), report).unwrap()
}

/// Everything that must be the same: curves and metrics, but not times and memory.
fn result(outcome: &Outcome) -> String {
    let measured = ["time.", "throughput", "memory", "compute.", "bandwidth", "utilisation"];
    let timeless = |name: &&String| !measured.iter().any(|prefix| name.starts_with(prefix));
    let metrics: Vec<_> = outcome.metrics.iter().filter(|(name, _)| timeless(name)).collect();
    format!("{metrics:?} {:?}", outcome.curves)
}

#[test]
fn an_interrupted_training_goes_on_bit_for_bit() {
    for more in [
        json!({}),
        json!({"grad_accumulation": 2, "prune": "bitter8", "optimizer": "adamwspam", "spam_interval": 14, "spam_warmup": 5}),
        json!({"prune": "movement", "amsgrad": true}),
        json!({"ablation": "16", "coupling_warmup": 20, "prune": "bitter4", "threshold": "sample", "sample_fraction": 0.3}),
        json!({"ablation": "V15", "coupling_start": "steady"}),
    ] {
        let whole = tempfile::tempdir().unwrap();
        let expected = train(&more, whole.path(), &mut Interrupting::default());

        let folder = tempfile::tempdir().unwrap();
        // Twice, once between two readings of the loss.
        for at in [15, 24] {
            let mut report = Interrupting { at: Some(at), ..Interrupting::default() };
            let ended = catch_unwind(AssertUnwindSafe(|| train(&more, folder.path(), &mut report)));
            assert!(ended.is_err(), "it was to be interrupted");
        }
        let mut report = Interrupting::default();
        let resumed = train(&more, folder.path(), &mut report);
        assert_eq!(report.notes, ["going on after iteration 20"], "{more}");
        assert_eq!(report.first, Some(21), "nothing was computed twice");
        assert_eq!(result(&resumed), result(&expected), "{more}");
    }
}

#[test]
fn a_checkpoint_that_is_torn_is_not_used() {
    let more = json!({"dropout": 0});
    let folder = tempfile::tempdir().unwrap();
    let mut report = Interrupting { at: Some(15), ..Interrupting::default() };
    assert!(catch_unwind(AssertUnwindSafe(|| train(&more, folder.path(), &mut report))).is_err());
    let state = folder.path().join("after-10/state.safetensors");
    let text = std::fs::read(&state).unwrap();
    std::fs::write(&state, &text[..text.len() / 2]).unwrap();
    // One that was being written when everything ended has no `progress.json` yet.
    std::fs::create_dir(folder.path().join("after-20")).unwrap();
    let mut report = Interrupting::default();
    let outcome = train(&more, folder.path(), &mut report);
    assert!(
        report.notes[0].starts_with("the checkpoint cannot be used, so the training begins anew: "),
        "{:?}",
        report.notes
    );
    let whole = tempfile::tempdir().unwrap();
    assert_eq!(result(&outcome), result(&train(&more, whole.path(), &mut Interrupting::default())));
}

//! A training reads from the device when it logs, evaluates and chooses masks, and at no other time.

use std::path::{Path, PathBuf};

use crate::common::{folders, merged, task};
use serde_json::{Value, json};
use sweep_job::{Backend, Progress, Report};
use sweep_lab::device::read::reads;

/// Notes how often the device has been read at every log point.
#[derive(Default)]
struct Counts(Vec<u64>);

impl Report for Counts {
    fn progress(&mut self, progress: Progress) {
        // The first message is from before the first iteration.
        if progress.done > 0 {
            self.0.push(reads());
        }
    }

    fn note(&mut self, _text: &str) {}
}

/// Readings from the first log point to the next and so on, in a training of 60 iterations that chooses masks after its 1st and
/// 31st.
fn readings(more: &Value) -> Vec<u64> {
    let dir = tempfile::tempdir().unwrap();
    let base = json!({
        "n_layer": 1, "n_head": 1, "d_model": 8, "block_size": 8, "batch_size": 2, "eval_batches": 1, "iters": 60,
        "prune_warmup": 0, "prune_ramp_end": 10, "prune_every": 30,
    });
    let mut counts = Counts::default();
    sweep_lab::run(&task("train", merged(base, more)), Backend::Cpu, &folders(dir.path()), &mut counts).unwrap();
    counts.0.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn nothing_is_read_between_log_points() {
    // The loss at every log point, and with SPAM its norm: the same whether ten iterations lie between, or one.
    let plain = json!({"dropout": 0.1, "grad_accumulation": 2});
    assert_eq!(readings(&merged(plain.clone(), &json!({"log_every": 10}))), [1; 5]);
    assert_eq!(readings(&merged(plain, &json!({"log_every": 1}))), [1; 59]);
    assert_eq!(readings(&json!({"experts": 3, "log_every": 10})), [1; 5], "choices stay on the device");
    let spam = json!({"optimizer": "adamwspam", "spam_interval": 7});
    assert_eq!(readings(&merged(spam.clone(), &json!({"log_every": 10}))), [2; 5]);
    assert_eq!(readings(&merged(spam, &json!({"log_every": 1}))), [2; 59]);
}

#[test]
fn masked_steps_read_nothing_either() {
    // Four layers. One pass over the weights reads nothing; else the scores of each are read, and how many weights stay.
    for (prune, optimizer, logged) in
        [("magnitude", "adamw", 1), ("movement", "adamw", 1), ("bitter3", "adamw", 1), ("bitter7", "adamwspam", 2)]
    {
        let found = readings(&json!({"prune": prune, "optimizer": optimizer, "log_every": 10}));
        assert_eq!(found, [logged; 5], "{prune}");
        let found =
            readings(&json!({"prune": prune, "optimizer": optimizer, "log_every": 10, "prune_update": "single_pass"}));
        assert_eq!(found, [logged, logged, logged + 5, logged, logged], "{prune}");
        // A sample is one reading, whatever the number of layers.
        let found = readings(&json!({"prune": prune, "optimizer": optimizer, "log_every": 10, "threshold": "sample"}));
        assert_eq!(found, [logged, logged, logged + 2, logged, logged], "{prune}");
    }
}

/// Four layers with two bases each, which turn in the 21st and the 41st iteration.
#[test]
fn soap_reads_when_its_bases_turn() {
    let soap = json!({"optimizer": "soap", "precondition_frequency": 20, "log_every": 10});
    assert_eq!(readings(&soap), [1, 9, 1, 9, 1]);
}

/// The counts above are complete only if no other file reads.
#[test]
fn only_one_module_reads() {
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    for part in ["optim", "prune", "model", "tasks"] {
        sources(&source.join(part), &mut files);
    }
    files.retain(|path| !path.to_string_lossy().ends_with("tests.rs"));
    assert!(files.len() > 10, "{files:?}");
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for call in ["into_data", "to_data", "into_scalar", "into_primitive"] {
            assert!(!code.contains(call), "{} calls {call}: read with `read::host`", path.display());
        }
    }
}

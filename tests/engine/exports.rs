//! What other programs read.

use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Reads event files with the real package, where Python has it.
const READER: &str = "
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
read = EventAccumulator(sys.argv[1]); read.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in read.Scalars(tag)] for tag in read.Tags()['scalars']}))
";

#[test]
fn tensorboard_reads_what_is_exported() {
    let sandbox = Sandbox::with("name: e\nsteps: { train: { uses: train, matrix: { prune: [none, magnitude] } } }\n");
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--backend", "cpu", "--format", "json"]);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    for job in plan["jobs"].as_array().unwrap() {
        let key = job["key"].as_str().unwrap();
        let record = json!({
            "format": 1, "key": key, "label": job["label"], "params": {},
            "identity": { "format": 1, "task": "train", "revision": 1 },
            "outcome": {
                "metrics": { "loss": { "value": 2.5, "unit": "nats" } },
                "curves": { "loss": { "unit": "nats", "at": [10, 20, 300], "values": [4.0, 3.25, 2.5] } },
            },
            "provenance": { "sweep": "0", "started": "2026-01-01T00:00:00Z", "seconds": 60.0, "threads": 1, "host": "here" },
        });
        let folder = format!("results/store/{}/{key}", &key[..2]);
        fs_err::create_dir_all(sandbox.path(&folder)).unwrap();
        sandbox.write(&format!("{folder}/record.json"), &record.to_string());
    }
    for _ in 0..2 {
        let ended = sandbox.sweep(&["export", "tensorboard", "tb", "recipe.yaml", "--backend", "cpu"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "2 jobs in tb\n"), "{}", ended.stderr);
    }
    let files = crate::sandbox::list(&sandbox.path("tb/train/prune=magnitude"));
    assert_eq!(files.len(), 1, "a second export replaces the first: {files:?}");
    let folder = sandbox.path("tb/train/prune=none");
    let output = Command::new("python3").args(["-c", READER]).arg(&folder).output();
    match output {
        Ok(output) if output.status.success() => {
            let read: Value = serde_json::from_slice(&output.stdout).unwrap();
            let expected = json!({ "loss": [[10, 4.0], [20, 3.25], [300, 2.5]], "metrics/loss": [[300, 2.5]] });
            assert_eq!(read, expected);
        }
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            assert!(why.contains("ModuleNotFoundError"), "tensorboard is there and cannot read: {why}");
            eprintln!("tensorboard was not asked: Python does not have it");
        }
        Err(error) => eprintln!("tensorboard was not asked: python3 cannot be started: {error}"),
    }
}

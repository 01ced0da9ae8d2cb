//! An interrupted training resumes from its checkpoint with the same results.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::common::{folders, merged, task};
use serde_json::{Value, json};
use sweep_job::{Backend, Outcome, Progress, Report};

/// Ends the process, as far as a test can, when the training reaches a step; keeps the messages of the report.
#[derive(Default)]
struct Interrupting {
    at: Option<u64>,
    notes: Vec<String>,
    /// The first iteration that was computed.
    first: Option<u64>,
    /// Iteration that is slow.
    slow_at: Option<u64>,
}

/// Delay of the slow iteration: longer than the interval between two signs of an attempt.
const SLOW: Duration = Duration::from_millis(1200);

impl Report for Interrupting {
    fn progress(&mut self, progress: Progress) {
        self.first.get_or_insert(progress.done + 1);
        if self.slow_at == Some(progress.done) {
            std::thread::sleep(SLOW);
        }
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
    let measured = ["time.", "throughput", "memory", "compute.", "bandwidth", "utilization", "attempts"];
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
        json!({"optimizer": "lion", "lr_schedule": "linear", "norm": "rmsnorm", "position": "rope", "kv_heads": 1}),
        json!({"optimizer": "muon", "lr_schedule": "wsd", "prune": "magnitude", "glu": true, "tie": false}),
        json!({"optimizer": "adafactor", "prune": "bitter1", "attention": "mla"}),
        json!({"optimizer": "schedulefree", "lr_schedule": "constant", "prune": "magnitude", "precision": "mixed"}),
        json!({"optimizer": "schedulefree", "lr_schedule": "constant", "prune": "bitter2", "grad_accumulation": 2}),
        json!({"z_loss": 0.1, "precision": "mixed", "checkpointing": "segment:1"}),
        json!({"experts": 3, "balance_loss": 0.2, "prune": "magnitude", "grad_accumulation": 2}),
        json!({"experts": 4, "experts_per_token": 1, "optimizer": "muon", "precision": "mixed", "checkpointing": "segment:1"}),
        json!({"value_embeddings": 1, "checkpointing": "segment:1", "optimizer": "lion", "grad_accumulation": 2}),
        json!({"parametrization": "mup", "mup_base_width": 8, "prune": "bitter3", "precision": "mixed"}),
        json!({"prune": "wanda", "calibration_batches": 2, "optimizer": "muon"}),
        json!({"prune": "wanda", "prune_pattern": "2:4", "precision": "bf16"}),
        json!({"prune": "snip", "prune_every": 10, "sparsity": 0.8, "optimizer": "adamwspam"}),
        json!({"prune": "rigl", "sparsity": 0.8, "prune_ramp_end": 30}),
        json!({"prune": "rigl", "optimizer": "schedulefree", "lr_schedule": "constant", "prune_tied_head": true}),
        json!({"optimizer": "sgd", "nesterov": true, "prune": "bitter1", "qk_norm": true, "bias": false}),
    ] {
        goes_on(&more);
    }
}

#[test]
fn an_interrupted_training_by_soap_goes_on_bit_for_bit() {
    for more in [
        json!({"optimizer": "soap", "precondition_frequency": 4, "prune": "magnitude", "grad_accumulation": 2}),
        // One-sided; the bases turn after the checkpoint after 20 for the first time.
        json!({"optimizer": "soap", "precondition_frequency": 21, "precondition_limit": 40, "prune": "bitter1", "precision": "mixed"}),
        json!({"optimizer": "soap", "precondition_frequency": 1, "precondition_limit": 8, "z_loss": 0.01}),
    ] {
        goes_on(&more);
    }
}

/// A training of these settings is interrupted twice and has the same results.
fn goes_on(more: &Value) {
    let whole = tempfile::tempdir().unwrap();
    let expected = train(more, whole.path(), &mut Interrupting::default());

    let folder = tempfile::tempdir().unwrap();
    // Twice, once between two readings of the loss.
    for at in [15, 24] {
        let mut report = Interrupting { at: Some(at), ..Interrupting::default() };
        let ended = catch_unwind(AssertUnwindSafe(|| train(more, folder.path(), &mut report)));
        assert!(ended.is_err(), "it was to be interrupted");
    }
    let mut report = Interrupting::default();
    let resumed = train(more, folder.path(), &mut report);
    assert_eq!(report.notes, ["resuming after iteration 20"], "{more}");
    assert_eq!(report.first, Some(21), "nothing was computed twice");
    assert_eq!(result(&resumed), result(&expected), "{more}");
}

#[test]
fn a_training_with_the_mask_of_another_network_goes_on_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    train(&json!({"save": true}), folder.path(), &mut Interrupting::default());
    let given = json!({"mask": folder.path().join("checkpoint"), "mask_sparsity": 0.4});
    goes_on(&merged(given.clone(), &json!({"fresh_weights": true, "optimizer": "adamwspam"})));
    goes_on(&merged(given, &json!({"prune": "bitter5", "sparsity": 0.6, "prune_every": 7})));
}

/// A training of 33 iterations, in a separate folder, that was interrupted after the checkpoints after 10 and 20.
fn interrupted(more: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut report = Interrupting { at: Some(24), ..Interrupting::default() };
    assert!(catch_unwind(AssertUnwindSafe(|| train(more, folder.path(), &mut report))).is_err());
    folder
}

fn copied(from: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for checkpoint in ["after-10", "after-20"] {
        let to = folder.path().join(checkpoint);
        fs::create_dir(&to).unwrap();
        for file in fs::read_dir(from.join(checkpoint)).unwrap().flatten() {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    folder
}

/// Damage to the folder of a checkpoint.
type Damage<'a> = &'a dyn Fn(&Path);

/// The files of a checkpoint, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// Writes the digests anew, as `b3sum` would: damage that has a good digest.
fn sign(checkpoint: &Path) {
    let line = |name: &str| {
        let digest = blake3::hash(&fs::read(checkpoint.join(name)).unwrap());
        format!("{digest}  {name}\n")
    };
    fs::write(checkpoint.join("B3SUMS"), line("state.safetensors") + &line("progress.json")).unwrap();
}

fn resumed(folder: &Path, more: &Value) -> (String, Vec<String>) {
    let mut report = Interrupting::default();
    let outcome = train(more, folder, &mut report);
    (result(&outcome), report.notes)
}

#[test]
fn a_damaged_checkpoint_is_thrown_away_and_an_older_one_is_taken() {
    let more = json!({"prune": "bitter7", "dropout": 0});
    let whole = tempfile::tempdir().unwrap();
    let expected = result(&train(&more, whole.path(), &mut Interrupting::default()));
    let folder = interrupted(&more);
    let checkpoint = folder.path().join("after-20");
    let names: Vec<_> = files(&checkpoint).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["B3SUMS", "progress.json", "state.safetensors"]);
    sign(&copied(folder.path()).path().join("after-20"));
    for name in &names {
        let length = fs::metadata(checkpoint.join(name)).unwrap().len();
        for (offset, bit) in [(0, 0), (9, 3), (length / 3, 6), (length / 2, 5), (length - 2, 1), (length - 1, 7)] {
            let copy = copied(folder.path());
            let path = copy.path().join("after-20").join(name);
            let mut bytes = fs::read(&path).unwrap();
            bytes[usize::try_from(offset).unwrap()] ^= 1 << bit;
            fs::write(&path, bytes).unwrap();
            let (found, notes) = resumed(copy.path(), &more);
            let case = format!("{} at {offset}", name.display());
            assert_eq!(notes.len(), 2, "{case}: {notes:?}");
            let thrown = "the checkpoint after iteration 20 cannot be used and is removed: ";
            assert!(notes[0].starts_with(thrown), "{case}: {notes:?}");
            assert_eq!(notes[1], "resuming after iteration 10", "{case}");
            assert_eq!(found, expected, "{case}");
        }
    }
}

#[test]
fn a_checkpoint_that_no_training_can_have_is_not_used_whatever_its_digest_says() {
    let more = json!({"dropout": 0});
    let whole = tempfile::tempdir().unwrap();
    let expected = result(&train(&more, whole.path(), &mut Interrupting::default()));
    let folder = interrupted(&more);
    let progress = |key: &'static str, value: Value| {
        move |checkpoint: &Path| {
            let path = checkpoint.join("progress.json");
            let mut progress: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            assert!(progress.get(key).is_some(), "{key}");
            progress[key] = value.clone();
            fs::write(path, progress.to_string()).unwrap();
        }
    };
    let not_finite = |bits: u32| {
        move |checkpoint: &Path| {
            let path = checkpoint.join("state.safetensors");
            let mut bytes = fs::read(&path).unwrap();
            let last = bytes.len() - 4;
            bytes[last..].copy_from_slice(&bits.to_le_bytes());
            fs::write(path, bytes).unwrap();
        }
    };
    let damages: [(Damage<'_>, &str); 7] = [
        (&progress("done", json!(999_999)), "records 999999 iterations"),
        (&progress("done", json!(0)), "records 0 iterations"),
        (&progress("train_time", json!(-1.0)), "a time is not a valid duration"),
        (&progress("prune_time", json!(1e300)), "a time is not a valid duration"),
        (&progress("coupling", json!(20)), "starts after iteration 20"),
        (&not_finite(f32::NAN.to_bits()), "is not finite"),
        (&not_finite(f32::INFINITY.to_bits()), "is not finite"),
    ];
    for (damage, reason) in &damages {
        let copy = copied(folder.path());
        // The older one, too: then nothing is left but to begin anew.
        for checkpoint in ["after-20", "after-10"] {
            damage(&copy.path().join(checkpoint));
            sign(&copy.path().join(checkpoint));
        }
        let (found, notes) = resumed(copy.path(), &more);
        assert!(notes[0].contains(reason), "{reason}: {notes:?}");
        assert!(notes.iter().all(|note| note.contains(" is removed: ")), "{reason}: {notes:?}");
        assert_eq!(notes.len(), 2, "{reason}: {notes:?}");
        assert_eq!(found, expected, "{reason}");
    }
}

#[test]
fn a_checkpoint_that_is_torn_is_not_used() {
    let more = json!({"dropout": 0});
    let folder = interrupted(&more);
    let state = folder.path().join("after-20/state.safetensors");
    let text = fs::read(&state).unwrap();
    fs::write(&state, &text[..text.len() / 2]).unwrap();
    fs::remove_file(folder.path().join("after-10/B3SUMS")).unwrap();
    // A checkpoint whose writing was interrupted.
    fs::create_dir(folder.path().join("unfinished")).unwrap();
    fs::write(folder.path().join("unfinished/state.safetensors"), "half").unwrap();
    let (found, notes) = resumed(folder.path(), &more);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes.iter().all(|note| note.contains(" cannot be used and is removed: ")), "{notes:?}");
    let whole = tempfile::tempdir().unwrap();
    assert_eq!(found, result(&train(&more, whole.path(), &mut Interrupting::default())));
    let left: Vec<_> = files(folder.path()).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(left, ["after-20", "after-30", "attempts.jsonl"], "the last two, and nothing unfinished");
}

#[test]
fn nothing_is_saved_that_no_attempt_could_go_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = Interrupting::default();
    // The loss is not read before all weights are lost.
    let given = json!({
        "n_layer": 1, "n_head": 1, "d_model": 8, "block_size": 8, "iters": 30, "log_every": 30, "warmup_iters": 0,
        "lr": 10, "grad_clip": 0, "epsilon": 0, "decay_on": "all", "weight_decay": 10, "dropout": 0, "eval_batches": 1,
        "checkpoint_every": 1,
    });
    let failed = sweep_lab::run(&task("train", given), Backend::Cpu, &folders(folder.path()), &mut report).unwrap_err();
    assert!(failed.message.contains("by iteration 30"), "{failed:?}");
    let refused = report.notes.iter().filter(|note| note.starts_with("no checkpoint is saved after iteration "));
    assert!(refused.count() > 1, "{:?}", report.notes);
    assert!(
        report.notes.iter().all(|note| note.ends_with("contains a value that is not finite")),
        "{:?}",
        report.notes
    );
    let left: Vec<_> = files(folder.path()).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(left.len(), 3, "the last two good ones, and the attempts: {left:?}");
}

#[test]
fn a_result_tells_of_the_attempts_that_did_not_reach_it() {
    let more = json!({"dropout": 0});
    let folder = tempfile::tempdir().unwrap();
    // The training continues from the checkpoint after 10. The later iterations are lost, more than a second, of which
    // there is a sign at 15.
    let mut report = Interrupting { at: Some(15), slow_at: Some(12), ..Interrupting::default() };
    assert!(catch_unwind(AssertUnwindSafe(|| train(&more, folder.path(), &mut report))).is_err());
    let path = folder.path().join("attempts.jsonl");
    let signs: Vec<Value> =
        fs::read_to_string(&path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(signs.iter().map(|sign| &sign["done"]).collect::<Vec<_>>(), [0, 10, 15]);
    let peak = signs[2]["peak"].as_f64();
    // Simulates an attempt with a larger process than this one.
    let text = fs::read_to_string(&path).unwrap();
    let larger = peak.map(|peak| text.replace(&json!(peak).to_string(), "7e12"));
    fs::write(&path, larger.unwrap_or(text)).unwrap();

    let outcome = train(&more, folder.path(), &mut Interrupting::default());
    let value = |name: &str| outcome.metrics[name].value;
    assert_eq!(value("attempts"), 2.0);
    let [counted, spent] = [1, 2].map(|sign| signs[sign]["seconds"].as_f64().unwrap());
    assert_eq!(value("time.lost"), spent - counted);
    assert!(value("time.lost") >= SLOW.as_secs_f64());
    assert!(value("time.train") > counted, "what the checkpoint has counts");
    assert_eq!(value("time.first_step"), signs[2]["first_step"].as_f64().unwrap(), "of the attempt that began");
    if peak.is_some() {
        assert_eq!(value("memory.peak"), 7e12, "the largest of all attempts");
    }
    assert!(outcome.facts["attempt.1"].starts_with("iterations 0 to 15 in "), "{:?}", outcome.facts);
    assert!(outcome.facts["attempt.2"].starts_with("iterations 10 to 33 in "), "{:?}", outcome.facts);

    let whole = tempfile::tempdir().unwrap();
    let whole = train(&more, whole.path(), &mut Interrupting::default());
    assert_eq!((whole.metrics["attempts"].value, whole.metrics["time.lost"].value), (1.0, 0.0));
    assert!(!whole.facts.contains_key("attempt.1"), "there is nothing to tell of");
}

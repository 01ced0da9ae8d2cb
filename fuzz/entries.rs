//! The work of each target on its bytes; included by the targets and by `crates/engine/tests/corpora.rs`. Each returns true if it
//! has accepted them.

use std::{fs, path::Path};

use sweep_engine::{
    export::bundle,
    plan::{Digests, Plan, PlanError},
    recipe::Draft,
    record::{self, Record},
    run::{self, listen},
    worker::measure_again,
};
use sweep_job::{
    Backend, Task, TaskSpec as _, Value, Values,
    tasks::Command,
    units::{parse_bytes, parse_seconds},
};

/// A recipe is planned, or refused with mistakes that can be printed.
pub fn recipe(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    planned(Path::new("fuzz.yaml"), text, Digests::default())
}

fn planned(path: &Path, text: &str, digests: Digests) -> bool {
    let problems = match Draft::parse(path, text.to_owned(), &[]) {
        Ok(draft) => match Plan::with(draft, Backend::Cpu, digests) {
            Err(PlanError::Invalid(problems)) => problems,
            plan => return plan.is_ok(),
        },
        Err(problems) => problems,
    };
    let shown = problems.render(false, 80);
    assert!(!shown.is_empty(), "a recipe is refused with a reason");
    assert!(!shown.contains('\u{1b}'), "escapes do not reach the terminal");
    false
}

/// Parses any output of a worker as messages and other lines.
pub fn protocol(bytes: &[u8]) -> bool {
    let mut heard = 0;
    let strays = listen::messages(bytes, |_| {
        heard += 1;
        true
    });
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(heard + strays <= lines, "every line is heard at most once");
    heard > 0
}

/// A record is read, and then written as it was read, or refused.
pub fn record(bytes: &[u8]) -> bool {
    let key = "0".repeat(64).parse().unwrap_or_else(|_| unreachable!("64 digits are a key"));
    let Ok(record) = Record::parse(bytes, Path::new("record.json"), key) else { return false };
    let again = serde_json::to_vec(&record).unwrap_or_default();
    assert_eq!(Record::parse(&again, Path::new("record.json"), key).ok(), Some(record));
    true
}

/// Sizes and spans of time are finite and not negative.
pub fn units(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let seconds = parse_seconds(text);
    if let Ok(seconds) = seconds {
        assert!(seconds.is_finite() && seconds >= 0.0);
    }
    parse_bytes(text).is_ok() || seconds.is_ok()
}

/// The lines of a journal are read, and then written as they were read.
pub fn journal(bytes: &[u8]) -> bool {
    let (lines, length) = run::Line::all(bytes);
    assert!(length <= bytes.len() && lines.len() <= bytes.split(|byte| *byte == b'\n').count());
    let text = |lines: &[run::Line]| -> Vec<u8> {
        lines.iter().flat_map(|line| [serde_json::to_vec(line).unwrap_or_default(), b"\n".to_vec()].concat()).collect()
    };
    let again = text(&lines);
    assert_eq!(text(&run::Line::all(&again).0), again);
    !lines.is_empty()
}

/// The lines of the list of manifests are read, and then written as they were read.
pub fn manifests(bytes: &[u8]) -> bool {
    let mut sealed = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        if let record::Line::Sealed(manifest) = record::Line::parse(line) {
            let again = manifest.to_line().unwrap_or_default();
            assert_eq!(record::Line::parse(again.trim_ascii_end()), record::Line::Sealed(manifest));
            sealed += 1;
        }
    }
    sealed > 0
}

/// A bundle is unpacked, or refused, and writes nowhere else.
pub fn bundle(bytes: &[u8]) -> bool {
    let Ok(folder) = tempfile::tempdir() else { return false };
    let into = folder.path().join("into");
    let _ = fs::create_dir(&into);
    let opened = bundle::unpack(bytes, &into);
    assert_eq!(fs::read_dir(folder.path()).map_or(0, Iterator::count), 1, "a bundle stays in its folder");
    if let Ok(opened) = &opened {
        let _ = opened.draft();
    }
    opened.is_ok()
}

/// A patch is applied to a project, or is a mistake of the plan.
pub fn patch(bytes: &[u8]) -> bool {
    let Ok(folder) = tempfile::tempdir() else { return false };
    let recipe = "steps:\n  a:\n    uses: command\n    matrix: { code: [., x.patch] }\n    with: { argv: [python3, model.py] }\n";
    let model = "import math\n\nnorm = True\n\ndef forward(x):\n    if norm:\n        x = x / 2\n    return x\n";
    for (name, text) in [("recipe.yaml", recipe.as_bytes()), ("model.py", model.as_bytes()), ("x.patch", bytes)] {
        let _ = fs::write(folder.path().join(name), text);
    }
    // Layers of patches are kept in the results folder that the digests are of.
    planned(&folder.path().join("recipe.yaml"), recipe, Digests::open(folder.path().join("results/digests/files.json")))
}

/// The values in an event file of TensorBoard.
pub fn events(bytes: &[u8]) -> bool {
    series(bytes, "tensorboard", "logs", "logs/events.out.tfevents.1")
}

/// The values in a CSV file.
pub fn csv(bytes: &[u8]) -> bool {
    series(bytes, "csv", "log.csv", "log.csv")
}

/// The values in JSON lines.
pub fn jsonl(bytes: &[u8]) -> bool {
    series(bytes, "jsonl", "log.jsonl", "log.jsonl")
}

/// Reads a file of a finished program as the source `kind` at `place`.
fn series(bytes: &[u8], kind: &str, place: &str, file: &str) -> bool {
    let (Some(task), Ok(folder)) = (Task::info(Command::NAME), tempfile::tempdir()) else { return false };
    let path = folder.path().join(file);
    let _ = fs::create_dir_all(path.parent().unwrap_or(folder.path()));
    let _ = fs::write(&path, bytes);
    let mut params = Values::new();
    params.insert("argv", Value::List(vec![Value::Text("true".to_owned())]));
    let mut record = record::sample();
    record.identity.task = Command::NAME.into();
    record.params = params;
    let mut values = task.complete(record.params.clone());
    values.insert("reads", Value::Map([(kind.to_owned(), Value::Text(place.to_owned()))].into()));
    let Some(again) = measure_again(&record, &values, folder.path(), None) else { return false };
    for curve in again.outcome.curves.values() {
        assert!(curve.values.iter().all(|value| value.is_finite()), "a curve has finite values");
        assert!(curve.at.is_sorted(), "a curve is in the order of its steps");
    }
    !again.outcome.curves.is_empty()
}

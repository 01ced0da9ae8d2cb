//! The work of each target on its bytes; included by the targets and by `crates/engine/tests/corpora.rs`.

use std::path::Path;

use sweep_engine::{plan::Plan, recipe::Draft, record::Record, run::listen};
use sweep_job::{
    Backend,
    units::{parse_bytes, parse_seconds},
};

/// A recipe is planned, or refused with mistakes that can be printed.
pub fn recipe(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let problems = match Draft::parse(Path::new("fuzz.yaml"), text.to_owned(), &[]) {
        Ok(draft) => match Plan::new(draft, Backend::Cpu) {
            Err(sweep_engine::plan::PlanError::Invalid(problems)) => problems,
            _ => return,
        },
        Err(problems) => problems,
    };
    let shown = problems.render(false, 80);
    assert!(!shown.is_empty(), "a recipe is refused with a reason");
    assert!(!shown.contains('\u{1b}'), "escapes do not reach the terminal");
}

/// Parses any output of a worker as messages and other lines.
pub fn protocol(bytes: &[u8]) {
    let mut heard = 0;
    let strays = listen::messages(bytes, |_| {
        heard += 1;
        true
    });
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(heard + strays <= lines, "every line is heard at most once");
}

/// A record is read, and then written as it was read, or refused.
pub fn record(bytes: &[u8]) {
    let key = "0".repeat(64).parse().unwrap_or_else(|_| unreachable!("64 digits are a key"));
    if let Ok(record) = Record::parse(bytes, Path::new("record.json"), key) {
        let again = serde_json::to_vec(&record).unwrap_or_default();
        assert_eq!(Record::parse(&again, Path::new("record.json"), key).ok(), Some(record));
    }
}

/// Sizes and spans of time are finite and not negative.
pub fn units(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(seconds) = parse_seconds(text) {
        assert!(seconds.is_finite() && seconds >= 0.0);
    }
    let _ = parse_bytes(text);
}

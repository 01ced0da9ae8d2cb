//! The meaning of a program's lines and of its metrics file.

use std::{collections::BTreeMap, fs::File, io::Read as _, path::Path};

use serde_json::Value;
use sweep_job::Progress;

/// A line that means something.
#[derive(Debug, PartialEq)]
pub(super) enum Word {
    /// `name=value`.
    Metric(String, f64),
    /// `progress 3/10`.
    Progress(Progress),
}

/// A metrics file is never larger.
const LARGEST_FILE: u64 = 16 << 20;

/// Meaning of a line of standard output; mostly none.
pub(super) fn understand(line: &[u8]) -> Option<Word> {
    let line = std::str::from_utf8(line).ok()?.trim();
    if let Some(progress) = line.strip_prefix("progress ") {
        let (done, total) = progress.split_once('/')?;
        let (done, total) = (done.trim().parse().ok()?, total.trim().parse().ok()?);
        return (done <= total).then(|| Word::Progress(Progress { done, total, ..Progress::default() }));
    }
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    is_metric(name).then_some(())?;
    Some(Word::Metric(name.to_owned(), value.trim_start().parse().ok()?))
}

fn is_metric(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|char| char.is_ascii_alphanumeric() || "_-./".contains(char))
}

/// The units in a JSON file whose numbers [`read_json`] has read: of entries such as `{"value": 1.5, "unit": "ms"}`, by their
/// paths.
pub(super) fn read_units(path: &Path) -> BTreeMap<String, String> {
    let mut units = BTreeMap::new();
    let text = std::fs::read(path).unwrap_or_default();
    if let Ok(Value::Object(entries)) = serde_json::from_slice(&text) {
        gather_units("", &entries, &mut units);
    }
    units
}

fn gather_units(prefix: &str, entries: &serde_json::Map<String, Value>, units: &mut BTreeMap<String, String>) {
    for (name, value) in entries {
        let Value::Object(inner) = value else { continue };
        match (inner.len(), inner.get("value"), inner.get("unit")) {
            (2, Some(Value::Number(_)), Some(Value::String(unit))) => {
                units.insert(format!("{prefix}{name}"), unit.clone());
            }
            _ => gather_units(&format!("{prefix}{name}."), inner, units),
        }
    }
}

/// The numbers in a JSON file; those of inner objects by their path: `memory.peak`. Everything else in it is not for us.
/// The error is a phrase about the file.
pub(super) fn read_json(path: &Path) -> Result<BTreeMap<String, f64>, String> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "was not written".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    // Checked first, because opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is not a file".into());
    }
    let mut text = Vec::new();
    File::open(path).and_then(|file| file.take(LARGEST_FILE + 1).read_to_end(&mut text)).map_err(unreadable)?;
    if text.len() as u64 > LARGEST_FILE {
        return Err(format!("is larger than {} MiB", LARGEST_FILE >> 20));
    }
    let value: Value =
        serde_json::from_slice(&text).map_err(|error| format!("is not JSON (which has no NaN): {error}"))?;
    let Value::Object(entries) = value else { return Err("must contain an object: `{\"loss\": 2.31}`".into()) };
    let mut found = BTreeMap::new();
    gather("", &entries, &mut found);
    Ok(found)
}

fn gather(prefix: &str, entries: &serde_json::Map<String, Value>, found: &mut BTreeMap<String, f64>) {
    for (name, value) in entries {
        let name = format!("{prefix}{name}");
        match value {
            Value::Number(number) => {
                found.extend(number.as_f64().map(|number| (name, number)));
            }
            Value::Object(inner) => gather(&format!("{name}."), inner, found),
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str, value: f64) -> Word {
        Word::Metric(name.into(), value)
    }

    #[test]
    fn lines() {
        assert_eq!(understand(b"loss=2.5"), Some(metric("loss", 2.5)));
        assert_eq!(understand(b"  memory.peak = 1e9 "), Some(metric("memory.peak", 1e9)));
        assert_eq!(understand(b"eval/loss=-3"), Some(metric("eval/loss", -3.0)));
        assert_eq!(
            understand(b"progress 3/10"),
            Some(Word::Progress(Progress { done: 3, total: 10, ..Progress::default() }))
        );
        let nothing: [&[u8]; 9] = [b"", b"=", b"=1", b"a=", b"a=b", b"a b=1", b"1=1", b"\xff\xfe=1", b"progress 11/10"];
        for line in nothing {
            assert_eq!(understand(line), None, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn numbers_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.json");
        let read = |text: &str| {
            fs_err::write(&path, text).unwrap();
            read_json(&path)
        };
        let found = read(r#"{"loss": 1, "memory": {"peak": 2.5, "name": "x"}, "none": null, "list": [1]}"#).unwrap();
        assert_eq!(found, BTreeMap::from([("loss".into(), 1.0), ("memory.peak".into(), 2.5)]));
        for text in ["", "[1]", "{\"loss\": NaN}"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read_json(folder.path()), Err("is not a file".into()));
        assert_eq!(read_json(&folder.path().join("x")), Err("was not written".into()));
    }
}

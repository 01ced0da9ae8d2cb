//! The meaning of a program's lines and of its metrics file.

use std::{borrow::Cow, collections::BTreeMap, fs::File, io::Read as _, path::Path};

use serde_json::{Map, Value};
use sweep_job::{
    Metric, Progress, Unit,
    tasks::{Number, leading_number},
};

use super::report::{number, parse};

/// The content of a line with progress or a metric.
#[derive(Debug, PartialEq)]
pub(super) enum Word {
    /// `name=value`, with the unit if it is written.
    Metric(String, f64, Option<&'static str>),
    /// `name=text` with a text that looks like a number but is not one.
    NoNumber(String, String),
    /// `progress 3/10`.
    Progress(Progress),
}

/// Maximum size of a metrics file, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// The lines of an output without the codes for terminals. A carriage return ends a line, too.
pub fn without_codes(output: &[u8]) -> String {
    let lines = output.split(|byte| matches!(byte, b'\n' | b'\r'));
    let lines: Vec<String> = lines.map(|line| String::from_utf8_lossy(&plain(line)).into_owned()).collect();
    lines.join("\n")
}

/// Removes the codes for terminals from a line: colors, movements of the cursor, titles of windows.
pub(super) fn plain(line: &[u8]) -> Cow<'_, [u8]> {
    const ESCAPE: u8 = 0x1b;
    if !line.contains(&ESCAPE) {
        return Cow::Borrowed(line);
    }
    let mut result = Vec::with_capacity(line.len());
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != ESCAPE {
            result.push(byte);
            continue;
        }
        match bytes.next() {
            // Parameters, and then a final byte.
            Some(b'[') => {
                bytes.by_ref().find(|byte| (0x40..=0x7e).contains(byte));
            }
            // A text up to a bell or `ESC \\`.
            Some(b']' | b'P' | b'_' | b'^' | b'X') => {
                while let Some(byte) = bytes.next() {
                    if byte == 7 || (byte == ESCAPE && bytes.next().is_some()) {
                        break;
                    }
                }
            }
            // A set of characters has one more byte.
            Some(b'(' | b')' | b'*' | b'+') => {
                bytes.next();
            }
            _ => {}
        }
    }
    Cow::Owned(result)
}

/// The meaning of a line of standard output; `None` for most lines.
pub(super) fn understand(line: &[u8]) -> Option<Word> {
    let line = std::str::from_utf8(line).ok()?.trim();
    if let Some(progress) = line.strip_prefix("progress ") {
        let (done, total) = progress.split_once('/')?;
        let (done, total) = (done.trim().parse().ok()?, total.trim().parse().ok()?);
        return (done <= total).then(|| Word::Progress(Progress { done, total, ..Progress::default() }));
    }
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim_end(), value.trim_start());
    is_metric(name).then_some(())?;
    let name = name.to_owned();
    if let Some(Number { value, unit }) = Number::parse(within(value)) {
        return Some(Word::Metric(name, value, unit));
    }
    let number = leading_number(value);
    if let Some((number, unit)) = number.and_then(|(number, rest)| Some((number, symbol(rest.trim_start())?))) {
        return Some(Word::Metric(name, number, Some(unit)));
    }
    let is_number = number.is_some() && looks_like_number(value) || is_other_notation(within(value));
    is_number.then(|| Word::NoNumber(name, value.to_owned()))
}

/// The text within quotes or parentheses, else the text.
fn within(text: &str) -> &str {
    let inner = [('\'', '\''), ('"', '"'), ('(', ')')].into_iter().find_map(|(open, close)| {
        text.strip_prefix(open).and_then(|text| text.strip_suffix(close)).filter(|inner| !inner.contains([open, close]))
    });
    inner.unwrap_or(text)
}

/// Returns true for a number in a notation that is not read: `3.2k`, `0x10`, `1/3`, `1:30`, `[0.5]`, and in quotes `0,5`.
fn is_other_notation(text: &str) -> bool {
    let is_number = |text: &str| Number::parse(text).is_some();
    let are_both = |separator: char| {
        text.split_once(separator).is_some_and(|(first, second)| is_number(first) && is_number(second))
    };
    let unsigned = text.trim_start_matches(['+', '-', '\u{2212}']);
    let is_hexadecimal = unsigned
        .strip_prefix("0x")
        .or_else(|| unsigned.strip_prefix("0X"))
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let has_prefix = text.strip_suffix(['k', 'K', 'M', 'G', 'T']).is_some_and(is_number);
    let is_list = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).is_some_and(is_number);
    let is_tuple = text.contains(", ");
    is_hexadecimal || has_prefix || is_list || are_both('/') || are_both(':') || !is_tuple && is_quoted(text)
}

/// True for a name without space that begins with a letter.
fn is_metric(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && chars.all(|char| char.is_alphanumeric() || "_-./@#:%+".contains(char))
}

/// Returns true for a text that its author probably considers a number, such as `0,5` or `1 000`, and for several values in
/// a line. Dates, times of day, names and sizes of pictures do not look like numbers.
pub(super) fn looks_like_number(text: &str) -> bool {
    let is_written_otherwise = |char: char| char.is_ascii_digit() || ".,'’_ \u{a0}\u{202f}%".contains(char);
    let digits = text.trim_start_matches(['+', '-', '\u{2212}']);
    let first_word = text.split([' ', ',', ';', '\t']).next().unwrap_or_default();
    digits.chars().all(is_written_otherwise)
        || (first_word.len() < text.len() && leading_number(first_word).is_some_and(|(_, rest)| rest.is_empty()))
}

/// The numbers in a JSON file, and the values that could have been meant as numbers.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Numbers {
    /// The numbers, also non-finite ones; numbers of inner objects by their path: `memory.peak`. An object such as
    /// `{"value": 1.5, "unit": "ms"}` is one number.
    pub(super) found: BTreeMap<String, Metric>,
    /// The names of the others, each with the text of its value.
    pub(super) others: Vec<(String, String)>,
}

/// The numbers in a JSON file. Other values are ignored. The error is a phrase about the file.
pub(super) fn read_json(path: &Path) -> Result<Numbers, String> {
    let read_error = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "was not written".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    // Checked first, because opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(read_error)?.is_file() {
        return Err("is not a file".into());
    }
    let mut text = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut text)).map_err(read_error)?;
    if text.len() as u64 > MAX_FILE {
        return Err(format!("is larger than {} MiB", MAX_FILE >> 20));
    }
    let value = parse(&text).map_err(|error| format!("is not JSON: {error}"))?;
    let Value::Object(entries) = value else {
        let advice = if value.is_array() { "; `reads: { jsonl: FILE }` reads a list of objects" } else { "" };
        return Err(format!("must contain an object: `{{\"loss\": 2.31}}`{advice}"));
    };
    let mut numbers = Numbers::default();
    gather("", &entries, &mut numbers);
    Ok(numbers)
}

/// True for a text that is a number, or looks like one.
fn is_quoted(text: &str) -> bool {
    Number::parse(text).is_some() || (text.contains(|char: char| char.is_ascii_digit()) && looks_like_number(text))
}

fn gather(prefix: &str, entries: &Map<String, Value>, numbers: &mut Numbers) {
    for (name, value) in entries {
        let name = format!("{prefix}{name}");
        if let Some((value, symbol)) = with_unit(value) {
            let unit = Unit::written(symbol).unwrap_or_else(|| {
                let known_units = Unit::known();
                numbers.others.push((name.clone(), format!("in the unknown unit `{symbol}`; known are {known_units}")));
                Unit::One
            });
            numbers.found.insert(name, Metric { value, unit });
            continue;
        }
        match (number(value), value) {
            (Some(value), _) => {
                if !value.is_finite() {
                    numbers.others.push((name.clone(), value.to_string()));
                }
                numbers.found.insert(name, Metric { value, unit: Unit::One });
            }
            (None, Value::Object(inner)) => gather(&format!("{name}."), inner, numbers),
            (None, Value::Null) => numbers.others.push((name, "null".to_owned())),
            (None, Value::String(text)) if is_quoted(text) => {
                numbers.others.push((name, format!("the text \"{text}\"")));
            }
            (None, Value::Array(items)) if items.iter().any(|item| number(item).is_some()) => {
                numbers.others.push((name, "a list".to_owned()));
            }
            (None, _) => {}
        }
    }
}

/// A number with the symbol of its unit, as a metric.
pub(super) fn metric(value: f64, symbol: Option<&str>) -> Metric {
    Metric { value, unit: symbol.and_then(Unit::written).unwrap_or(Unit::One) }
}

/// The number of an object that has a number and a unit, and the unit.
fn with_unit(value: &Value) -> Option<(f64, &str)> {
    let entries = value.as_object().filter(|entries| entries.len() == 2)?;
    Some((number(entries.get("value")?)?, entries.get("unit")?.as_str()?))
}

/// The symbol of a unit behind a number.
fn symbol(text: &str) -> Option<&'static str> {
    Unit::written(text).filter(|_| !matches!(text, "" | "1")).map(Unit::key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str, value: f64) -> Word {
        Word::Metric(name.into(), value, None)
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
        for (line, name, value) in [
            ("recall@5=0.5", "recall@5", 0.5),
            ("точность=.5", "точность", 0.5),
            ("top-1/acc=3.33e-06", "top-1/acc", 3.33e-6),
            ("x=1_000", "x", 1000.0),
            ("x=1,234.5", "x", 1234.5),
            ("x=-Infinity", "x", f64::NEG_INFINITY),
        ] {
            assert_eq!(understand(line.as_bytes()), Some(metric(name, value)), "{line}");
        }
        let unit = |line: &str| understand(line.as_bytes());
        assert_eq!(unit("acc=95%"), Some(Word::Metric("acc".into(), 95.0, Some("%"))));
        assert_eq!(unit("time = 12.5 ms"), Some(Word::Metric("time".into(), 12.5, Some("ms"))));
        for line in ["loss='0.5'", "loss=\"0.5\"", "loss=(0.5)"] {
            assert_eq!(unit(line), Some(metric("loss", 0.5)), "{line}");
        }
        for line in ["loss=3.2k", "loss=0x10", "loss=1/3", "loss=1:30", "loss=[0.5]", "loss='0,5'"] {
            let text = line.split_once('=').unwrap().1;
            assert_eq!(unit(line), Some(Word::NoNumber("loss".into(), text.into())), "{line}");
        }
        for line in ["loss=0,5", "loss=1,234", "loss=1 000", "loss=0.5 acc=0.9", "loss=0.5, acc=0.9", "loss=5,"] {
            let text = line.split_once('=').unwrap().1;
            assert_eq!(unit(line), Some(Word::NoNumber("loss".into(), text.into())), "{line}");
        }
        let other_lines: [&[u8]; 18] = [
            b"",
            b"=",
            b"=1",
            b"a=",
            b"a=b",
            b"a b=1",
            b"1=1",
            b"\xff\xfe=1",
            b"progress 11/10",
            b"day=2024-01-01",
            b"at=12:30:01",
            b"size=10x10",
            b"device=cuda:0",
            b"model=gpt2",
            b"name='a'",
            b"size=(3, 32)",
            b"sizes=[1, 2]",
            b"gpu=(1",
        ];
        for line in other_lines {
            assert_eq!(understand(line), None, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn codes_for_terminals_are_left_out() {
        for (line, expected) in [
            ("\x1b[1;31mloss\x1b[0m=\x1b[38;5;9m0.5\x1b[K", "loss=0.5"),
            ("\x1b]0;title\x07loss=1", "loss=1"),
            ("\x1b]8;;http://x\x1b\\loss=1\x1b]8;;\x1b\\", "loss=1"),
            ("\x1b(Bloss=1\x1b=", "loss=1"),
            ("loss=1\x1b[", "loss=1"),
            ("loss=1\x1b", "loss=1"),
        ] {
            assert_eq!(String::from_utf8_lossy(&plain(line.as_bytes())), expected, "{line:?}");
        }
    }

    #[test]
    fn numbers_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.json");
        let read_text = |text: &str| {
            fs_err::write(&path, text).unwrap();
            read_json(&path)
        };
        let text = r#"{"loss": 1, "memory": {"peak": 2.5, "name": "x", "grad": NaN}, "none": null, "list": [1], "x": Infinity,
            "y": -Infinity, "c": nan, "d": -inf, "e": 1e999, "text": "NaN is a word", "quoted": "5e-4", "word": "Infinity"}"#;
        let Numbers { found, others } = read_text(text).unwrap();
        let finite_numbers: Vec<(&str, f64)> = found
            .iter()
            .filter(|(_, metric)| metric.value.is_finite())
            .map(|(name, metric)| (name.as_str(), metric.value))
            .collect();
        assert_eq!(finite_numbers, [("loss", 1.0), ("memory.peak", 2.5)]);
        let others: Vec<String> = others.into_iter().map(|(name, text)| format!("{name} {text}")).collect();
        let expected = [
            "c NaN",
            "d -inf",
            "e inf",
            "list a list",
            "memory.grad NaN",
            "none null",
            "quoted the text \"5e-4\"",
            "word inf",
            "x inf",
            "y -inf",
        ];
        assert_eq!(others, expected);
        assert_eq!(read_text("\u{feff}{\"loss\": 1}").unwrap().found.len(), 1);
        for text in ["", "[1]", "{\"loss\": NaNo}", "NaN", "{\"loss\": 0.5", "{\"loss\": 0,5}"] {
            assert!(read_text(text).is_err(), "{text}");
        }
        assert_eq!(read_json(folder.path()), Err("is not a file".into()));
        assert_eq!(read_json(&folder.path().join("x")), Err("was not written".into()));
    }
}

//! Texts as other programs write them: numbers that are not finite, JSON of Python, words for `true` and `none`.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use sweep_job::Value;

/// Levels of nested maps of parameters.
const MAX_LEVELS: usize = 32;

/// Reads JSON in which Python may have written `NaN`, `Infinity` and `-Infinity`, which become texts.
pub(super) fn json(text: &str) -> Option<Json> {
    let strict = serde_json::from_str(text);
    if strict.is_ok() || !(text.contains("NaN") || text.contains("Infinity")) {
        return strict.ok();
    }
    let mut quoted = String::with_capacity(text.len() + 16);
    let (mut remaining_text, mut inside) = (text, false);
    while let Some(char) = remaining_text.chars().next() {
        let word =
            ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| !inside && remaining_text.starts_with(word));
        if let Some(word) = word {
            quoted.extend(["\"", word, "\""]);
            remaining_text = &remaining_text[word.len()..];
            continue;
        }
        let mut length = char.len_utf8();
        match char {
            '"' => inside = !inside,
            '\\' if inside => length += remaining_text[length..].chars().next().map_or(0, char::len_utf8),
            _ => {}
        }
        quoted.push_str(&remaining_text[..length]);
        remaining_text = &remaining_text[length..];
    }
    serde_json::from_str(&quoted).ok()
}

/// The number that a JSON value is; texts of numbers that are not finite are numbers, and booleans are 0 and 1.
pub(super) fn number(value: &Json) -> Option<f64> {
    match value {
        Json::Number(number) => number.as_f64(),
        Json::Bool(value) => Some(f64::from(u8::from(*value))),
        Json::String(text) => match text.as_str() {
            "NaN" | "nan" => Some(f64::NAN),
            "Infinity" | "inf" => Some(f64::INFINITY),
            "-Infinity" | "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// Adds a parameter. Parameters in a map are named by their paths, `null` is skipped, and lists become texts.
pub(super) fn add(params: &mut BTreeMap<String, Value>, name: &str, value: &Json) {
    add_below(params, name, value, 0);
}

fn add_below(params: &mut BTreeMap<String, Value>, name: &str, value: &Json, level: usize) {
    let value = match value {
        Json::Null => return,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(float)) => Value::Float(float),
            (None, None) => return,
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Object(entries) if level < MAX_LEVELS && !entries.is_empty() => {
            for (key, inner) in entries {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                add_below(params, &name, inner, level + 1);
            }
            return;
        }
        list => Value::Text(list.to_string()),
    };
    params.insert(name.to_owned(), value);
}

/// The value of a text: a number, a boolean of YAML or Python, the text, or `None` for a null.
pub(super) fn scalar(text: &str) -> Option<Value> {
    let text = text.trim();
    Some(match text {
        "" | "None" | "null" | "nan" | "NaN" => return None,
        "true" | "True" => Value::Bool(true),
        "false" | "False" => Value::Bool(false),
        // `007` is a name, not a number.
        _ if text.len() > 1 && text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Value::Text(text.to_owned())
        }
        _ if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) => {
            Value::Text(text.to_owned())
        }
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(int), _) => Value::Int(int),
            (Err(_), Ok(float)) if float.is_finite() => Value::Float(float),
            _ => Value::Text(text.to_owned()),
        },
    })
}

/// A step as a whole number; negative ones are the first.
pub(super) fn step(step: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "conversions of floats saturate")]
    let whole = step.max(0.0) as u64;
    whole
}

/// Milliseconds since 1970 of a time such as `2026-11-26 23:15:25.915042`, which is UTC without a zone.
pub(super) fn milliseconds(text: &str) -> Option<i64> {
    let text = text.trim();
    let with_zone = text.parse::<jiff::Timestamp>().ok();
    let without = || {
        let civil = text.parse::<jiff::civil::DateTime>().ok()?;
        civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    };
    with_zone.or_else(without).map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_that_are_not_finite_are_read_where_python_writes_them() {
        let read = json(r#"{"a": NaN, "b": [-Infinity, "NaN \" Infinity"], "c": 1}"#).unwrap();
        assert_eq!(read, json!({ "a": "NaN", "b": ["-Infinity", "NaN \" Infinity"], "c": 1 }));
        assert!(number(&read["a"]).unwrap().is_nan());
        assert_eq!(json("{NaN"), None);
    }

    #[test]
    fn texts_keep_what_no_number_says() {
        let values = ["7", "1e-3", "007", "12e99999", "True", "None", "abc", "-", "inf", " 2 "].map(scalar);
        let text = |text: &str| Some(Value::Text(text.to_owned()));
        let expected = [
            Some(Value::Int(7)),
            Some(Value::Float(1e-3)),
            text("007"),
            text("12e99999"),
            Some(Value::Bool(true)),
            None,
            text("abc"),
            text("-"),
            text("inf"),
            Some(Value::Int(2)),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn maps_are_paths_and_lists_are_texts() {
        let mut params = BTreeMap::new();
        add(&mut params, "", &json!({ "opt": { "lr": 0.1, "betas": [0.9, 0.95] }, "none": null }));
        let expected = [("opt.betas", Value::Text("[0.9,0.95]".into())), ("opt.lr", Value::Float(0.1))];
        assert_eq!(params, expected.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn times_without_a_zone_are_utc() {
        let expected = "2026-11-26T23:15:25.915Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
        for text in ["2026-11-26 23:15:25.915042", "2026-11-26T23:15:25.915042+00:00"] {
            assert_eq!(milliseconds(text), Some(expected), "{text}");
        }
        assert_eq!(milliseconds("yesterday"), None);
    }
}

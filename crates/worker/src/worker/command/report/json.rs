//! JSON as programs write it: with numbers that JSON does not have, such as Python's `NaN`, C's `inf` and `.5`.

use serde_json::{Map, Value};
use sweep_job::tasks::leading_number;

/// First character of a text that represents a non-finite number. No program writes it.
const MARK: char = '\0';

/// Returns the value of a text. The error describes the unchanged text.
pub(in super::super) fn parse(text: &[u8]) -> serde_json::Result<Value> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    serde_json::from_slice(text).or_else(|error| serde_json::from_slice(&with_numbers(text)).map_err(|_| error))
}

/// The values of a text that consists only of values.
pub(in super::super) fn parse_all(text: &[u8]) -> serde_json::Result<Vec<Value>> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let all = |text: &[u8]| -> serde_json::Result<Vec<Value>> {
        serde_json::Deserializer::from_slice(text).into_iter().collect()
    };
    all(text).or_else(|error| all(&with_numbers(text)).map_err(|_| error))
}

/// The object of a text.
pub(in super::super) fn parse_object(text: &[u8]) -> Option<Map<String, Value>> {
    match parse(text) {
        Ok(Value::Object(entries)) => Some(entries),
        _ => None,
    }
}

/// The number of a value, which may be non-finite, also if a text contains it.
pub(in super::super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => {
            let (value, rest) = leading_number(text.trim_start_matches(MARK))?;
            (rest.is_empty() && !value.is_finite()).then_some(value)
        }
        _ => None,
    }
}

/// Replaces numbers that are not valid JSON by valid numbers or texts.
fn with_numbers(text: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len() + 32);
    let (mut index, mut is_in_text) = (0, false);
    while let Some(byte) = text.get(index) {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._".contains(byte);
        if !is_in_text && is_part(byte) {
            let end = text[index..].iter().position(|byte| !is_part(byte)).map_or(text.len(), |length| index + length);
            let word = &text[index..end];
            index = end;
            // A name without quotation marks is not a number.
            let is_name = text[end..].trim_ascii_start().starts_with(b":");
            match std::str::from_utf8(word).ok().filter(|_| !is_name).and_then(leading_number) {
                Some((value, "")) => match serde_json::Number::from_f64(value) {
                    Some(_) if serde_json::from_slice::<Value>(word).is_ok() => result.extend_from_slice(word),
                    Some(number) => result.extend_from_slice(number.to_string().as_bytes()),
                    None => result.extend_from_slice(format!("\"\\u0000{value}\"").as_bytes()),
                },
                _ => result.extend_from_slice(word),
            }
            continue;
        }
        result.push(*byte);
        index += 1;
        match byte {
            b'"' => is_in_text = !is_in_text,
            b'\\' if is_in_text => {
                result.extend(text.get(index));
                index += 1;
            }
            _ => {}
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_does_not_have_are_read() {
        let text = br#"{"a": NaN, "b": -Infinity, "c": .5, "d": +1.5, "e": 1e999, "f": "x NaN \" Infinity", "g": [nan, true, null, 3]}"#;
        let Ok(Value::Object(entries)) = parse(text) else { panic!("not read") };
        let value = |name: &str| number(&entries[name]);
        assert!(value("a").is_some_and(f64::is_nan));
        assert_eq!((value("b"), value("c"), value("d")), (Some(f64::NEG_INFINITY), Some(0.5), Some(1.5)));
        assert_eq!((value("e"), value("f")), (Some(f64::INFINITY), None));
        assert_eq!(entries["f"], "x NaN \" Infinity");
        assert_eq!(
            (&entries["g"][1], &entries["g"][2], &entries["g"][3]),
            (&Value::Bool(true), &Value::Null, &3.into())
        );
        for text in ["{\"a\": None}", "{\"a\": 0,5}", "{\"a\": NaNs}", "{\"a\"", "\\", "\"", "{NaN: 1}", ""] {
            assert!(parse_object(text.as_bytes()).is_none(), "{text}");
        }
    }
}

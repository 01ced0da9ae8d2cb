//! Scalars and lists as YAML in one line.

use std::fmt::Write as _;

use serde_json::Value as Json;

/// A value in flow style. `None` if it cannot be written: an inner mapping, or a text with an expression.
pub(crate) fn yaml(value: &Json) -> Option<String> {
    Some(match value {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(int), _) => int.to_string(),
            (None, Some(float)) => float_text(float),
            (None, None) => return None,
        },
        Json::String(text) if text.contains("${{") => return None,
        Json::String(text) => self::text(text),
        Json::Array(items) => format!("[{}]", items.iter().map(yaml).collect::<Option<Vec<_>>>()?.join(", ")),
        Json::Object(_) => return None,
    })
}

/// A number as people write it, with a point or an exponent, so that it stays a float.
pub(super) fn float_text(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e7).contains(&magnitude) { format!("{value:e}") } else { format!("{value:?}") }
}

/// A text, quoted where YAML needs it.
pub(crate) fn text(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_./-".contains(char);
    let first_char = text.chars().next();
    let is_name =
        first_char.is_some_and(|first_char| first_char.is_ascii_alphabetic() || first_char == '_' || first_char == '/');
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"];
    if is_name && text.chars().all(is_plain) && !words.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    quoted(text)
}

/// A text in quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut literal = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => literal.extend(['\\', char]),
            '\n' => literal.push_str("\\n"),
            '\t' => literal.push_str("\\t"),
            // Invisible and not allowed, or a line break of YAML's.
            char if char.is_control()
                || "\u{2028}\u{2029}\u{feff}\u{200e}\u{200f}".contains(char)
                || ('\u{202a}'..='\u{202e}').contains(&char)
                || ('\u{fffe}'..='\u{ffff}').contains(&char) =>
            {
                let _ = write!(literal, "\\u{:04x}", u32::from(char));
            }
            char => literal.push(char),
        }
    }
    literal + "\""
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_keep_their_types() {
        let expected = [
            (json!(3), "3"),
            (json!(-1), "-1"),
            (json!(1.0), "1.0"),
            (json!(1e-5), "1e-5"),
            (json!(0.001), "0.001"),
            (json!(1e9), "1e9"),
            (json!("adamw"), "adamw"),
            (json!("data/a.txt"), "data/a.txt"),
            (json!("3"), "\"3\""),
            (json!("No"), "\"No\""),
            (json!(""), "\"\""),
            (json!("a: b # c"), "\"a: b # c\""),
            (json!("\u{1b}[31m\"\\\n"), "\"\\u001b[31m\\\"\\\\\\n\""),
            (json!(["a", 1, true, null]), "[a, 1, true, null]"),
        ];
        for (value, text) in expected {
            assert_eq!(yaml(&value).as_deref(), Some(text), "{value}");
        }
        assert_eq!(yaml(&json!("${{ params.x }}")), None);
        assert_eq!(yaml(&json!({ "a": 1 })), None);
    }
}

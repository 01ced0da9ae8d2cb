//! Building blocks of schemas: maps, texts, references, expressions.

use serde_json::{Map, Value, json};

/// Names that [`crate::recipe::is_name`] accepts.
pub(super) const NAME: &str = "[A-Za-z_][A-Za-z0-9_-]{0,199}";
/// Durations that [`sweep_job::units::parse_seconds`] accepts.
pub(super) const SPAN_OF_TIME: &str = r"\s*(?:[0-9]+(?:\.[0-9]+)?\s*(?:ms|s|min|m|h|d)\s*)+";
/// Sizes that [`sweep_job::units::parse_bytes`] accepts.
pub(super) const SIZE: &str = r"\s*[0-9]+(?:\.[0-9]+)?\s*(?:[kKMGT]?B|[KMGT]iB)\s*";
/// Pattern of a text with an expression.
pub(super) const EXPRESSION: &str = r"\$\{\{";

/// Scopes of an expression.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reach {
    /// Nowhere: the value is written out.
    Nowhere,
    /// In the recipe's params: in a matrix, where there are no axes yet.
    Params,
    /// In params, axes and needed steps: in `with`.
    Everywhere,
}

/// A map in which exactly the reader's `keys` may stand. Each of them is in `entries`, with what it may have.
pub(super) fn object(keys: &[&str], required: &[&str], entries: Vec<(&str, Value)>) -> Value {
    debug_assert!(
        keys.len() == entries.len() && entries.iter().all(|(key, _)| keys.contains(key)),
        "the recipe's reader knows the keys {keys:?}; the schema describes {:?}",
        entries.iter().map(|(key, _)| key).collect::<Vec<_>>()
    );
    let properties: Map<String, Value> = entries.into_iter().map(|(key, schema)| (key.to_owned(), schema)).collect();
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// A map with one of these keys.
pub(super) fn one_of_forms(forms: &[&str], entries: Vec<(&str, Value)>) -> Value {
    let mut schema = object(forms, &[], entries);
    schema["minProperties"] = json!(1);
    schema["maxProperties"] = json!(1);
    schema
}

/// A map whose keys the author chooses.
pub(super) fn named(definition: &str) -> Value {
    json!({ "type": "object", "propertyNames": reference("name"), "additionalProperties": reference(definition) })
}

/// A map with something in it.
pub(super) fn some(mut map: Value) -> Value {
    map["minProperties"] = json!(1);
    map
}

/// A scalar or a list of values, with expressions as far as they reach.
pub(super) fn value(definition: &str, reach: Reach) -> Value {
    json!({
        "type": ["null", "boolean", "number", "string", "array"],
        "pattern": text_pattern(reach),
        "patternErrorMessage": match reach {
            Reach::Nowhere => "An expression cannot be used here; write the value itself.",
            Reach::Params | Reach::Everywhere => "Only `${{ params.NAME }}` can be used here.",
        },
        "items": reference(definition),
    })
}

pub(super) fn text_of(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub(super) fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{definition}") })
}

/// A schema with a description. Beside a `$ref` draft 7 ignores everything.
pub(super) fn described(text: &str, mut schema: Value) -> Value {
    if schema.get("$ref").is_some() {
        schema = json!({ "allOf": [schema] });
    }
    schema["description"] = json!(text);
    schema
}

pub(super) fn whole(pattern: &str) -> String {
    format!("^{pattern}$")
}

/// An expression: `${{ params.NAME }}`.
pub(super) fn expression(reach: Reach) -> Option<String> {
    let names = match reach {
        Reach::Nowhere => return None,
        Reach::Params => format!(r"params\.{NAME}"),
        Reach::Everywhere => {
            format!(r"(?:(?:params|matrix)\.{NAME}|needs\.{NAME}\.(?:metrics|artifacts)\.[^\s{{}}$]+)")
        }
    };
    Some(format!(r"{EXPRESSION}\s*{names}\s*\}}\}}"))
}

/// A text that is one expression, so that the value keeps its type.
pub(super) fn one_expression(reach: Reach) -> String {
    whole(&expression(reach).unwrap_or_default())
}

/// A text in which every expression is whole.
pub(super) fn text_pattern(reach: Reach) -> String {
    let expression = expression(reach).map(|expression| format!("|{expression}")).unwrap_or_default();
    whole(&format!(r"(?:[^$]|\$(?!\{{\{{){expression})*"))
}

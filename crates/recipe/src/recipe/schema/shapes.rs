//! Building blocks of schemas: maps, texts, references, expressions.

use serde_json::{Value, json};

/// Pattern of the names that [`crate::recipe::is_name`] accepts.
pub(in crate::recipe) const NAME: &str = "[A-Za-z_][A-Za-z0-9_-]{0,199}";
/// Pattern of the texts that [`sweep_job::units::parse_seconds`] accepts.
pub(in crate::recipe) const SPAN_OF_TIME: &str = r"\s*(?:[0-9]+(?:\.[0-9]+)?\s*(?:ms|s|min|m|h|d)\s*)+";
/// Pattern of the texts that [`sweep_job::units::parse_bytes`] accepts.
pub(in crate::recipe) const SIZE: &str = r"\s*[0-9]+(?:\.[0-9]+)?\s*(?:[kKMGT]?B|[KMGT]iB)\s*";
/// Pattern of a number that may have a unit.
pub(in crate::recipe) const QUANTITY: &str =
    r"\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*(?:%|[A-Za-zµμ1][A-Za-z]*(?:/s)?|/s)?\s*";
/// Pattern of the start of an expression.
pub(in crate::recipe) const EXPRESSION: &str = r"\$\{\{";

/// Scopes of an expression.
#[derive(Debug, Clone, Copy)]
pub(in crate::recipe) enum Reach {
    /// Nowhere: the value is written out.
    Nowhere,
    /// In the recipe's params: in a matrix, where there are no axes yet.
    Params,
    /// In params, axes and needed steps: in `with`.
    Everywhere,
}

/// A map whose keys the author chooses.
pub(in crate::recipe) fn named(definition: &str) -> Value {
    json!({ "type": "object", "propertyNames": reference("name"), "additionalProperties": reference(definition) })
}

/// A scalar or a list of values, with the expressions that `reach` allows.
pub(in crate::recipe) fn value(definition: &str, reach: Reach) -> Value {
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

pub(in crate::recipe) fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{definition}") })
}

/// A schema with a description. Draft 7 ignores everything next to a `$ref`.
pub(in crate::recipe) fn described(text: &str, mut schema: Value) -> Value {
    if schema.get("$ref").is_some() {
        schema = json!({ "allOf": [schema] });
    }
    schema["description"] = json!(text);
    schema
}

pub(in crate::recipe) fn whole(pattern: &str) -> String {
    format!("^{pattern}$")
}

/// An expression: `${{ params.NAME }}`.
pub(in crate::recipe) fn expression(reach: Reach) -> Option<String> {
    let names = match reach {
        Reach::Nowhere => return None,
        Reach::Params => format!(r"params\.{NAME}"),
        Reach::Everywhere => {
            format!(r"(?:(?:params|matrix)\.{NAME}|needs\.{NAME}\.(?:metrics|artifacts|curves)\.[^\s{{}}$]+)")
        }
    };
    Some(format!(r"{EXPRESSION}\s*{names}\s*\}}\}}"))
}

/// A text that consists of one expression, so that the value keeps its type.
pub(in crate::recipe) fn one_expression(reach: Reach) -> String {
    whole(&expression(reach).unwrap_or_default())
}

/// A text in which every expression is complete.
pub(in crate::recipe) fn text_pattern(reach: Reach) -> String {
    let expression = expression(reach).map(|expression| format!("|{expression}")).unwrap_or_default();
    whole(&format!(r"(?:[^$]|\$(?!\{{\{{){expression})*"))
}

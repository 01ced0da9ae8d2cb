//! Schemas of the parameters of tasks.

use serde_json::{Map, Value, json};
use sweep_job::{Kind, Param, TaskInfo};

use super::shapes::{
    EXPRESSION, Reach, SIZE, SPAN_OF_TIME, expression, one_expression, reference, text_pattern, whole,
};

pub(super) fn with_name(task: &TaskInfo) -> String {
    // A `/` would require escaping in every reference.
    format!("with-{}", task.name.replace('/', "-"))
}

pub(super) fn with(task: &TaskInfo) -> Value {
    let properties: Map<String, Value> = task.params().map(|param| (param.name.to_owned(), parameter(param))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn parameter(param: &Param) -> Value {
    let accepts = param.accepts();
    let mut schema = kind(param.kind, param.nullable);
    if let Kind::Path(built_in) = param.kind
        && !built_in.is_empty()
    {
        schema["examples"] = json!(built_in);
    }
    // A number with its unit, or an expression.
    let pattern = match (param.unit, param.kind) {
        (Some("s"), Kind::Float) => Some(SPAN_OF_TIME),
        (Some("B"), Kind::Int) => Some(SIZE),
        _ => None,
    };
    if let (Some(pattern), Some(expression)) = (pattern, expression(Reach::Everywhere)) {
        schema["pattern"] = json!(whole(&format!("(?:{pattern}|{expression})")));
    }
    if schema.get("pattern").is_some() {
        schema["patternErrorMessage"] = json!(format!("Expected {accepts}, or an expression."));
    }
    if let Some(bounds) = param.bounds {
        if bounds.min != f64::MIN {
            schema["minimum"] = number(bounds.min);
        }
        if bounds.max != f64::MAX {
            schema["maximum"] = number(bounds.max);
        }
    }
    let default = (param.default)();
    let suffix = match &default {
        sweep_job::Value::Null => String::new(),
        default => format!(". Default: `{default}`"),
    };
    schema["description"] = json!(format!("{}\n\nAccepts {accepts}{suffix}.", param.doc));
    if default != sweep_job::Value::Null {
        schema["default"] = match default.as_f64() {
            Some(default) => number(default),
            None => serde_json::to_value(default).unwrap_or_default(),
        };
    }
    schema
}

/// Name of the definition of any value.
const ANY: &str = "any";

/// The definition of any value, with expressions in its texts.
pub(super) fn any() -> (&'static str, Value) {
    let pattern = text_pattern(Reach::Everywhere);
    (ANY, json!({ "pattern": pattern, "items": reference(ANY), "additionalProperties": reference(ANY) }))
}

/// Schema of a kind of parameter, or of an expression in its place.
fn kind(kind: Kind, nullable: bool) -> Value {
    let null = if nullable { Some("null") } else { None };
    let types = |names: &[&'static str]| -> Vec<&str> { names.iter().copied().chain(null).collect() };
    let typed =
        |name: &'static str| json!({ "type": types(&[name, "string"]), "pattern": one_expression(Reach::Everywhere) });
    match kind {
        Kind::Bool => typed("boolean"),
        Kind::Int => typed("integer"),
        Kind::Float => typed("number"),
        Kind::Text | Kind::Path(_) | Kind::Folder | Kind::Inside => {
            json!({ "type": types(&["string"]), "minLength": 1, "pattern": text_pattern(Reach::Everywhere) })
        }
        Kind::Scalar => {
            let text = text_pattern(Reach::Everywhere);
            let flags = whole(&format!(r"{EXPRESSION}\s*flags\s*\}}\}}"));
            json!({ "type": types(&["string", "number", "boolean"]), "pattern": format!("{text}|{flags}") })
        }
        Kind::Variable => json!({
            "type": types(&["string", "number", "boolean", "object"]),
            "pattern": text_pattern(Reach::Everywhere),
            "properties": { "from": {
                "type": "string",
                "pattern": text_pattern(Reach::Everywhere),
                "description": "The environment variable, where the job runs, whose value is passed on and not \
                    recorded.",
            } },
            "required": ["from"],
            "additionalProperties": false,
        }),
        Kind::Choice(words) => {
            let numbers = words.iter().filter_map(|word| word.parse::<i64>().ok()).map(|number| json!(number));
            let words: Vec<Value> =
                words.iter().map(|word| json!(word)).chain(numbers).chain(null.map(|_| Value::Null)).collect();
            json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": EXPRESSION }] })
        }
        Kind::List(item) => json!({
            "type": types(&["array", "string"]),
            "items": self::kind(*item, false),
            "pattern": one_expression(Reach::Everywhere),
        }),
        Kind::Any => reference(ANY),
        Kind::Either(plain, nested) => {
            json!({ "anyOf": [self::kind(*plain, nullable), self::kind(*nested, nullable)] })
        }
        Kind::Map(value) => json!({ "type": types(&["object"]), "additionalProperties": self::kind(*value, false) }),
    }
}

/// A number as an author would write it: `1` for `1.0`.
pub fn number(value: f64) -> Value {
    let text = sweep_job::Value::Float(value).to_string();
    text.parse::<i64>().map_or_else(|_| json!(value), Value::from)
}

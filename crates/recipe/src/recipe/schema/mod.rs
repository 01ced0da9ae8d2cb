//! JSON Schemas of recipes and sweep files, for completion and checks in editors.
//!
//! The schemas are derived from the declarations that the reader uses: of keys (`mapping!`) and of tasks. The schemas
//! cover everything that requires no name lookup: keys, shapes, types, ranges and words. `sweep plan` checks that
//! steps, params and axes exist.
//!
//! The YAML servers of VS Code and other editors support draft 7. Alternatives of one type are written as a list of
//! types rather than as `anyOf`, because the server then describes the mistake instead of "matches no schema".

mod params;
mod shapes;

use serde_json::{Value, json};
use sweep_job::{Task, TaskInfo};

pub use self::params::number;
use self::params::{any, with, with_name};
use self::shapes::value;
pub(super) use self::shapes::{
    NAME, QUANTITY, Reach, SIZE, SPAN_OF_TIME, described, named, one_expression, reference, whole,
};
use super::{
    keys::{Declaration, Mapping as _},
    lower::{self, ClaimKeys, DrawForms, RecipeKeys, SpaceForms, StepKeys, SweepKeys, TableKeys},
};

/// Every mapping of the language with its keys, including the kinds of figures, in the order of the documentation.
pub fn declarations() -> Vec<Declaration> {
    lower::declarations()
}

/// The text of a schema, as in `docs/recipe.schema.json` and `docs/sweep.schema.json`.
pub fn text(mut schema: Value) -> String {
    // The order of maps depends on features of serde_json; the file must not.
    schema.sort_all_objects();
    let mut text = String::new();
    write(&schema, 0, &mut text);
    text + "\n"
}

/// Writes a value on one line where it fits. One item per line would make a file of four thousand lines.
fn write(value: &Value, indent: usize, text: &mut String) {
    const WIDTH: usize = 120;
    let line = value.to_string();
    let children: Vec<(String, &Value)> = match value {
        Value::Object(entries) => entries.iter().map(|(key, value)| (format!("{}: ", json!(key)), value)).collect(),
        Value::Array(items) => items.iter().map(|item| (String::new(), item)).collect(),
        _ => Vec::new(),
    };
    if children.is_empty() || indent + line.len() <= WIDTH {
        text.push_str(&line);
        return;
    }
    let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
    text.push(open);
    for (index, (key, child)) in children.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&" ".repeat(indent + 2));
        text.push_str(key);
        write(child, indent + 2, text);
    }
    text.push('\n');
    text.push_str(&" ".repeat(indent));
    text.push(close);
}

/// The schema of a recipe.
pub fn recipe() -> Value {
    let mut schema = RecipeKeys::schema();
    let Value::Object(entries) = &mut schema else { return schema };
    // A recipe that extends another one may omit keys of that one, and remove a step or a table with `null`.
    let whole = |least: usize, required: &[&str]| json!({ "minProperties": least, "additionalProperties": { "type": "object", "required": required } });
    entries.insert("if".into(), json!({ "not": { "required": ["extends"] } }));
    entries.insert(
        "then".into(),
        json!({
            "required": ["steps"],
            "properties": {
                "steps": whole(1, &["uses"]),
                "tables": { "additionalProperties": {
                    "type": "object",
                    "required": ["cells"],
                    "if": { "required": ["claims"] },
                    "then": { "propertyNames": { "enum": lower::WITH_CLAIMS } },
                    "else": { "required": ["from"] },
                } },
                "figures": whole(0, &["from", "kind"]),
                "claims": lower::claims_schema(&lower::one_statement()),
            },
        }),
    );
    entries.insert("$schema".into(), json!("http://json-schema.org/draft-07/schema#"));
    entries.insert("title".into(), json!("A recipe of sweep"));
    entries.insert("description".into(), json!("A study: params, steps with their axes, tables, figures and claims."));
    let mut definitions = json!({
        "name": name(),
        "names": { "type": ["string", "array"], "pattern": self::whole(NAME), "items": reference("name") },
        "literal": value("literal", Reach::Nowhere),
        "value": value("value", Reach::Params),
        "number": a_number(),
        "selection": described("Axis to a value, or to a list of values.", named("value")),
        "assignment": described("Axis to value.", named("value")),
        "step": step(),
        "need": lower::need(&["string", "object"]),
        "matrix": lower::matrix(),
        "axis": lower::axis(),
        "draw": DrawForms::schema_of_one(),
        "space": SpaceForms::schema_of_one(),
        "table": or_null(TableKeys::schema()),
        "figure": or_null(lower::figure()),
        "claim": or_null(ClaimKeys::schema()),
        "side": lower::side(),
    });
    let (name, schema_of_any) = any();
    definitions[name] = schema_of_any;
    for task in Task::all() {
        definitions[with_name(task)] = with(task);
    }
    entries.insert("definitions".into(), definitions);
    schema
}

/// The schema of a step; the keys of `with` depend on its task.
fn step() -> Value {
    let mut schema = or_null(StepKeys::schema());
    schema["allOf"] = Task::all().iter().map(by_task).collect();
    schema
}

/// The schema of `with`, and of the axes that set parameters, for a step that uses `task`.
fn by_task(task: &TaskInfo) -> Value {
    // An axis sets the parameter of its name, unless `with` sets it; then the axis can have any values.
    let axes: Vec<Value> = task
        .params()
        .map(|param| {
            let parameter = json!({ "$ref": format!("#/definitions/{}/properties/{}", with_name(task), param.name) });
            json!({
                "if": { "properties": { "with": { "not": { "required": [param.name] } } } },
                "then": { "properties": { "matrix": { "properties": { param.name: { "items": parameter } } } } },
            })
        })
        .collect();
    json!({
        "if": { "required": ["uses"], "properties": { "uses": { "const": task.name } } },
        "then": { "properties": { "with": reference(&with_name(task)) }, "allOf": axes },
    })
}

/// The schema of a map or `null`, which removes an entry of the base recipe.
fn or_null(mut map: Value) -> Value {
    map["type"] = json!(["object", "null"]);
    map
}

/// The schema of a sweep file.
pub fn sweep() -> Value {
    let mut schema = SweepKeys::schema();
    schema["oneOf"] = json!([{ "required": ["recipe"] }, { "required": ["recipes"] }]);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("A sweep file of sweep");
    schema["description"] = json!("Recipes and the values to change in them.");
    schema["definitions"] = json!({
        "name": name(),
        "literal": value("literal", Reach::Nowhere),
        "value": value("value", Reach::Params),
        "number": a_number(),
        "axis": lower::axis(),
    });
    for (name, definition) in lower::executor::definitions() {
        schema["definitions"][name] = definition;
    }
    schema
}

fn name() -> Value {
    json!({
        "type": "string",
        "pattern": whole(NAME),
        "patternErrorMessage": "A name begins with a letter or `_` and continues with letters, digits, `-` and `_`.",
    })
}

fn a_number() -> Value {
    json!({
        "type": ["number", "string"],
        "pattern": one_expression(Reach::Params),
        "patternErrorMessage": "Expected a number, or `${{ params.NAME }}`.",
    })
}

/// A span of time, or the param that has it.
pub(in crate::recipe) fn span_of_time() -> Value {
    json!({
        "type": "string",
        "pattern": format!("{}|{}", whole(SPAN_OF_TIME), one_expression(Reach::Params)),
        "patternErrorMessage": "Expected a span of time with its unit, such as `30m`, or `${{ params.NAME }}`.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::is_name;

    #[test]
    fn every_reference_has_its_definition() {
        fn references<'a>(schema: &'a Value, names: &mut Vec<&'a str>) {
            match schema {
                Value::Object(entries) => {
                    names.extend(entries.get("$ref").and_then(Value::as_str));
                    entries.values().for_each(|value| references(value, names));
                }
                Value::Array(items) => items.iter().for_each(|item| references(item, names)),
                _ => {}
            }
        }
        for schema in [recipe(), sweep()] {
            let mut names = Vec::new();
            references(&schema, &mut names);
            for reference in names {
                assert!(schema.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
            }
        }
    }

    #[test]
    fn names_are_the_readers() {
        let pattern = recipe()["definitions"]["name"].clone();
        let validator = jsonschema::draft7::new(&pattern).expect("a schema");
        for name in ["a", "_", "a-b_c9", "", "9a", "-a", "a b", "ä", "../x", "a\n"] {
            assert_eq!(validator.is_valid(&json!(name)), is_name(name), "{name:?}");
        }
    }
}

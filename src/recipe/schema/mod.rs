//! The JSON Schemas of recipes and sweep files, with which an editor completes and checks a file.
//!
//! They are generated from the reader's definitions: the lists of keys in [`crate::recipe`] and the declarations of the
//! tasks. They cover everything that needs no look-up of names: keys, shapes, types, ranges and choices. `sweep plan`
//! checks that a step, a param or an axis exists.
//!
//! The YAML server of VS Code and similar ones are written for draft 7. Alternatives of one type are written as a list
//! of types rather than as `anyOf`, because the server then describes the mistake instead of "matches no schema".

mod params;
mod report;
mod shapes;
mod steps;

use serde_json::{Value, json};
use sweep_job::Task;

pub(crate) use self::params::number;
use self::{
    params::{with, with_name},
    report::{claim, figure, one_statement, side, table},
    shapes::{NAME, Reach, described, named, object, one_expression, reference, text_of, value, whole},
    steps::{axis, draw, matrix, need, span_of_time, step},
};
use crate::recipe::{CITE_KEYS, EXECUTOR_KEYS, RECIPE_KEYS, SLURM_KEYS, SLURM_STEP_KEYS, SUMMARY_KEYS, SWEEP_KEYS};

/// A schema as a text, as `docs/recipe.schema.json` and `docs/sweep.schema.json` have it.
pub fn text(mut schema: Value) -> String {
    // Whether maps keep their order depends on how serde_json was built; the file does not.
    schema.sort_all_objects();
    let mut text = String::new();
    write(&schema, 0, &mut text);
    text + "\n"
}

/// Writes whatever fits on one line; lines of two brackets would make four thousand.
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
    let mut schema = object(
        RECIPE_KEYS,
        &[],
        vec![
            ("name", described("Names the report's folder; the file's name if left out.", reference("name"))),
            ("about", text_of("The question that the study answers, for readers.")),
            ("cite", described("The work that the study is about, as the report names it.", cite())),
            ("extends", text_of("A recipe that this one changes and adds to; a path from this file's folder.")),
            (
                "params",
                described(
                    "Values for the whole study; `--set name=value` overrides one. `${{ params.NAME }}` stands for it.",
                    named("literal"),
                ),
            ),
            ("steps", described("What to run: a task each, at every point of its matrix.", named("step"))),
            ("tables", described("What to print: metrics of a step by its axes.", named("table"))),
            ("figures", described("What to draw of a step's metrics and curves.", named("figure"))),
            (
                "claims",
                described("Statements about metrics, which a run supports, refutes or cannot decide.", named("claim")),
            ),
        ],
    );
    let Value::Object(entries) = &mut schema else { return schema };
    // What extends a recipe may leave out what that one has, and take a step or a table away with `null`.
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
                    "then": { "propertyNames": { "enum": SUMMARY_KEYS } },
                    "else": { "required": ["from"] },
                } },
                "figures": whole(0, &["from", "kind"]),
                "claims": { "additionalProperties": one_statement() },
            },
        }),
    );
    entries.insert("$schema".into(), json!("http://json-schema.org/draft-07/schema#"));
    entries.insert("title".into(), json!("A recipe of sweep"));
    entries.insert("description".into(), json!("One study: values, steps, what varies, and the tables to print."));
    let mut definitions = json!({
        "name": name(),
        "names": { "type": ["string", "array"], "pattern": self::whole(NAME), "items": reference("name") },
        "literal": value("literal", Reach::Nowhere),
        "value": value("value", Reach::Params),
        "number": a_number(),
        "selection": described("Axis to a value, or to a list of values.", named("value")),
        "assignment": described("Axis to value.", named("value")),
        "step": step(),
        "need": need(&["string", "object"]),
        "matrix": matrix(),
        "axis": axis(),
        "draw": draw(),
        "table": table(),
        "figure": figure(),
        "claim": claim(),
        "side": side(),
    });
    for task in Task::ALL {
        definitions[with_name(task)] = with(task);
    }
    entries.insert("definitions".into(), definitions);
    schema
}

fn cite() -> Value {
    let mut schema = object(
        CITE_KEYS,
        &["title"],
        vec![
            ("title", text_of("Its title.")),
            ("authors", text_of("Who wrote it.")),
            ("year", json!({ "type": ["integer", "string"], "description": "When." })),
            ("venue", text_of("Where it appeared.")),
            ("url", text_of("Where it can be read.")),
        ],
    );
    schema["minProperties"] = json!(1);
    schema
}

/// The schema of a sweep file.
pub fn sweep() -> Value {
    let axis_name = json!({
        "type": "string",
        "pattern": whole(&format!(r"{NAME}(?:\.{NAME})?")),
        "patternErrorMessage": "`AXIS`, or `STEP.AXIS`.",
    });
    let path = || json!({ "type": "string", "minLength": 1 });
    let mut axes = json!({ "type": "object", "additionalProperties": reference("axis") });
    axes["propertyNames"] = axis_name;
    let recipes = json!({ "type": ["array", "string"], "minItems": 1, "minLength": 1, "items": path() });
    let only = json!({ "type": ["array", "string"], "items": { "type": "string" } });
    let mut schema = object(
        SWEEP_KEYS,
        &[],
        vec![
            ("name", described("Names the reports' folder; the file's name if left out.", reference("name"))),
            ("about", text_of("What this is for, for readers.")),
            ("recipe", described("The recipe; a path from this file's folder.", path())),
            ("recipes", described("The recipes; paths from this file's folder.", recipes)),
            ("set", described("Other values for params.", named("literal"))),
            ("axes", described("Other values for axes: `AXIS`, or `STEP.AXIS` for those of one step.", axes)),
            ("only", described("A part of the recipes: `STEP`, or `STEP/AXIS=VALUE,…`, and what that needs.", only)),
            ("executor", executor()),
        ],
    );
    schema["oneOf"] = json!([{ "required": ["recipe"] }, { "required": ["recipes"] }]);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("A sweep file of sweep");
    schema["description"] = json!("Recipes, and what is different in them.");
    schema["definitions"] = json!({
        "name": name(),
        "literal": value("literal", Reach::Nowhere),
        "value": value("value", Reach::Params),
        "number": a_number(),
        "axis": axis(),
    });
    schema
}

/// `executor` of a sweep file.
fn executor() -> Value {
    let of_step = object(SLURM_STEP_KEYS, &[], slurm_request());
    let mut entries = slurm_request();
    let steps = json!({ "type": "object", "propertyNames": reference("name"), "additionalProperties": of_step });
    entries.push(("steps", described("The same for the jobs of single steps.", steps)));
    let slurm = described("What is asked of Slurm for every job.", object(SLURM_KEYS, &[], entries));
    let mut schema = object(EXECUTOR_KEYS, &["slurm"], vec![("slurm", slurm)]);
    schema["type"] = json!(["string", "object"]);
    schema["pattern"] = json!(whole("local|slurm"));
    schema["patternErrorMessage"] = json!("Expected `local` or `slurm`.");
    described("How the jobs get their processes: `local`, `slurm`, or a map with what is asked of Slurm.", schema)
}

fn slurm_request() -> Vec<(&'static str, Value)> {
    let options = json!({ "type": ["array", "string"], "items": { "type": "string", "pattern": "^-" } });
    vec![
        ("partition", text_of("`--partition`.")),
        ("account", text_of("`--account`.")),
        ("qos", text_of("`--qos`.")),
        ("gres", text_of("`--gres`, in the place of the GPUs that `resources` asks for.")),
        ("time", span_of_time("`--time`, in the place of what follows from a job's `timeout`.")),
        ("options", described("Further options of `sbatch`, one an entry, as they are.", options)),
    ]
}

fn name() -> Value {
    json!({
        "type": "string",
        "pattern": whole(NAME),
        "patternErrorMessage": "A name begins with a letter or `_` and goes on with letters, digits, `-` and `_`.",
    })
}

fn a_number() -> Value {
    json!({
        "type": ["number", "string"],
        "pattern": one_expression(Reach::Params),
        "patternErrorMessage": "Expected a number, or `${{ params.NAME }}`.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::is_name;

    /// `object` compares the keys of the schema with those of the reader.
    #[test]
    fn the_schema_and_the_reader_know_the_same_keys() {
        assert!(recipe()["definitions"]["step"]["properties"]["uses"].is_object());
    }

    #[test]
    fn every_reference_has_its_definition() {
        fn references<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
            match schema {
                Value::Object(entries) => {
                    found.extend(entries.get("$ref").and_then(Value::as_str));
                    entries.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|item| references(item, found)),
                _ => {}
            }
        }
        for schema in [recipe(), sweep()] {
            let mut found = Vec::new();
            references(&schema, &mut found);
            for reference in found {
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

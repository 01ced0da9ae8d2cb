//! Names of the points of a step: different points have different names.

use std::collections::{HashMap, HashSet};

use sweep_job::Value;

use super::{Point, dimension::Context};
use crate::recipe::{Step, reads_alike};

/// Reports values of an axis that differ but read alike, such as `1` and `"1"`, and points with the same name.
pub(super) fn check(step: &Step, points: &[Point], context: &mut Context<'_>) {
    let mut kinds: HashMap<&str, HashSet<&str>> = HashMap::new();
    for (axis, value) in points.iter().flat_map(|point| &point.values) {
        kinds.entry(axis).or_default().insert(kind(&value.value));
    }
    let mut values_by_text: HashMap<(&str, String), &Value> = HashMap::new();
    for (axis, value) in points.iter().flat_map(|point| &point.values) {
        // Values of one kind read alike only if they are equal, but the items of lists may be of several kinds.
        if kinds.get(axis.as_str()).is_some_and(|kinds| kinds.len() < 2 && !kinds.contains(LIST)) {
            continue;
        }
        let first = values_by_text.entry((axis, value.value.to_string())).or_insert(&value.value);
        if **first != value.value {
            let (message, help) = reads_alike(axis, &value.value);
            context.problem(value.span, message, "reads alike", help);
        }
    }
    // Two points can have the same name only if a text contains a separator of names.
    let separates = |value: &Value| matches!(value, Value::Text(text) if text.contains(',') && text.contains('='));
    if !points.iter().flat_map(|point| &point.values).any(|(_, value)| separates(&value.value)) {
        return;
    }
    let mut names: HashMap<String, &Point> = HashMap::new();
    for point in points {
        let name = point.to_string();
        let message = format!("two points of step `{}` have the name `{name}`", step.name.value);
        let first = names.entry(name).or_insert(point);
        if first.values.len() != point.values.len() || !first.agrees(point) {
            let help = "write the values that contain `,` and `=` differently";
            context.problem(step.name.span, message, "one name", help);
        }
    }
}

/// The kind of lists and maps.
const LIST: &str = "list";

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Int(_) | Value::Float(_) => "number",
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Text(_) => "text",
        Value::List(_) | Value::Map(_) => LIST,
    }
}

//! `where`: the selection of points for a table, a figure, a claim or a need.

use sweep_job::Value;

use super::Point;
use crate::recipe::{Collector, Names, Problem, Recipe, Selection, Template, suggest};

/// Reports values that no point of a step has: a misspelled one would silently select nothing.
pub(super) fn check_selection(
    recipe: &Recipe,
    step: usize,
    selection: &Selection,
    points: &[Point],
    problems: &mut Collector,
) {
    if recipe.is_narrowed() {
        // The selected points may be missing when the axes have other values.
        return;
    }
    let matrix = &recipe.steps[step].matrix;
    let name = &recipe.steps[step].name.value;
    for (axis, templates) in &selection.0 {
        let mut known_values: Vec<&Value> = Vec::new();
        for value in points.iter().filter_map(|point| point.get(&axis.value)) {
            if !known_values.contains(&value) {
                known_values.push(value);
            }
        }
        if known_values.is_empty() {
            // An unknown axis, or a step with a mistake: has been reported.
            continue;
        }
        if templates.is_empty() {
            let message = format!("`where` leaves no value for axis `{}`", axis.value);
            let problem = Problem::new(&recipe.sources, axis.span, message, "selects nothing");
            problems.push(axis.span, problem.help("give a value, or remove the axis from `where`"));
        }
        for template in templates {
            let Some(value) = template.resolve(&recipe.params, &Names::new()) else { continue };
            // A value may be chosen later.
            let is_open = matrix.suggested().is_some_and(|suggestion| {
                suggestion.axes.iter().any(|suggested_axis| suggested_axis.value == axis.value)
            });
            if !known_values.contains(&&value.value) && !is_open {
                let message = format!("no point of step `{name}` has {} `{}`", axis.value, value.value);
                let words: Vec<String> = known_values.iter().map(ToString::to_string).collect();
                let help = suggest(&value.value.to_string(), "its values", words.iter().map(String::as_str));
                let problem = Problem::new(&recipe.sources, template.span, message, "selects nothing");
                problems.push(template.span, problem.maybe_help(help));
            }
        }
    }
}

/// A selection's axes with their values.
pub fn resolved<'a>(recipe: &Recipe, selection: &'a Selection) -> Vec<(&'a str, Vec<Value>)> {
    let value = |template: &Template| template.resolve(&recipe.params, &Names::new()).map(|value| value.value);
    let axes = selection.0.iter();
    axes.map(|(axis, values)| (axis.value.as_str(), values.iter().filter_map(value).collect())).collect()
}

/// True if a point has, on each of these axes, one of these values.
pub fn selected(point: &Point, only: &[(&str, Vec<Value>)]) -> bool {
    only.iter().all(|(axis, values)| point.get(axis).is_some_and(|value| values.contains(value)))
}

//! Expands a step's matrix to points: the product of its dimensions, without `exclude`, with `include`, and only where `if` holds.

use sweep_base::SEED;
use sweep_job::{Value, tasks::Imported};

use super::{
    dimension::{self, Context},
    include::Inclusion,
    labels,
    room::product_of,
};
use crate::recipe::{Assignment, Dimension, Problem, Scope, Spanned, Step, Template, typed_value};

/// An assignment of all axes of a step, in the order of the axes.
#[derive(Debug, Clone, Default)]
pub struct Point {
    /// Each axis with its value and the value's place in the recipe.
    pub values: Vec<(String, Spanned<Value>)>,
}

/// Maximum number of points of a step.
pub(super) const MAX_POINTS: usize = 1_000_000;

impl Point {
    /// The value on an axis.
    pub fn get(&self, axis: &str) -> Option<&Value> {
        self.values.iter().find(|(name, _)| name == axis).map(|(_, value)| &value.value)
    }

    /// True if a text on the command line means the point's value on an axis: its own text, or the same value in another
    /// spelling.
    pub fn is_at(&self, axis: &str, typed: &str) -> bool {
        self.get(axis).is_some_and(|value| value.to_string() == typed || *value == typed_value(typed))
    }

    /// The text of the point without one of its axes.
    pub fn but(&self, axis: &str) -> String {
        let values = self.values.iter().filter(|(name, _)| name != axis).cloned();
        Self { values: values.collect() }.to_string()
    }

    /// The seed of an imported run, or its name if it has none, and its configuration: the values on all other axes.
    pub fn seed_and_configuration(&self) -> (String, Vec<String>) {
        let word = |axis: &str| self.get(axis).map(|value| format!("{value:?}"));
        let is_setting = |axis: &str| ![SEED, Imported::RUN].contains(&axis);
        let settings = self.values.iter().filter(|(axis, _)| is_setting(axis));
        let configuration = settings.map(|(axis, value)| format!("{axis}={:?}", value.value)).collect();
        (word(SEED).or_else(|| word(Imported::RUN)).unwrap_or_default(), configuration)
    }

    /// True if the point has all these values.
    pub(super) fn matches(&self, assignment: &[(&str, Value)]) -> bool {
        assignment.iter().all(|(axis, value)| self.get(axis) == Some(value))
    }

    /// True if two points agree wherever both have an axis.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        self.values.iter().all(|(axis, value)| other.get(axis).is_none_or(|other| *other == value.value))
    }
}

impl Point {
    /// The axes with their values as texts.
    pub fn texts(&self) -> Vec<(String, String)> {
        self.values.iter().map(|(axis, value)| (axis.clone(), value.value.to_string())).collect()
    }

    /// True if the text of the point can be divided into its values at commas before the names of axes.
    pub fn is_divisible(&self) -> bool {
        self.texts().iter().all(|(axis, value)| !value.contains(',') && !axis.contains([',', '=']))
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (axis, value)) in self.values.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{axis}={}", value.value)?;
        }
        Ok(())
    }
}

/// The points of a step. A step without a matrix has one point without values.
pub(super) fn expand(step: &Step, context: &mut Context<'_>) -> Vec<Point> {
    let axes = step.matrix.axes();
    let (parts, mut is_complete) = parts(step, context);
    let mut points = match product(step, parts.iter(), context) {
        Some(points) => points,
        None => {
            is_complete = false;
            vec![Point::default()]
        }
    };
    for assignment in step.matrix.exclude.iter().filter(|_| is_complete) {
        if assignment.values.iter().all(|(name, _)| axes.contains(&name.value.as_str())) {
            exclude(&mut points, assignment, step.matrix.narrowed.is_empty(), context);
        }
    }
    if is_complete && !step.matrix.include.is_empty() {
        let crossed_points = product(step, parts.iter().filter(|part| part.crosses), context);
        points = Inclusion::new(step, points, crossed_points.unwrap_or_default()).include(context);
    }
    if let Some(condition) = &step.matrix.condition {
        points.retain(|point| {
            match condition.holds(context.params, &point.values.iter().cloned().collect(), context.sources) {
                Ok(holds) => holds,
                Err((span, problem)) => {
                    context.problems.push(span, problem);
                    true
                }
            }
        });
    }
    // Params may switch a whole step off, so that a scale can do without it.
    let is_off = step.matrix.condition.as_ref().is_some_and(|condition| {
        let names = condition.references();
        !names.is_empty() && names.iter().all(|reference| reference.scope == Scope::Params)
    });
    if points.is_empty() && step.matrix.suggested().is_none() && !is_off {
        let message = format!("step `{}` has no points left", step.name.value);
        context.problem(step.name.span, message, "nothing to run", "exclude fewer points, or remove the step");
    }
    labels::check(step, &points, context);
    points
}

/// The number of points of each configuration that decisions choose.
pub(super) fn per_configuration(step: &Step, context: &mut Context<'_>) -> usize {
    let mut count: usize = 1;
    for dimension in step.matrix.dimensions.iter().filter(|dimension| !matches!(dimension, Dimension::Suggested(_))) {
        count = count.saturating_mul(dimension::assignments(dimension, context).map_or(1, |values| values.len()));
    }
    count
}

/// Component of a product.
struct Part {
    assignments: Vec<dimension::Values>,
    /// True if the dimension also multiplies the points of `include`.
    crosses: bool,
}

/// The dimensions of a step, and true if these are all: a dimension with a mistake, which has been reported, is omitted.
fn parts(step: &Step, context: &mut Context<'_>) -> (Vec<Part>, bool) {
    let mut parts = Vec::with_capacity(step.matrix.dimensions.len());
    for dimension in &step.matrix.dimensions {
        // Before the first decision, there are no configurations.
        let is_open = matches!(dimension, Dimension::Suggested(_));
        let assignments = dimension::assignments(dimension, context).filter(|values| is_open || !values.is_empty());
        parts.extend(assignments.map(|assignments| Part { assignments, crosses: step.matrix.crosses(dimension) }));
    }
    let is_complete = parts.len() == step.matrix.dimensions.len();
    (parts, is_complete)
}

/// The product of dimensions; `None` if it is too large, which is reported.
fn product<'p>(step: &Step, parts: impl Iterator<Item = &'p Part>, context: &mut Context<'_>) -> Option<Vec<Point>> {
    let mut points = vec![Point::default()];
    for Part { assignments, .. } in parts {
        if points.len().saturating_mul(assignments.len()) > MAX_POINTS {
            too_many(step, context);
            return None;
        }
        if !context.take(product_of(&points, assignments), step.name.span) {
            return None;
        }
        points = points
            .iter()
            .flat_map(|point| {
                assignments.iter().map(|assignment| {
                    let values = point.values.iter().chain(assignment).cloned().collect();
                    Point { values }
                })
            })
            .collect();
    }
    Some(points)
}

/// Reports that there are too many points.
pub(super) fn too_many(step: &Step, context: &mut Context<'_>) {
    let message = format!("step `{}` has more than {MAX_POINTS} points", step.name.value);
    context.problem(step.name.span, message, "too many", "use fewer values, or split the step");
}

fn exclude(points: &mut Vec<Point>, assignment: &Assignment, must_match: bool, context: &mut Context<'_>) {
    let values = values_of(assignment, context);
    let count = points.len();
    points.retain(|point| !point.matches(&values));
    if points.len() == count && must_match {
        let help =
            "check the values, or remove the entry; `on` and `\"on\"` are the same string, `1` and `\"1\"` are not";
        context.problem(assignment.span, "`exclude` excludes no points", "no point has these values", help);
    }
}

/// Returns the known values of an entry of `include` or `exclude`.
pub(super) fn values_of<'a>(assignment: &'a Assignment, context: &Context<'_>) -> Vec<(&'a str, Value)> {
    let value = |template: &Template| Some(context.resolve(template)?.value);
    assignment.values.iter().filter_map(|(name, template)| Some((name.value.as_str(), value(template)?))).collect()
}

/// Mistakes that [`expand`] and its helpers report.
impl Context<'_> {
    pub(super) fn problem(
        &mut self,
        span: crate::recipe::Span,
        message: impl Into<String>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.problems.push(span, Problem::new(self.sources, span, message, label).help(help));
    }

    /// Reserves some of the remaining memory; `false` after a mistake, which has been reported.
    pub(super) fn take(&mut self, bytes: u64, span: crate::recipe::Span) -> bool {
        self.room.take(bytes, span, self.sources, self.problems)
    }
}

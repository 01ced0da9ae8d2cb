//! A step's matrix to its points: the product of its dimensions, less `exclude`, plus `include`, as far as `if` holds.

use sweep_job::Value;

use super::{
    dimension::{self, Context},
    room::{product_of, weight},
};
use crate::recipe::{Assignment, Problem, Spanned, Step, Template};

/// One assignment of all axes of a step, in the order of the axes.
#[derive(Debug, Clone, Default)]
pub struct Point {
    /// Axis, value, and the place that gave the value.
    pub values: Vec<(String, Spanned<Value>)>,
}

/// Nobody means more points than this in one step; whoever writes it has slipped.
const MOST_POINTS: usize = 1_000_000;

impl Point {
    /// The value on an axis.
    pub fn get(&self, axis: &str) -> Option<&Value> {
        self.values.iter().find(|(name, _)| name == axis).map(|(_, value)| &value.value)
    }

    /// The point without one of its axes, as a text.
    pub(crate) fn but(&self, axis: &str) -> String {
        let values = self.values.iter().filter(|(name, _)| name != axis).cloned();
        Self { values: values.collect() }.to_string()
    }

    /// Whether the point has all these values.
    fn matches(&self, assignment: &[(&str, Value)]) -> bool {
        assignment.iter().all(|(axis, value)| self.get(axis) == Some(value))
    }

    /// Whether two points agree wherever both have an axis.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        self.values.iter().all(|(axis, value)| other.get(axis).is_none_or(|other| *other == value.value))
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
    let (mut points, whole) =
        if axes.is_empty() && !step.matrix.include.is_empty() { (Vec::new(), true) } else { product(step, context) };
    for assignment in step.matrix.exclude.iter().filter(|_| whole) {
        if assignment.values.iter().all(|(name, _)| axes.contains(&name.value.as_str())) {
            exclude(&mut points, assignment, step.matrix.narrowed.is_empty(), context);
        }
    }
    let kept = points.len();
    for assignment in step.matrix.include.iter().filter(|_| whole) {
        include(&mut points, kept, step, assignment, context);
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
    if points.is_empty() {
        let message = format!("step `{}` has no points left", step.name.value);
        context.problem(step.name.span, message, "nothing to run", "exclude less, or remove the step");
    }
    points
}

/// The product of the dimensions, and whether it is whole: after a mistake in a dimension, which has been reported,
/// that dimension is left out.
fn product(step: &Step, context: &mut Context<'_>) -> (Vec<Point>, bool) {
    let mut points = vec![Point::default()];
    let mut whole = true;
    for part in &step.matrix.dimensions {
        let assignments = dimension::assignments(part, context);
        let Some(assignments) = assignments.filter(|assignments| !assignments.is_empty()) else {
            whole = false;
            continue;
        };
        if points.len().saturating_mul(assignments.len()) > MOST_POINTS {
            let message = format!("step `{}` has more than {MOST_POINTS} points", step.name.value);
            context.problem(step.name.span, message, "too many", "vary less at once, or split the step");
            return (points, false);
        }
        if !context.take(product_of(&points, &assignments), step.name.span) {
            return (points, false);
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
    (points, whole)
}

fn exclude(points: &mut Vec<Point>, assignment: &Assignment, must_match: bool, context: &mut Context<'_>) {
    let values = values_of(assignment, context);
    let before = points.len();
    points.retain(|point| !point.matches(&values));
    if points.len() == before && must_match {
        let help =
            "check the values, or remove the entry; `on` and `\"on\"` are the same text, `1` and `\"1\"` are not";
        context.problem(assignment.span, "`exclude` leaves nothing out", "no point has these values", help);
    }
}

/// GitHub's rule: an entry with further keys gives them to the points that it matches; else it is a new point.
fn include(points: &mut Vec<Point>, kept: usize, step: &Step, assignment: &Assignment, context: &mut Context<'_>) {
    let span = assignment.span;
    let axes = step.matrix.axes();
    let narrowed = &step.matrix.narrowed;
    let values = values_of(assignment, context);
    let (own, further): (Vec<_>, Vec<_>) = values.into_iter().partition(|(axis, _)| axes.contains(axis));
    let spanned = |axis: &str, value: &Value| {
        let entry = assignment.values.iter().find(|(name, _)| name.value == axis);
        let place = entry.map_or(span, |(_, template)| template.span);
        (axis.to_owned(), Spanned::new(value.clone(), place))
    };
    let matched: Vec<usize> = (0..kept).filter(|index| points[*index].matches(&own)).collect();
    if !further.is_empty() && !matched.is_empty() && !axes.is_empty() {
        let more: u64 = further.iter().map(|(_, value)| weight(value)).sum();
        if !context.take(more.saturating_mul(matched.len() as u64), span) {
            return;
        }
        for index in matched {
            for (axis, value) in &further {
                let (axis, value) = spanned(axis, value);
                match points[index].values.iter_mut().find(|(name, _)| *name == axis) {
                    Some((_, earlier)) => *earlier = value,
                    None => points[index].values.push((axis, value)),
                }
            }
        }
        return;
    }
    let missing: Vec<String> =
        axes.iter().filter(|axis| !own.iter().any(|(name, _)| name == *axis)).map(|axis| format!("`{axis}`")).collect();
    if !narrowed.is_empty() {
        // The values that an axis has got from outside are all that it has.
        let known = |axis: &str, value: &Value| points[..kept].iter().any(|point| point.get(axis) == Some(value));
        let outside = own.iter().any(|(axis, value)| narrowed.iter().any(|name| name == axis) && !known(axis, value));
        if outside || !missing.is_empty() {
            return;
        }
    }
    if !missing.is_empty() {
        let message = format!("`include` matches no point, and for a point of its own it lacks {}", missing.join(", "));
        context.problem(span, message, "not a whole point", "give a value for every axis");
        return;
    }
    let ordered = axes.iter().filter_map(|axis| own.iter().find(|(name, _)| name == axis)).chain(&further);
    let point = Point { values: ordered.map(|(axis, value)| spanned(axis, value)).collect() };
    let own = |known: &Point| {
        known.values.iter().map(|(axis, value)| (axis.clone(), value.value.clone())).collect::<Vec<_>>()
    };
    if points.iter().any(|known| own(known) == own(&point)) {
        if narrowed.is_empty() {
            context.problem(
                span,
                "`include` adds a point that is there already",
                "already a point",
                "remove the entry",
            );
        }
        return;
    }
    points.push(point);
}

fn values_of<'a>(assignment: &'a Assignment, context: &Context<'_>) -> Vec<(&'a str, Value)> {
    let value = |template: &Template| Some(context.resolve(template)?.value);
    assignment.values.iter().filter_map(|(name, template)| Some((name.value.as_str(), value(template)?))).collect()
}

/// What [`expand`] and its helpers say about a mistake goes through here.
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

    /// Takes some of the memory that is left; `false` after a mistake, which has been reported.
    pub(super) fn take(&mut self, bytes: u64, span: crate::recipe::Span) -> bool {
        self.room.take(bytes, span, self.sources, self.problems)
    }
}

//! A step's matrix to its points.

use sweep_job::Value;

use crate::recipe::{Assignment, Collector, Names, Problem, Sources, Spanned, Step, Template};

/// One assignment of all axes of a step, in the order of the axes.
#[derive(Debug, Clone, Default)]
pub struct Point {
    /// Axis, value, and the place that gave the value.
    pub values: Vec<(String, Spanned<Value>)>,
}

impl Point {
    /// The value on an axis.
    pub fn get(&self, axis: &str) -> Option<&Value> {
        self.values.iter().find(|(name, _)| name == axis).map(|(_, value)| &value.value)
    }

    /// The values by axis, as expressions look them up.
    pub(super) fn names(&self) -> Names {
        self.values.iter().cloned().collect()
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

/// The points of a step: the product of its axes, without `exclude`, with `include`. A step without a matrix has one
/// point without values.
pub(super) fn expand(step: &Step, params: &Names, sources: &Sources, problems: &mut Collector) -> Vec<Point> {
    let mut points = if step.matrix.axes.is_empty() && !step.matrix.include.is_empty() {
        Vec::new()
    } else {
        product(step, params, sources, problems)
    };
    let known = |name: &str| step.matrix.axes.iter().any(|axis| axis.name.value == name && !axis.values.is_empty());
    for assignment in &step.matrix.exclude {
        if !assignment.values.iter().all(|(name, _)| known(&name.value)) {
            // Has been reported: an unknown axis, or one without values.
            continue;
        }
        exclude(&mut points, assignment, params, sources, problems);
    }
    let kept = points.len();
    for assignment in &step.matrix.include {
        include(&mut points, kept, step, assignment, params, sources, problems);
    }
    if points.is_empty() {
        let span = step.name.span;
        let message = format!("step `{}` has no points left", step.name.value);
        let problem = Problem::new(sources, span, message, "nothing to run").help("exclude less, or remove the step");
        problems.push(span, problem);
    }
    points
}

fn product(step: &Step, params: &Names, sources: &Sources, problems: &mut Collector) -> Vec<Point> {
    let mut points = vec![Point::default()];
    for axis in &step.matrix.axes {
        let mut values: Vec<Spanned<Value>> = Vec::new();
        for value in axis.values.iter().filter_map(|template| value_of(template, params)) {
            if values.iter().any(|known| known.value == value.value) {
                let message = format!("axis `{}` has the value `{}` twice", axis.name.value, value.value);
                problems
                    .push(value.span, Problem::new(sources, value.span, message, "again").help("remove one of them"));
            } else {
                values.push(value);
            }
        }
        if values.is_empty() {
            // The author knows by now; the other axes are still worth checking.
            continue;
        }
        points = points
            .into_iter()
            .flat_map(|point| {
                values.iter().map(move |value| {
                    let mut point = point.clone();
                    point.values.push((axis.name.value.clone(), value.clone()));
                    point
                })
            })
            .collect();
    }
    points
}

fn exclude(
    points: &mut Vec<Point>,
    assignment: &Assignment,
    params: &Names,
    sources: &Sources,
    problems: &mut Collector,
) {
    let values = values_of(assignment, params);
    let before = points.len();
    points.retain(|point| !point.matches(&values));
    if points.len() == before {
        let span = assignment.span;
        let problem = Problem::new(sources, span, "`exclude` leaves nothing out", "no point has these values").help(
            "check the values, or remove the entry; `on` and `\"on\"` are the same text, `1` and `\"1\"` are not",
        );
        problems.push(span, problem);
    }
}

/// GitHub's rule: an entry with further keys gives them to the points that it matches; else it is a new point.
fn include(
    points: &mut Vec<Point>,
    kept: usize,
    step: &Step,
    assignment: &Assignment,
    params: &Names,
    sources: &Sources,
    problems: &mut Collector,
) {
    let span = assignment.span;
    let axes: Vec<&str> = step.matrix.axes.iter().map(|axis| axis.name.value.as_str()).collect();
    let values = values_of(assignment, params);
    let (own, further): (Vec<_>, Vec<_>) = values.into_iter().partition(|(axis, _)| axes.contains(axis));
    let spans = |axis: &str| {
        let entry = assignment.values.iter().find(|(name, _)| name.value == axis);
        entry.map_or(span, |(_, template)| template.span)
    };
    let matched: Vec<usize> = (0..kept).filter(|index| points[*index].matches(&own)).collect();
    if !further.is_empty() && !matched.is_empty() && !axes.is_empty() {
        for index in matched {
            for (axis, value) in &further {
                let value = Spanned::new(value.clone(), spans(axis));
                match points[index].values.iter_mut().find(|(name, _)| name == axis) {
                    Some((_, earlier)) => *earlier = value,
                    None => points[index].values.push(((*axis).to_owned(), value)),
                }
            }
        }
        return;
    }
    let missing: Vec<&str> = axes.iter().copied().filter(|axis| !own.iter().any(|(name, _)| name == axis)).collect();
    if !missing.is_empty() {
        let message = format!("`include` matches no point, and for a point of its own it lacks {}", quoted(&missing));
        let problem = Problem::new(sources, span, message, "not a whole point").help("give a value for every axis");
        problems.push(span, problem);
        return;
    }
    let ordered = axes.iter().filter_map(|axis| own.iter().find(|(name, _)| name == axis)).chain(&further);
    let point = Point {
        values: ordered.map(|(axis, value)| ((*axis).to_owned(), Spanned::new(value.clone(), spans(axis)))).collect(),
    };
    if points.iter().any(|known| known.to_string() == point.to_string()) {
        let problem = Problem::new(sources, span, "`include` adds a point that is there already", "already a point")
            .help("remove the entry");
        problems.push(span, problem);
        return;
    }
    points.push(point);
}

fn value_of(template: &Template, params: &Names) -> Option<Spanned<Value>> {
    template.resolve(params, &Names::new())
}

fn values_of<'a>(assignment: &'a Assignment, params: &Names) -> Vec<(&'a str, Value)> {
    assignment
        .values
        .iter()
        .filter_map(|(name, template)| Some((name.value.as_str(), value_of(template, params)?.value)))
        .collect()
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

//! `include`: additional points, and further values for existing points.
//!
//! GitHub's rule applies to the axes of the matrix: an entry with further keys gives them to the points that it matches, else it is an
//! additional point. Seeds and ablations multiply all points, including the points of `include`.

use std::collections::{HashMap, HashSet};

use sweep_job::Value;

use super::{
    Point,
    dimension::Context,
    expand::{MAX_POINTS, too_many, values_of},
    room::weight,
};
use crate::recipe::{Assignment, Spanned, Step};

/// Adds the entries of `include` to the product of a matrix.
pub(super) struct Inclusion<'s> {
    step: &'s Step,
    axes: Vec<&'s str>,
    /// The axes that multiply the points that `include` adds.
    crossing: Vec<&'s str>,
    /// The product of these axes.
    crossed: Vec<Point>,
    points: Vec<Point>,
    /// Number of points of the product; only these points get further values.
    kept: usize,
    /// The values that the product has on axes whose values come from outside.
    known: Vec<(&'s str, Value)>,
    /// Entry that has given a point its value on an axis.
    given: HashMap<(usize, &'s str), usize>,
    /// The points by their text; of several that read alike, all.
    by_text: HashMap<String, Vec<usize>>,
}

/// The values of an entry: on the matrix's axes, and others.
struct Values<'s> {
    own: Vec<(&'s str, Value)>,
    further: Vec<(&'s str, Value)>,
}

impl<'s> Inclusion<'s> {
    /// Prepares to add to `product`; `crossed` is the product of the dimensions that multiply the added points.
    pub(super) fn new(step: &'s Step, product: Vec<Point>, crossed: Vec<Point>) -> Self {
        let axes = step.matrix.axes();
        let crossing: Vec<&str> = axes.iter().copied().filter(|axis| step.matrix.is_crossing(axis)).collect();
        let mut known: Vec<(&str, Value)> = Vec::new();
        for axis in &step.matrix.narrowed {
            for value in product.iter().filter_map(|point| point.get(axis)) {
                if !known.iter().any(|(name, other)| name == axis && other == value) {
                    known.push((axis, value.clone()));
                }
            }
        }
        // A matrix without axes has only the points of `include`, if an entry sets no crossing axis.
        let is_free =
            |entry: &Assignment| entry.values.iter().all(|(name, _)| !crossing.contains(&name.value.as_str()));
        let has_only_entries = crossing.len() == axes.len() && step.matrix.include.iter().any(is_free);
        let points = if has_only_entries { Vec::new() } else { product };
        let kept = points.len();
        let (given, by_text) = (HashMap::new(), HashMap::new());
        Self { step, axes, crossing, crossed, points, kept, known, given, by_text }
    }

    /// Returns the points with the points and values that all entries add.
    pub(super) fn include(mut self, context: &mut Context<'_>) -> Vec<Point> {
        let mut entries = Vec::new();
        for (index, entry) in self.step.matrix.include.iter().enumerate() {
            let (own, further) = values_of(entry, context).into_iter().partition(|(axis, _)| self.axes.contains(axis));
            let values = Values { own, further };
            if self.give(index, entry, &values, context) {
                entries.push(index);
            } else if !self.add(entry, &values, context) {
                break;
            }
        }
        let effective_entries: HashSet<usize> = self.given.values().copied().collect();
        for index in entries
            .into_iter()
            .filter(|index| !effective_entries.contains(index) && self.step.matrix.narrowed.is_empty())
        {
            let message = "`include` has no effect here: later entries set other values for all points that it matches";
            let help = "name every axis of the matrix to add a point, or remove the entry";
            context.problem(self.step.matrix.include[index].span, message, "without effect", help);
        }
        self.points
    }

    /// Gives further values to the points of the product that an entry matches; `false` if it matches no points.
    fn give(&mut self, index: usize, entry: &Assignment, values: &Values<'s>, context: &mut Context<'_>) -> bool {
        if values.further.is_empty() {
            return false;
        }
        let indices: Vec<usize> = (0..self.kept).filter(|point| self.points[*point].matches(&values.own)).collect();
        let bytes: u64 = values.further.iter().map(|(_, value)| weight(value)).sum();
        if !context.take(bytes.saturating_mul(indices.len() as u64), entry.span) {
            return true;
        }
        for point in &indices {
            for (axis, value) in &values.further {
                let value = spanned(entry, axis, value);
                self.given.insert((*point, axis), index);
                let point_values = &mut self.points[*point].values;
                match point_values.iter_mut().find(|(name, _)| name == axis) {
                    Some((_, current)) => *current = value,
                    None => point_values.push(((*axis).to_owned(), value)),
                }
            }
        }
        !indices.is_empty()
    }

    /// Adds an entry's points: one, or one for each seed and each combination of an ablation that it does not name. `false`
    /// if there are too many.
    fn add(&mut self, entry: &Assignment, values: &Values<'s>, context: &mut Context<'_>) -> bool {
        let has_narrowed_axes = !self.step.matrix.narrowed.is_empty();
        let is_named = |axis: &str| values.own.iter().any(|(name, _)| *name == axis);
        let open_axes: Vec<&str> = self.crossing.iter().copied().filter(|axis| !is_named(axis)).collect();
        let crossing_values: Vec<(&str, Value)> =
            values.own.iter().filter(|(axis, _)| self.crossing.contains(axis)).cloned().collect();
        // An entry that names every seed and factor needs no match among the crossed points.
        let crossed_points: Vec<Point> = match open_axes.as_slice() {
            [] => vec![Point::default()],
            _ => self.crossed.iter().filter(|point| point.matches(&crossing_values)).cloned().collect(),
        };
        let lacks = |axis: &&str| !is_named(axis) && (crossed_points.is_empty() || !open_axes.contains(axis));
        let missing_axes: Vec<String> =
            self.axes.iter().filter(|axis| lacks(axis)).map(|axis| format!("`{axis}`")).collect();
        if has_narrowed_axes {
            // The values that an axis has got from outside are all that it has.
            let is_narrowed = |axis: &str| self.step.matrix.narrowed.iter().any(|name| name == axis);
            let is_known =
                |axis: &str, value: &Value| self.known.iter().any(|(name, other)| *name == axis && other == value);
            let is_outside = values.own.iter().any(|(axis, value)| is_narrowed(axis) && !is_known(axis, value));
            if is_outside || !missing_axes.is_empty() {
                return true;
            }
        }
        if !missing_axes.is_empty() {
            let missing_axes = missing_axes.join(", ");
            let message = format!("`include` matches no point, and it cannot add one because it lacks {missing_axes}");
            context.problem(entry.span, message, "incomplete point", "give a value for every axis");
            return true;
        }
        if self.by_text.is_empty() {
            for (index, point) in self.points.iter().enumerate() {
                self.by_text.entry(point.to_string()).or_default().push(index);
            }
        }
        let count = self.points.len();
        for crossed_point in crossed_points {
            self.add_point(self.point(entry, values, &crossed_point));
        }
        if self.points.len() > MAX_POINTS {
            too_many(self.step, context);
            return false;
        }
        if self.points.len() == count && !has_narrowed_axes {
            let message = "`include` adds a point that already exists";
            context.problem(entry.span, message, "duplicate point", "remove the entry");
        }
        true
    }

    /// Returns an entry's point; the values that the entry lacks come from a point of seeds and ablations. The values of axes come in the
    /// axes' order; if the matrix has no axes, the entry's axes come first.
    fn point(&self, entry: &Assignment, values: &Values<'s>, crossed_point: &Point) -> Point {
        let assignment = |(axis, value): &(&str, Value)| ((*axis).to_owned(), spanned(entry, axis, value));
        let on_axis = |axis: &&str| match values.own.iter().find(|(name, _)| name == axis) {
            Some(value) => Some(assignment(value)),
            None => crossed_point.values.iter().find(|(name, _)| name == axis).cloned(),
        };
        let further_values: Vec<_> = values.further.iter().map(assignment).collect();
        let on_axes: Vec<_> = self.axes.iter().filter_map(on_axis).collect();
        let values =
            if self.kept == 0 { [further_values, on_axes].concat() } else { [on_axes, further_values].concat() };
        Point { values }
    }

    /// Adds a point, unless it is there.
    fn add_point(&mut self, point: Point) {
        let indices = self.by_text.entry(point.to_string()).or_default();
        let is_same = |candidate: &Point| {
            let pairs = candidate.values.iter().zip(&point.values);
            candidate.values.len() == point.values.len()
                && pairs
                    .into_iter()
                    .all(|((axis, value), (other_axis, other))| axis == other_axis && value.value == other.value)
        };
        if !indices.iter().any(|index| is_same(&self.points[*index])) {
            indices.push(self.points.len());
            self.points.push(point);
        }
    }
}

/// A value of an entry, with its place.
fn spanned(entry: &Assignment, axis: &str, value: &Value) -> Spanned<Value> {
    let template = entry.values.iter().find(|(name, _)| name.value == axis);
    Spanned::new(value.clone(), template.map_or(entry.span, |(_, template)| template.span))
}

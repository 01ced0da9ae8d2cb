//! Statements of one source about a program: series, final values, checkpoints and notices, of bounded size.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use sweep_job::{Aggregates, Curve, Metric, ReportedSource, Unit, tasks::Collect};

use super::curve::{MAX_POINTS, Points};
use crate::format::clean;

/// Maximum number of series of a source, and of names of final values.
const MAX_NAMES: usize = 200;
/// Longest name, in bytes.
const MAX_NAME_LENGTH: usize = 200;
/// Maximum number of notices of an attempt, and maximum length of a notice, in characters.
const MAX_NOTES: usize = 50;
const MAX_NOTE_LENGTH: usize = 500;
/// Checkpoints that are remembered, the newest.
const MAX_CHECKPOINTS: usize = 8;

/// A final value, which counts more than a curve.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Final {
    /// `None` if the newest was not finite.
    value: Option<f64>,
    unit: Unit,
}

/// A checkpoint that the program has declared to be complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Checkpoint {
    /// The path as the program has written it.
    pub(in super::super) path: String,
    /// The newest step when it was declared.
    pub(in super::super) step: Option<u64>,
    /// The last step of each curve when it was declared.
    #[serde(default)]
    reached: BTreeMap<String, u64>,
}

/// Series, final values, checkpoints and notices of one source: of this attempt, merged with earlier attempts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in super::super) struct Series {
    curves: BTreeMap<String, Points>,
    /// Names of the curves in the order of their first points.
    order: Vec<String>,
    #[serde(skip)]
    finals: BTreeMap<String, Final>,
    /// Number of steps in all.
    total: Option<u64>,
    /// The step of the newest point.
    step: Option<u64>,
    checkpoints: Vec<Checkpoint>,
    #[serde(skip)]
    stopped: bool,
    /// The series of earlier attempts.
    #[serde(skip)]
    earlier: Option<Box<Self>>,
    /// The smallest step of this attempt: from there on, the points of earlier ones do not count.
    #[serde(skip)]
    least: Option<u64>,
    /// Number of points of this attempt, and the largest number before the source began anew.
    #[serde(skip)]
    points: (u64, u64),
    /// Names that are taken beyond [`MAX_NAMES`].
    #[serde(skip)]
    needed: Arc<BTreeSet<String>>,
    #[serde(skip)]
    notes: Vec<String>,
    /// Number of notices so far, and the topics whose notice was already given.
    #[serde(skip)]
    said: (usize, BTreeSet<String>),
    /// Raised with every change.
    #[serde(skip)]
    changes: u64,
}

impl Series {
    /// Continues the series of earlier attempts: the points of this attempt replace theirs from its smallest step on.
    pub(in super::super) fn resume(self) -> Self {
        let (total, step, checkpoints) = (self.total, self.step, self.checkpoints.clone());
        Self { total, step, checkpoints, earlier: Some(Box::new(self)), ..Self::default() }
    }

    /// Takes these names in any case.
    pub(in super::super) fn need(&mut self, names: &Arc<BTreeSet<String>>) {
        self.needed = Arc::clone(names);
    }

    /// Discards the series of this attempt: the source begins anew, and reports again all points that still count.
    pub(in super::super) fn restart(&mut self) {
        self.curves.clear();
        self.order.clear();
        self.finals.clear();
        (self.least, self.stopped) = (None, false);
        self.points = (0, self.points.0.max(self.points.1));
        self.changes += 1;
    }

    /// Returns to the values of `before`; the notices stay.
    pub(in super::super) fn go_back_to(&mut self, before: Self) {
        let current_values = std::mem::take(self);
        *self = Self {
            notes: current_values.notes,
            said: current_values.said,
            changes: current_values.changes + 1,
            ..before
        };
    }

    /// Notices that are only known at the end of the attempt.
    pub(in super::super) fn end(&mut self, source: &str) {
        let (new_count, old_count) = self.points;
        if new_count < old_count {
            let lost_count = old_count - new_count;
            self.note(&format!(
                "`{source}` was rewritten, and {lost_count} of its earlier values no longer count: append to it"
            ));
        }
    }

    /// The points of all attempts.
    pub(super) fn whole(&self) -> Cow<'_, Self> {
        let Some(earlier) = &self.earlier else { return Cow::Borrowed(self) };
        let mut merged = Self { earlier: None, ..self.clone() };
        let Self { mut curves, mut order, .. } = (**earlier).clone();
        if let Some(first_step) = self.least {
            cut(&mut curves, &mut order, first_step);
        }
        for name in std::mem::take(&mut merged.order) {
            let Some(points) = merged.curves.remove(&name) else { continue };
            match curves.get_mut(&name) {
                Some(earlier_points) => earlier_points.add(points),
                None => {
                    curves.insert(name.clone(), points);
                    order.push(name);
                }
            }
        }
        (merged.curves, merged.order) = (curves, order);
        Cow::Owned(merged)
    }

    /// True if nothing was read of the source, in no attempt.
    pub(in super::super) fn is_silent(&self) -> bool {
        self.curves.is_empty()
            && self.finals.is_empty()
            && self.earlier.as_ref().is_none_or(|earlier| earlier.is_silent())
    }

    /// True if a later attempt has nothing to continue.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.checkpoints.is_empty() && self.total.is_none() && self.step.is_none()
    }

    /// Adds a point. `unit` is the written one; without, the end of the name implies it.
    pub(in super::super) fn point(&mut self, step: u64, name: &str, value: f64, unit: Option<&str>) {
        let Metric { value, unit } = self.measured(name, value, unit);
        self.point_in(step, name, value, unit);
    }

    /// Adds a point in a unit.
    pub(in super::super) fn point_in(&mut self, step: u64, name: &str, value: f64, unit: Unit) {
        self.changes += 1;
        self.step = Some(step);
        self.least = Some(self.least.map_or(step, |first_step| first_step.min(step)));
        self.points.0 += 1;
        if !value.is_finite() {
            self.once(name, || format!("`{name}` is {value} at step {step}, which is not a number: no point"));
        }
        if !self.curves.contains_key(name) {
            if !self.is_name(name) {
                return;
            }
            if !self.has_room(name, self.curves.keys()) {
                return self.leave_out(name);
            }
            self.order.push(name.to_owned());
            self.curves.insert(name.to_owned(), Points::new(unit));
        }
        let Some(points) = self.curves.get_mut(name) else { return };
        let curve_unit = points.unit;
        if !points.push(step, unit.convert(value, curve_unit)) {
            self.once(&format!("step of {name}"), || {
                format!(
                    "`{name}` has another value at step {step}: its curve shows the newest of a step, `metrics` counts all"
                )
            });
        }
        if !unit.is_like(curve_unit) {
            self.once(&format!("unit of {name}"), || format!("`{name}` changes its unit: the first one counts"));
        }
    }

    /// Sets a final value.
    pub(in super::super) fn last(&mut self, name: &str, value: f64, unit: Option<&str>) {
        let Metric { value, unit } = self.measured(name, value, unit);
        self.changes += 1;
        if !value.is_finite() {
            self.once(name, || format!("`{name}` is {value}, which is not a number: ignored"));
        }
        if !self.finals.contains_key(name) {
            if !self.is_name(name) {
                return;
            }
            if !self.has_room(name, self.finals.keys()) {
                return self.leave_out(name);
            }
        }
        self.finals.insert(name.to_owned(), Final { value: value.is_finite().then_some(value), unit });
    }

    /// Sets the number of steps in all.
    pub(in super::super) fn total(&mut self, total: u64) {
        self.changes += 1;
        self.total = Some(total);
    }

    /// Records that the program is at a step.
    pub(in super::super) fn at(&mut self, step: u64) {
        self.changes += 1;
        self.step = Some(step);
    }

    /// Adds a checkpoint, complete on disk.
    pub(in super::super) fn checkpoint(&mut self, path: &str) {
        self.changes += 1;
        self.checkpoints.retain(|checkpoint| checkpoint.path != path);
        let earlier = self.earlier.iter().flat_map(|earlier| &earlier.curves);
        let reached = earlier.chain(&self.curves).filter_map(|(name, points)| Some((name.clone(), points.end()?.step)));
        let reached = reached.collect();
        self.checkpoints.push(Checkpoint { path: path.to_owned(), step: self.step, reached });
        let surplus = self.checkpoints.len().saturating_sub(MAX_CHECKPOINTS);
        self.checkpoints.drain(..surplus);
    }

    /// Records that the program ends early on request.
    pub(in super::super) fn stopped(&mut self) {
        self.changes += 1;
        self.stopped = true;
    }

    /// Adds a notice for the user.
    pub(in super::super) fn note(&mut self, text: &str) {
        self.said.0 += 1;
        if self.said.0 < MAX_NOTES {
            self.notes.push(clean(text).chars().take(MAX_NOTE_LENGTH).collect());
        } else if self.said.0 == MAX_NOTES {
            self.notes.push("more notes are left out".to_owned());
        }
    }

    /// Adds a notice about something, once.
    pub(in super::super) fn once(&mut self, about: &str, text: impl FnOnce() -> String) {
        if self.said.1.len() < MAX_NOTES && self.said.1.insert(about.chars().take(MAX_NAME_LENGTH).collect()) {
            let text = text();
            self.note(&text);
        }
    }

    /// The notices since the last call.
    pub(in super::super) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Returns `value`, written with `unit`, in the unit that `name` implies.
    fn measured(&mut self, name: &str, value: f64, unit: Option<&str>) -> Metric {
        let parsed_unit = unit.map(|symbol| {
            Unit::written(symbol).unwrap_or_else(|| {
                self.once(&format!("unit of {name}"), || {
                    format!("`{name}` has the unknown unit `{symbol}`; known are {}", Unit::known())
                });
                Unit::One
            })
        });
        Metric { value, unit: parsed_unit.unwrap_or(Unit::One) }.named(name)
    }

    /// True if a series or a value with a new name can be added to the known ones.
    fn has_room<'n>(&self, name: &str, known_names: impl Iterator<Item = &'n String>) -> bool
    where
        Self: 'n,
    {
        self.needed.contains(name)
            || known_names.filter(|known_name| !self.needed.contains(*known_name)).count() < MAX_NAMES
    }

    fn leave_out(&mut self, name: &str) {
        self.once("", || {
            format!(
                "`{name}` and other names are left out: at most {MAX_NAMES} names are kept, and those that `metrics`, \
                 tables, figures and claims name"
            )
        });
    }

    fn is_name(&mut self, name: &str) -> bool {
        let fits = !name.trim().is_empty() && name.len() <= MAX_NAME_LENGTH && !name.chars().any(char::is_control);
        if !fits {
            let excerpt: String = name.chars().take(40).collect();
            self.once("name of a series", || {
                let excerpt = excerpt.escape_debug();
                format!(
                    "`{excerpt}` is not a name of a series: 1 to {MAX_NAME_LENGTH} bytes without control \
                    characters"
                )
            });
        }
        fits
    }

    /// Removes the reports of earlier attempts after the newest checkpoint of this step.
    pub(in super::super) fn return_to(&mut self, step: u64) {
        let Some(checkpoint) = self.checkpoints.iter().rfind(|checkpoint| checkpoint.step == Some(step)).cloned()
        else {
            return;
        };
        let Some(earlier) = &mut self.earlier else { return };
        for (name, points) in &mut earlier.curves {
            points.cut(checkpoint.reached.get(name).map_or(0, |last_step| last_step.saturating_add(1)));
        }
        cut(&mut earlier.curves, &mut earlier.order, step.saturating_add(1));
    }

    /// The newest step and the number of steps in all, as far as they are known.
    pub(in super::super) fn progress(&self) -> (Option<u64>, Option<u64>) {
        (self.step, self.total)
    }

    /// True if this attempt has reported a point.
    pub(in super::super) fn has_points(&self) -> bool {
        self.points.0 > 0
    }

    /// The checkpoints, the newest last.
    pub(in super::super) fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// Returns true if the program has reported that it ends early because it was asked to.
    pub(in super::super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// A number that rises with every change.
    pub(in super::super) fn changes(&self) -> u64 {
        self.changes
    }

    /// The newest points with their units: a loss first, then the series that began first.
    pub(in super::super) fn newest(&self) -> impl Iterator<Item = (&str, super::Point, Unit)> {
        let is_loss = |name: &&String| name.rsplit(['/', '.', '_']).next() == Some("loss");
        let earlier = self.earlier.as_deref();
        let earlier_names =
            earlier.into_iter().flat_map(|earlier| &earlier.order).filter(|name| !self.curves.contains_key(*name));
        let (losses, other_names): (Vec<_>, Vec<_>) = self.order.iter().chain(earlier_names).partition(is_loss);
        losses.into_iter().chain(other_names).filter_map(move |name| {
            let points = self.curves.get(name).or_else(|| earlier?.curves.get(name))?;
            Some((name.as_str(), points.last()?, points.unit))
        })
    }

    /// Adds the curves to an outcome's.
    pub(in super::super) fn curves(&self, outcome_curves: &mut BTreeMap<String, Curve>) {
        let merged = self.whole();
        let curves = merged.curves.iter().map(|(name, points)| (name.clone(), points.curve()));
        outcome_curves.extend(curves.filter(|(_, curve)| !curve.at.is_empty() && curve.at.len() <= MAX_POINTS));
    }

    /// Adds the metrics: final values, and of every other series the value that `collect` names, the newest without.
    pub(in super::super) fn metrics(&self, collect: &BTreeMap<String, Collect>, target: &mut BTreeMap<String, Metric>) {
        for (name, points) in &self.whole().curves {
            let mode = collect.get(name).copied().unwrap_or(Collect::Last);
            mode.remove(name, target);
            let Some(point) = points.collect(mode) else { continue };
            target.insert(name.clone(), Metric { value: point.value, unit: points.unit });
            if mode.has_step() {
                target.insert(format!("{name}.step"), Metric { value: point.step as f64, unit: Unit::Count });
            }
        }
        for (name, Final { value, unit }) in &self.finals {
            collect.get(name).copied().unwrap_or(Collect::Last).remove(name, target);
            target.extend(value.map(|value| (name.clone(), Metric { value, unit: *unit })));
        }
    }

    /// The values that can become metrics, as values of the source `source`.
    pub(in super::super) fn reported(&self, source: &str) -> ReportedSource {
        let merged = self.whole();
        let series = merged.curves.iter().map(|(name, points)| {
            let point = |how| points.collect(how).map(|point| (point.step, point.value));
            let aggregates = Aggregates {
                unit: points.unit,
                diverged: points.is_diverged(),
                since: points.since(),
                last: point(Collect::LastFinite),
                first: point(Collect::First),
                min: point(Collect::MinFinite),
                max: point(Collect::MaxFinite),
                mean: points.collect(Collect::MeanFinite).map(|point| point.value),
            };
            (name.clone(), aggregates)
        });
        let metric = |Final { value, unit }: &Final| value.map(|value| Metric { value, unit: *unit });
        let finals = self.finals.iter().map(|(name, final_value)| (name.clone(), metric(final_value)));
        ReportedSource { name: source.to_owned(), series: series.collect(), finals: finals.collect() }
    }

    /// True if a series or a final value has this name.
    pub(in super::super) fn has(&self, name: &str) -> bool {
        let has_name = |series: &Self| series.curves.contains_key(name) || series.finals.contains_key(name);
        has_name(self) || self.earlier.as_deref().is_some_and(has_name)
    }

    /// The names of its series and final values.
    pub(in super::super) fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().chain(self.finals.keys().filter(|name| !self.curves.contains_key(*name))).map(String::as_str)
    }
}

/// Removes everything from a step on.
fn cut(curves: &mut BTreeMap<String, Points>, order: &mut Vec<String>, step: u64) {
    curves.retain(|_, points| {
        points.cut(step);
        points.last().is_some()
    });
    order.retain(|name| curves.contains_key(name));
}

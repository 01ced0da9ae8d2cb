//! Statements of one source about a program: series, final values, checkpoints and notices, of bounded size.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sweep_job::{Aggregates, Curve, Metric, ReportedSource, Unit, tasks::Collect};

use super::{
    curve::{MOST, Points},
    units,
};
use crate::format::clean;

/// Most series of a source, and most names of final values.
const MOST_NAMES: usize = 200;
/// Longest name, in bytes.
const LONGEST_NAME: usize = 200;
/// Most notices of an attempt, and the longest, in characters.
const MOST_NOTES: usize = 50;
const LONGEST_NOTE: usize = 500;
/// Checkpoints that are remembered, the newest.
const MOST_CHECKPOINTS: usize = 8;

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
    /// As the program has written it.
    pub(in super::super) path: String,
    /// The newest step when it was declared.
    pub(in super::super) step: Option<u64>,
    /// The last step of each curve when it was declared.
    #[serde(default)]
    reached: BTreeMap<String, u64>,
}

/// Series, final values, checkpoints and notices of one source.
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
    /// True until the first point of an attempt.
    #[serde(skip)]
    resumed: bool,
    #[serde(skip)]
    notes: Vec<String>,
    /// Number of notices so far, and what has been said once.
    #[serde(skip)]
    said: (usize, BTreeSet<String>),
    /// Raised with every change.
    #[serde(skip)]
    changes: u64,
}

impl Series {
    /// Continues what an earlier attempt has said: its first point replaces everything from its step on.
    pub(in super::super) fn resume(self) -> Self {
        let Self { curves, order, total, step, checkpoints, .. } = self;
        Self { curves, order, total, step, checkpoints, resumed: true, ..Self::default() }
    }

    /// True if a later attempt has nothing to continue.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.checkpoints.is_empty() && self.total.is_none() && self.step.is_none()
    }

    /// Adds a point. `unit` is the written one; without, the end of the name implies it.
    pub(in super::super) fn point(&mut self, step: u64, name: &str, value: f64, unit: Option<&str>) {
        let (unit, factor) = self.unit(name, unit);
        self.point_in(step, name, value * factor, unit);
    }

    /// Adds a point in a base unit.
    pub(in super::super) fn point_in(&mut self, step: u64, name: &str, value: f64, unit: Unit) {
        if std::mem::take(&mut self.resumed) {
            self.cut(step);
        }
        self.changes += 1;
        self.step = Some(step);
        if !value.is_finite() {
            self.once(name, || format!("`{name}` is {value} at step {step}, which is not a number: no point"));
        }
        if !self.curves.contains_key(name) {
            if !self.is_name(name) {
                return;
            }
            if self.curves.len() >= MOST_NAMES {
                self.once("", || format!("`{name}` and other series are left out: {MOST_NAMES} at most"));
                return;
            }
            self.order.push(name.to_owned());
            self.curves.insert(name.to_owned(), Points::new(unit));
        }
        let Some(points) = self.curves.get_mut(name) else { return };
        let known = points.unit;
        points.push(step, value);
        if known != unit {
            self.once(&format!("unit of {name}"), || format!("`{name}` changes its unit: the first one counts"));
        }
    }

    /// Sets a final value.
    pub(in super::super) fn last(&mut self, name: &str, value: f64, unit: Option<&str>) {
        let (unit, factor) = self.unit(name, unit);
        let value = value * factor;
        self.changes += 1;
        if !value.is_finite() {
            self.once(name, || format!("`{name}` is {value}, which is not a number: ignored"));
        }
        if !self.finals.contains_key(name) {
            if !self.is_name(name) {
                return;
            }
            if self.finals.len() >= MOST_NAMES {
                self.once("", || format!("`{name}` and other values are left out: {MOST_NAMES} at most"));
                return;
            }
        }
        self.finals.insert(name.to_owned(), Final { value: value.is_finite().then_some(value), unit });
    }

    /// Sets the number of steps in all.
    pub(in super::super) fn total(&mut self, total: u64) {
        self.changes += 1;
        self.total = Some(total);
    }

    /// Notes that the program is at a step.
    pub(in super::super) fn at(&mut self, step: u64) {
        self.changes += 1;
        self.step = Some(step);
    }

    /// Adds a checkpoint, complete on disk.
    pub(in super::super) fn checkpoint(&mut self, path: &str) {
        self.changes += 1;
        self.checkpoints.retain(|known| known.path != path);
        let reached = self.curves.iter().filter_map(|(name, points)| Some((name.clone(), points.last()?.step)));
        let reached = reached.collect();
        self.checkpoints.push(Checkpoint { path: path.to_owned(), step: self.step, reached });
        let old = self.checkpoints.len().saturating_sub(MOST_CHECKPOINTS);
        self.checkpoints.drain(..old);
    }

    /// Notes that the program ends early because it was asked to.
    pub(in super::super) fn stopped(&mut self) {
        self.changes += 1;
        self.stopped = true;
    }

    /// Adds a notice for the user.
    pub(in super::super) fn note(&mut self, text: &str) {
        self.said.0 += 1;
        if self.said.0 < MOST_NOTES {
            self.notes.push(clean(text).chars().take(LONGEST_NOTE).collect());
        } else if self.said.0 == MOST_NOTES {
            self.notes.push("more notes are left out".to_owned());
        }
    }

    /// Adds a notice about something, once.
    pub(in super::super) fn once(&mut self, about: &str, text: impl FnOnce() -> String) {
        if self.said.1.len() < MOST_NOTES && self.said.1.insert(about.chars().take(LONGEST_NAME).collect()) {
            let text = text();
            self.note(&text);
        }
    }

    /// The notices since the last call.
    pub(in super::super) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn unit(&mut self, name: &str, unit: Option<&str>) -> (Unit, f64) {
        let Some(symbol) = unit else { return units::implied(name) };
        units::written(symbol).unwrap_or_else(|| {
            self.once(&format!("unit of {name}"), || {
                format!("`{name}` has the unknown unit `{symbol}`; known are {}", units::known())
            });
            (Unit::One, 1.0)
        })
    }

    fn is_name(&mut self, name: &str) -> bool {
        let fits = !name.trim().is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(char::is_control);
        if !fits {
            let shown: String = name.chars().take(40).collect();
            self.once("name of a series", || {
                let shown = shown.escape_debug();
                format!("`{shown}` is no name of a series: 1 to {LONGEST_NAME} bytes without control characters")
            });
        }
        fits
    }

    /// Removes what was reported after the newest checkpoint of this step.
    pub(in super::super) fn return_to(&mut self, step: u64) {
        let Some(checkpoint) = self.checkpoints.iter().rfind(|known| known.step == Some(step)).cloned() else { return };
        for (name, points) in &mut self.curves {
            points.cut(checkpoint.reached.get(name).map_or(0, |last| last.saturating_add(1)));
        }
        self.cut(step.saturating_add(1));
    }

    /// Removes everything from a step on.
    fn cut(&mut self, step: u64) {
        self.curves.retain(|_, points| {
            points.cut(step);
            points.last().is_some()
        });
        self.order.retain(|name| self.curves.contains_key(name));
    }

    /// The newest step and the number of steps in all, as far as they are known.
    pub(in super::super) fn progress(&self) -> (Option<u64>, Option<u64>) {
        (self.step, self.total)
    }

    /// The checkpoints, the newest last.
    pub(in super::super) fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// True if the program has said that it ends early because it was asked to.
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
        let (losses, others): (Vec<_>, Vec<_>) = self.order.iter().partition(is_loss);
        losses.into_iter().chain(others).filter_map(|name| {
            let points = self.curves.get(name)?;
            Some((name.as_str(), points.last()?, points.unit))
        })
    }

    /// Adds the curves to an outcome's.
    pub(in super::super) fn curves(&self, to: &mut BTreeMap<String, Curve>) {
        let curves = self.curves.iter().map(|(name, points)| (name.clone(), points.curve()));
        to.extend(curves.filter(|(_, curve)| !curve.at.is_empty() && curve.at.len() <= MOST));
    }

    /// Adds the metrics: final values, and of every other series the value that `collect` names, the newest without.
    pub(in super::super) fn metrics(&self, collect: &BTreeMap<String, Collect>, to: &mut BTreeMap<String, Metric>) {
        for (name, points) in &self.curves {
            let how = collect.get(name).copied().unwrap_or(Collect::Last);
            to.remove(name);
            let Some(point) = points.collect(how) else { continue };
            to.insert(name.clone(), Metric { value: point.value, unit: points.unit });
            if matches!(how, Collect::Min | Collect::Max) {
                to.insert(format!("{name}.step"), Metric { value: point.step as f64, unit: Unit::Count });
            }
        }
        for (name, Final { value, unit }) in &self.finals {
            to.remove(name);
            to.extend(value.map(|value| (name.clone(), Metric { value, unit: *unit })));
        }
    }

    /// The values that can become metrics, as those of the source with this name.
    pub(in super::super) fn reported(&self, source: &str) -> ReportedSource {
        let series = self.curves.iter().map(|(name, points)| {
            let point = |how| points.collect(how).map(|point| (point.step, point.value));
            let aggregates = Aggregates {
                unit: points.unit,
                last: point(Collect::Last),
                first: point(Collect::First),
                min: point(Collect::Min),
                max: point(Collect::Max),
                mean: points.collect(Collect::Mean).map(|point| point.value),
            };
            (name.clone(), aggregates)
        });
        let metric = |Final { value, unit }: &Final| value.map(|value| Metric { value, unit: *unit });
        let finals = self.finals.iter().map(|(name, last)| (name.clone(), metric(last)));
        ReportedSource { name: source.to_owned(), series: series.collect(), finals: finals.collect() }
    }

    /// True if a series or a final value has this name.
    pub(in super::super) fn has(&self, name: &str) -> bool {
        self.curves.contains_key(name) || self.finals.contains_key(name)
    }
}

//! Numbers that are read off the curves of jobs: places of a target, mean heights, and values at a place.

use std::collections::BTreeMap;

use sweep_job::{Curve, Unit, Value};

use super::jobs;
use crate::{
    analysis::{
        absence::Absence,
        claim::scale::size_of,
        curves::{Curves, first_at, mean_height, value_at},
        evidence::{Found, Side, Source},
    },
    plan::{JobId, Point, resolved},
    recipe::{Analysis, CurveRead, MetricTraits, Spanned},
    record::Key,
    stats::TimeToEvent,
};

/// Reads a number off the curves of a metric.
pub(super) struct Reader<'a> {
    analysis: &'a Analysis,
    read: CurveRead,
    /// A metric or a parameter with the cost of a step.
    cost: Option<&'a Spanned<String>>,
    source: Source<'a>,
    curves: &'a Curves,
    jobs: BTreeMap<Key, JobId>,
    metric: &'a str,
}

/// The measurements at some points, with values from the curves.
pub(super) struct Numbers<'a> {
    pub(super) side: Side<'a>,
    /// The times to the target, if there is one.
    pub(super) times: Vec<TimeToEvent>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        analysis: &'a Analysis,
        (read, cost): (CurveRead, Option<&'a Spanned<String>>),
        source: Source<'a>,
        curves: &'a Curves,
        metric: &'a str,
    ) -> Self {
        Self { analysis, read, cost, source, curves, jobs: jobs(analysis, source), metric }
    }

    /// The properties of the metric.
    pub(super) fn traits(&self) -> MetricTraits {
        self.source.traits(self.analysis.of.step, self.metric)
    }

    /// The measurements of the points with these values.
    pub(super) fn numbers(&self, at: &[(&str, &Value)]) -> Numbers<'a> {
        let traits = self.traits();
        let mut only = resolved(&self.source.study.recipe, &self.analysis.of.only);
        only.extend(at.iter().map(|(axis, value)| (*axis, vec![(*value).clone()])));
        let mut side = self.source.side(self.analysis.of.step, &only, self.metric, traits);
        let (mut readings, mut times) = (Vec::new(), Vec::new());
        for found in std::mem::take(&mut side.found) {
            match self.number(&found, traits) {
                Some((value, time)) => {
                    times.extend(time);
                    readings.push(Found { value, ..found });
                }
                None => side.absent.extend(self.unread(&found)),
            }
        }
        side.found = readings;
        if let CurveRead::Target(_) = self.read {
            self.add_diverged(&mut side, &mut times, traits);
        }
        Numbers { side, times }
    }

    /// The absence of a number from a job that has the metric.
    fn unread(&self, found: &Found<'a>) -> Option<(Absence, JobId, &'a Point)> {
        let reason = match self.read {
            CurveRead::Target(_) => "no curve, or no cost of a step",
            CurveRead::Area(_) | CurveRead::At(_) => "no curve of this length, or no cost of a step",
        };
        let absence = Absence::NotReached { metric: self.metric.to_owned(), reason: reason.to_owned() };
        Some((absence, *self.jobs.get(&found.by?.key)?, found.point))
    }

    /// True if the cost of a step is a time or a rate.
    pub(super) fn costs_time(&self) -> bool {
        self.cost.is_some_and(|cost| self.source.traits(self.analysis.of.step, &cost.value).depends_on_load)
    }

    /// Adds the runs that diverged. They have curves but no result: a run that has not reached the target by its end never does, so it
    /// counts up to the longest time of the others.
    fn add_diverged(&self, side: &mut Side<'a>, times: &mut Vec<TimeToEvent>, traits: MetricTraits) {
        let end = |found: &Found<'a>| self.end(found.by?.key, found.point);
        let budget = side.found.iter().filter_map(end).fold(0.0, f64::max);
        for (absence, job, point) in std::mem::take(&mut side.absent) {
            let by = self.source.measured.get(&job).filter(|_| matches!(absence, Absence::Diverged { .. }));
            let run = by.map(|by| Found { point, by: Some(by), value: 0.0 });
            match run.and_then(|run| Some((self.number(&run, traits)?.1?, run))) {
                Some((TimeToEvent { time, reached }, run)) => {
                    let time = if reached { time } else { time.max(budget) };
                    times.push(TimeToEvent { time, reached });
                    side.found.push(Found { value: time, ..run });
                }
                None => side.absent.push((absence, job, point)),
            }
        }
    }

    /// The place of the last value of a job's curve, finite or not.
    fn end(&self, key: Key, point: &Point) -> Option<f64> {
        let last = *self.curves.get(&(key, self.metric.to_owned()))?.at.last()?;
        Some(last as f64 * self.cost_of_step(key, point)?)
    }

    fn cost_of_step(&self, key: Key, point: &Point) -> Option<f64> {
        let Some(name) = self.cost else { return Some(1.0) };
        size_of(&name.value, point, *self.jobs.get(&key)?, self.source).filter(|cost| *cost > 0.0)
    }

    /// The number of a job's curve, and the time to the target if there is one.
    fn number(&self, found: &Found<'_>, traits: MetricTraits) -> Option<(f64, Option<TimeToEvent>)> {
        let key = found.by?.key;
        let curve = self.curves.get(&(key, self.metric.to_owned()))?;
        let points = points(curve, traits.unit, self.cost_of_step(key, found.point)?)?;
        match self.read {
            CurveRead::Target(target) => {
                let crossing = first_at(&points, target, traits.better?);
                let time = crossing.or_else(|| self.end(key, found.point))?;
                Some((time, Some(TimeToEvent { time, reached: crossing.is_some() })))
            }
            CurveRead::Area(end) => Some((mean_height(&points, end)?, None)),
            CurveRead::At(place) => Some((value_at(&points, place)?, None)),
        }
    }
}

/// The places and finite values of a curve, in the metric's unit; `None` if it measures something else.
fn points(curve: &Curve, unit: Unit, cost: f64) -> Option<Vec<(f64, f64)>> {
    let value = |value: f64| if curve.unit.is_like(unit) { curve.unit.convert(value, unit) } else { value };
    (curve.unit.is_like(unit) || curve.unit == Unit::One || unit == Unit::One).then(|| {
        let values = curve.values.iter().map(|found| value(*found));
        curve.at.iter().map(|at| *at as f64 * cost).zip(values).filter(|(_, value)| value.is_finite()).collect()
    })
}

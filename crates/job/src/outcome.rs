//! The outcome of a finished job: metrics with units, curves, artifacts.

use std::{collections::BTreeMap, mem};

use serde::{Deserialize, Serialize};

use crate::{Beginning, MetricInfo, Metrics, Reported, Unit};

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Numbers by name.
    pub metrics: Metrics,
    /// Series by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub curves: BTreeMap<String, Curve>,
    /// Files and folders by name, relative to the job's folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, String>,
    /// Facts that are not metrics, by name, such as the assertions that held.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// The reports of a program, from which its metrics can be taken again. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Box<Reported>>,
    /// The first steps of a program, if its result can be adopted after a change of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beginning: Option<Box<Beginning>>,
}

/// The first word of the reason why a metric that diverged has no value.
const DIVERGED: &str = "diverged";
/// The words before the step from which on a metric is not finite.
const SINCE: &str = " from step ";

/// A measured number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The number; finite.
    pub value: f64,
    /// Unit of the value.
    pub unit: Unit,
}

/// A series of numbers over the iterations of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Unit of the values.
    pub unit: Unit,
    /// Iterations done when each value was taken; ascending.
    pub at: Vec<u64>,
    /// The values, one for each element of `at`.
    pub values: Vec<f64>,
}

impl Outcome {
    /// Adds a declared metric. A value that is not finite is not a measurement, and is dropped.
    pub fn set(&mut self, metric: &MetricInfo, value: f64) {
        self.set_open(metric.name, value, metric.unit);
    }

    /// The value of a declared metric, if it was measured.
    pub fn value(&self, metric: &MetricInfo) -> Option<f64> {
        self.metrics.get(metric.name).map(|found| found.value)
    }

    /// Adds a metric that the task does not declare, in the unit that `name` implies.
    pub fn set_open(&mut self, name: &str, value: f64, unit: Unit) {
        if value.is_finite() {
            self.metrics.insert(name.to_owned(), Metric { value, unit }.named(name));
        }
    }

    /// Records that a metric has no value because its newest value is not finite; `since` is the first step of the non-finite values.
    pub fn set_diverged(&mut self, name: &str, since: Option<u64>) {
        let since = since.map_or_else(String::new, |step| format!("{SINCE}{step}"));
        self.facts.insert(Self::absent(name), format!("{DIVERGED}: its newest value is not finite{since}"));
    }

    /// The name of the fact with the reason why a metric has no value.
    pub fn absent(name: &str) -> String {
        format!("absent.{name}")
    }

    /// The metrics that diverged, each with the step from which on its values are not finite, where that is known.
    pub fn diverged(&self) -> impl Iterator<Item = (&str, Option<u64>)> {
        let absent = self.facts.iter().filter_map(|(name, why)| Some((name.strip_prefix("absent.")?, why.as_str())));
        let since = |why: &str| why.rsplit_once(SINCE).and_then(|(_, step)| step.parse().ok());
        absent.filter(|(_, why)| why.starts_with(DIVERGED)).map(move |(name, why)| (name, since(why)))
    }

    /// Returns the same outcome with every metric and every curve in the unit that its name implies. Outcomes of earlier
    /// versions have base units.
    #[must_use]
    pub fn in_named_units(mut self) -> Self {
        self.metrics = mem::take(&mut self.metrics).in_named_units();
        self.curves =
            mem::take(&mut self.curves).into_iter().map(|(name, curve)| (name.clone(), curve.named(&name))).collect();
        self
    }
}

impl Metric {
    /// Returns the same measurement in the unit that `name` implies.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let unit = self.unit.named(name);
        Self { value: self.unit.convert(self.value, unit), unit }
    }

    /// The value in another unit; `None` if that measures something else.
    pub fn value_in(self, unit: Unit) -> Option<f64> {
        self.unit.is_like(unit).then(|| self.unit.convert(self.value, unit))
    }

    /// The value in a unit that a recipe declares. The unit also applies to a number without a unit, and to a number whose unit is only
    /// implied by `name`.
    pub fn value_as(self, name: &str, declared: Unit) -> Option<f64> {
        let open = self.unit == Unit::One || Some(self.unit) == Unit::implied(name);
        self.value_in(declared).or(open.then_some(self.value))
    }
}

impl Curve {
    /// The curve in another unit; `None` if its own cannot be converted.
    #[must_use]
    pub fn in_unit(&self, unit: Unit) -> Option<Self> {
        let value = |value: &f64| Metric { value: *value, unit: self.unit }.value_in(unit);
        let values = self.values.iter().map(value).collect::<Option<_>>()?;
        Some(Self { unit, at: self.at.clone(), values })
    }

    /// Returns the same curve in the unit that `name` implies.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let unit = self.unit.named(name);
        let values = self.values.into_iter().map(|value| self.unit.convert(value, unit)).collect();
        Self { unit, values, ..self }
    }
}

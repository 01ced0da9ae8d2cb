//! The reports of a program, in the form from which its metrics can be taken again without running it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Metric, Unit, tasks::Collect};

/// The reports of a program, by their sources.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reported {
    /// The sources, those first that take precedence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ReportedSource>,
    /// Numbers of lines `name=value`; `None` for a non-finite number. They count without a metrics file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, Option<Metric>>,
    /// True if no process opened the file with the program's parameters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub params_unread: bool,
}

/// The reports of one source.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReportedSource {
    /// `report`, or a kind and a place as `reads` has them: `csv log.csv`.
    pub name: String,
    /// Values of each series that can become its metric.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Aggregates>,
    /// Final values, which take precedence over a series; `None` for a non-finite value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub finals: BTreeMap<String, Option<Metric>>,
}

/// Values of a series that can become its metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Aggregates {
    /// Unit of the values.
    pub unit: Unit,
    /// True if the newest value was not finite. The other fields describe the finite values.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub diverged: bool,
    /// The first step of the newest values that are not finite. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// The newest value with its step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<(u64, f64)>,
    /// The first value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<(u64, f64)>,
    /// The smallest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<(u64, f64)>,
    /// The largest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<(u64, f64)>,
    /// The mean of all values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
}

impl Reported {
    /// The source with this name.
    pub fn source(&self, name: &str) -> Option<&ReportedSource> {
        self.sources.iter().find(|source| source.name == name)
    }
}

impl ReportedSource {
    /// A source that has reported nothing.
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// True if a series or a final value has this name.
    pub fn has(&self, name: &str) -> bool {
        self.series.contains_key(name) || self.finals.contains_key(name)
    }

    /// The series and final values whose newest value is not finite, except series whose metric has a value nevertheless. Each has the
    /// first non-finite step, if it is known.
    pub fn diverged(&self, collect: &BTreeMap<String, Collect>) -> impl Iterator<Item = (&String, Option<u64>)> {
        let has_value = |name: &String| collect.get(name).is_some_and(|how| how.ignores_divergence());
        let series = self.series.iter().filter(move |(name, series)| series.diverged && !has_value(name));
        let series = series.filter(|(name, _)| !self.finals.contains_key(*name));
        let finals = self.finals.iter().filter(|(_, last)| last.is_none());
        series.map(|(name, series)| (name, series.since)).chain(finals.map(|(name, _)| (name, None)))
    }

    /// Adds the metrics: final values, and for every other series the value that `collect` names, by default the newest. They replace
    /// metrics of sources that were added before.
    pub fn metrics(&self, collect: &BTreeMap<String, Collect>, to: &mut BTreeMap<String, Metric>) {
        for (name, series) in &self.series {
            let how = collect.get(name).copied().unwrap_or(Collect::Last);
            how.remove(name, to);
            let Some((step, value)) = series.collect(how) else { continue };
            to.insert(name.clone(), Metric { value, unit: series.unit });
            if let Some(step) = step {
                to.insert(format!("{name}.step"), Metric { value: step as f64, unit: Unit::Count });
            }
        }
        for (name, last) in &self.finals {
            collect.get(name).copied().unwrap_or(Collect::Last).remove(name, to);
            to.extend(last.map(|metric| (name.clone(), metric)));
        }
    }
}

impl Aggregates {
    /// The value that becomes the metric, and for the smallest and the largest its step.
    pub fn collect(&self, how: Collect) -> Option<(Option<u64>, f64)> {
        if self.diverged && !how.ignores_divergence() {
            return None;
        }
        let plain = |point: Option<(u64, f64)>| point.map(|(_, value)| (None, value));
        let with_step = |point: Option<(u64, f64)>| point.map(|(step, value)| (Some(step), value));
        match how {
            Collect::Last | Collect::LastFinite => plain(self.last),
            Collect::First => plain(self.first),
            Collect::Min | Collect::MinFinite => with_step(self.min),
            Collect::Max | Collect::MaxFinite => with_step(self.max),
            Collect::Mean | Collect::MeanFinite => self.mean.map(|value| (None, value)),
        }
    }
}

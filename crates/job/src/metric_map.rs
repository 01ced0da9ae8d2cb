//! Metrics by name, and the names that metrics had before.

use std::{
    collections::{BTreeMap, btree_map},
    ops::{Deref, DerefMut, Index},
};

use serde::{Deserialize, Serialize};

use crate::Metric;

/// Earlier names of metrics, each with the current name. Recipes and records may have either.
const RENAMED: &[(&str, &str)] = &[
    ("bandwidth.ceiling", "peak.bandwidth"),
    ("compute.ceiling", "peak.compute"),
    ("ratio.ceiling", "peak.ratio"),
    ("steps.left_out", "steps.skipped"),
    ("utilisation.compute", "utilization.compute"),
    ("utilisation.cpu", "utilization.cpu"),
    ("utilisation.memory", "utilization.memory"),
];

/// The name that a metric has now.
pub fn current_name(name: &str) -> &str {
    RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

/// Returns true if both are names of the same metric, which may have been renamed.
pub fn same_metric(one: &str, other: &str) -> bool {
    current_name(one) == current_name(other)
}

/// Metrics by name. Renamed metrics are also found under their earlier names.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metrics(BTreeMap<String, Metric>);

impl Metrics {
    /// The metric with this name.
    pub fn get(&self, name: &str) -> Option<&Metric> {
        self.0.get(name).or_else(|| self.0.get(current_name(name)))
    }

    /// Returns the same metrics, each in the unit that its name implies.
    #[must_use]
    pub fn in_named_units(self) -> Self {
        self.into_iter().map(|(name, metric)| (name.clone(), metric.named(&name))).collect()
    }
}

impl Index<&str> for Metrics {
    type Output = Metric;

    fn index(&self, name: &str) -> &Metric {
        self.get(name).unwrap_or_else(|| panic!("no metric `{name}`"))
    }
}

impl Deref for Metrics {
    type Target = BTreeMap<String, Metric>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Metrics {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl FromIterator<(String, Metric)> for Metrics {
    fn from_iter<I: IntoIterator<Item = (String, Metric)>>(metrics: I) -> Self {
        Self(metrics.into_iter().collect())
    }
}

impl IntoIterator for Metrics {
    type Item = (String, Metric);
    type IntoIter = btree_map::IntoIter<String, Metric>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Metrics {
    type Item = (&'a String, &'a Metric);
    type IntoIter = btree_map::Iter<'a, String, Metric>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Task, Unit};

    #[test]
    fn every_earlier_name_finds_a_metric_that_some_task_declares() {
        for (old, new) in RENAMED {
            let metrics: Metrics = [((*new).to_owned(), Metric { value: 1.0, unit: Unit::One })].into_iter().collect();
            assert_eq!((metrics[*old].value, metrics[*new].value), (1.0, 1.0));
            let declared = Task::all().iter().filter(|task| task.metrics().any(|metric| metric.name == *new));
            let found: Vec<_> = declared.map(|task| task.metric(old).map(|metric| metric.name)).collect();
            assert!(!found.is_empty() && found.iter().all(|name| *name == Some(*new)), "{old}: {found:?}");
            assert!(Task::all().iter().all(|task| task.metrics().all(|metric| metric.name != *old)), "{old}");
        }
    }

    #[test]
    fn a_program_may_use_an_earlier_name_for_its_own_metric() {
        let metrics: Metrics =
            [("bandwidth.ceiling".to_owned(), Metric { value: 1.0, unit: Unit::One })].into_iter().collect();
        assert!(metrics.get("bandwidth.ceiling").is_some() && metrics.get("peak.bandwidth").is_none());
    }
}

//! Metrics of a study: results, constants, and settings that a program only repeats.

use std::collections::{BTreeMap, BTreeSet};

use crate::stats::Better;

/// The kind of a metric, by its values in the jobs of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The jobs have different values, or the name implies a better direction.
    Result,
    /// All jobs have the same value.
    Constant,
    /// The value of an axis.
    Setting,
}

/// Metrics with their values, each with the index of its job.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// The numbers on the axes of each job.
    points: Vec<Vec<(String, f64)>>,
    values: BTreeMap<String, Vec<(usize, f64)>>,
}

impl Measured {
    /// No metrics of jobs with these numbers on their axes.
    pub(super) fn of(points: Vec<Vec<(String, f64)>>) -> Self {
        Self { points, values: BTreeMap::new() }
    }

    /// Other metrics of the same jobs.
    pub(super) fn others(&self) -> Self {
        Self::of(self.points.clone())
    }

    /// Adds the value of a job.
    pub(super) fn add(&mut self, name: &str, job: usize, value: f64) {
        self.values.entry(name.to_owned()).or_default().push((job, value));
    }

    /// The names of all metrics.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// True if a metric has these values, each of a job, apart from a share of them.
    pub(super) fn has(&self, values: &[(usize, f64)], rounding: f64) -> bool {
        let is_near = |of_metric: &[(usize, f64)], (job, value): &(usize, f64)| {
            of_metric.iter().any(|(other, known)| other == job && (known - value).abs() <= rounding * known.abs())
        };
        self.values.values().any(|of_metric| values.iter().all(|value| is_near(of_metric, value)))
    }

    /// The kind of a metric.
    pub(super) fn kind(&self, name: &str) -> Kind {
        let values = self.values.get(name).map_or(&[][..], Vec::as_slice);
        if Better::of_name(name).is_some() {
            return Kind::Result;
        }
        let distinct: BTreeSet<u64> = values.iter().map(|(_, value)| value.to_bits()).collect();
        let is_on = |axis: &str, (job, value): &(usize, f64)| {
            self.points.get(*job).is_some_and(|point| point.iter().any(|(name, on)| name == axis && on == value))
        };
        let axes = self.points.iter().flatten().map(|(axis, _)| axis.as_str()).collect::<BTreeSet<_>>();
        let is_setting = |axis: &&str| {
            (distinct.len() > 1 || *axis == name) && !values.is_empty() && values.iter().all(|value| is_on(axis, value))
        };
        if axes.iter().any(is_setting) {
            Kind::Setting
        } else if values.len() > 1 && distinct.len() == 1 {
            Kind::Constant
        } else {
            Kind::Result
        }
    }

    /// At most `max` metrics of a list for a table: those with a better direction first, those of training data behind others, constants last. Settings are left out,
    /// unless a setting of another name is all that there is; constants alone are left out if the outputs of the jobs differ.
    pub(super) fn chosen<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
        max: usize,
        do_outputs_differ: impl FnOnce() -> bool,
    ) -> Vec<String> {
        let count = |name: &str| self.values.get(name).map_or(0, Vec::len);
        let order = |name: &&str| {
            (Better::of_name(name).is_none(), self.kind(name), std::cmp::Reverse(count(name)), is_of_training(name))
        };
        let mut names: Vec<&str> = names.collect();
        names.sort_by_key(order);
        let best = names.iter().map(|name| self.kind(name)).min();
        if best == Some(Kind::Constant) && do_outputs_differ() {
            return Vec::new();
        }
        let is_axis = |name: &str| self.points.iter().flatten().any(|(axis, _)| axis == name);
        names.retain(|name| self.kind(name) != Kind::Setting || best == Some(Kind::Setting) && !is_axis(name));
        names.into_iter().map(str::to_owned).take(max).collect()
    }
}

/// True for the name of a number about training data.
fn is_of_training(name: &str) -> bool {
    name.split(['_', '.', '/']).any(|word| ["train", "training"].contains(&word.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(all: &[(&str, [f64; 2])]) -> Measured {
        let points = [0.01, 0.05].map(|lr| vec![("lr".to_owned(), lr)]).into();
        let mut measured = Measured::of(points);
        for (name, values) in all {
            values.iter().enumerate().for_each(|(job, value)| measured.add(name, job, *value));
        }
        measured
    }

    #[test]
    fn constants_come_last_and_settings_not_at_all() {
        let chosen = |all: &[(&str, [f64; 2])], max: usize, differ: bool| {
            let measured = measured(all);
            measured.chosen(measured.names(), max, || differ)
        };
        let all = [("a_rows", [3.0, 3.0]), ("learnrate", [0.01, 0.05]), ("test", [0.5, 0.6]), ("loss", [1.0, 1.0])];
        assert_eq!(chosen(&all, 6, true), ["loss", "test", "a_rows"]);
        assert_eq!(chosen(&all, 2, true), ["loss", "test"]);
        let splits =
            [("acc_train", [0.5, 0.6]), ("acc_val", [0.4, 0.6]), ("train_loss", [1.0, 2.0]), ("val_loss", [1.0, 3.0])];
        assert_eq!(chosen(&splits, 2, true), ["acc_val", "val_loss"]);
        assert_eq!(chosen(&all[..2], 6, true), [""; 0]);
        assert_eq!(chosen(&all[..2], 6, false), ["a_rows"]);
        assert_eq!(chosen(&all[1..2], 6, true), ["learnrate"]);
        assert_eq!(chosen(&[("lr", [0.01, 0.05])], 6, true), [""; 0]);
        assert_eq!(chosen(&[("loss", [0.01, 0.05])], 6, true), ["loss"]);
    }
}

//! Units in words: their number and kind, and remarks on the assumptions of their error.

use std::collections::BTreeSet;

use sweep_base::SEED;

use super::{Kinds, SamplingUnit};
use crate::{format::count, recipe::Replication, stats::Leveled};

impl SamplingUnit {
    /// The axes in words: `dataset, seed averaged within each`.
    pub(in crate::analysis) fn over(&self) -> String {
        let names = self.axes.join(if self.is_crossed() { " × " } else { ", " });
        let averaged: Vec<&str> = self.averaged.iter().map(|(axis, _)| axis.as_str()).collect();
        if averaged.is_empty() { names } else { format!("{names}, {} averaged within each", averaged.join(" and ")) }
    }

    /// Remarks on units other than seeds and settings, for all rows of a table.
    pub(in crate::analysis) fn remarks_of_rows(&self, kinds: &Kinds) -> Vec<String> {
        self.remarks(kinds).into_iter().chain(self.seeds_in_words(false)).collect()
    }

    /// Remarks on units other than seeds and settings.
    pub(super) fn remarks(&self, kinds: &Kinds) -> Vec<String> {
        let text = if self.is_crossed() {
            Some("the variances of the crossed axes add up")
        } else if self.is_folds() {
            Some("corrected for the training data that folds share (Nadeau and Bengio)")
        } else {
            None
        };
        let axes = self.averaged.iter().map(|(axis, _)| axis).chain(&self.axes);
        let implied = if self.kind == Replication::Condition { None } else { kinds.implied(axes) };
        text.map(str::to_owned).into_iter().chain(self.partitions(kinds)).chain(implied).collect()
    }

    /// The partitions of the data whose folds the units are.
    fn partitions(&self, kinds: &Kinds) -> Option<String> {
        if !self.is_folds() {
            return None;
        }
        let in_words = |axes: &[&String]| axes.iter().map(|axis| format!("`{axis}`")).collect::<Vec<_>>().join(" and ");
        let own: Vec<&String> = self.axes.iter().skip(1).collect();
        if !own.is_empty() {
            return Some(format!("every value of {} has folds of its own (repeated cross-validation)", in_words(&own)));
        }
        let averaged = self.averaged.iter().map(|(axis, _)| axis);
        let same: Vec<&String> = averaged.filter(|axis| kinds.of_axis(axis) >= Replication::Seed).collect();
        let first = same.first()?;
        let remedy = if kinds.identifies(first) {
            "import the number of the repetition as `repeat`".to_owned()
        } else {
            format!("declare `replicates: {{ {first}: repeat }}`")
        };
        let axes = in_words(&same);
        Some(format!(
            "folds of equal number are taken for the same data in every value of {axes}; if they are not, {remedy}"
        ))
    }

    /// A remark on seeds that several units share; `shown` if they are shown to affect several units.
    pub(super) fn seeds_in_words(&self, shown: bool) -> Option<String> {
        let in_words = |axes: &[String]| axes.iter().map(|axis| format!("`{axis}`")).collect::<Vec<_>>().join(" and ");
        let (units, seeds) = (in_words(&self.axes), in_words(&self.seeds));
        match () {
            () if self.seeds.is_empty() => None,
            () if self.reads_same => Some(format!(
                "values of {units} read the same jobs of each {seeds}, which is a random factor of its own (crossed)"
            )),
            () if shown => Some(format!(
                "equal {seeds} has a part in the results of several values of {units}, so it is a random factor of its own (crossed)"
            )),
            () => Some(format!(
                "where equal {seeds} has a part in the results of several values of {units}, it is a random factor of its own (crossed)"
            )),
        }
    }

    /// The units with their number: `4 datasets, 5 seeds each`, or `4 datasets × 5 seeds` if seeds are a crossed factor; `None` for seeds
    /// and for settings.
    pub(super) fn words(&self, units: usize, crossed: &[Leveled], has_factor: bool) -> Option<String> {
        let axes: Vec<String> = self.axes.iter().map(|axis| format!("`{axis}`")).collect();
        let text = if self.is_crossed() {
            let count = |factor: usize| {
                let levels: BTreeSet<usize> = crossed.iter().map(|(levels, _)| levels[factor]).collect();
                levels.len().to_string()
            };
            let counts: Vec<String> = (0..axes.len()).map(count).collect();
            format!("{} crossed values of {}", counts.join(" × "), axes.join(" and "))
        } else if self.axes.len() > 1 && self.is_folds() {
            let axes = axes[1..].join(" and ");
            let (folds, rest) = (count(self.folds, unit_word(self.kind, self.axes.first()?)), units % self.folds);
            let repetitions = count(units / self.folds + usize::from(rest > 0), "value");
            format!("{folds} × {repetitions} of {axes}")
        } else if self.is_shared() {
            count(units, unit_word(self.kind, self.axes.first()?))
        } else {
            return None;
        };
        let in_words = |is_factor: bool| -> Vec<String> {
            let own = self.averaged.iter().filter(|(axis, _)| (has_factor && self.has_seeds(axis)) == is_factor);
            own.map(|(axis, most)| averaged_words(axis, *most)).collect()
        };
        let text = std::iter::once(text).chain(in_words(true)).collect::<Vec<String>>().join(" × ");
        let each = in_words(false);
        Some(if each.is_empty() { text } else { format!("{text}, {} each", each.join(" × ")) })
    }
}

fn unit_word(kind: Replication, axis: &str) -> &str {
    match axis {
        "task" | "environment" | "benchmark" | "game" | "domain" | "subject" | "participant" | "patient" => axis,
        "env" => "environment",
        _ => kind.word(),
    }
}

fn averaged_words(axis: &str, number: usize) -> String {
    if [SEED, "fold"].contains(&axis) { count(number, axis) } else { format!("{} of `{axis}`", count(number, "value")) }
}

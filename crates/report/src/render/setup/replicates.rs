//! Topics of the setup about repetitions: seeds, other replicates, and the intervals that follow from them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Sources, Topic, listed};
use crate::{
    analysis::replicated_axes,
    format::{clean, count},
    plan::{JobId, Point},
    recipe::Replication,
    record::{Key, SeedPlan},
};

/// The points of a step with their jobs.
type Points = [(Point, JobId)];

impl Sources<'_> {
    pub(super) fn seeds(&self) -> Topic {
        let mut topic = Topic::new("seeds");
        for (index, (step, points)) in self.study.recipe.steps.iter().zip(&self.study.steps).enumerate() {
            let name = clean(&step.name.value);
            let of_step = replicated_axes(self.study, index);
            let of_kind = |wanted: Replication| -> Vec<&str> {
                of_step.iter().filter(|(_, kind)| *kind == wanted).map(|(axis, _)| axis.as_str()).collect()
            };
            let (seeds, repeats) = (of_kind(Replication::Seed), of_kind(Replication::Repeat));
            // Seeds that the points themselves list, such as seeds of imported runs, have no plan of seeds.
            let is_planned = points.iter().any(|(_, id)| self.plan.job(*id).seeds.is_some_and(|plan| plan.most > 1))
                || seeds.is_empty() && repeats.is_empty();
            let runs = |axes: &[&str]| self.values_of(points, axes, &repeats);
            match points.iter().find_map(|(_, id)| self.plan.job(*id).seeds.filter(|_| is_planned)) {
                Some(SeedPlan { least, most }) if most > least => topic.say(format!(
                    "Step \"{name}\" has {least} to {most} seeds, until its results are decided; {} were run.",
                    runs(&["seed"])
                )),
                Some(SeedPlan { least, .. }) => topic.say(format!("Step \"{name}\" has {}.", count(least, "seed"))),
                None if !seeds.is_empty() => {
                    let number = runs(&seeds);
                    let word = if number == "1" { "seed" } else { "seeds" };
                    let axes = if seeds == ["seed"] { String::new() } else { format!(" (axes {})", named(&seeds)) };
                    topic.say(format!("Step \"{name}\" has {number} {word} for each configuration{axes}."));
                }
                None => {
                    let number = runs(&repeats);
                    if number != "0" && number != "1" {
                        topic.say(format!(
                            "Step \"{name}\" has {number} runs of each configuration, whose seeds are not known."
                        ));
                    }
                }
            }
            for kind in [Replication::Dataset, Replication::Fold] {
                let axes = of_kind(kind);
                let levels: Vec<usize> = axes.iter().map(|axis| levels(points, axis)).collect();
                let several: Vec<String> = axes
                    .iter()
                    .zip(levels)
                    .filter(|(_, levels)| *levels > 1)
                    .map(|(axis, levels)| format!("{} (axis {})", count(levels, kind.word()), named(&[*axis])))
                    .collect();
                if !several.is_empty() {
                    topic.say(format!("Its results are of {}.", several.join(" and ")));
                }
            }
        }
        if topic.sentences.is_empty() {
            topic.lacks("no step has seeds");
        }
        topic
    }

    /// Number of values of some axes with results in each configuration, whose axes are all others but `within`: `3`, or `2 to 4`.
    fn values_of(&self, points: &Points, axes: &[&str], within: &[&str]) -> String {
        let sizes = self.sizes_of(points, axes, within);
        match (sizes.first(), sizes.last()) {
            (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
            (_, most) => most.copied().unwrap_or(0).to_string(),
        }
    }

    fn sizes_of(&self, points: &Points, axes: &[&str], within: &[&str]) -> BTreeSet<usize> {
        let done_keys: HashSet<Key> = self.records.iter().chain(&self.imported).map(|record| record.key).collect();
        let place = |point: &Point, is_part: &dyn Fn(&str) -> bool| -> Vec<String> {
            let own = point.values.iter().filter(|(axis, _)| is_part(axis));
            own.map(|(axis, value)| format!("{axis}={:?}", value.value)).collect()
        };
        let mut groups: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
        for (point, _) in points.iter().filter(|(_, id)| done_keys.contains(&self.plan.job(*id).key)) {
            let configuration = place(point, &|axis| !within.contains(&axis) && !axes.contains(&axis));
            groups.entry(configuration).or_default().insert(place(point, &|axis| axes.contains(&axis)));
        }
        groups.into_values().map(|values| values.len()).collect()
    }

    pub(super) fn error_bars(&self) -> Topic {
        let mut topic = Topic::new("error bars");
        let is_repeated = |(step, points): (usize, &Vec<(Point, JobId)>)| {
            let axes = replicated_axes(self.study, step);
            let axes: Vec<&str> = axes.iter().map(|(axis, _)| axis.as_str()).collect();
            let planned = points.iter().filter_map(|(_, id)| self.plan.job(*id).seeds).any(|plan| plan.most > 1);
            planned || self.sizes_of(points, &axes, &[]).last().is_some_and(|most| *most > 1)
        };
        let steps: Vec<(usize, &Vec<(Point, JobId)>)> = self.study.steps.iter().enumerate().collect();
        if !steps.into_iter().any(is_repeated) {
            topic.lacks("no value has an interval: nothing is repeated");
            return topic;
        }
        topic.say(
            "Values with ± are means over the independent units that each table and verdict names, such as seeds or data sets, with 95 % \
             confidence intervals of Student's t; docs/statistics.md describes all intervals, tests and marks.",
        );
        topic
    }
}

/// The number of values of an axis.
fn levels(points: &Points, axis: &str) -> usize {
    let values: BTreeSet<String> =
        points.iter().filter_map(|(point, _)| Some(format!("{:?}", point.get(axis)?))).collect();
    values.len()
}

fn named(axes: &[&str]) -> String {
    let names: Vec<String> = axes.iter().map(|axis| format!("\"{}\"", clean(axis))).collect();
    listed(names.iter().map(String::as_str))
}

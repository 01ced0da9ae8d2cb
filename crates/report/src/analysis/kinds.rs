//! The kinds of replication of a step's axes, declared by the recipe or implied by their names.

use std::collections::{BTreeMap, BTreeSet};

use sweep_base::SEED;

use super::units::place;
use crate::{
    format::clean,
    plan::{Point, Study},
    recipe::Replication,
};

/// The kinds of the axes that are not settings.
#[derive(Debug, Clone, Default)]
pub(super) struct Kinds {
    declared: BTreeMap<String, Replication>,
    implied: BTreeMap<String, Replication>,
    /// The axes of repetitions with a different value at every point, such as the names of imported runs.
    identifiers: BTreeSet<String>,
    /// Axes of needed steps, each with the axes that the needed step lacks: jobs that differ only in these axes read the same jobs.
    read: Vec<(String, BTreeSet<String>)>,
}

impl Kinds {
    /// The kinds of the axes of these steps.
    pub(super) fn of(study: &Study, steps: &[usize]) -> Self {
        let mut kinds = Self::default();
        for step in steps {
            let of = &study.recipe.steps[*step];
            kinds.declared.extend(of.replicates.iter().cloned());
            kinds.read.extend(axes_of_needed(study, *step));
            for axis in of.axes() {
                let values = study.steps[*step].iter().filter_map(|(point, _)| point.get(axis));
                let kind = Replication::implied(axis, values);
                if kind != Replication::Condition {
                    kinds.implied.insert(axis.to_owned(), kind);
                }
            }
        }
        kinds.implied.retain(|axis, _| !kinds.declared.contains_key(axis));
        let all: BTreeSet<&str> = steps.iter().flat_map(|step| study.recipe.steps[*step].axes()).collect();
        let identifies = |axis: &str| {
            steps.iter().all(|step| {
                let values: Vec<_> = study.steps[*step].iter().filter_map(|(point, _)| point.get(axis)).collect();
                let distinct: BTreeSet<String> = values.iter().map(|value| format!("{value:?}")).collect();
                distinct.len() == values.len()
            })
        };
        let repeats = all.into_iter().filter(|axis| kinds.of_axis(axis) == Replication::Repeat);
        kinds.identifiers = repeats.filter(|axis| identifies(axis)).map(str::to_owned).collect();
        kinds
    }

    /// True if points with equal values of an axis read the same jobs of another step, for all values of the other axes `others`.
    pub(super) fn reads_same(&self, axis: &str, others: &[&str]) -> bool {
        self.read.iter().any(|(own, lacking)| own == axis && others.iter().any(|other| lacking.contains(*other)))
    }

    /// True if every point has a different value of an axis of repetitions.
    pub(super) fn identifies(&self, axis: &str) -> bool {
        self.identifiers.contains(axis)
    }

    /// True if every value of an axis beside folds is another partition of the data: repetitions of the cross-validation, and seeds whose
    /// names imply it.
    pub(super) fn is_partition(&self, axis: &str) -> bool {
        match self.of_axis(axis) {
            Replication::Repeat => !self.identifies(axis),
            Replication::Seed => Replication::draws_partition(axis),
            _ => false,
        }
    }

    /// The axes that only name these points, because the other axes distinguish them.
    pub(super) fn names_only<'p>(&self, points: impl Iterator<Item = &'p Point>) -> Vec<String> {
        let mut places = BTreeSet::new();
        let mut points = points.map(|point| places.insert(place(point, |axis| self.identifies(axis))));
        if points.all(|is_new| is_new) { self.identifiers.iter().cloned().collect() } else { Vec::new() }
    }

    /// The kind of an axis.
    pub(super) fn of_axis(&self, axis: &str) -> Replication {
        let kind = self.declared.get(axis).or_else(|| self.implied.get(axis));
        kind.copied().unwrap_or(if axis == SEED { Replication::Seed } else { Replication::Condition })
    }

    /// A remark on the axes whose kind follows from their names; nothing about `seed`.
    pub(super) fn implied<'n>(&self, axes: impl Iterator<Item = &'n String>) -> Option<String> {
        let kind_of_axis: BTreeMap<&String, &str> =
            axes.filter(|axis| *axis != SEED).filter_map(|axis| Some((axis, self.implied.get(axis)?.word()))).collect();
        let texts: Vec<String> = kind_of_axis.iter().map(|(axis, kind)| format!("{}: {kind}", clean(axis))).collect();
        (!texts.is_empty()).then(|| {
            format!(
                "the names of axes imply `replicates: {{ {} }}`, unless the step declares it otherwise",
                texts.join(", ")
            )
        })
    }
}

/// The axes of a step that are not settings, each with its kind of replication.
pub(crate) fn replicated_axes(study: &Study, step: usize) -> Vec<(String, Replication)> {
    let kinds = Kinds::of(study, &[step]);
    let axes = study.recipe.steps[step].axes().into_iter().map(|axis| (axis.to_owned(), kinds.of_axis(axis)));
    axes.filter(|(_, kind)| *kind != Replication::Condition).collect()
}

/// The axes that a step has in common with each of the steps that it needs, directly or not, with its axes that the needed step lacks.
fn axes_of_needed(study: &Study, step: usize) -> Vec<(String, BTreeSet<String>)> {
    let steps = &study.recipe.steps;
    let own: BTreeSet<&str> = steps[step].axes().into_iter().collect();
    let (mut open, mut seen, mut found) = (vec![step], BTreeSet::new(), Vec::new());
    while let Some(of) = open.pop() {
        for need in steps[of].needs.iter().filter(|need| seen.insert(need.step)) {
            let needed: BTreeSet<&str> = steps[need.step].axes().into_iter().collect();
            let lacking: BTreeSet<String> = own.difference(&needed).map(|axis| (*axis).to_owned()).collect();
            let is_chosen = |axis: &str| need.only.0.iter().any(|(name, _)| name.value == axis);
            let common = own.intersection(&needed).filter(|axis| !is_chosen(axis));
            found.extend(common.map(|axis| ((*axis).to_owned(), lacking.clone())));
            open.push(need.step);
        }
    }
    found
}

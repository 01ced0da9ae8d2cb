//! The kinds of replication of a step's axes, declared by the recipe or implied by their names.

use std::collections::BTreeMap;

use sweep_base::SEED;

use crate::{format::clean, plan::Study, recipe::Replication};

/// The kinds of the axes that are no settings.
#[derive(Debug, Clone, Default)]
pub(super) struct Kinds {
    declared: BTreeMap<String, Replication>,
    implied: BTreeMap<String, Replication>,
}

impl Kinds {
    /// The kinds of the axes of these steps.
    pub(super) fn of(study: &Study, steps: &[usize]) -> Self {
        let mut kinds = Self::default();
        for step in steps {
            let of = &study.recipe.steps[*step];
            kinds.declared.extend(of.replicates.iter().cloned());
            for axis in of.axes() {
                let values = study.steps[*step].iter().filter_map(|(point, _)| point.get(axis));
                let kind = Replication::implied(axis, values);
                if kind != Replication::Condition {
                    kinds.implied.insert(axis.to_owned(), kind);
                }
            }
        }
        kinds.implied.retain(|axis, _| !kinds.declared.contains_key(axis));
        kinds
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

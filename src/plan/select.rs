//! `--only`: a part of a plan, with everything that it needs.

use std::collections::HashSet;

use super::{JobId, Plan, Point};
use crate::{recipe::suggest, text::clean};

/// A selection that selects nothing.
#[derive(Debug, thiserror::Error)]
#[error("`--only {selection}` selects nothing: {reason}")]
pub struct NothingSelected {
    selection: String,
    reason: String,
}

impl Plan {
    /// The jobs that `selections` name, and those that they need; every job if there are no selections.
    ///
    /// A selection is a step, or a step and values on some of its axes: `train`, `train/prune=bitter7,seed=0`.
    pub fn select(&self, selections: &[String]) -> Result<HashSet<JobId>, NothingSelected> {
        if selections.is_empty() {
            return Ok(self.graph.node_indices().collect());
        }
        let mut open = Vec::new();
        for selection in selections {
            open.extend(self.selected(selection)?);
        }
        let mut selected = HashSet::new();
        while let Some(job) = open.pop() {
            if selected.insert(job) {
                open.extend(self.needs(job));
            }
        }
        Ok(selected)
    }

    fn selected(&self, selection: &str) -> Result<Vec<JobId>, NothingSelected> {
        let nothing = |reason: String| NothingSelected { selection: clean(selection).into_owned(), reason };
        let (name, values) = selection.split_once('/').unwrap_or((selection, ""));
        let Some((index, step)) = self.recipe.step(name) else {
            let steps = self.recipe.steps.iter().map(|step| step.name.value.as_str());
            return Err(nothing(suggest(name, "steps", steps).unwrap_or_else(|| "there are no steps".into())));
        };
        let mut wanted = Vec::new();
        for part in values.split(',').filter(|part| !part.is_empty()) {
            let Some((axis, value)) = part.split_once('=') else {
                return Err(nothing(format!("write `{name}/axis=value`, not `{}`", clean(part))));
            };
            if !step.axes().contains(&axis) {
                let axes = suggest(axis, "axes", step.axes());
                return Err(nothing(axes.unwrap_or_else(|| format!("step `{name}` has no axes"))));
            }
            wanted.push((axis, value));
        }
        let matches = |point: &Point| {
            wanted.iter().all(|(axis, value)| point.get(axis).is_some_and(|own| own.to_string() == *value))
        };
        let jobs: Vec<JobId> =
            self.steps[index].iter().filter(|(point, _)| matches(point)).map(|(_, id)| *id).collect();
        if jobs.is_empty() {
            return Err(nothing(format!(
                "no point of `{name}` has these values; `sweep plan --list` lists the points"
            )));
        }
        Ok(jobs)
    }
}

//! A plan in JSON, which `sweep plan --format json` prints and `sweep run --plan` compares with the recipes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{ChangeArgs, plan::StepSaving};
use crate::{
    analysis::design::Design,
    error::Error,
    format::{clean, count},
    plan::{Job, JobId, Plan, Turn},
    recipe::Warning,
    record::Key,
};

/// Version of the form. 1: first; 2: lists of jobs that many jobs need.
const FORMAT: u32 = 2;

/// The version of a form without such lists, which earlier programs read, too.
const WITHOUT_LISTS: u32 = 1;

/// A plan.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedPlan {
    format: u32,
    /// The names of the recipes.
    pub(super) recipes: Vec<String>,
    pub(super) request: SavedRequest,
    /// Valid but possibly unintended declarations.
    #[serde(default)]
    warnings: Vec<Warning>,
    /// Every job, each after the jobs that it needs.
    pub(super) jobs: Vec<SavedJob>,
    /// The keys of jobs that many jobs need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lists: Vec<Vec<Key>>,
    /// The seeds for differences to detect, for readers; a run does not use it.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub(super) design: Option<Design>,
    /// Savings by shared states, for readers; a run does not use them.
    #[serde(default, skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub(super) savings: Vec<StepSaving>,
}

/// Inputs of a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SavedRequest {
    /// Recipes and sweep files, as they were given.
    pub(super) paths: Vec<PathBuf>,
    /// Changes to the files' values.
    #[serde(flatten)]
    pub(super) changes: ChangeArgs,
    /// The selected part.
    pub(super) only: Vec<String>,
}

/// A job of a plan.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedJob {
    pub(super) label: String,
    pub(super) step: String,
    pub(super) point: String,
    pub(super) task: String,
    pub(super) key: Key,
    pub(super) state: String,
    /// The job's place in the order of its step, if that step measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) turn: Option<Turn>,
    /// The jobs that it needs, in addition to the jobs in `lists`.
    pub(super) needs: Vec<Key>,
    /// The places of the plan's lists whose jobs it needs, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lists: Vec<usize>,
}

/// Maximum number of differences that are shown.
const MAX_SHOWN: usize = 5;

impl SavedPlan {
    pub(super) fn new(plan: &Plan, request: SavedRequest, jobs: Vec<SavedJob>, lists: Vec<Vec<Key>>) -> Self {
        let recipes = plan.studies.iter().map(|study| study.recipe.name.clone()).collect();
        let format = if lists.is_empty() { WITHOUT_LISTS } else { FORMAT };
        Self {
            format,
            recipes,
            request,
            warnings: plan.warnings.clone(),
            jobs,
            lists,
            design: None,
            savings: Vec::new(),
        }
    }

    /// Reads a plan that was printed.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let not_a_plan = |reason: String| Error::NoPlan { path: path.to_owned(), reason };
        let text = fs_err::read(path).map_err(|error| not_a_plan(error.to_string()))?;
        let plan: Self = serde_json::from_slice(&text).map_err(|error| not_a_plan(error.to_string()))?;
        if plan.format > FORMAT {
            return Err(not_a_plan(format!(
                "it has format {}, but this program supports formats up to {FORMAT}",
                plan.format
            )));
        }
        Ok(plan)
    }

    /// Fails if the recipes describe other jobs than when the plan was saved.
    pub(super) fn holds(
        &self,
        path: &Path,
        plan: &Plan,
        selected_jobs: &std::collections::HashSet<JobId>,
    ) -> Result<(), Error> {
        let old_keys: BTreeMap<&str, Key> = self.jobs.iter().map(|job| (job.label.as_str(), job.key)).collect();
        let jobs = plan.jobs().filter(|(id, _)| selected_jobs.contains(id));
        let new_keys: BTreeMap<String, Key> = jobs.map(|(_, job)| (job.label.to_string(), job.key)).collect();
        let grows = |job: &&Job| {
            let recipe_step = plan.steps().find(|(step, _)| step.name.value == job.label.step);
            recipe_step.is_some_and(|(step, _)| step.matrix.suggested().is_some())
        };
        let new_labels: BTreeSet<String> =
            plan.jobs().map(|(_, job)| job).filter(grows).map(|job| job.label.to_string()).collect();
        let mut changes = Vec::new();
        for (label, key) in &new_keys {
            match old_keys.get(label.as_str()) {
                Some(old_key) if old_key == key => {}
                Some(_) => changes.push(format!("{} is another job", clean(label))),
                // Jobs that decisions add to a search do not count as a change of the recipe.
                None if new_labels.contains(label) => {}
                None => changes.push(format!("{} is new", clean(label))),
            }
        }
        let missing_labels = old_keys.keys().filter(|label| !new_keys.contains_key(**label));
        changes.extend(missing_labels.map(|label| format!("{} is gone", clean(label))));
        if changes.is_empty() {
            return Ok(());
        }
        let remainder = changes.len().saturating_sub(MAX_SHOWN);
        let total = count(changes.len(), "difference");
        changes.truncate(MAX_SHOWN);
        if remainder > 0 {
            changes.push(format!("and {remainder} more"));
        }
        Err(Error::StalePlan { path: path.to_owned(), total, changes: changes.join("; ") })
    }
}

//! Jobs of a plan and their names.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};
use sweep_job::{Backend, Name, TaskInfo, TaskSpec as _, Values, tasks::Imported};

use super::{Code, Turn, lint};
use crate::{
    recipe::{Policy, Resources},
    record::{Identity, Key, SeedPlan},
};

/// A step at a point, or several steps and points with the same job.
#[derive(Debug, Clone)]
pub struct Job {
    /// The job's name in the store.
    pub key: Key,
    /// Identity, from which the key is computed.
    pub identity: Identity,
    /// The task.
    pub task: &'static TaskInfo,
    /// Every parameter, inputs as paths that can be opened from here.
    pub values: Values,
    /// Resources of the machine that the job uses.
    pub resources: Resources,
    /// Policy for failures.
    pub policy: Policy,
    /// The job's place in the order of its step, if that step measures.
    pub turn: Option<Turn>,
    /// The step and the point that name the job: `train/prune=bitter7,seed=0`.
    pub label: Label,
    /// Seeds that its step plans; `None` for a step without seeds.
    pub seeds: Option<SeedPlan>,
    /// Files of the project that earlier runs were observed to read; `None` if nothing is observed.
    pub code: Option<Arc<Code>>,
    /// Names of metrics and curves that the recipe uses, if the task reports metrics that it does not declare.
    pub used: Arc<BTreeSet<String>>,
}

impl Job {
    /// True if the job runs a program of the user.
    pub fn is_program(&self) -> bool {
        self.identity.task == lint::COMMAND
    }

    /// True if the job represents a run of another program, which cannot run here.
    pub fn is_imported(&self) -> bool {
        self.identity.task == Imported::NAME
    }

    /// True if its times count: it runs alone, or in rounds with others.
    pub fn measures(&self) -> bool {
        self.resources.exclusive || self.turn.is_some()
    }

    /// Adds the metrics that the recipe uses, if the task reports metrics that it does not declare.
    pub(super) fn use_metrics(&mut self, names: &Arc<BTreeSet<String>>) {
        if self.used.is_empty() && self.task.open_metrics {
            self.used = Arc::clone(names);
        } else if self.task.open_metrics && !self.used.is_superset(names) {
            self.used = Arc::new(self.used.union(names).cloned().collect());
        }
    }

    /// True if other jobs may use the rest of the job's GPU. A job that measures times has its GPUs for itself.
    pub fn shares_gpu(&self) -> bool {
        self.resources.shares_gpu() && !self.measures() && self.identity.backend != Some(Backend::Cpu)
    }
}

/// Name of a job for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label {
    /// The recipe's name, where there are several.
    pub recipe: Option<Name>,
    /// The step's name.
    pub step: Name,
    /// The point, as `axis=value,axis=value`; empty for a step without a matrix.
    pub point: Name,
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let separator = if self.point.is_empty() { "" } else { "/" };
        if let Some(recipe) = &self.recipe {
            write!(f, "{recipe}:")?;
        }
        write!(f, "{}{separator}{}", self.step, self.point)
    }
}

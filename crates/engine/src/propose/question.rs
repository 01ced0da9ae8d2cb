//! A proposal as it is asked, and the question that it means.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use sweep_job::BackendChoice;

use crate::record::Key;

/// A change to a recipe, and the metric that it should improve.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The recipe with the baseline.
    pub recipe: PathBuf,
    /// The change: a recipe that extends the other one.
    pub delta: PathBuf,
    /// The step that measures the metric; `None` for the only step with seeds.
    pub step: Option<String>,
    /// Values on the step's axes that select its configurations, as `axis=value`.
    pub at: Vec<String>,
    /// The metric.
    pub metric: String,
    /// Its better direction.
    pub better: Direction,
    /// The least improvement that matters, above zero, in the metric's unit.
    pub least: f64,
    /// Most sealed seeds.
    pub most: usize,
    /// Backend of the jobs that need a device.
    pub backend: BackendChoice,
    /// Files and folders that only the evaluation may read.
    pub sealed: Vec<PathBuf>,
    /// True if nothing is told of the stages and jobs while they run.
    pub is_quiet: bool,
}

/// The better direction of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Smaller values are better.
    Min,
    /// Larger values are better.
    Max,
}

impl Direction {
    /// 1 if larger values are better, else −1.
    pub(super) fn sign(self) -> f64 {
        match self {
            Self::Min => -1.0,
            Self::Max => 1.0,
        }
    }
}

/// A question about a change. Two questions are the same if the jobs are, apart from seeds, and the metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// File of the recipe.
    pub recipe: PathBuf,
    /// File of the change.
    pub delta: PathBuf,
    /// The step that measures.
    pub step: String,
    /// The selected configurations, as `axis=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<String>,
    /// The metric.
    pub metric: String,
    /// Its better direction.
    pub better: Direction,
    /// The least improvement that matters.
    pub least: f64,
    /// Digest of the baseline's jobs, independent of their seeds.
    pub baseline: Key,
    /// Digest of the candidate's jobs.
    pub candidate: Key,
}

/// The part of a question from which its digest is computed.
#[derive(Serialize)]
struct Meaning<'a> {
    baseline: Key,
    candidate: Key,
    metric: &'a str,
    better: Direction,
}

impl Question {
    /// The digest of the question, without the least effect: to ask for less is no other question.
    pub fn digest(&self) -> serde_json::Result<Key> {
        let Self { baseline, candidate, metric, better, .. } = self;
        Key::of_json(&Meaning { baseline: *baseline, candidate: *candidate, metric, better: *better })
    }
}

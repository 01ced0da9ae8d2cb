//! `replicates`: the kind of replication of a step's axes, which decides the independent units of its results.
//! `replicates` is not part of a key.

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::Lower;
use crate::recipe::{
    Step,
    keys::{Shape as _, Word},
    node::Node,
    schema::reference,
};

/// Kind of replication of an axis, the kind of the most general units first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Replication {
    /// Data sets, tasks or subjects: a sample of the population of a result.
    Dataset,
    /// Folds of a cross-validation, which share training data.
    Fold,
    /// Settings that other reports compare, or that a result is averaged over.
    Condition,
    /// Random numbers of a job.
    Seed,
    /// Repetitions of the same job.
    Repeat,
}

/// The words in recipes.
const WORDS: &[(&str, Replication)] = &[
    ("dataset", Replication::Dataset),
    ("fold", Replication::Fold),
    ("seed", Replication::Seed),
    ("repeat", Replication::Repeat),
    ("condition", Replication::Condition),
];

/// Names of axes of data sets, whose values are texts.
const DATASETS: &[&str] =
    &["dataset", "data", "task", "env", "environment", "benchmark", "corpus", "game", "domain", "subject"];
/// Names of axes of data sets that may be numbered: such numbers are not quantities.
const NUMBERED: &[&str] = &["dataset", "task", "subject", "participant", "patient"];
const FOLDS: &[&str] = &["fold", "cv_fold", "split"];
/// Parts of the names of seeds that draw the folds of a cross-validation.
const PARTITIONS: &[&str] = &["split", "fold", "cv", "partition", "shuffle"];
const REPEATS: &[&str] = &["repeat", "repetition", "replicate", "rep", "trial"];

impl Replication {
    /// The word in recipes.
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(_, kind)| *kind == self).map_or("condition", |(word, _)| word)
    }

    /// True if the name of a seed implies that it draws the folds of a cross-validation: `split_seed`.
    pub fn draws_partition(axis: &str) -> bool {
        let name = axis.to_ascii_lowercase();
        name.split(['_', '-', '.']).any(|part| PARTITIONS.contains(&part))
    }

    /// The kind that the name and the values of an axis suggest.
    pub fn implied<'v>(axis: &str, mut values: impl Iterator<Item = &'v Value> + Clone) -> Self {
        let name = axis.to_ascii_lowercase();
        let is = |names: &[&str]| names.contains(&name.as_str());
        let numbered = || values.clone().all(|value| matches!(value, Value::Int(_)));
        if name.split(['_', '-', '.']).any(|part| part == "seed") || is(&["random_state"]) {
            Self::Seed
        } else if is(REPEATS) {
            Self::Repeat
        } else if is(FOLDS) && numbered() {
            Self::Fold
        } else if is(NUMBERED) && numbered() || is(DATASETS) && values.all(|value| matches!(value, Value::Text(_))) {
            Self::Dataset
        } else {
            Self::Condition
        }
    }
}

/// The schema of `replicates`.
pub(super) fn schema() -> Json {
    json!({ "type": "object", "propertyNames": reference("name"), "additionalProperties": Word(WORDS).schema() })
}

impl Lower<'_> {
    /// Reads `replicates: { corpus: dataset, init: seed }`.
    pub(super) fn replicates(&mut self, node: &Node, step: &Step) -> Vec<(String, Replication)> {
        let axes = step.axes();
        let mut kinds = Vec::new();
        for entry in self.entries(node, "`replicates`") {
            self.check_axis(&entry.key, step, &axes);
            let kind = Word(WORDS).read(self, &entry.value, "kind of replication");
            kinds.extend(kind.map(|kind| (entry.key.value.clone(), kind)));
        }
        kinds
    }
}

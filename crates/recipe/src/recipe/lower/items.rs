//! `items`: scores of single items that a step's jobs leave in a file. They are read from the kept files for claims, and are not part
//! of a key.

use std::path::{Component, Path};

use serde_json::{Value as Json, json};
use sweep_job::{ParamType as _, tasks::Texts};

use super::Lower;
use crate::recipe::{
    Names, Step,
    keys::{Mapping as _, Text, mapping},
    node::Node,
    schema::reference,
    source::Spanned,
};

/// Endings of files with items.
const ENDINGS: &[&str] = &["csv", "tsv", "jsonl", "ndjson", "parquet"];

/// Scores of items.
#[derive(Debug, Clone)]
pub struct Items {
    /// The metric that is the mean of the scores.
    pub metric: Spanned<String>,
    /// The file among the job's outputs.
    pub file: String,
    /// The column of the item's name.
    pub id: String,
    /// The column of the score.
    pub score: String,
    /// The column of the cluster.
    pub cluster: Option<String>,
}

mapping! {
    /// The keys of a metric in a step's `items`.
    struct ItemKeys = "items" {
        /// The file with the scores, one of the job's `outputs`: CSV with a header (`.csv`, `.tsv`), JSON lines (`.jsonl`), or Parquet
        /// with Snappy, the default of pandas, or without compression (`.parquet`).
        file [required]: Text,
        /// The column with the name of the item, by which items of two jobs are paired. Default: `id`.
        id: Text,
        /// The column with the score: a number, `true` or `false`. Default: the name of the metric.
        score: Text,
        /// The column whose values group items that depend on each other, such as the questions about one document.
        ///
        /// Without `cluster`, items are independent units.
        cluster: Text,
    }
}

/// The schema of `items`.
pub(super) fn schema() -> Json {
    json!({ "type": "object", "minProperties": 1, "propertyNames": reference("name"), "additionalProperties": ItemKeys::schema() })
}

impl Lower<'_> {
    /// Reads `items: { correct: { file: items.csv, cluster: document } }`.
    pub(super) fn items(&mut self, node: &Node, step: &Step, params: &Names) -> Vec<Items> {
        let mut items = Vec::new();
        if step.task.name != "command" {
            let message = format!("the jobs of `{}` write no file with items", step.task.name);
            self.problem(
                node.span,
                message,
                "no outputs",
                "`items` are files of programs: `uses: command` with `outputs`",
            );
            return items;
        }
        for entry in self.entries(node, "`items`") {
            let Some(keys) = ItemKeys::read(self, &entry.value, "`items`") else { continue };
            if self.is_missing(&entry.value, "file", &keys.file) {
                let help = "add `file:` with one of the step's `outputs`, for example `file: items.csv`";
                self.problem(entry.key.span, "`items` without a file", "which file?", help);
            }
            let Some(file) = keys.file.spanned() else { continue };
            if self.check_file(&file, step, params) {
                let (file, metric) = (file.value, entry.key.clone());
                let id = keys.id.value.unwrap_or_else(|| "id".to_owned());
                let score = keys.score.value.unwrap_or_else(|| metric.value.clone());
                items.push(Items { metric, file, id, score, cluster: keys.cluster.value });
            }
        }
        items
    }

    /// True if a file can be one of the step's outputs with items.
    fn check_file(&mut self, file: &Spanned<String>, step: &Step, params: &Names) -> bool {
        let path = Path::new(&file.value);
        let ending = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        if !ENDINGS.contains(&ending) {
            let message = format!("`{}` does not have the extension of a file with items", file.value);
            let help = format!(
                "write a file that ends with {}",
                ENDINGS.iter().map(|end| format!("`.{end}`")).collect::<Vec<_>>().join(", ")
            );
            self.problem(file.span, message, "which format?", help);
            return false;
        }
        let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let outputs = step.with.iter().find(|(key, _)| key.value == "outputs").map(|(_, template)| template);
        // Names that depend on the point are known later.
        let outputs = match outputs {
            None => Some(Vec::new()),
            Some(template) => template
                .resolve(params, &Names::new())
                .and_then(|value| Texts::from_value(&value.value))
                .map(|texts| texts.0),
        };
        let covers = |output: &String| {
            let folder = path.starts_with(output.trim_end_matches('/'));
            folder || output.contains(['*', '?', '['])
        };
        if inside && outputs.is_none_or(|outputs| outputs.iter().any(covers)) {
            return true;
        }
        let message = format!("`{}` is not an output of step `{}`", file.value, step.name.value);
        let help = format!("add `outputs: [{}]` to `with`, so that the file is kept", file.value);
        self.problem(file.span, message, "not kept", help);
        false
    }
}

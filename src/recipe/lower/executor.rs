//! The `executor` of a sweep file.

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::{Lower, slurm::SlurmKeys};
use crate::recipe::{
    BatchSystem, Executor,
    keys::{Mapping as _, Within, mapping},
    node::{Node, NodeKind},
    schema::whole,
    source::Spanned,
};

mapping! {
    /// The keys of `executor`: one for each batch system.
    struct ExecutorKeys = "executor" {
        /// Slurm options for every job.
        slurm [required]: Within<SlurmKeys<'static>>,
    }
}

pub(super) fn schema() -> Json {
    let mut schema = ExecutorKeys::schema();
    schema["type"] = json!(["string", "object"]);
    schema["pattern"] = json!(whole(&Executor::words().join("|")));
    schema["patternErrorMessage"] = json!(format!("Expected {}.", expected()));
    schema
}

/// The words for executors, as a phrase.
fn expected() -> String {
    Executor::words().iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
}

impl Lower<'_> {
    /// Reads `executor: slurm` or `executor: { slurm: { … } }`; also returns the steps that it names.
    pub(super) fn executor(&mut self, node: &Node) -> (Option<Executor>, Vec<Spanned<String>>) {
        match &node.kind {
            NodeKind::Scalar(word) => {
                let named = if let Value::Text(word) = word { Executor::named(word) } else { None };
                if named.is_none() {
                    let message = format!("unknown executor {}", node.describe());
                    let help = format!("write {}", expected());
                    self.problem(node.span, message, "not an executor", help);
                }
                (named, Vec::new())
            }
            kind => {
                let keys = ExecutorKeys::read_or_empty(self, node, "`executor`");
                let Some(slurm) = keys.slurm.node() else {
                    if !matches!(kind, NodeKind::Map(entries) if !entries.is_empty()) {
                        self.problem(node.span, "`executor` says nothing", "no executor", "write `executor: slurm`");
                    }
                    return (None, Vec::new());
                };
                let (slurm, steps) = self.slurm(slurm);
                (Some(Executor::Batch(BatchSystem::Slurm(slurm))), steps)
            }
        }
    }
}

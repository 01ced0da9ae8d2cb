//! The `executor` of a sweep file.

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::{Lower, slurm::SlurmKeys};
use crate::recipe::{
    Executor, Slurm,
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
    schema["pattern"] = json!(whole("local|slurm"));
    schema["patternErrorMessage"] = json!("Expected `local` or `slurm`.");
    schema
}

impl Lower<'_> {
    /// Reads `executor: slurm` or `executor: { slurm: { … } }`; also returns the steps that it names.
    pub(super) fn executor(&mut self, node: &Node) -> (Option<Executor>, Vec<Spanned<String>>) {
        let executor = match &node.kind {
            NodeKind::Scalar(Value::Text(name)) if name == "local" => Executor::Local,
            NodeKind::Scalar(Value::Text(name)) if name == "slurm" => Executor::Slurm(Slurm::default()),
            NodeKind::Scalar(_) => {
                let message = format!("unknown executor {}", node.describe());
                self.problem(node.span, message, "neither `local` nor `slurm`", "write `executor: slurm`");
                return (None, Vec::new());
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
                return (Some(Executor::Slurm(slurm)), steps);
            }
        };
        (Some(executor), Vec::new())
    }
}

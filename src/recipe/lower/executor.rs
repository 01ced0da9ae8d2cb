//! `executor` of a sweep file.

use std::time::Duration;

use sweep_job::{Value, units::parse_seconds};

use super::{Lower, find};
use crate::recipe::{
    Executor, Slurm, SlurmRequest,
    node::{Entry, Node, NodeKind},
    source::Spanned,
};

/// The keys of `executor`.
pub(crate) const EXECUTOR_KEYS: &[&str] = &["slurm"];
/// The keys of what is asked of Slurm for a step.
pub(crate) const SLURM_STEP_KEYS: &[&str] = &["partition", "account", "qos", "gres", "time", "options"];
/// The keys of `slurm`.
pub(crate) const SLURM_KEYS: &[&str] = &["partition", "account", "qos", "gres", "time", "options", "steps"];

/// Options of `sbatch` that say what a job is: they are not the author's to give.
const OWN: &[&str] = &[
    "-J",
    "-d",
    "-a",
    "-o",
    "-e",
    "-D",
    "-W",
    "--job-name",
    "--dependency",
    "--array",
    "--output",
    "--error",
    "--chdir",
    "--wait",
    "--comment",
    "--wrap",
    "--parsable",
    "--open-mode",
    "--kill-on-invalid-dep",
    "--ntasks",
    "-n",
];

impl Lower<'_> {
    /// `executor: slurm`, or `executor: { slurm: { … } }`; with the steps that are named in it.
    pub(super) fn executor(&mut self, node: &Node) -> (Option<Executor>, Vec<Spanned<String>>) {
        let mut steps = Vec::new();
        let executor = match &node.kind {
            NodeKind::Scalar(Value::Text(name)) if name == "local" => Executor::Local,
            NodeKind::Scalar(Value::Text(name)) if name == "slurm" => Executor::Slurm(Slurm::default()),
            NodeKind::Scalar(_) => {
                let message = format!("unknown executor {}", node.describe());
                self.problem(node.span, message, "neither `local` nor `slurm`", "write `executor: slurm`");
                return (None, steps);
            }
            _ => {
                let keys = self.map(node, "`executor`", EXECUTOR_KEYS).unwrap_or_default();
                let Some(slurm) = find(keys, "slurm") else {
                    if keys.is_empty() {
                        self.problem(node.span, "`executor` says nothing", "no executor", "write `executor: slurm`");
                    }
                    return (None, steps);
                };
                let keys = self.map(slurm, "`slurm`", SLURM_KEYS).unwrap_or_default();
                let all = self.slurm_request(keys);
                let mut own = Vec::new();
                if let Some(node) = find(keys, "steps") {
                    for Entry { key, value } in self.entries(node, "`steps`") {
                        steps.push(key.clone());
                        let keys = self.map(value, "a step of `slurm`", SLURM_STEP_KEYS).unwrap_or_default();
                        own.push((key.value.clone(), self.slurm_request(keys)));
                    }
                }
                Executor::Slurm(Slurm { all, steps: own })
            }
        };
        (Some(executor), steps)
    }

    fn slurm_request(&mut self, keys: &[Entry]) -> SlurmRequest {
        let mut text = |key: &str| find(keys, key).and_then(|node| self.text(node, &format!("`{key}`")));
        let (partition, account, qos, gres) = (text("partition"), text("account"), text("qos"), text("gres"));
        let time = find(keys, "time").and_then(|node| {
            let help = "write a span of time with its unit, for example `time: 2h` or `time: 90m`";
            self.with_unit(node, "time", parse_seconds, "not a span of time", help).map(Duration::from_secs_f64)
        });
        let options = find(keys, "options").map(|node| self.texts(node, "`options`")).unwrap_or_default();
        for option in &options {
            let name = option.value.split('=').next().unwrap_or_default();
            if !name.starts_with('-') {
                let help = "one option an entry, with its value behind `=`, for example `--constraint=a100`";
                self.problem(option.span, format!("`{}` is no option", option.value), "not an option", help);
            } else if OWN.contains(&name) {
                let message = format!("`{name}` is given by `sweep` itself");
                self.problem(option.span, message, "not the author's to give", "take it out");
            }
        }
        let options = options.into_iter().map(|option| option.value).collect();
        SlurmRequest { partition, account, qos, gres, time, options }
    }
}

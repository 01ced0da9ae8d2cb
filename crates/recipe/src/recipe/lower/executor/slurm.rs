//! `executor: { slurm: … }`: Slurm options of jobs.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::Settings;
use crate::recipe::{
    keys::{Custom, Mapping as _, Text, Texts, TimeSpan, mapping},
    lower::Lower,
    node::{Entry, Node},
    schema::reference,
    source::Spanned,
};

/// Slurm options of a sweep.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slurm {
    /// Options of every job.
    pub all: SlurmRequest,
    /// Options of single steps, which override those of every job.
    pub steps: Vec<(String, SlurmRequest)>,
}

/// Slurm options of a job, in addition to those that follow from its resources. The cluster's defaults apply to the
/// rest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SlurmRequest {
    /// `--partition`.
    pub partition: Option<String>,
    /// `--account`.
    pub account: Option<String>,
    /// `--qos`.
    pub qos: Option<String>,
    /// `--gres`, which replaces the request for GPUs that follows from the resources.
    pub gres: Option<String>,
    /// `--time`, which replaces the limit that follows from the job's `timeout`.
    pub time: Option<Duration>,
    /// Further options of `sbatch`, passed on unchanged.
    pub options: Vec<String>,
}

impl Slurm {
    /// Options of a step's jobs.
    pub fn of_step(&self, step: &str) -> SlurmRequest {
        let mut request = self.all.clone();
        for (_, own) in self.steps.iter().filter(|(name, _)| name == step) {
            let SlurmRequest { partition, account, qos, gres, time, options } = own.clone();
            request = SlurmRequest {
                partition: partition.or(request.partition),
                account: account.or(request.account),
                qos: qos.or(request.qos),
                gres: gres.or(request.gres),
                time: time.or(request.time),
                // Slurm uses the last of several values of an option.
                options: request.options.into_iter().chain(options).collect(),
            };
        }
        request
    }
}

mapping! {
    /// The keys of `slurm`.
    struct SlurmKeys = "slurm" {
        /// The partition (`--partition`).
        partition: Text,
        /// The account (`--account`).
        account: Text,
        /// The quality of service (`--qos`).
        qos: Text,
        /// Generic resources (`--gres`), which replace the GPUs that `resources` requests.
        ///
        /// For example `gres: "gpu:a100:2"`.
        gres: Text,
        /// The time limit (`--time`). Default: derived from the job's `timeout`.
        ///
        /// The default is `timeout` multiplied by the number of attempts, plus two minutes.
        time: TimeSpan = TimeSpan { zero: true },
        /// Further options of `sbatch`, one per entry, passed on unchanged.
        ///
        /// Options that `sweep` sets itself, such as `--dependency` and `--output`, are rejected.
        options: Texts = Texts {
            schema: || json!({ "type": ["array", "string"], "items": { "type": "string", "pattern": "^-" } }),
            accepts: "an option, or a list of options",
        },
        /// Options for the jobs of individual steps.
        ///
        /// These options override the options for all jobs, except `options`, which are added.
        steps: Custom = Custom { schema: steps, accepts: "step to a map of the keys above" },
    }
}

/// The key that the options of a single step do not have.
const STEPS: &str = "steps";

fn steps() -> Json {
    let of_step = reference("slurm-step");
    json!({ "type": "object", "propertyNames": reference("name"), "additionalProperties": of_step })
}

/// The schema of the options of a single step.
fn of_step() -> Json {
    let mut schema = SlurmKeys::schema();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.remove(STEPS);
    }
    schema
}

/// Options of `sbatch` that the engine sets, and that authors therefore cannot set.
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

impl Settings for Slurm {
    fn read(lower: &mut Lower<'_>, node: &Node) -> (Self, Vec<Spanned<String>>) {
        let keys = SlurmKeys::read_or_empty(lower, node, "`slurm`");
        let (mut own, mut named) = (Vec::new(), Vec::new());
        let names: Vec<&str> = SlurmKeys::NAMES.iter().copied().filter(|name| *name != STEPS).collect();
        for Entry { key, value } in keys.steps.node().map(|node| lower.entries(node, "`steps`")).unwrap_or_default() {
            named.push(key.clone());
            let entries = lower.map(value, "a step of `slurm`", &names).unwrap_or_default();
            let keys = SlurmKeys::of(lower, entries);
            own.push((key.value.clone(), request(lower, keys)));
        }
        (Self { all: request(lower, keys), steps: own }, named)
    }

    fn definitions() -> Vec<(&'static str, Json)> {
        vec![("slurm-step", of_step())]
    }
}

/// The options of one mapping.
fn request(lower: &mut Lower<'_>, keys: SlurmKeys<'_>) -> SlurmRequest {
    let options = keys.options.value.unwrap_or_default();
    for option in &options {
        let name = option.value.split('=').next().unwrap_or_default();
        if !name.starts_with('-') {
            let help = "write one option per entry, with its value after `=`, for example `--constraint=a100`";
            lower.problem(option.span, format!("`{}` is not an option", option.value), "not an option", help);
        } else if OWN.contains(&name) {
            let message = format!("`{name}` is set by `sweep` itself");
            lower.problem(option.span, message, "reserved", "remove it");
        }
    }
    let options = options.into_iter().map(|option| option.value).collect();
    SlurmRequest {
        partition: keys.partition.value,
        account: keys.account.value,
        qos: keys.qos.value,
        gres: keys.gres.value,
        time: keys.time.value,
        options,
    }
}

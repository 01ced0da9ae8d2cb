//! `executor: { slurm: … }`: what is asked of Slurm for jobs.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::Lower;
use crate::recipe::{
    keys::{Custom, Mapping as _, Text, Texts, TimeSpan, mapping},
    node::{Entry, Node},
    schema::reference,
    source::Spanned,
};

/// What is asked of Slurm.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slurm {
    /// For every job.
    pub all: SlurmRequest,
    /// For the jobs of single steps, in the place of what is asked for every job.
    pub steps: Vec<(String, SlurmRequest)>,
}

/// What is asked of Slurm for a job, beyond what its resources say. What is left out is left to the cluster.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SlurmRequest {
    /// `--partition`.
    pub partition: Option<String>,
    /// `--account`.
    pub account: Option<String>,
    /// `--qos`.
    pub qos: Option<String>,
    /// `--gres`, in the place of the GPUs that the resources ask for.
    pub gres: Option<String>,
    /// `--time`, in the place of what follows from the job's `timeout`.
    pub time: Option<Duration>,
    /// Further options of `sbatch`, as they are.
    pub options: Vec<String>,
}

impl Slurm {
    /// What is asked for a step's jobs.
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
                // Where one is given twice, Slurm takes the last.
                options: request.options.into_iter().chain(options).collect(),
            };
        }
        request
    }
}

mapping! {
    /// The keys of `slurm`.
    struct SlurmKeys = "slurm" {
        /// `--partition`.
        partition: Text,
        /// `--account`.
        account: Text,
        /// `--qos`.
        qos: Text,
        /// `--gres`, in the place of the GPUs that `resources` asks for.
        ///
        /// For example `gres: "gpu:a100:2"`.
        gres: Text,
        /// `--time`, in the place of what follows from a job's `timeout`.
        ///
        /// That is the `timeout` times the attempts, plus two minutes.
        time: TimeSpan = TimeSpan { zero: true },
        /// Further options of `sbatch`, one an entry, as they are.
        ///
        /// Options that say what a job is (`--dependency`, `--output`, …) are refused.
        options: Texts = Texts {
            schema: || json!({ "type": ["array", "string"], "items": { "type": "string", "pattern": "^-" } }),
            accepts: "an option, or a list of options",
        },
        /// The same for the jobs of single steps.
        ///
        /// It takes the place of what stands for all jobs; `options` are added.
        steps: Custom = Custom { schema: steps, accepts: "step to a map of the keys above" },
    }
}

/// The key that stands for all jobs only.
const STEPS: &str = "steps";

fn steps() -> Json {
    let of_step = reference("slurm-step");
    json!({ "type": "object", "propertyNames": reference("name"), "additionalProperties": of_step })
}

/// The schema of what is asked for a single step.
pub(in crate::recipe) fn of_step() -> Json {
    let mut schema = SlurmKeys::schema();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.remove(STEPS);
    }
    schema
}

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
    /// Reads the settings; with the steps that are named in them.
    pub(super) fn slurm(&mut self, node: &Node) -> (Slurm, Vec<Spanned<String>>) {
        let keys = SlurmKeys::read_or_empty(self, node, "`slurm`");
        let (mut own, mut named) = (Vec::new(), Vec::new());
        let names: Vec<&str> = SlurmKeys::NAMES.iter().copied().filter(|name| *name != STEPS).collect();
        for Entry { key, value } in keys.steps.node().map(|node| self.entries(node, "`steps`")).unwrap_or_default() {
            named.push(key.clone());
            let entries = self.map(value, "a step of `slurm`", &names).unwrap_or_default();
            let keys = SlurmKeys::of(self, entries);
            own.push((key.value.clone(), self.slurm_request(keys)));
        }
        (Slurm { all: self.slurm_request(keys), steps: own }, named)
    }

    fn slurm_request(&mut self, keys: SlurmKeys<'_>) -> SlurmRequest {
        let options = keys.options.value.unwrap_or_default();
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
        SlurmRequest {
            partition: keys.partition.value,
            account: keys.account.value,
            qos: keys.qos.value,
            gres: keys.gres.value,
            time: keys.time.value,
            options,
        }
    }
}

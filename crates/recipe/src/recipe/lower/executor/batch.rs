//! `executor: { batch: … }`: command templates for a batch system, from a preset or from the sweep file.

mod read;

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::recipe::{
    keys::{Custom, Mapping as _, Text, Texts, TimeSpan, mapping},
    lower::Lower,
    problem::Collector,
    schema::reference,
    source::Sources,
};

/// The commands of a batch system as templates, and the settings of jobs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CommandTemplates {
    /// The system's name, for messages; empty if there are no templates.
    pub system: String,
    /// The command that submits a job.
    pub submit: Vec<Argument>,
    /// The standard input of `submit`.
    pub input: Option<String>,
    /// Regular expression whose first group is the job's number in the output of `submit`.
    pub id: String,
    /// Template of a needed job in `${after}`, with `${id}`.
    pub after: String,
    /// Text between the needed jobs.
    pub join: String,
    /// The command that lists jobs.
    pub status: Vec<Argument>,
    /// Regular expression of a job in the output of `status`.
    pub job: String,
    /// Meanings of the states, as regular expressions of whole words; the first that matches applies.
    pub states: Vec<(String, Phase)>,
    /// The command that ends jobs.
    pub cancel: Vec<Argument>,
    /// The command that sends SIGINT to the programs of jobs; empty if the system has no such command.
    pub interrupt: Vec<Argument>,
    /// The command that prints the end of a job that `status` no longer lists; empty if the system has no such command.
    pub history: Vec<Argument>,
    /// Regular expression of the end in the output of `history`.
    pub ended: Option<String>,
    /// Regular expression of a refusal because of a limit of jobs.
    pub full: Option<String>,
    /// Regular expression of the stderr of a command when the system does not respond.
    pub unreachable: Option<String>,
    /// Regular expression of a failure of `status` because there are no jobs.
    pub none: Option<String>,
    /// Time limit of each command.
    pub patience: Option<Duration>,
    /// Settings of every job.
    pub all: TemplateRequest,
    /// Settings of single steps, which override those of every job.
    pub steps: Vec<(String, TemplateRequest)>,
}

/// A part of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// A single argument.
    One(String),
    /// Arguments that are left out if one of their fields has no value.
    Together(Vec<String>),
}

/// Settings of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TemplateRequest {
    /// Arguments that take the place of `${options}`.
    pub options: Vec<String>,
    /// The time limit, which replaces the limit that follows from the job's `timeout`.
    pub time: Option<Duration>,
    /// Further fields, by name.
    pub values: BTreeMap<String, String>,
}

/// Meaning of a batch system's word for a job's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The job waits.
    Pending,
    /// The job waits until a person releases it.
    Held,
    /// The job runs.
    Running,
    /// The job's program has ended with success.
    Completed,
    /// The job's program has ended with a failure.
    Failed,
    /// The job was canceled.
    Canceled,
    /// The job has ended in another way.
    Ended,
    /// The job has reached its time limit.
    TimeLimit,
    /// The job has run out of memory.
    OutOfMemory,
    /// The system has lost it.
    Lost,
}

const PHASES: &[(&str, Phase)] = &[
    ("pending", Phase::Pending),
    ("held", Phase::Held),
    ("running", Phase::Running),
    ("completed", Phase::Completed),
    ("failed", Phase::Failed),
    ("canceled", Phase::Canceled),
    ("ended", Phase::Ended),
    ("time-limit", Phase::TimeLimit),
    ("out-of-memory", Phase::OutOfMemory),
    ("lost", Phase::Lost),
];

/// The templates that come with the program, by name.
pub const PRESETS: &[(&str, &str)] = &[
    ("sge", include_str!("presets/sge.yaml")),
    ("pbs", include_str!("presets/pbs.yaml")),
    ("lsf", include_str!("presets/lsf.yaml")),
    ("htcondor", include_str!("presets/htcondor.yaml")),
    ("sky", include_str!("presets/sky.yaml")),
    ("kubernetes", include_str!("presets/kubernetes.yaml")),
    ("kubernetes-remote", include_str!("presets/kubernetes-remote.yaml")),
];

/// Fields of a job in `submit` and `input`.
pub const JOB_FIELDS: &[&str] = &[
    "script",
    "script-json",
    "output",
    "folder",
    "name",
    "label",
    "short",
    "cpus",
    "slots",
    "memory-mib",
    "memory-mib-per-cpu",
    "memory-bytes",
    "gpus",
    "members",
    "single",
    "remote",
    "exclusive",
    "seconds",
    "minutes",
    "hms",
    "after",
    "options",
];

/// Fields of a job's resources, which a job may not ask for.
const OF_NAMES: &[&str] = &["name", "user"];

impl CommandTemplates {
    /// Settings of a step's jobs; without a step, those of every job.
    pub fn of_step(&self, step: Option<&str>) -> TemplateRequest {
        let mut request = self.all.clone();
        for (_, own) in self.steps.iter().filter(|(name, _)| Some(name.as_str()) == step) {
            request.time = own.time.or(request.time);
            // Most systems use the last of several values of an option.
            request.options.extend(own.options.iter().cloned());
            request.values.extend(own.values.clone());
        }
        request
    }

    /// The templates of a preset, without any settings of jobs; `None` if there is no such preset.
    pub fn preset(name: &str) -> Option<Self> {
        let (_, text) = PRESETS.iter().find(|(preset, _)| *preset == name)?;
        let (mut sources, mut problems) = (Sources::default(), Collector::default());
        let mut lower = Lower::new(&mut sources, &mut problems);
        let node = lower.preset(name, text)?;
        let (templates, _) = read::read(&mut lower, &node, false);
        problems.finish(()).is_ok().then_some(templates)
    }

    /// True if the system starts a job only after those that it needs.
    pub fn keeps_dependencies(&self) -> bool {
        self.mentions("after")
    }

    /// True if its machines have no results folder in common, so that jobs go through the remote store.
    pub fn uses_remote(&self) -> bool {
        self.mentions("remote")
    }

    /// True if one batch job can have several members.
    pub fn has_members(&self) -> bool {
        self.mentions("members")
    }

    fn mentions(&self, field: &str) -> bool {
        self.submit.iter().flat_map(Argument::texts).chain(&self.input).any(|text| fields(text).contains(&field))
    }
}

impl Argument {
    /// The argument's texts.
    pub fn texts(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Together(texts) => texts,
        }
    }
}

/// The names of the fields of a template: `${name}` is the value, `${name?text}` is the text where there is a value.
pub fn fields(template: &str) -> Vec<&str> {
    template.split("${").skip(1).filter_map(|rest| rest.split_once('}')?.0.split('?').next()).collect()
}

mapping! {
    /// The keys of `batch`.
    struct BatchKeys = "batch" {
        /// The templates that come with the program: `sge`, `pbs`, `lsf`, `htcondor`, `sky`, `kubernetes` or `kubernetes-remote`. The other keys replace single templates.
        ///
        /// `sweep doctor --preset NAME` prints a preset.
        preset: Custom = Custom { schema: presets, accepts: "the name of a preset" },
        /// The system's name, for messages.
        system: Text,
        /// The command that submits a job: its arguments, as templates.
        ///
        /// `${name}` is the value of a field, and `${name?text}` is the text if the field has a value. A list inside
        /// of the list, and a part of a text in `[[` and `]]`, is left out if one of its fields has no value, for
        /// example `[-l, "h_rt=${hms}"]` for a job without a time limit.
        submit: Custom = COMMAND,
        /// The standard input of `submit`, as a template.
        input: Text,
        /// Regular expression whose first group is the job's number in the output of `submit`.
        id: Text = PATTERN,
        /// The template of each needed job in `${after}`, with `${id}`. Default: `${id}`.
        ///
        /// If `submit` has no `${after}`, a job is submitted when the jobs that it needs are done.
        after: Text,
        /// The separator of the needed jobs in `${after}`. Default: `,`.
        join: Text,
        /// The command that lists the jobs.
        status: Custom = COMMAND,
        /// Regular expression of a job in the output of `status`, with the groups `id` and `state`, and `label` and `exit` where the output has them.
        ///
        /// The whole output is searched; `(?m)^` and `$` anchor the expression to lines. Without `label`, the numbers
        /// of jobs are kept in the results folder.
        job: Text = PATTERN,
        /// Meanings of the states: regular expression of a whole word to `pending`, `held`, `running`, `completed`, `failed`, `canceled`, `ended`, `time-limit`, `out-of-memory` or `lost`. The first that matches applies.
        states: Custom = Custom { schema: states, accepts: "state to its meaning" },
        /// The command that ends jobs, with `${ids}` for all of them, or `${id}` for one at a time.
        cancel: Custom = COMMAND,
        /// The command that sends SIGINT to the programs of jobs, for `--pilot`.
        interrupt: Custom = COMMAND,
        /// The command that reports the end of the job `${id}` after `status` no longer lists the job.
        history: Custom = COMMAND,
        /// Regular expression of the end in the output of `history`, with the groups `exit` or `state`.
        ended: Text = PATTERN,
        /// Regular expression of the error message when the queue's limit of jobs is reached.
        full: Text = PATTERN,
        /// Regular expression of the error message when the system does not respond.
        unreachable: Text = PATTERN,
        /// Regular expression of an error message of `status` that means that the queue has no jobs.
        none: Text = PATTERN,
        /// The time limit of each command. Default: `30s`.
        answers_within = "answers-within": TimeSpan = TimeSpan { zero: false },
        /// Arguments that replace `${options}`, passed on unchanged.
        options: Texts = Texts {
            schema: || json!({ "type": ["array", "string"], "items": { "type": "string" } }),
            accepts: "an argument, or a list of arguments",
        },
        /// The time limit. Default: derived from the job's `timeout`.
        time: TimeSpan = TimeSpan { zero: true },
        /// Further fields of the templates, by name.
        values: Custom = Custom { schema: values, accepts: "name to text" },
        /// `options`, `time` and `values` for the jobs of individual steps.
        steps: Custom = Custom { schema: steps, accepts: "step to a map of these keys" },
    }
}

/// The keys for a single step.
const OF_STEP: &[&str] = &["options", "time", "values"];

const COMMAND: Custom = Custom { schema: command, accepts: "a list of arguments" };
const PATTERN: Text = Text { schema: || json!({ "type": "string", "minLength": 1 }), accepts: "a regular expression" };

fn presets() -> Json {
    json!({ "enum": PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>() })
}

fn command() -> Json {
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    json!({ "type": "array", "minItems": 1, "items": { "type": ["string", "array"], "items": texts["items"] } })
}

fn states() -> Json {
    let words: Vec<&str> = PHASES.iter().map(|(word, _)| *word).collect();
    json!({ "type": "object", "minProperties": 1, "additionalProperties": { "enum": words } })
}

fn values() -> Json {
    json!({ "type": "object", "additionalProperties": { "type": ["string", "number"] } })
}

fn steps() -> Json {
    let of_step = reference("batch-step");
    json!({ "type": "object", "propertyNames": reference("name"), "additionalProperties": of_step })
}

/// The schema of the settings of a single step.
pub(super) fn of_step() -> Json {
    let mut schema = BatchKeys::schema();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.retain(|key, _| OF_STEP.contains(&key.as_str()));
    }
    schema
}

/// A regular expression of whole words.
pub fn whole_word(pattern: &str) -> String {
    format!("^(?:{pattern})$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_read() {
        for (name, text) in PRESETS {
            let (mut sources, mut problems) = (Sources::default(), Collector::default());
            let mut lower = Lower::new(&mut sources, &mut problems);
            let node = lower.preset(name, text).unwrap();
            let (templates, _) = read::read(&mut lower, &node, false);
            // A preset may have fields that only a sweep file can give.
            let mistakes = problems.finish(()).map_or_else(|problems| problems.to_string(), |()| String::new());
            assert!(mistakes.is_empty(), "{name}: {mistakes}");
            assert!(!templates.system.is_empty() && !templates.submit.is_empty(), "{name}");
            assert!(CommandTemplates::preset(name).is_some());
        }
        assert!(CommandTemplates::preset("nothing").is_none());
    }
}

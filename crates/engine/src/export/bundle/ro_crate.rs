//! The description of a bundle for other programs: as a Provenance Run Crate
//! (<https://www.researchobject.org/workflow-run-crate/profiles/provenance_run_crate/>, version 0.5, on RO-Crate 1.1), for people
//! (`README.md`), and for citations (`CITATION.cff`, version 1.2.0).
//!
//! The recipe is the workflow, its steps are tools, and each job with a record is an action with its parameters and its record.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
    path::Path,
};

use fs_err as fs;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sweep_job::TaskInfo;

use super::Sum;
use crate::{
    format::{clean, count},
    host::project_of,
    plan::{JobId, Plan},
    record::Record,
};

/// The file of the metadata, which gives an RO-Crate its name.
pub(super) const METADATA: &str = "ro-crate-metadata.json";
/// The description for people.
pub(super) const README: &str = "README.md";
pub(super) const CITATION: &str = "CITATION.cff";

/// Number of jobs from which on the metadata has no actions of single jobs: a program would read gigabytes.
const MAX_ACTIONS: usize = 20_000;

/// The profiles, with their names and versions; the last one is about single jobs.
const PROFILES: [(&str, &str, &str); 4] = [
    ("https://w3id.org/ro/wfrun/process/0.5", "Process Run Crate", "0.5"),
    ("https://w3id.org/ro/wfrun/workflow/0.5", "Workflow Run Crate", "0.5"),
    ("https://w3id.org/workflowhub/workflow-ro-crate/1.0", "Workflow RO-Crate", "1.0"),
    ("https://w3id.org/ro/wfrun/provenance/0.5", "Provenance Run Crate", "0.5"),
];

/// The license of a study without a stated license.
const NO_LICENSE: &str = "not stated; ask the authors";
/// Identifiers of entities.
const ENGINE: &str = "#sweep";
const LANGUAGE: &str = "#recipe-language";
const RUN: &str = "#run";

/// A job with a record.
#[derive(Debug)]
pub(super) struct Done {
    job: JobId,
    key: String,
    label: String,
    params: Vec<(String, Value)>,
    started: Timestamp,
    ended: Timestamp,
}

impl Done {
    pub(super) fn new(job: JobId, record: &Record) -> Self {
        let (started, seconds) = (record.provenance.started, record.provenance.seconds);
        let ended = SignedDuration::try_from_secs_f64(seconds).ok().and_then(|span| started.checked_add(span).ok());
        let params = record.params.iter().map(|(name, value)| (name.to_string(), json!(value)));
        Self {
            job,
            key: record.key.to_string(),
            label: clean(&record.label).into_owned(),
            params: params.collect(),
            started,
            ended: ended.unwrap_or(started),
        }
    }
}

/// The start of the first job and the end of the last one.
pub(super) fn span(done: &[Done]) -> Option<[Timestamp; 2]> {
    Some([done.iter().map(|done| done.started).min()?, done.iter().map(|done| done.ended).max()?])
}

/// The contents of a bundle from which its description is written.
pub(super) struct Described<'a> {
    pub(super) plan: &'a Plan,
    /// The recipes' names in the bundle, the requested one first.
    pub(super) recipes: &'a [String],
    pub(super) done: &'a [Done],
    /// Number of jobs, with and without records.
    pub(super) jobs: usize,
}

/// A step of a recipe.
struct Step {
    name: String,
    task: &'static TaskInfo,
}

impl Described<'_> {
    fn title(&self) -> String {
        let names: Vec<String> = self.plan.studies.iter().map(|study| clean(&study.recipe.name).into_owned()).collect();
        names.join(", ")
    }

    /// The end of the last job.
    fn ended(&self) -> Timestamp {
        self.done.iter().map(|done| done.ended).max().unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn about(&self) -> String {
        let about = self.plan.studies.iter().find_map(|study| study.recipe.about.as_deref());
        let results = format!("Results of {} of {}", self.done.len(), count(self.jobs, "job"));
        match about {
            Some(about) => format!("{} {results} of the study.", clean(about.trim())),
            None => format!("{results} of the study {}.", self.title()),
        }
    }

    /// True if each job has its action.
    fn has_actions(&self) -> bool {
        self.done.len() <= MAX_ACTIONS
    }

    /// The steps of all recipes that have jobs with records, and the step of each job.
    fn steps(&self) -> (Vec<Step>, HashMap<JobId, usize>) {
        let (mut steps, mut step_of_job) = (Vec::new(), HashMap::new());
        let done: BTreeSet<JobId> = self.done.iter().map(|done| done.job).collect();
        for study in &self.plan.studies {
            for (step, points) in study.recipe.steps.iter().zip(&study.steps) {
                let jobs: Vec<JobId> = points
                    .iter()
                    .map(|(_, id)| *id)
                    .filter(|id| done.contains(id) && !step_of_job.contains_key(id))
                    .collect();
                if !jobs.is_empty() {
                    step_of_job.extend(jobs.into_iter().map(|id| (id, steps.len())));
                    let name = clean(&step.name.value).into_owned();
                    steps.push(Step { name, task: step.task });
                }
            }
        }
        (steps, step_of_job)
    }

    /// `ro-crate-metadata.json` of a bundle with these other files.
    pub(super) fn metadata(&self, files: &BTreeMap<String, Sum>) -> Vec<u8> {
        let mut graph = self.heads(files);
        let (steps, step_of_job) = self.steps();
        graph.push(self.workflow(&steps));
        graph.push(json!({ "@id": LANGUAGE, "@type": "ComputerLanguage", "name": "recipe of sweep", "identifier": { "@id": LANGUAGE } }));
        graph.push(json!({ "@id": ENGINE, "@type": "SoftwareApplication", "name": "sweep", "softwareVersion": env!("CARGO_PKG_VERSION") }));
        for (index, step) in steps.iter().enumerate() {
            let (tool, place) = (tool(index), index.to_string());
            graph.push(json!({ "@id": tool, "@type": "SoftwareApplication", "name": format!("task {} of step {}", step.task.name, step.name), "description": step.task.about, "softwareVersion": format!("revision {}", step.task.revision) }));
            graph.push(json!({ "@id": step_id(index), "@type": "HowToStep", "name": step.name, "position": place, "workExample": { "@id": tool } }));
        }
        self.runs(&steps, &step_of_job, files, &mut graph);
        let others = files.iter().filter(|(name, _)| Some(*name) != self.recipes.first());
        graph.extend(others.map(|(name, sum)| {
            let mut file =
                json!({ "@id": id(name), "@type": "File", "name": name, "contentSize": sum.bytes.to_string() });
            if let Some(format) = encoding(name) {
                file["encodingFormat"] = json!(format);
            }
            file
        }));
        let context = ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"];
        let mut text = serde_json::to_vec_pretty(&json!({ "@context": context, "@graph": graph })).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// The descriptor, the crate itself, and its profiles.
    fn heads(&self, files: &BTreeMap<String, Sum>) -> Vec<Value> {
        let profiles = &PROFILES[..if self.has_actions() { PROFILES.len() } else { PROFILES.len() - 1 }];
        let conforms: Vec<Value> = profiles.iter().map(|(id, ..)| json!({ "@id": id })).collect();
        let parts: Vec<Value> = files.keys().map(|name| json!({ "@id": id(name) })).collect();
        let mut mentions = vec![json!({ "@id": RUN })];
        if self.has_actions() {
            mentions.push(json!({ "@id": "#engine-run" }));
            mentions.extend(self.done.iter().map(|done| json!({ "@id": action(done) })));
        }
        let mut heads = vec![
            json!({
                "@id": METADATA, "@type": "CreativeWork", "about": { "@id": "./" },
                "conformsTo": [{ "@id": "https://w3id.org/ro/crate/1.1" }, { "@id": PROFILES[2].0 }],
            }),
            json!({
                "@id": "./", "@type": "Dataset", "name": format!("Results of the study {}", self.title()), "description": self.about(),
                "datePublished": self.ended().strftime("%Y-%m-%d").to_string(), "license": NO_LICENSE, "conformsTo": conforms,
                "mainEntity": { "@id": self.workflow_id() }, "hasPart": parts, "mentions": mentions,
            }),
        ];
        heads.extend(profiles.iter().map(
            |(id, name, version)| json!({ "@id": id, "@type": "CreativeWork", "name": name, "version": version }),
        ));
        heads
    }

    fn workflow_id(&self) -> String {
        self.recipes.first().map_or_else(|| "#recipe".to_owned(), |name| id(name))
    }

    fn workflow(&self, steps: &[Step]) -> Value {
        let tools: Vec<Value> = (0..steps.len()).map(|index| json!({ "@id": tool(index) })).collect();
        let own_steps: Vec<Value> = (0..steps.len()).map(|index| json!({ "@id": step_id(index) })).collect();
        json!({
            "@id": self.workflow_id(), "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            "name": format!("recipe {}", self.title()), "programmingLanguage": { "@id": LANGUAGE }, "encodingFormat": "application/yaml",
            "license": NO_LICENSE, "hasPart": tools, "step": own_steps,
        })
    }

    /// The run of the workflow, and the actions of its jobs.
    fn runs(
        &self,
        steps: &[Step],
        step_of_job: &HashMap<JobId, usize>,
        files: &BTreeMap<String, Sum>,
        graph: &mut Vec<Value>,
    ) {
        let started = self.done.iter().map(|done| done.started).min().unwrap_or(Timestamp::UNIX_EPOCH);
        let of = |folder: &str| {
            let names = files.keys().filter(|name| name.starts_with(folder));
            names.map(|name| json!({ "@id": id(name) })).collect::<Vec<_>>()
        };
        graph.push(json!({
            "@id": RUN, "@type": "CreateAction", "name": format!("Run of the study {}", self.title()), "instrument": { "@id": self.workflow_id() },
            "startTime": started.to_string(), "endTime": self.ended().to_string(), "object": of("sources/"), "result": of("reports/"),
            "actionStatus": "http://schema.org/CompletedActionStatus",
        }));
        if !self.has_actions() {
            return;
        }
        let controls: Vec<Value> = self.done.iter().map(|done| json!({ "@id": control(done) })).collect();
        graph.push(json!({
            "@id": "#engine-run", "@type": "OrganizeAction", "name": "Run of the engine", "instrument": { "@id": ENGINE }, "object": controls,
            "result": { "@id": RUN }, "startTime": started.to_string(), "endTime": self.ended().to_string(),
        }));
        for done in self.done {
            let Some(step) = step_of_job.get(&done.job).filter(|step| **step < steps.len()) else { continue };
            let param = |(name, _): &(String, Value)| format!("{}/{}", action(done), encoded(name));
            let params: Vec<Value> = done.params.iter().map(|param_of| json!({ "@id": param(param_of) })).collect();
            graph.push(json!({
                "@id": action(done), "@type": "CreateAction", "name": done.label, "instrument": { "@id": tool(*step) }, "object": params,
                "result": { "@id": format!("records/{}.json", done.key) }, "startTime": done.started.to_string(),
                "endTime": done.ended.to_string(), "actionStatus": "http://schema.org/CompletedActionStatus",
            }));
            graph.push(json!({
                "@id": control(done), "@type": "ControlAction", "name": format!("Job {}", done.label),
                "instrument": { "@id": step_id(*step) }, "object": { "@id": action(done) },
            }));
            graph.extend(done.params.iter().map(|entry| {
                let (name, value) = (&entry.0, text_of(&entry.1));
                json!({ "@id": param(entry), "@type": "PropertyValue", "name": name, "value": value })
            }));
        }
    }

    /// `README.md`.
    pub(super) fn readme(&self) -> String {
        let title = crate::render::markdown_text(&self.title());
        let about = crate::render::markdown_text(&self.about());
        format!(
            "# Results of the study {title}\n\n{about}\n\n\
             | path | contents |\n| --- | --- |\n\
             | `reports/` | the report: `index.html`, tables, figures, and `setup.md`, the experimental setup |\n\
             | `sources/` | the recipe and the files that its jobs read |\n\
             | `records/` | a record for each job: parameters, metrics, curves, provenance |\n\
             | `environments/` | the programs, libraries and packages that the jobs' programs used |\n\
             | `bundle.json` | the keys of all jobs, and the BLAKE3 digests of all files |\n\
             | `{METADATA}` | this description for programs: a Workflow Run RO-Crate |\n\
             | `{CITATION}` | the citation |\n\n\
             `sweep bundle verify FILE` recomputes all keys, tables, figures and verdicts from the records of the archive; \
             `--rerun N` also runs jobs again and compares their metrics.\n\n\
             License: {NO_LICENSE}.\n"
        )
    }

    /// `CITATION.cff`: the file of the project with the recipes in `root`, or a new file with the study's name.
    pub(super) fn citation(&self, root: &Path) -> Vec<u8> {
        let folders = [root.to_owned(), project_of(root)];
        if let Some(text) = folders.iter().find_map(|folder| fs::read(folder.join(CITATION)).ok()) {
            return text;
        }
        let title = self.title();
        let quoted = |text: String| serde_json::to_string(&text).unwrap_or_default();
        let date = self.ended().strftime("%Y-%m-%d");
        format!(
            "cff-version: 1.2.0\nmessage: If you use these results, please cite them.\ntype: dataset\ntitle: {}\nauthors:\n  - name: {}\n\
             date-released: '{date}'\n",
            quoted(format!("Results of the study {title}")),
            quoted(format!("Authors of the study {title}")),
        )
        .into_bytes()
    }
}

fn tool(index: usize) -> String {
    format!("#tool-{index}")
}

fn step_id(index: usize) -> String {
    format!("#step-{index}")
}

fn action(done: &Done) -> String {
    format!("#job-{}", done.key)
}

fn control(done: &Done) -> String {
    format!("#control-{}", done.key)
}

/// The identifier of a file: its path as a part of an address.
fn id(name: &str) -> String {
    name.split('/').map(encoded).collect::<Vec<_>>().join("/")
}

/// A text in which only letters, digits and `-._~` are as they are.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A value as schema.org has it: a number, a text or a truth value.
fn text_of(value: &Value) -> Value {
    match value {
        Value::Number(_) | Value::String(_) | Value::Bool(_) => value.clone(),
        other => Value::String(other.to_string()),
    }
}

/// The media type of a file by its ending.
fn encoding(name: &str) -> Option<&'static str> {
    let end = Path::new(name).extension()?.to_str()?;
    Some(match end {
        "json" => "application/json",
        "jsonl" => "application/jsonl",
        "html" => "text/html",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "tex" => "application/x-tex",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "pdf" => "application/pdf",
        "yaml" | "yml" => "application/yaml",
        "py" => "text/x-python",
        "txt" => "text/plain",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_parts_of_addresses() {
        assert_eq!(id("sources/a b/ü#1?.yaml"), "sources/a%20b/%C3%BC%231%3F.yaml");
        assert_eq!(encoding("reports/x/tables/t.csv"), Some("text/csv"));
        assert_eq!(encoding("sources/Makefile"), None);
    }
}

//! A random sample of a bundle's jobs, run again.

use std::{
    collections::{BTreeMap, HashMap},
    io,
};

use serde::Serialize;
use sweep_job::{Metric, TaskSpec as _, Unit, Value, Values, tasks};

use super::Opened;
use crate::{
    format::{clean, quoted},
    plan::{Digests, JobId, Plan},
    record::{Record, is_about_machine, without_keys},
    store::Store,
};

/// Jobs that run again, with the jobs that they need.
#[derive(Debug)]
pub struct Rerun {
    /// The jobs.
    pub plan: Plan,
    /// The sampled jobs; the others are their dependencies.
    pub sample: Vec<JobId>,
    /// Jobs of the sample that cannot run here, and why.
    pub left: Vec<(String, String)>,
}

/// A job's metrics, now and then.
#[derive(Debug, Default, Serialize)]
pub struct Compared {
    /// Number of metrics that agree within the tolerance.
    pub same: usize,
    /// The largest relative difference among those.
    pub largest: f64,
    /// Names of the metrics that are times, rates or sizes, which depend on the machine and are not compared.
    #[serde(rename = "not_compared")]
    pub left_out: Vec<String>,
    /// Metrics that differ beyond the tolerance.
    #[serde(rename = "differ")]
    pub other: Vec<Differing>,
}

/// A metric that differs.
#[derive(Debug, Serialize)]
pub struct Differing {
    /// Its name.
    pub metric: String,
    /// Its value in the record.
    pub then: f64,
    /// Its value now; `None` if it was not measured.
    pub now: Option<f64>,
}

/// Samples `n` recorded jobs that can run, reproducibly by `seed`.
pub fn sample(plan: &Plan, store: &Store, n: usize, seed: u64) -> Vec<JobId> {
    let mut recorded_jobs: Vec<(blake3::Hash, JobId)> = plan
        .jobs()
        .filter(|(_, job)| store.contains(job.key) && !job.is_imported())
        .map(|(id, job)| (blake3::hash(format!("{seed} {}", job.key).as_bytes()), id))
        .collect();
    recorded_jobs.sort_unstable_by_key(|(hash, _)| *hash.as_bytes());
    let mut jobs: Vec<JobId> = recorded_jobs.into_iter().take(n).map(|(_, id)| id).collect();
    jobs.sort_unstable();
    jobs
}

impl Rerun {
    /// Prepares jobs of a bundle's plan. Their input files must be in the bundle, or supplied.
    pub fn new(opened: &Opened, plan: &Plan, wanted: &[JobId]) -> Self {
        let mut digests = Digests::default();
        let mut failures = Vec::new();
        let mut wanted = wanted.to_vec();
        // The inputs of a job, and of the jobs that it needs, must be present.
        wanted.retain(|id| {
            let reason = plan.with_needs([*id]).into_iter().find_map(|need| {
                let (inputs, ignored) = (plan.inputs_of(need).into_iter(), plan.ignored_by(need));
                inputs.map(|(path, digest)| (opened.present(&path), digest)).find_map(|(path, digest)| {
                    let shown_path = opened.shown(&path);
                    match digests.of_input(&path, &ignored) {
                        Ok(actual_digest) if actual_digest == digest => None,
                        Ok(_) => Some(format!("the input {shown_path} has changed")),
                        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(format!(
                            "the input {shown_path} is not in the bundle; `--inputs DIR` takes it from a folder"
                        )),
                        Err(error) => Some(format!("the input {shown_path} cannot be read: {error}")),
                    }
                })
            });
            failures.extend(reason.map(|reason| (plan.job(*id).label.to_string(), reason)));
            failures.last().is_none_or(|(label, _)| *label != plan.job(*id).label.to_string())
        });
        let jobs = plan.with_needs(wanted.iter().copied());
        let places: BTreeMap<usize, usize> = jobs.iter().enumerate().map(|(place, id)| (id.index(), place)).collect();
        let part = plan.part(&jobs, |id, values| {
            for (path, _) in plan.inputs_of(id) {
                let present_path = opened.present(&path);
                for value in values.values_mut() {
                    replace(value, &path.display().to_string(), &present_path);
                }
            }
        });
        let sample = wanted.iter().filter_map(|id| places.get(&id.index())).map(|place| JobId::new(*place)).collect();
        Self { plan: part.alone(), sample, left: failures }
    }
}

/// A command that jobs run, and the variables that are added to the caller's environment.
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// The names of the jobs.
    pub jobs: Vec<String>,
    /// The script for the shell.
    pub run: String,
    /// Names and values.
    pub env: Vec<(String, String)>,
}

/// The commands of a plan, each once.
pub fn commands(plan: &Plan) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let mut indices: HashMap<(String, Vec<(String, String)>), usize> = HashMap::new();
    for (_, job) in plan.jobs() {
        if job.task.name != "command" {
            continue;
        }
        let text = |value: &Value| without_keys(&value.to_string());
        let env = match job.values.get("env") {
            Some(Value::Map(env)) => env.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            _ => Vec::new(),
        };
        let command = (typed(&job.values), env);
        let index = *indices.entry(command.clone()).or_insert_with(|| {
            let (run, env) = command;
            commands.push(Command { jobs: Vec::new(), run, env });
            commands.len() - 1
        });
        commands[index].jobs.push(job.label.to_string());
    }
    commands
}

/// The program of a job as one would type it: its script, or its `argv` with the parameters in their places.
fn typed(values: &Values) -> String {
    let script = values.get("run").filter(|run| **run != Value::Null);
    if let Some(script) = script {
        return without_keys(&script.to_string());
    }
    let Some(command) = tasks::Command::build(values) else {
        return values.get("argv").map(|argv| without_keys(&argv.to_string())).unwrap_or_default();
    };
    let words: Vec<String> = command.arguments().iter().map(|word| quoted(&without_keys(word))).collect();
    words.join(" ")
}

/// Puts another path in the place of one.
fn replace(value: &mut Value, path: &str, replacement: &std::path::Path) {
    match value {
        Value::Text(text) if text == path => *text = replacement.display().to_string(),
        Value::List(items) => items.iter_mut().for_each(|item| replace(item, path, replacement)),
        Value::Map(entries) => entries.values_mut().for_each(|value| replace(value, path, replacement)),
        _ => {}
    }
}

/// True if a metric depends on the machine: times, rates, sizes, fractions and ratios of them, and the number of allocations, which
/// depends on the turns that threads take.
fn depends_on_machine(name: &str, unit: Unit) -> bool {
    unit.is_timing() || unit.base() == Unit::Bytes || is_about_machine(name)
}

impl Compared {
    /// True if no metric could be compared.
    pub fn is_empty(&self) -> bool {
        self.same == 0 && self.other.is_empty()
    }

    /// Compares the metrics of a job.
    pub fn new(then: &Record, now: &Record, tolerance: f64) -> Self {
        let mut compared = Self::default();
        for (name, Metric { value, unit }) in &then.outcome.metrics {
            if depends_on_machine(name, *unit) {
                compared.left_out.push(clean(name).into_owned());
                continue;
            }
            let new_value = now.outcome.metrics.get(name).map(|metric| metric.value);
            let scale = value.abs().max(f64::MIN_POSITIVE);
            match new_value.map(|new_value| if new_value == *value { 0.0 } else { (new_value - value).abs() / scale }) {
                Some(difference) if difference <= tolerance => {
                    compared.same += 1;
                    compared.largest = compared.largest.max(difference);
                }
                _ => compared.other.push(Differing { metric: clean(name).into_owned(), then: *value, now: new_value }),
            }
        }
        compared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_times_depend_on_the_machine() {
        for name in ["ratio.floor", "allocations", "share.masking", "utilization.cpu", "time.step"] {
            assert!(depends_on_machine(name, Unit::One), "{name}");
        }
        for name in ["loss", "error.threshold", "sparsity"] {
            assert!(!depends_on_machine(name, Unit::Fraction), "{name}");
        }
    }
}

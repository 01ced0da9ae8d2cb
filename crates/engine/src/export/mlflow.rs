//! Records as a folder of `MLflow`'s file store (`mlruns`): an experiment for each step, a run for each job, with its
//! parameters, metrics, curves and provenance.
//!
//! A run's folder has `meta.yaml`, and below `metrics`, `params` and `tags` a file for each entry, with its name; a
//! metric's file has a line for each value: time in milliseconds, value, step. Names and values that `MLflow` does not take are
//! whole in the artifacts of the run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use regex::Regex;
use serde_json::json;
use sweep_job::{Name, Unit};

use super::{
    Exported,
    names::{Names, add, apart, notices},
};
use crate::{format::count, record::Record};

/// Characters of the longest value of a parameter or a tag that `MLflow` takes.
const MAX_VALUE_LENGTH: usize = 6000;
/// The prefixes of the metrics that are curves, and of others whose names begin so.
const CURVES: &str = "curves/";
const METRICS: &str = "metrics/";
/// The prefix of the tags that are facts.
const FACT: &str = "fact.";
/// The prefix of the tags that are units of metrics.
const UNIT: &str = "unit.";

/// Writes a run for each record below `folder`.
pub fn export(records: &[Record], folder: &Path) -> io::Result<Exported> {
    let folder = std::path::absolute(folder)?;
    let forms = Forms::new(records)?;
    let mut experiments = BTreeSet::new();
    let mut shortened_count = 0;
    for record in records {
        let name = record.label.split('/').next().unwrap_or_default();
        let experiment = Experiment::new(&folder, name);
        if experiments.insert(name) {
            experiment.write()?;
        }
        shortened_count += experiment.run(record, &forms)?;
    }
    let mut changed_names = BTreeMap::new();
    for names in [&forms.metrics, &forms.params, &forms.tags] {
        add(&mut changed_names, names);
    }
    let mut sentences = notices(&changed_names, "MLflow");
    if shortened_count > 0 {
        sentences.push(format!(
            "{} longer than {MAX_VALUE_LENGTH} characters, which MLflow does not accept; `whole.json` among the \
             artifacts of the run has all of it",
            if shortened_count == 1 {
                "1 value is".to_owned()
            } else {
                format!("{} are", count(shortened_count, "value"))
            }
        ));
    }
    Ok(Exported { jobs: records.len(), notices: sentences })
}

/// The names of all records in a form that `MLflow` accepts. The same name has the same form in every run.
struct Forms {
    /// Metrics and curves.
    metrics: Names,
    params: Names,
    tags: Names,
}

impl Forms {
    fn new(records: &[Record]) -> io::Result<Self> {
        // Letters and digits of all scripts, without the marks that Python does not count among them.
        let letter = Regex::new(r"^[\p{L}\p{N}]$").map_err(io::Error::other)?;
        let is_plain = |char: char| {
            char.is_ascii_alphanumeric()
                || "_-. /:".contains(char)
                || (!char.is_ascii() && letter.is_match(char.encode_utf8(&mut [0; 4])))
        };
        let mut metrics: BTreeSet<String> = BTreeSet::new();
        let mut tags: BTreeSet<String> = BTreeSet::new();
        let mut params: BTreeSet<&str> = BTreeSet::new();
        for record in records {
            let outcome = &record.outcome;
            metrics.extend(outcome.metrics.keys().map(|name| metric(name)));
            metrics.extend(outcome.curves.keys().map(|name| curve(name)));
            tags.extend(tags_of(record).map(|(name, _)| name));
            params.extend(record.params.keys().map(Name::as_str));
        }
        Ok(Self {
            metrics: Names::new(metrics.iter().map(String::as_str), is_plain),
            params: Names::new(params, is_plain),
            tags: Names::new(tags.iter().map(String::as_str), is_plain),
        })
    }
}

fn metric(name: &str) -> String {
    apart(name, METRICS, [METRICS, CURVES]).into_owned()
}

fn curve(name: &str) -> String {
    format!("{CURVES}{name}")
}

/// Runs that `MLflow` shows together.
struct Experiment<'a> {
    name: &'a str,
    id: String,
    folder: PathBuf,
}

impl<'a> Experiment<'a> {
    fn new(folder: &Path, name: &'a str) -> Self {
        // A number of eighteen digits, as in MLflow, derived from the name.
        let hash = blake3::hash(name.as_bytes());
        let number = hash.as_bytes()[..8].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let id = (100_000_000_000_000_000 + number % 900_000_000_000_000_000).to_string();
        Self { name, folder: folder.join(&id), id }
    }

    fn write(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let Self { name, id, folder } = self;
        let meta = format!(
            "artifact_location: {}\nexperiment_id: '{id}'\nlifecycle_stage: active\nname: {}\n",
            quoted(&uri(folder)),
            quoted(name)
        );
        fs::write(folder.join("meta.yaml"), meta)
    }

    /// Writes a run, and returns the number of its values that were shortened.
    fn run(&self, record: &Record, forms: &Forms) -> io::Result<usize> {
        let id = &record.key.to_string()[..32];
        let folder = self.folder.join(id);
        // The folder that an earlier export wrote for the same job is replaced.
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let provenance = &record.provenance;
        let start = provenance.started.as_millisecond();
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds of a job")]
        let end = start + (provenance.seconds * 1e3) as i64;
        for name in ["metrics", "params", "tags", "artifacts"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let meta = format!(
            "artifact_uri: {}\nend_time: {end}\nentry_point_name: ''\nexperiment_id: '{}'\nlifecycle_stage: active\n\
             run_id: {id}\nrun_name: {}\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: {start}\n\
             status: 3\ntags: []\nuser_id: ''\n",
            quoted(&uri(&folder.join("artifacts"))),
            self.id,
            quoted(&record.label)
        );
        fs::write(folder.join("meta.yaml"), meta)?;
        let outcome = &record.outcome;
        let last_step = outcome.curves.values().filter_map(|curve| curve.at.last().copied()).max().unwrap_or(0);
        for (name, value) in &outcome.metrics {
            write(
                &folder.join("metrics"),
                forms.metrics.of(&metric(name)),
                &format!("{end} {} {last_step}\n", value.value),
            )?;
        }
        // The time of a value is not recorded, so it is interpolated: all iterations take about the same time.
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds of a job")]
        let time_of = |step: u64| start + ((end - start) as f64 * step as f64 / last_step.max(1) as f64) as i64;
        for (name, points) in &outcome.curves {
            let mut lines = String::new();
            for (step, value) in points.at.iter().zip(&points.values) {
                let _ = writeln!(lines, "{} {value} {step}", time_of(*step));
            }
            if !lines.is_empty() {
                write(&folder.join("metrics"), forms.metrics.of(&curve(name)), &lines)?;
            }
        }
        let mut texts = Texts { folder: &folder, forms, whole: BTreeMap::new(), named: BTreeMap::new() };
        for (name, value) in &record.params {
            texts.write("params", name.as_str(), &value.to_string())?;
        }
        for (name, value) in tags_of(record) {
            texts.write("tags", &name, &value)?;
        }
        for name in outcome.metrics.keys().map(|name| metric(name)).chain(outcome.curves.keys().map(|name| curve(name)))
        {
            texts.name("metrics", forms.metrics.of(&name), &name);
        }
        texts.keep()
    }
}

/// The tags of a run.
fn tags_of(record: &Record) -> impl Iterator<Item = (String, String)> {
    let provenance = &record.provenance;
    let device = provenance.device.as_ref();
    let tags = [
        ("mlflow.runName", Some(record.label.clone())),
        ("mlflow.source.name", Some("sweep".to_owned())),
        ("mlflow.source.type", Some("LOCAL".to_owned())),
        ("sweep.key", Some(record.key.to_string())),
        ("sweep.task", Some(format!("{}, revision {}", record.identity.task, record.identity.revision))),
        ("sweep.version", Some(provenance.sweep.clone())),
        ("sweep.host", Some(provenance.host.clone())),
        ("sweep.threads", Some(provenance.threads.to_string())),
        ("sweep.adopted", provenance.adopted.as_ref().map(|adopted| adopted.sentences().join("; "))),
        ("sweep.device", device.map(|device| format!("{} ({})", device.name, device.backend.name()))),
    ];
    let tags = tags.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let metrics = record.outcome.metrics.iter().map(|(name, value)| (metric(name), value.unit));
    let curves = record.outcome.curves.iter().map(|(name, value)| (curve(name), value.unit));
    let units = metrics.chain(curves).filter(|(_, unit)| *unit != Unit::One);
    let tags = tags.chain(units.map(|(name, unit)| (format!("{UNIT}{name}"), unit.key().to_owned())));
    tags.chain(record.outcome.facts.iter().map(|(name, fact)| (format!("{FACT}{name}"), fact.clone())))
}

/// The parameters and tags of a run.
struct Texts<'a> {
    folder: &'a Path,
    forms: &'a Forms,
    /// Values that were shortened, by kind and name.
    whole: BTreeMap<&'static str, BTreeMap<String, String>>,
    /// Names that have another form, by kind and form.
    named: BTreeMap<&'static str, BTreeMap<String, String>>,
}

impl Texts<'_> {
    fn write(&mut self, kind: &'static str, name: &str, value: &str) -> io::Result<()> {
        let forms = if kind == "params" { &self.forms.params } else { &self.forms.tags };
        let form = forms.of(name).to_owned();
        let end = value.char_indices().nth(MAX_VALUE_LENGTH).map_or(value.len(), |(end, _)| end);
        if end < value.len() {
            self.whole.entry(kind).or_default().insert(name.to_owned(), value.to_owned());
        }
        self.name(kind, &form, name);
        write(&self.folder.join(kind), &form, &value[..end])
    }

    fn name(&mut self, kind: &'static str, form: &str, name: &str) {
        if form != name {
            self.named.entry(kind).or_default().insert(form.to_owned(), name.to_owned());
        }
    }

    /// Keeps the values that `MLflow` does not take as artifacts, and returns the number of shortened values.
    fn keep(self) -> io::Result<usize> {
        let artifacts = self.folder.join("artifacts");
        if !self.named.is_empty() {
            fs::write(artifacts.join("names.json"), format!("{:#}\n", json!(self.named)))?;
        }
        if !self.whole.is_empty() {
            fs::write(artifacts.join("whole.json"), format!("{:#}\n", json!(self.whole)))?;
        }
        Ok(self.whole.values().map(BTreeMap::len).sum())
    }
}

/// Writes a new file at `form`, relative to `folder`. A file that exists is an error.
fn write(folder: &Path, form: &str, text: &str) -> io::Result<()> {
    let path = folder.join(form);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    io::Write::write_all(&mut file, text.as_bytes())
}

/// A text in YAML, whose double quotes accept JSON's escapes.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A path as an address.
fn uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~=,+".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

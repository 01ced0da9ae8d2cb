//! Records as a folder of `MLflow`'s file store (`mlruns`): an experiment for each step, a run for each job, with its
//! parameters, metrics, curves and provenance.
//!
//! A run's folder has `meta.yaml`, and below `metrics`, `params` and `tags` a file for each entry, with its name; a
//! metric's file has a line for each value: time in milliseconds, value, step.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use sweep_job::Unit;

use crate::record::Record;

/// A longer value of a parameter or tag is refused by `MLflow`.
const LONGEST: usize = 6000;

/// Writes a run for each record below `folder`; answers how many.
pub fn export<'r>(records: impl Iterator<Item = &'r Record>, folder: &Path) -> io::Result<usize> {
    let folder = std::path::absolute(folder)?;
    let mut experiments = BTreeSet::new();
    let mut runs = 0;
    for record in records {
        let name = record.label.split('/').next().unwrap_or_default();
        let experiment = Experiment::new(&folder, name);
        if experiments.insert(name) {
            experiment.write()?;
        }
        experiment.run(record)?;
        runs += 1;
    }
    Ok(runs)
}

/// Runs that `MLflow` shows together.
struct Experiment<'a> {
    name: &'a str,
    id: String,
    folder: PathBuf,
}

impl<'a> Experiment<'a> {
    fn new(folder: &Path, name: &'a str) -> Self {
        // A number of eighteen digits, as MLflow makes them; the same for the same name.
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

    fn run(&self, record: &Record) -> io::Result<()> {
        let id = &record.key.to_string()[..32];
        let folder = self.folder.join(id);
        // What an earlier export has written of the same job is replaced.
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let provenance = &record.provenance;
        let begin = provenance.started.as_millisecond();
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds of a job")]
        let end = begin + (provenance.seconds * 1e3) as i64;
        for name in ["metrics", "params", "tags", "artifacts"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let meta = format!(
            "artifact_uri: {}\nend_time: {end}\nentry_point_name: ''\nexperiment_id: '{}'\nlifecycle_stage: active\n\
             run_id: {id}\nrun_name: {}\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: {begin}\n\
             status: 3\ntags: []\nuser_id: ''\n",
            quoted(&uri(&folder.join("artifacts"))),
            self.id,
            quoted(&record.label)
        );
        fs::write(folder.join("meta.yaml"), meta)?;
        let outcome = &record.outcome;
        let last = outcome.curves.values().filter_map(|curve| curve.at.last().copied()).max().unwrap_or(0);
        for (name, metric) in &outcome.metrics {
            write(&folder.join("metrics"), name, &format!("{end} {} {last}\n", metric.value))?;
        }
        // When a value was taken is not recorded; iterations take about as long as each other.
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds of a job")]
        let at = |step: u64| begin + ((end - begin) as f64 * step as f64 / last.max(1) as f64) as i64;
        for (name, curve) in &outcome.curves {
            let mut lines = String::new();
            for (step, value) in curve.at.iter().zip(&curve.values) {
                let _ = writeln!(lines, "{} {value} {step}", at(*step));
            }
            if !lines.is_empty() {
                write(&folder.join("metrics"), &format!("curves/{name}"), &lines)?;
            }
        }
        for (name, value) in &record.params {
            write(&folder.join("params"), name, shortened(&value.to_string()))?;
        }
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
            ("sweep.device", device.map(|device| format!("{} ({})", device.name, device.backend.name()))),
        ];
        for (name, value) in tags.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            write(&folder.join("tags"), name, shortened(value))?;
        }
        let metrics = outcome.metrics.iter().map(|(name, metric)| (name.clone(), metric.unit));
        let curves = outcome.curves.iter().map(|(name, curve)| (format!("curves/{name}"), curve.unit));
        for (name, unit) in metrics.chain(curves).filter(|(_, unit)| *unit != Unit::One) {
            write(&folder.join("tags"), &format!("unit.{name}"), unit.key())?;
        }
        for (name, fact) in &outcome.facts {
            write(&folder.join("tags"), &format!("fact.{name}"), shortened(fact))?;
        }
        Ok(())
    }
}

/// Writes a file that is named as what is in it.
fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = folder.join(file_name(name));
    // A name may lead through another one: `train` and `train/loss`.
    let is_blocked = path.is_dir() || path.ancestors().skip(1).take_while(|above| *above != folder).any(Path::is_file);
    let path = if is_blocked { folder.join(file_name(&name.replace('/', "_"))) } else { path };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}

/// A name as `MLflow` takes them: letters, digits, `_`, `-`, `.`, spaces, and `/` between parts that lead nowhere else.
fn file_name(name: &str) -> PathBuf {
    let plain = |char: char| if char.is_ascii_alphanumeric() || "_-. /".contains(char) { char } else { '_' };
    let text: String = name.chars().map(plain).take(200).collect();
    let parts = text.split('/').filter(|part| !part.is_empty());
    parts.map(|part| if part.chars().all(|char| char == '.') { "_" } else { part }).collect()
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

/// A text as YAML takes it, in whose double quotes JSON's escapes mean the same.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_elsewhere() {
        for (name, expected) in [
            ("time.step", "time.step"),
            ("curves/loss", "curves/loss"),
            ("../../etc", "_/_/etc"),
            ("/etc/passwd", "etc/passwd"),
            ("a=b:c", "a_b_c"),
        ] {
            assert_eq!(file_name(name), Path::new(expected));
        }
    }
}

//! A finished job's record, and the text of its file: JSON, the first line of which is a digest of all the rest.

use std::{
    collections::BTreeMap,
    io, mem,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sweep_job::{Device, Outcome, Task, Values, current_name, tasks::Imported};

use crate::record::{Adopted, Conditions, Digest, Identity, Key, Milestones};

/// The latest version of [`Record`]'s JSON. 1: all units are base units. 2: metrics may have multiples of them.
pub const RECORD_FORMAT: u32 = 2;

/// Beginning of a record's text, before the digest of the bytes after [`SEALED`].
const SEAL: &[u8] = b"{\n  \"digest\": \"";
/// Separator between a record's digest and the digested bytes.
const SEALED: &[u8] = b"\",\n";
/// Hexadecimal digits of a digest.
const DIGITS: usize = 64;

/// Result of a finished job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The earliest version that can read it, see [`RECORD_FORMAT`].
    pub format: u32,
    /// The job's key.
    pub key: Key,
    /// Identity, from which the key is computed.
    pub identity: Identity,
    /// Name when it ran: a step and a point.
    pub label: String,
    /// Every parameter, defaults included.
    pub params: Values,
    /// The result.
    pub outcome: Outcome,
    /// The record's files, by their path in the folder `files`; written by the commit. Records of earlier versions have
    /// none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Digest>,
    /// Identifier of the set of files that its program was observed to read; `None` if it was not observed, and for records
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// Circumstances of the result.
    pub provenance: Provenance,
}

/// Circumstances of a result: shown, but never part of a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of the program.
    pub sweep: String,
    /// Start of the job.
    pub started: jiff::Timestamp,
    /// Duration, from the start of its process to its end.
    pub seconds: f64,
    /// The device, for tasks that compute on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    /// Threads that it was given.
    pub threads: usize,
    /// The machine.
    pub host: String,
    /// Conditions under which it ran. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Box<Conditions>>,
    /// The state that another job has left and from which it continued; `None` if it began with its first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued: Option<Started>,
    /// Times at which the job reported numbers of finished steps.
    #[serde(default, skip_serializing_if = "Milestones::is_empty")]
    pub milestones: Milestones,
    /// The part of its log that the job wrote. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogPart>,
    /// The record that the metrics were taken from again; `None` if the job ran for this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Box<MeasuredAgain>>,
    /// The record whose result was adopted after a change of the code; `None` if the job ran to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Box<Adopted>>,
    /// Notices of the job, such as values that are not numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// The part of a log that a job wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPart {
    /// Beginning of the last attempt, in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from: u64,
    /// End of the part, in bytes.
    pub bytes: u64,
    /// BLAKE3 digest of the log up to there; `None` for a log that is very long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blake3: Option<String>,
}

/// The source of a record whose job did not run for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredAgain {
    /// Record of the job that ran.
    pub from: Key,
    /// Time.
    pub at: jiff::Timestamp,
    /// The parameters that differ from the parameters of that record.
    pub changed: Vec<String>,
    /// Values that could not be taken from stored files, with the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl MeasuredAgain {
    /// Returns sentences without their ends: the source, the reason, and the missing values.
    pub fn sentences(&self) -> Vec<String> {
        let names: Vec<String> = self.changed.iter().map(|name| format!("`{name}`")).collect();
        let cause = if names.is_empty() { String::new() } else { format!(", because {} changed", names.join(", ")) };
        let from = self.from.short();
        let mut sentences = vec![format!("measured again from record {from}{cause}; no program ran")];
        sentences.extend(self.notes.iter().cloned());
        sentences
    }
}

impl Provenance {
    /// Returns sentences without their ends about a result whose job did not run to its end for this record.
    pub fn sources(&self) -> Vec<String> {
        let measured = self.measured.iter().flat_map(|measured| measured.sentences());
        measured.chain(self.adopted.iter().flat_map(|adopted| adopted.sentences())).collect()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The state from which a job continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Number of steps that were done in it.
    pub step: u64,
    /// The state's key.
    pub state: Key,
    /// Record of the job that has left the state.
    pub record: Key,
}

/// Error of a text that is not a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The record is damaged.
    #[error("the record {path} cannot be read, so its job runs again: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The mistake.
        reason: String,
    },
    /// The record comes from a later version.
    #[error(
        "the record {path} has format {found}, but this program supports formats up to {RECORD_FORMAT}: use a \
        newer version"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The record's format.
        found: u32,
    },
}

impl Record {
    /// Key of the record of the job that ran: its own, unless its metrics were taken from another record or it was adopted.
    pub fn origin(&self) -> Key {
        let Provenance { measured, adopted, .. } = &self.provenance;
        let measured = measured.as_ref().map(|measured| measured.from);
        measured.or_else(|| Some(adopted.as_ref()?.from)).unwrap_or(self.key)
    }

    /// The source that the record was imported from, in words; `None` for the record of a job that ran.
    pub fn imported(&self) -> Option<&str> {
        Imported::source(&self.outcome, &self.identity.task)
    }

    /// The earliest format that an outcome can have.
    pub fn format_of(outcome: &Outcome) -> u32 {
        let units = outcome.metrics.values().map(|metric| metric.unit);
        let mut units = units.chain(outcome.curves.values().map(|curve| curve.unit));
        if units.all(|unit| unit == unit.base()) { 1 } else { RECORD_FORMAT }
    }

    /// The text of its file: its JSON, behind a line with the BLAKE3 digest of all that follows this line.
    pub fn to_text(&self) -> io::Result<Vec<u8>> {
        let json = serde_json::to_vec_pretty(self)?;
        // The first line of a record's JSON is a brace.
        let body = [json.strip_prefix(b"{\n").unwrap_or(&json), b"\n"].concat();
        let digest = blake3::hash(&body).to_hex();
        Ok([SEAL, digest.as_bytes(), SEALED, &body].concat())
    }

    /// True if a record's text contains a digest; records of earlier versions do not.
    pub fn has_digest(text: &[u8]) -> bool {
        text.starts_with(SEAL)
    }

    /// Reads a record of this key from a text that came from `path`.
    pub fn parse(text: &[u8], path: &Path, key: Key) -> Result<Self, RecordError> {
        /// The part that every version has.
        #[derive(Deserialize)]
        struct Format {
            format: u32,
            digest: Option<serde::de::IgnoredAny>,
        }

        let damage = |reason: String| RecordError::Damaged { path: path.to_owned(), reason };
        let result = serde_json::from_slice::<Self>(text);
        // A later version's need not look like one of this version.
        let format = match &result {
            Ok(record) => record.format,
            Err(error) => serde_json::from_slice(text)
                .map(|Format { format, .. }| format)
                .map_err(|_| damage(error.to_string()))?,
        };
        if format > RECORD_FORMAT {
            return Err(RecordError::TooNew { path: path.to_owned(), found: format });
        }
        let record = result.map_err(|error| damage(error.to_string()))?;
        if record.key != key {
            return Err(damage(format!("it is the record of {}", record.key)));
        }
        if Self::has_digest(text) {
            if !is_sealed(text) {
                return Err(damage("it has changed since it was written: its digest differs".into()));
            }
        } else if serde_json::from_slice(text).is_ok_and(|Format { digest, .. }| digest.is_some()) {
            return Err(damage("it has changed since it was written: its digest is not in the first line".into()));
        }
        Ok(record.with_current_names())
    }

    /// Gives metrics that were renamed since the record was written the names that their task declares now, and metrics
    /// that were recorded in base units the unit in their name.
    fn with_current_names(mut self) -> Self {
        let Some(task) = Task::info(&self.identity.task) else { return self };
        let current_metric = |name: &str| {
            let new_name = current_name(name);
            (new_name != name && task.metric(name).is_some_and(|metric| metric.name == new_name))
                .then(|| new_name.to_owned())
        };
        let Outcome { metrics, facts, .. } = &mut self.outcome;
        *metrics = mem::take(metrics)
            .into_iter()
            .map(|(name, metric)| (current_metric(&name).unwrap_or(name), metric))
            .collect();
        let fact = |name: String| {
            let new_metric = name.strip_prefix("absent.").and_then(current_metric);
            new_metric.map_or(name, |metric| format!("absent.{metric}"))
        };
        *facts = mem::take(facts).into_iter().map(|(name, text)| (fact(name), text)).collect();
        self.outcome = self.outcome.in_named_units();
        self
    }
}

/// True if a text's digest matches the rest of the text.
fn is_sealed(text: &[u8]) -> bool {
    let parts = text.strip_prefix(SEAL).and_then(|tail| tail.split_at_checked(DIGITS));
    let Some((digest, body)) = parts.and_then(|(digest, tail)| Some((digest, tail.strip_prefix(SEALED)?))) else {
        return false;
    };
    blake3::hash(body).to_hex().as_bytes() == digest
}

#[cfg(test)]
mod tests {
    use sweep_job::Unit;

    use super::*;
    use crate::record::sample;

    #[test]
    fn numbers_survive_the_disk_bit_for_bit() {
        let record = sample();
        let text = serde_json::to_vec(&record).unwrap();
        assert_eq!(Record::parse(&text, Path::new("x"), record.key).unwrap(), record);
    }

    #[test]
    fn no_byte_of_a_record_can_be_changed() {
        let record = sample();
        let record_text = record.to_text().unwrap();
        let parse = |text: &[u8]| Record::parse(text, Path::new("x"), record.key);
        assert_eq!(parse(&record_text).unwrap(), record);
        for at in 0..record_text.len() {
            let mut changed_text = record_text.clone();
            changed_text[at] ^= 1;
            // A change in the name of the digest leaves the rest of the record unchanged.
            let result = parse(&changed_text);
            assert!(result.is_err() || result.is_ok_and(|result| result == record && at < SEAL.len()), "byte {at}");
        }
        let pretty_text = serde_json::from_slice::<serde_json::Value>(&record_text).unwrap().to_string();
        assert!(parse(pretty_text.as_bytes()).is_err(), "a digest that cannot be checked");
    }

    #[test]
    fn metrics_of_earlier_names_are_read_under_their_names_of_today() {
        let names = ["utilisation.cpu", "steps.left_out", "compute.ceiling", "loss"];
        let read_names = |task: &str| {
            let mut record = sample();
            record.identity.task = task.into();
            for name in names {
                record.outcome.set_open(name, 1.0, Unit::One);
            }
            record.outcome.facts.insert("absent.utilisation.memory".into(), "the driver does not report it".into());
            let text = record.to_text().unwrap();
            let outcome = Record::parse(&text, Path::new("x"), record.key).unwrap().outcome;
            let metrics: Vec<String> = outcome.metrics.keys().filter(|name| *name != "value").cloned().collect();
            (metrics, outcome.facts.into_keys().collect::<Vec<_>>())
        };
        let (metrics, facts) = read_names("train");
        assert_eq!(metrics, ["loss", "peak.compute", "steps.skipped", "utilization.cpu"]);
        assert_eq!(facts, ["absent.utilization.memory"]);
        // A program's own metrics keep their names, except for a metric that the task declares.
        assert_eq!(read_names("command").0, ["compute.ceiling", "loss", "steps.left_out", "utilization.cpu"]);
    }

    #[test]
    fn a_record_in_another_jobs_place_is_refused() {
        let record = sample();
        let text = serde_json::to_vec(&record).unwrap();
        let other_key: Key = "0".repeat(64).parse().unwrap();
        assert!(matches!(Record::parse(&text, Path::new("x"), other_key), Err(RecordError::Damaged { .. })));
    }
}

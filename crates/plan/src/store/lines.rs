//! The lines of the index.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sweep_job::{Backend, Metric, Metrics, current_name};

use super::{Origin, Record, Under, index::Stamp};
use crate::record::{Digest, Identity, Key, Remarks};

/// Line of the index about a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The job's key.
    pub key: Key,
    /// Identifier of the set of files that its program was observed to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// Label of the job when it ran.
    pub label: String,
    /// Start of the job.
    pub started: Timestamp,
    /// Duration.
    pub seconds: f64,
    /// Size of its files in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// Identity, from which the key is computed.
    pub identity: Identity,
    /// Record of the job that ran, if the metrics of this one were taken from it again or if it was adopted, and the time of
    /// that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<(Key, Timestamp)>,
    /// True if the job's program did not open the file with its parameters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub params_unread: bool,
}

impl From<&Record> for Entry {
    fn from(record: &Record) -> Self {
        let Record { key, label, identity, provenance, files, outcome, read, .. } = record;
        let bytes = files.values().map(Digest::bytes).sum();
        let (label, identity, read) = (label.clone(), identity.clone(), read.clone());
        Self {
            key: *key,
            read,
            label,
            started: provenance.started,
            seconds: provenance.seconds,
            bytes,
            identity,
            measured: match (&provenance.measured, &provenance.adopted) {
                (Some(measured), _) => Some((measured.from, measured.at)),
                (None, Some(adopted)) => Some((adopted.from, adopted.at)),
                (None, None) => None,
            },
            params_unread: outcome.reported.as_ref().is_some_and(|reported| reported.params_unread),
        }
    }
}

/// Measurements, with their time and place: beside the index, because only queries about results need it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The job's key.
    pub key: Key,
    /// The metrics.
    pub metrics: Metrics,
    /// Start of the job.
    pub started: Timestamp,
    /// Duration.
    pub seconds: f64,
    /// Backend, for tasks that compute on a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// The device of the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The machine.
    pub host: String,
    /// The program's version.
    pub sweep: String,
    /// Origin of the record, if another machine wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The record whose result this one was adopted from, after a change of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Key>,
    /// Conditions on which comparisons depend. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under: Option<Box<Under>>,
    /// Remarks on its result. Lines of earlier versions have none, and are written anew.
    pub remarks: Remarks,
}

impl Measured {
    /// Returns the first step with a non-finite value, if known; `None` unless `metric` has no value for this reason.
    pub fn diverged(&self, metric: &str) -> Option<Option<u64>> {
        let diverged = &self.remarks.diverged;
        diverged.get(metric).or_else(|| diverged.get(current_name(metric))).copied()
    }
}

impl From<&Record> for Measured {
    fn from(record: &Record) -> Self {
        let provenance = &record.provenance;
        let device = provenance.device.as_ref();
        Self {
            key: record.key,
            metrics: record.outcome.metrics.clone(),
            started: provenance.started,
            seconds: provenance.seconds,
            backend: device.map(|device| device.backend),
            device: device.map(|device| device.name.clone()),
            host: provenance.host.clone(),
            sweep: provenance.sweep.clone(),
            origin: None,
            adopted: provenance.adopted.as_ref().map(|adopted| adopted.from),
            under: Under::of(record),
            remarks: Remarks::of(&record.outcome, &record.identity.task),
        }
    }
}

/// A line of a derived file: the record's stamp, and the file's data about it, with the key first.
pub(super) trait Line: for<'r> From<&'r Record> + Serialize + DeserializeOwned + Send {
    const FILE: &str;
    /// The key of the line's record.
    fn key(&self) -> Key;
    /// Adds the origin of the record, for files that have it.
    fn came_from(&mut self, _origin: Option<Origin>) {}
    /// Parses `line`, with only the metrics in `names`, if `names` is given; `None` if the line is invalid.
    fn parse(line: &[u8], names: Option<&HashSet<&str>>) -> Option<Self>;
}

impl Line for Entry {
    const FILE: &str = "index.jsonl";

    fn key(&self) -> Key {
        self.key
    }

    fn parse(line: &[u8], _names: Option<&HashSet<&str>>) -> Option<Self> {
        whole(line)
    }
}

impl Line for Measured {
    // The name differs from `metrics.jsonl`, in which metrics may have earlier names.
    const FILE: &str = "measured.jsonl";

    fn key(&self) -> Key {
        self.key
    }

    fn came_from(&mut self, origin: Option<Origin>) {
        self.origin = origin;
    }

    fn parse(line: &[u8], names: Option<&HashSet<&str>>) -> Option<Self> {
        /// A line that borrows the names of metrics, because most names are not needed.
        #[derive(Deserialize)]
        struct Borrowed<'l> {
            key: Key,
            #[serde(borrow)]
            metrics: BTreeMap<&'l str, Metric>,
            started: Timestamp,
            seconds: f64,
            backend: Option<Backend>,
            device: Option<String>,
            host: String,
            sweep: String,
            #[serde(default)]
            origin: Option<Origin>,
            #[serde(default)]
            adopted: Option<Key>,
            #[serde(default)]
            under: Option<Box<Under>>,
            remarks: Remarks,
        }

        let entry = names.and_then(|names| {
            let (_, line) = serde_json::from_slice::<(Stamp, Borrowed<'_>)>(line).ok()?;
            let Borrowed {
                metrics,
                key,
                started,
                seconds,
                backend,
                device,
                host,
                sweep,
                origin,
                adopted,
                under,
                remarks,
            } = line;
            let metrics = metrics.into_iter().filter(|(name, _)| names.contains(name));
            let metrics = metrics.map(|(name, metric)| (name.to_owned(), metric)).collect();
            Some(Self { key, metrics, started, seconds, backend, device, host, sweep, origin, adopted, under, remarks })
        });
        // A name with something in it that JSON escapes is understood so.
        entry.or_else(|| whole(line))
    }
}

/// Understands a line with all that is in it.
fn whole<L: DeserializeOwned>(line: &[u8]) -> Option<L> {
    serde_json::from_slice::<(Stamp, L)>(line).ok().map(|(_, line)| line)
}

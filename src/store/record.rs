//! A finished job's record.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};
use sweep_job::{Device, Outcome, Values};

use super::{Digest, StoreError};
use crate::plan::{Identity, Key};

/// Version of [`Record`]'s JSON. 1: first.
pub const RECORD_FORMAT: u32 = 1;

/// What a finished job left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`RECORD_FORMAT`].
    pub format: u32,
    /// The job's key.
    pub key: Key,
    /// What the key is made of.
    pub identity: Identity,
    /// What it was called when it ran: a step and a point.
    pub label: String,
    /// Every parameter, defaults included.
    pub params: Values,
    /// The result.
    pub outcome: Outcome,
    /// Its files, by their path in the folder `files`; written by the commit. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Digest>,
    /// How it came about.
    pub provenance: Provenance,
}

/// How a result came about: shown, but never part of a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of the program.
    pub sweep: String,
    /// When it began.
    pub started: jiff::Timestamp,
    /// How long it took, from the start of its process to its end.
    pub seconds: f64,
    /// The device, for tasks that compute on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    /// Threads that it was given.
    pub threads: usize,
    /// The machine.
    pub host: String,
}

impl Record {
    /// Reads a record of this key from a text that came from `path`.
    pub fn parse(text: &[u8], path: &Path, key: Key) -> Result<Self, StoreError> {
        /// The part that every version has.
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }

        let damaged = |reason: String| StoreError::Damaged { path: path.to_owned(), reason };
        let parsed = serde_json::from_slice::<Self>(text);
        // A later version's need not look like one of this version.
        let format = match &parsed {
            Ok(record) => record.format,
            Err(error) => {
                serde_json::from_slice(text).map(|Format { format }| format).map_err(|_| damaged(error.to_string()))?
            }
        };
        if format > RECORD_FORMAT {
            return Err(StoreError::TooNew { path: path.to_owned(), found: format });
        }
        let record = parsed.map_err(|error| damaged(error.to_string()))?;
        if record.key != key {
            return Err(damaged(format!("it is the record of {}", record.key)));
        }
        Ok(record)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use sweep_job::{Task, Unit};

    use super::*;
    use crate::plan::Needed;

    pub(in crate::store) fn sample() -> Record {
        let task = Task::info("mock").unwrap();
        let params = task.complete(Values::new());
        let identity = Identity::new(task, &params, None, BTreeMap::new(), Needed::default());
        let mut outcome = Outcome::default();
        outcome.metric("value", 0.1 + 0.2, Unit::One);
        Record {
            format: RECORD_FORMAT,
            key: identity.key().unwrap(),
            identity,
            label: "mock".into(),
            params,
            outcome,
            files: BTreeMap::new(),
            provenance: Provenance {
                sweep: "0.0.0".into(),
                started: jiff::Timestamp::UNIX_EPOCH,
                seconds: 1.5,
                device: None,
                threads: 1,
                host: "here".into(),
            },
        }
    }

    #[test]
    fn numbers_survive_the_disk_bit_for_bit() {
        let record = sample();
        let text = serde_json::to_vec(&record).unwrap();
        assert_eq!(Record::parse(&text, Path::new("x"), record.key).unwrap(), record);
    }

    #[test]
    fn a_record_in_another_jobs_place_is_refused() {
        let record = sample();
        let text = serde_json::to_vec(&record).unwrap();
        let other: Key = "0".repeat(64).parse().unwrap();
        assert!(matches!(Record::parse(&text, Path::new("x"), other), Err(StoreError::Damaged { .. })));
    }
}

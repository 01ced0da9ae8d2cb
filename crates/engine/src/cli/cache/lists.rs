//! Lists of records and states, for JSON output.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    record::Key,
    store::{Entry, Garbage, State, Store, Verified},
};

/// The JSON output of `sweep cache ls`.
#[derive(Serialize)]
pub(super) struct Listed<'a> {
    pub(super) records: Vec<ListedRecord<'a>>,
    pub(super) states: Vec<ListedState<'a>>,
}

/// A record.
#[derive(Serialize)]
pub(super) struct ListedRecord<'a> {
    key: Key,
    job: &'a str,
    started: Timestamp,
    seconds: f64,
    /// Size of its files.
    bytes: u64,
}

/// A state.
#[derive(Serialize)]
pub(super) struct ListedState<'a> {
    key: Key,
    /// The job that has left it.
    job: &'a str,
    step: u64,
    kept: Timestamp,
    bytes: u64,
}

/// The JSON output of `sweep cache verify`.
#[derive(Serialize)]
pub(super) struct Checked {
    pub(super) good: bool,
    #[serde(flatten)]
    pub(super) verified: Verified,
}

/// The JSON output of `sweep cache gc` and `sweep cache rm`.
#[derive(Serialize)]
pub(super) struct Removal<'a> {
    /// False if they are only listed.
    removed: bool,
    records: Vec<RemovedRecord>,
    states: Vec<ListedState<'a>>,
    /// Number of unfinished jobs that have left something.
    leftovers: usize,
    temporary_files: usize,
    /// Size of everything.
    bytes: u64,
}

#[derive(Serialize)]
struct RemovedRecord {
    key: Key,
    job: String,
    bytes: u64,
}

/// A record that was not taken.
#[derive(Serialize)]
pub(in crate::cli) struct Refused<'a> {
    key: Key,
    reason: &'a str,
}

impl<'a> From<&'a Entry> for ListedRecord<'a> {
    fn from(entry: &'a Entry) -> Self {
        let Entry { key, label, started, seconds, bytes, .. } = entry;
        Self { key: *key, job: label, started: *started, seconds: *seconds, bytes: *bytes }
    }
}

/// States for a list.
pub(super) fn all(states: &[State]) -> Vec<ListedState<'_>> {
    states
        .iter()
        .map(|state| ListedState {
            key: state.key,
            job: &state.label,
            step: state.step,
            kept: state.kept,
            bytes: state.bytes(),
        })
        .collect()
}

/// The name of the job of a record, or the reason why it cannot be read.
pub(super) fn label(store: &Store, key: Key) -> String {
    match store.get(key) {
        Ok(Some(record)) => record.label,
        Ok(None) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    }
}

impl<'a> Removal<'a> {
    pub(super) fn new(store: &Store, garbage: &'a Garbage, removed: bool) -> Self {
        let record = |(key, bytes): &(Key, u64)| RemovedRecord { key: *key, job: label(store, *key), bytes: *bytes };
        Self {
            removed,
            records: garbage.records.iter().map(record).collect(),
            states: all(&garbage.states),
            leftovers: garbage.leftovers.len(),
            temporary_files: garbage.temporary.len(),
            bytes: garbage.bytes(),
        }
    }
}

impl<'a> Refused<'a> {
    pub(in crate::cli) fn all(refused: &'a [(Key, String)]) -> Vec<Self> {
        refused.iter().map(|(key, reason)| Self { key: *key, reason }).collect()
    }
}

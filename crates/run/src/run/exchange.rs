//! The remote store through which jobs and their results go where machines share no folder.

use std::{collections::BTreeSet, fmt};

use crate::{
    plan::SerializedJob,
    record::{self, Key},
    store::Store,
};

/// A remote store that both sides of a run reach. Errors are sentences.
pub trait Exchange: fmt::Debug + Send + Sync {
    /// The exchange's address.
    fn name(&self) -> &str;

    /// True if the exchange has the record of `key`.
    fn has(&self, key: Key) -> Result<bool, String>;

    /// Downloads the record of `key` into `store`; `false` if the exchange does not have it.
    fn bring(&self, store: &Store, key: Key) -> Result<bool, String>;

    /// Uploads the record of `key` from `store`.
    fn send(&self, store: &Store, key: Key) -> Result<(), String>;

    /// Returns the text with the name `name`; `None` if it does not exist.
    fn text(&self, name: &str) -> Result<Option<Vec<u8>>, String>;

    /// Uploads `text` under the name `name`.
    fn put_text(&self, name: &str, text: &[u8]) -> Result<(), String>;
}

/// A submission of a job through such a store.
#[derive(Debug, Clone)]
pub struct SentJob {
    /// The name of all jobs of the submitting results folder.
    pub jobs_name: String,
    /// The run.
    pub run: String,
    /// The job.
    pub key: Key,
    /// The number of this submission of the job.
    pub submission: u32,
}

impl SentJob {
    fn named(&self, end: &str) -> String {
        let Self { jobs_name, run, key, submission } = self;
        format!("{jobs_name}/{run}/{key}.{submission}.{end}")
    }

    /// The name of its specification.
    pub(super) fn spec(&self) -> String {
        self.named("json")
    }

    /// The name of its journal.
    pub(super) fn said(&self) -> String {
        self.named("jsonl")
    }

    /// The name of the end of its output.
    pub(super) fn log(&self) -> String {
        self.named("log")
    }
}

/// The jobs of which a job needs the records.
pub(super) fn needed(spec: &SerializedJob) -> BTreeSet<Key> {
    let mut keys: BTreeSet<Key> = spec.identity.needs.iter().collect();
    keys.extend(record::taken(&spec.values).into_iter().map(|(key, _)| key));
    keys
}

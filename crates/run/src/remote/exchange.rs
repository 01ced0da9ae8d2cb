//! The remote as the store through which jobs go to machines without a shared folder.

use super::Remote;
use crate::{
    record::Key,
    run::{Arriving, Exchange},
    store::Store,
};

impl Exchange for Remote {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn has(&self, key: Key) -> Result<bool, String> {
        self.has_record(key).map_err(|error| error.to_string())
    }

    fn bring(&self, store: &Store, key: Key) -> Result<bool, String> {
        let summary = self.pull(store, &[key], &Arriving::default()).map_err(|error| error.to_string())?;
        match (summary.refused.into_iter().next(), summary.broken) {
            (Some((_, reason)), _) | (None, Some(reason)) => Err(reason),
            (None, None) => Ok(summary.added > 0),
        }
    }

    fn send(&self, store: &Store, key: Key) -> Result<(), String> {
        self.push(store, key).map_err(|error| error.to_string())
    }

    fn text(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        self.job_text(name).map_err(|error| error.to_string())
    }

    fn put_text(&self, name: &str, text: &[u8]) -> Result<(), String> {
        self.put_job_text(name, text).map_err(|error| error.to_string())
    }
}

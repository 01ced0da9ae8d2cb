//! Stand-in for a build without the feature `remote`.

use std::path::Path;

use super::{Envelope, Options, Pulled, RemoteError};
use crate::run::Arriving;
use crate::{
    record::Key,
    store::{Decision, Store},
};

/// A remote, of which a build without the feature has no values.
#[derive(Debug)]
pub enum Remote {}

impl Remote {
    /// Refused.
    pub fn open(_: &str, _: &Options) -> Result<Self, RemoteError> {
        Err(RemoteError::Absent)
    }

    /// Its address.
    pub fn name(&self) -> &str {
        match *self {}
    }

    /// True if the remote is no longer used.
    pub fn is_given_up(&self) -> bool {
        match *self {}
    }

    /// Brings records here.
    pub fn pull(&self, _: &Store, _: &[Key], _: &Arriving) -> Result<Pulled, RemoteError> {
        match *self {}
    }

    /// Brings a record there.
    pub fn push(&self, _: &Store, _: Key) -> Result<(), RemoteError> {
        match *self {}
    }

    /// True if a record would be signed.
    pub fn signs(&self, _: &Store, _: Key) -> Option<bool> {
        match *self {}
    }

    /// A decision with this key.
    pub fn decision(&self, _: &Store, _: Key) -> Result<Option<Decision>, RemoteError> {
        match *self {}
    }

    /// Brings a decision there.
    pub fn agree(&self, _: &Store, _: &Decision) -> Result<Decision, RemoteError> {
        match *self {}
    }

    /// True if there is a record.
    pub fn has_record(&self, _: Key) -> Result<bool, RemoteError> {
        match *self {}
    }

    /// A text of a job.
    pub fn job_text(&self, _: &str) -> Result<Option<Vec<u8>>, RemoteError> {
        match *self {}
    }

    /// Puts a text of a job there.
    pub fn put_job_text(&self, _: &str, _: &[u8]) -> Result<(), RemoteError> {
        match *self {}
    }

    /// The keys of all records that it has.
    pub fn keys(&self) -> Result<Vec<Key>, RemoteError> {
        match *self {}
    }
}

/// Refused.
pub fn keygen(_: &Path) -> Result<String, RemoteError> {
    Err(RemoteError::Absent)
}

/// Refused.
pub fn seal_text(_: &str, _: &str, _: &Path) -> Result<String, RemoteError> {
    Err(RemoteError::Absent)
}

/// Refused.
pub fn open_text(_: &str, _: Option<&Path>) -> Result<Envelope, RemoteError> {
    Err(RemoteError::Absent)
}

//! In a build without the feature `remote` there is none, and so nothing to be done with one.

use super::{Pulled, RemoteError};
use crate::{plan::Key, store::Store};

/// There is none.
#[derive(Debug)]
pub enum Remote {}

impl Remote {
    /// Refused.
    pub fn open(_: &str) -> Result<Self, RemoteError> {
        Err(RemoteError::Absent)
    }

    /// Its address.
    pub fn name(&self) -> &str {
        match *self {}
    }

    /// Brings records here.
    pub fn pull(&self, _: &Store, _: &[Key]) -> Result<Pulled, RemoteError> {
        match *self {}
    }

    /// Brings a record there.
    pub fn push(&self, _: &Store, _: Key) -> Result<(), RemoteError> {
        match *self {}
    }

    /// The keys of all records that it has.
    pub fn keys(&self) -> Result<Vec<Key>, RemoteError> {
        match *self {}
    }
}

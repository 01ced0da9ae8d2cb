//! The origin of a record from another machine: beside the record, in `origin.json`.
//!
//! A record's digests prove that it has not changed since it was written, not who wrote it. A record from a remote or
//! an archive is therefore marked as such while it is in the store.

use std::{fmt, io, path::Path};

use fs_err as fs;
use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};

use super::Store;
use crate::{format::clean, record::Key};

/// The file in the record's folder.
pub(super) const ORIGIN: &str = "origin.json";

/// Source of a record, and the time of its transfer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// The remote's address, which has no credentials in it, or the archive's name.
    pub from: String,
    /// Time of the transfer.
    pub at: Timestamp,
    /// The public key of the record's signature, if it was signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<String>,
}

impl Origin {
    /// An origin without a signature, as of now.
    pub fn new(from: &str) -> Self {
        Self { from: from.to_owned(), at: crate::host::clock::now(), signed: None }
    }

    /// Returns the day on which the record arrived, in UTC.
    pub fn day(&self) -> String {
        self.at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d").to_string()
    }

    /// Writes it into a record's folder.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::from)?;
        text.push(b'\n');
        fs::write(folder.join(ORIGIN), text)
    }

    /// Reads the origin in a record's folder; `None` for a record from this machine.
    pub(super) fn read(folder: &Path) -> io::Result<Option<Self>> {
        match fs::read(folder.join(ORIGIN)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(io::Error::from),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signature =
            self.signed.as_deref().map_or("not signed".to_owned(), |key| format!("signed by {}", clean(key)));
        write!(f, "{}, pulled on {}, {signature}", clean(&self.from), self.day())
    }
}

impl Store {
    /// Source of a record; `None` for a record that this machine wrote. An unreadable origin does not prove that.
    pub fn origin(&self, key: Key) -> Option<Origin> {
        let folder = self.folder(key);
        Origin::read(&folder).unwrap_or_else(|_| {
            let mtime = std::fs::metadata(folder.join(ORIGIN)).and_then(|metadata| metadata.modified());
            let at = mtime.ok().and_then(|at| Timestamp::try_from(at).ok()).unwrap_or(Timestamp::UNIX_EPOCH);
            Some(Origin { from: format!("an unknown place ({ORIGIN} cannot be read)"), at, signed: None })
        })
    }
}

//! Records in an object store, or in a folder elsewhere: `s3://`, `gs://`, `az://`, `file://`.
//!
//! Each record is one object, an archive as `sweep cache export` makes it behind a line with its digest and its length. The
//! object's name is the record's key. What comes from there is believed no more than any archive: the digest, the key and the
//! digests of all files are computed anew. A remote that cannot be reached, or refuses, costs one warning; the run goes on
//! without it. Credentials come from the environment and go nowhere else.

#[cfg(not(feature = "remote"))]
mod absent;
#[cfg(feature = "remote")]
mod client;
#[cfg(any(feature = "remote", test))]
mod envelope;
mod pusher;

#[cfg(not(feature = "remote"))]
pub use self::absent::Remote;
#[cfg(feature = "remote")]
pub use self::client::Remote;
pub use self::pusher::{Pushed, Pusher};
use crate::{plan::Key, store::TransferError};

/// Why a remote cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address makes no sense.
    #[error(
        "`{0}` is no remote: {1}; write for example s3://bucket/folder, gs://bucket, az://container or file:///shared/folder"
    )]
    Address(String, String),
    /// It does not answer, or refuses.
    #[error("the remote {0} cannot be used: {1}")]
    Broken(String, String),
    /// This program cannot speak to any.
    #[error("this build has no remotes: build with the feature `remote`")]
    Absent,
    /// The store here cannot be read or written.
    #[error(transparent)]
    Here(#[from] TransferError),
}

/// What became of records that were looked for in a remote.
#[derive(Debug, Default, PartialEq)]
pub struct Pulled {
    /// Records that are here now.
    pub added: usize,
    /// Records that the remote does not have.
    pub missing: usize,
    /// Objects that are not what they should be, and why.
    pub refused: Vec<(Key, String)>,
    /// Why the remote was given up.
    pub broken: Option<String>,
}

//! Records in an object store, or in a folder elsewhere: `s3://`, `gs://`, `az://`, `file://`.
//!
//! Each record is one object: an archive, as `sweep cache export` makes it, after a line with its digest and its
//! length. The object's name is the record's key. Objects are trusted no more than any archive: the digest, the key and
//! the digests of all files are computed again, and an object with any other content is rejected. These checks do not prove
//! who measured: a record from a remote is marked as such, and signatures (`sign.rs`) identify its author. `dsse.rs` signs other
//! texts with the same keys.
//!
//! A remote that is unreachable or denies access causes one warning; the run continues without it. A slow remote delays only
//! the jobs whose records it has (`puller.rs`). Credentials come from the environment and go nowhere else.

#[cfg(not(feature = "remote"))]
mod absent;
#[cfg(feature = "remote")]
mod client;
#[cfg(feature = "remote")]
mod connect;
#[cfg(feature = "remote")]
mod dsse;
#[cfg(feature = "remote")]
mod envelope;
mod exchange;
mod puller;
mod pusher;
#[cfg(feature = "remote")]
mod sign;

use std::{path::PathBuf, time::Duration};

#[cfg(not(feature = "remote"))]
pub use self::absent::{Remote, keygen, open_text, seal_text};
#[cfg(feature = "remote")]
pub use self::{
    client::Remote,
    dsse::{open_text, seal_text},
    sign::keygen,
};
pub use self::{
    puller::{Puller, refused},
    pusher::{Pushed, Pusher},
};
use crate::{record::Key, store::TransferError};

/// Settings of a remote.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file of the secret key that signs pushed records; with `None`, records are unsigned.
    pub key: Option<PathBuf>,
    /// Whose records are taken.
    pub trust: Trusting,
    /// Maximum time for the transfer of one record.
    pub timeout: Duration,
}

/// Whose records are taken from a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trusting {
    /// Records of everyone who can write to the remote.
    Any,
    /// Records that the user's own key has signed.
    Own,
    /// Records that a key listed in this file has signed.
    Listed(PathBuf),
}

/// Error of a remote that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address is invalid.
    #[error(
        "`{0}` is not a remote: {1}; write for example s3://bucket/folder, gs://bucket, az://container or file:///shared/folder"
    )]
    Address(String, String),
    /// A key cannot be used.
    #[error("the key cannot be used: {0}")]
    Key(String),
    /// The remote does not respond, or rejects the request.
    #[error("the remote {0} cannot be used: {1}")]
    Broken(String, String),
    /// A signed text is invalid, or was changed.
    #[error("the signed statement is invalid: {0}")]
    Envelope(String),
    /// This build supports no remotes and no signatures.
    #[error("this build has no remotes and no signatures: build with the feature `remote`")]
    Absent,
    /// The store here cannot be read or written.
    #[error(transparent)]
    Local(#[from] TransferError),
}

/// A text that was signed, whose signatures are correct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The type of the text.
    pub payload_type: String,
    /// The text.
    pub payload: String,
    /// Those who signed it; never empty.
    pub signers: Vec<Signer>,
}

/// Someone who has signed a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    /// The public key.
    pub key: String,
    /// True if the key is in the list of trusted keys.
    pub is_trusted: bool,
}

/// Results of a pull.
#[derive(Debug, Default, PartialEq)]
pub struct Pulled {
    /// Records that are here now.
    pub added: usize,
    /// Records that the remote does not have.
    pub missing: usize,
    /// Objects that are damaged or wrong, that come too slowly, or whose signer is not trusted; with the reason.
    pub refused: Vec<(Key, String)>,
    /// Reason for no longer using the remote.
    pub broken: Option<String>,
}

//! Errors of hosts: one sentence each, with the host's name and the remedy.

use serde::{Deserialize, Serialize};

/// Error of a host or of the connection to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// There is no connection at the moment; connecting is retried.
    #[error("{host} is not connected: {reason}")]
    Away {
        /// The host.
        host: String,
        /// The latest reason.
        reason: String,
    },
    /// The connection was lost.
    #[error("the connection to {host} was lost: {reason}; its jobs continue there, and the connection is retried")]
    Lost {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// No server responds at the host's address.
    #[error("{host} cannot be reached: {reason}; the connection is retried")]
    Unreachable {
        /// The host.
        host: String,
        /// The last words of `ssh`.
        reason: String,
    },
    /// The host does not accept the user's keys.
    #[error("{host} refuses the login: {reason}; `ssh {host}` must work without a prompt (with a key or an agent)")]
    Login {
        /// The host.
        host: String,
        /// The last words of `ssh`.
        reason: String,
    },
    /// The host's key is not known, or is another one than before.
    #[error("the host key of {host} cannot be verified: {reason}; connect once with `ssh {host}` and compare its key")]
    HostKey {
        /// The host.
        host: String,
        /// The last words of `ssh`.
        reason: String,
    },
    /// `ssh` cannot be started, or does not accept its arguments.
    #[error("`ssh {host}` cannot be used: {reason}")]
    Ssh {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The host's system or processor is another.
    #[error(
        "{host} is {there}, but this program is built for {here} and cannot run there; remove the host, or start the \
         sweep on a machine of the same kind"
    )]
    Architecture {
        /// The host.
        host: String,
        /// Its system and processor.
        there: String,
        /// The system and processor of this program.
        here: String,
    },
    /// The program does not run on the host.
    #[error(
        "this program does not run on {host}: {reason}; use the static program of a release, or one built on a system \
         that is not newer than the host's"
    )]
    Library {
        /// The host.
        host: String,
        /// The last words of the program.
        reason: String,
    },
    /// The host's disk is full.
    #[error("the disk of {host} is full: {reason}; free space there, or run `sweep hosts clean {host}`")]
    Full {
        /// The host.
        host: String,
        /// The place and the reason.
        reason: String,
    },
    /// Something that a job needs is not there any more.
    #[error("{host} no longer has {what}, which is sent again")]
    Missing {
        /// The host.
        host: String,
        /// The missing things.
        what: String,
    },
    /// A job has no record there.
    #[error("{host} has no record of {job}")]
    NoRecord {
        /// The host.
        host: String,
        /// The job.
        job: String,
    },
    /// The host is in use, so that nothing can be removed.
    #[error("{host} is in use: {reason}; nothing was removed")]
    InUse {
        /// The host.
        host: String,
        /// The reason why the host is in use.
        reason: String,
    },
    /// The response does not come from this program.
    #[error("{host} sent an unexpected answer: {reason}")]
    Protocol {
        /// The host.
        host: String,
        /// The defect.
        reason: String,
    },
    /// The host could not fulfill the request.
    #[error("{host}: {reason}")]
    There {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The files of the project cannot be sent.
    #[error("{0}")]
    Project(String),
    /// A file of this machine cannot be read or written.
    #[error("{0}")]
    Here(String),
}

/// Error of the server on the host, as it travels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Kind of the error, by which the submitting side reacts.
    pub kind: FaultKind,
    /// Message for the user.
    pub message: String,
}

/// Kind of a [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The disk is full.
    Full,
    /// A tree, a blob or a record is missing.
    Missing,
    /// There is no record.
    NoRecord,
    /// Something is in use.
    InUse,
    /// Anything else.
    Other,
}

impl HostError {
    /// Returns true if retries fail until a user resolves the problem.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Login { .. }
            | Self::HostKey { .. }
            | Self::Ssh { .. }
            | Self::Architecture { .. }
            | Self::Library { .. }
            | Self::Protocol { .. }
            | Self::Project(_)
            | Self::Here(_) => true,
            Self::Away { .. }
            | Self::Lost { .. }
            | Self::Unreachable { .. }
            | Self::Full { .. }
            | Self::Missing { .. }
            | Self::NoRecord { .. }
            | Self::InUse { .. }
            | Self::There { .. } => false,
        }
    }

    /// Returns true if there is no connection; the request can be repeated once there is one.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Lost { .. } | Self::Unreachable { .. })
    }

    /// True if the host's disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// The error of a host that reports a fault.
    pub(crate) fn of_fault(host: &str, fault: Fault) -> Self {
        let (host, Fault { kind, message }) = (host.to_owned(), fault);
        match kind {
            FaultKind::Full => Self::Full { host, reason: message },
            FaultKind::Missing => Self::Missing { host, what: message },
            FaultKind::NoRecord => Self::NoRecord { host, job: message },
            FaultKind::InUse => Self::InUse { host, reason: message },
            FaultKind::Other => Self::There { host, reason: message },
        }
    }
}

impl Fault {
    /// Makes an error of a kind.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let kind = match error.kind() {
            StorageFull | QuotaExceeded => FaultKind::Full,
            _ => FaultKind::Other,
        };
        Self::new(kind, error.to_string())
    }
}

//! Faults, and the operations at which they happen.

use std::{io, time::Duration};

use sweep_base::host::files::Operation;

/// The operation at which a fault happens: the one of this number, of all or of a kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Moment {
    pub(crate) kind: Option<Kind>,
    pub(crate) number: u64,
}

/// Kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Look,
    Open,
    Write,
    SetLength,
    Sync,
    SyncAll,
    Rename,
    Link,
    Remove,
    MakeFolder,
    RemoveFolder,
    Lock,
    Touch,
}

impl Kind {
    /// The kind of an operation.
    pub(crate) fn of(operation: &Operation<'_>) -> Self {
        match operation {
            Operation::Look(_) => Self::Look,
            Operation::Open { .. } => Self::Open,
            Operation::Write { .. } => Self::Write,
            Operation::SetLength { .. } => Self::SetLength,
            Operation::Sync(_) => Self::Sync,
            Operation::SyncAll => Self::SyncAll,
            Operation::Rename { .. } => Self::Rename,
            Operation::Link { .. } => Self::Link,
            Operation::Remove(_) => Self::Remove,
            Operation::MakeFolder(_) => Self::MakeFolder,
            Operation::RemoveFolder(_) => Self::RemoveFolder,
            Operation::Lock(_) => Self::Lock,
            Operation::Touch(_) => Self::Touch,
        }
    }

    /// The error that a server gives to a request that it has already fulfilled; `None` if it is fulfilled again.
    pub(crate) fn repeated(self) -> Option<io::ErrorKind> {
        match self {
            Self::Link | Self::MakeFolder => Some(io::ErrorKind::AlreadyExists),
            Self::Rename | Self::Remove | Self::RemoveFolder => Some(io::ErrorKind::NotFound),
            _ => None,
        }
    }
}

/// An event at an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// The engine is killed.
    Kill,
    /// The engine is stopped for this long, and its leases are not renewed.
    Silence(Duration),
    /// The operation fails.
    Error,
    /// The answer of the file server is lost, and the request is sent again.
    Repeated,
    /// This and the next operations find the disk full.
    Full(u64),
    /// The clock of the file server is set back.
    ClockBack(Duration),
    /// The power fails: all engines end.
    PowerFailure,
}

impl Fault {
    /// The fault's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Silence(_) => "silence",
            Self::Error => "error",
            Self::Repeated => "repeated",
            Self::Full(_) => "full",
            Self::ClockBack(_) => "clock",
            Self::PowerFailure => "power",
        }
    }
}

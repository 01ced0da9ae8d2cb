//! Errors of running a plan.

use std::io;

use crate::{
    batches::SearchError, host::devices::DeviceError, plan::NothingSelected, remote::RemoteError, store::StoreError,
};

/// Error of running a plan.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A variable is not set that a job takes from the environment.
    #[error("{at}`{name}` is not set, but `env` of step `{step}` reads it from the environment: set it and run again")]
    Unset {
        /// Place in the recipe, followed by a colon.
        at: String,
        /// The variable.
        name: String,
        /// The step.
        step: String,
    },
    /// The batch system cannot be used from this machine.
    #[error("{system} cannot be used: {reason}")]
    NoBatchSystem {
        /// The system.
        system: String,
        /// The reason, with the remedy.
        reason: String,
    },
    /// A job wants more than the executor provides.
    #[error("step `{step}` requests {wants}, but {reason}")]
    Nodes {
        /// The step.
        step: String,
        /// The requested resources.
        wants: String,
        /// The reason, with the remedy.
        reason: &'static str,
    },
    /// The store cannot be shared while a sweep uses it with locks of this machine.
    #[error("a sweep is using this store exclusively; share the store among machines when it has ended")]
    NotShared,
    /// A flag that applies to batch systems only.
    #[error("`{0}` is for jobs that run through a batch system: select one with `--executor`")]
    NeedsBatchSystem(&'static str),
    /// A flag that applies to batch systems whose queue outlives this process.
    #[error("`{flag}` is not possible with {system}: {reason}; leave it out")]
    NoQueue {
        /// The flag.
        flag: &'static str,
        /// The system.
        system: String,
        /// The reason.
        reason: &'static str,
    },
    /// There is no device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The remote cannot be used.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// `--only` names nothing in a plan that has grown.
    #[error(transparent)]
    NothingSelected(#[from] NothingSelected),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A search cannot continue.
    #[error("{source}")]
    Search {
        /// The names of the recipes.
        name: String,
        /// The reason.
        source: SearchError,
    },
    /// An I/O error.
    #[error("{what}: {source}")]
    Io {
        /// The failed operation.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
}

impl SessionError {
    /// Returns a function that wraps an I/O error of the operation `what`.
    pub fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// Returns a function that wraps an error of a search of the recipes `name`.
    pub(super) fn search(name: &str) -> impl FnOnce(SearchError) -> Self + '_ {
        move |source| Self::Search { name: name.to_owned(), source }
    }

    /// True if the command line or the recipe asks for something that cannot be done.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Unset { .. }
            | Self::NoBatchSystem { .. }
            | Self::Nodes { .. }
            | Self::NeedsBatchSystem(_)
            | Self::NoQueue { .. }
            | Self::NothingSelected(_)
            | Self::Device(DeviceError::Rejected(_))
            | Self::Remote(RemoteError::Address(..) | RemoteError::Absent | RemoteError::Key(_)) => true,
            Self::NotShared
            | Self::Device(DeviceError::Probe(_))
            | Self::Remote(RemoteError::Broken(..) | RemoteError::Envelope(_) | RemoteError::Local(_))
            | Self::Store(_)
            | Self::Search { .. }
            | Self::Io { .. } => false,
        }
    }
}

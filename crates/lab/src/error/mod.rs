//! Errors of the lab, and their failure kinds for the engine.

mod data;
mod hub;
mod state;

use std::{io, path::PathBuf};

use sweep_job::{Backend, Failure, FailureKind};

pub use self::{data::DataError, hub::HubError, state::StateError};

/// Failure of a job in the lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The backend asked for is not there.
    #[error("the backend `{backend}` cannot be used: {reason}; {advice}")]
    Backend {
        /// The backend.
        backend: Backend,
        /// The reason.
        reason: String,
        /// Remedy.
        advice: String,
    },
    /// The device failed while it computed.
    #[error("the device failed: {0}")]
    Device(String),
    /// The tokens are not what they should be.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A network's folder is not what it should be.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// A training's state is not what it should be.
    #[error(transparent)]
    State(#[from] StateError),
    /// An output cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Dimensions that no network can have.
    #[error("{0}")]
    Dimensions(String),
    /// A format that the device or the network cannot have.
    #[error("`precision: {precision}` cannot be used: {reason}")]
    Precision {
        /// The parameter's value.
        precision: &'static str,
        /// The reason.
        reason: String,
    },
    /// Training has left the finite numbers.
    #[error("{what} is {value} {when}")]
    Diverged {
        /// Description of the data that was read.
        what: &'static str,
        /// `NaN` or `infinite`.
        value: &'static str,
        /// At or by which iteration.
        when: String,
    },
    /// A weight's importance cannot be compared.
    #[error("a score of `{parameter}` is NaN, so no weights can be chosen: the training has diverged before")]
    NotANumber {
        /// The parameter.
        parameter: String,
    },
    /// A gradient that is needed is not there.
    #[error(
        "the loss gives no gradient to `{parameter}`, so nothing can be said about its weights: leave it out, or use a network that needs it"
    )]
    NoGradient {
        /// The parameter.
        parameter: String,
    },
    /// A tensor that the network does not have.
    #[error("the network has no prunable tensor `{name}`; it has {known}")]
    NoTensor {
        /// Requested name.
        name: String,
        /// The names of those that there are, as a phrase.
        known: String,
    },
    /// Masks that cannot be compared with.
    #[error("{}: {message}", path.display())]
    Masks {
        /// The file.
        path: PathBuf,
        /// The mistake.
        message: String,
    },
    /// Operation that this backend does not support.
    #[error("{0}")]
    Unsupported(String),
    /// A check's assertions do not hold.
    #[error("{} of {total} assertions do not hold: {}", failed.len(), spelled_out(failed))]
    Check {
        /// Those that failed: name and finding.
        failed: Vec<String>,
        /// Assertions made.
        total: usize,
    },
    /// A backend computes something else than the reference.
    #[error(
        "{what} differ from those of plain operations on the CPU by {error:.1e}, {allowed:.1e} is allowed: {first}"
    )]
    Parity {
        /// The part that differs.
        what: &'static str,
        /// By how much.
        error: f64,
        /// By how much it may.
        allowed: f64,
        /// The first module that differs, as a phrase.
        first: String,
    },
    /// One of several ways to do a thing gives another output than the one that is known to be right.
    #[error("the output differs from the baseline's by {error:.1e} of its largest number, {allowed:.1e} is allowed")]
    Output {
        /// By how much.
        error: f64,
        /// By how much it may.
        allowed: f64,
    },
    /// A task that the engine must run itself.
    #[error("the lab does not run the task `{0}`")]
    NotALabTask(&'static str),
}

/// The first few of `failed`.
fn spelled_out(failed: &[String]) -> String {
    const SHOWN: usize = 4;
    let more = if failed.len() > SHOWN { "; …" } else { "" };
    failed[..failed.len().min(SHOWN)].join("; ") + more
}

impl LabError {
    /// The kind of failure, as the engine counts it.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Backend { .. } | Self::Device(_) | Self::Precision { .. } | Self::Unsupported(_) => {
                FailureKind::Backend
            }
            Self::Data(_)
            | Self::Hub(_)
            | Self::State(_)
            | Self::Dimensions(_)
            | Self::NoTensor { .. }
            | Self::Masks { .. } => FailureKind::Input,
            Self::Write { .. } => FailureKind::Io,
            Self::Diverged { .. }
            | Self::NotANumber { .. }
            | Self::NoGradient { .. }
            | Self::Check { .. }
            | Self::Parity { .. }
            | Self::Output { .. } => FailureKind::Experiment,
            Self::NotALabTask(_) => FailureKind::Crash,
        }
    }

    /// `value` is no loss; says when it was read.
    pub(crate) fn diverged(what: &'static str, value: f64, when: String) -> Self {
        Self::Diverged { what, value: if value.is_nan() { "NaN" } else { "infinite" }, when }
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        Self { kind: error.kind(), message: error.to_string() }
    }
}

impl From<burn::tensor::backend::ExecutionError> for LabError {
    fn from(error: burn::tensor::backend::ExecutionError) -> Self {
        Self::Device(error.to_string())
    }
}

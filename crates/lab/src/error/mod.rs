//! The errors of the lab, and their kinds of failure for the engine.

mod data;
mod hub;
mod state;

use std::{io, path::PathBuf};

use sweep_job::{Backend, Failure, FailureKind};

pub use self::{data::DataError, hub::HubError, state::StateError};

/// An error that ends a job.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The requested backend is not available.
    #[error("the backend `{backend}` cannot be used: {reason}; {advice}")]
    Backend {
        /// The backend.
        backend: Backend,
        /// The reason.
        reason: String,
        /// The remedy.
        advice: String,
    },
    /// The device failed while it computed.
    #[error("the device failed: {0}")]
    Device(String),
    /// Invalid tokens.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An invalid folder of a network.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// An invalid state of a training.
    #[error(transparent)]
    State(#[from] StateError),
    /// An output cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Invalid dimensions.
    #[error("{0}")]
    Dimensions(String),
    /// A number format that the device or the network does not support.
    #[error("`precision: {precision}` cannot be used: {reason}")]
    Precision {
        /// The parameter's value.
        precision: &'static str,
        /// The reason.
        reason: String,
    },
    /// A value that is not finite.
    #[error("{what} is {value} {when}")]
    Diverged {
        /// Name of the value.
        what: &'static str,
        /// `NaN` or `infinite`.
        value: &'static str,
        /// At or by which iteration.
        when: String,
    },
    /// A weight's importance cannot be compared.
    #[error("a score of `{parameter}` is NaN, because the training has diverged; no mask can be computed")]
    NotANumber {
        /// The parameter.
        parameter: String,
    },
    /// A layer cannot be compressed by its inputs.
    #[error(
        "`{asked_by}` cannot change `{parameter}`: a weight or an input of it is NaN or infinite, because the training has diverged"
    )]
    NotFinite {
        /// The parameter.
        parameter: String,
        /// The setting that asks for it, with its value.
        asked_by: &'static str,
    },
    /// A required gradient is missing.
    #[error(
        "`{parameter}` has no gradient, so its weights cannot be probed: exclude it, or use a network whose loss depends on it"
    )]
    NoGradient {
        /// The parameter.
        parameter: String,
    },
    /// A tensor that the network does not have.
    #[error("the network has no prunable tensor `{name}`; it has {known}")]
    NoTensor {
        /// The requested name.
        name: String,
        /// The available names, as a phrase.
        known: String,
    },
    /// Masks that cannot be compared.
    #[error("{}: {message}", path.display())]
    Masks {
        /// The file.
        path: PathBuf,
        /// The problem.
        message: String,
    },
    /// An operation that this backend does not support.
    #[error("{0}")]
    Unsupported(String),
    /// A check's assertions do not hold.
    #[error("{} of {total} assertions do not hold: {}", failed.len(), spelled_out(failed))]
    Check {
        /// The failed assertions: name and finding.
        failed: Vec<String>,
        /// Number of assertions made.
        total: usize,
    },
    /// A backend differs from the reference.
    #[error("{what} differ from plain operations on the CPU by {error:.1e}; at most {allowed:.1e} is allowed: {first}")]
    Parity {
        /// The values that differ.
        what: &'static str,
        /// The difference.
        error: f64,
        /// The maximum allowed difference.
        allowed: f64,
        /// The first module that differs, as a phrase.
        first: String,
    },
    /// A variant of a pair differs from the baseline.
    #[error(
        "the output differs from the baseline by {error:.1e} relative to its largest element; at most {allowed:.1e} is allowed"
    )]
    Output {
        /// The difference.
        error: f64,
        /// The maximum allowed difference.
        allowed: f64,
    },
    /// A rank of a job with several processes is gone.
    #[error("the ranks of the job stopped: {0}")]
    Ranks(String),
    /// A task that the engine runs itself.
    #[error("the lab does not run the task `{0}`")]
    NotALabTask(&'static str),
}

/// The first few of `failed`.
fn spelled_out(failed: &[String]) -> String {
    const SHOWN: usize = 4;
    let ending = if failed.len() > SHOWN { "; …" } else { "" };
    failed[..failed.len().min(SHOWN)].join("; ") + ending
}

impl LabError {
    /// The kind of failure, as the engine counts it.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Backend { .. } | Self::Device(_) | Self::Precision { .. } | Self::Unsupported(_) => {
                FailureKind::Backend
            }
            Self::Data(DataError::Write(_)) | Self::Write { .. } => FailureKind::Io,
            Self::Data(_)
            | Self::Hub(_)
            | Self::State(_)
            | Self::Dimensions(_)
            | Self::NoTensor { .. }
            | Self::Masks { .. } => FailureKind::Input,
            Self::Diverged { .. }
            | Self::NotANumber { .. }
            | Self::NotFinite { .. }
            | Self::NoGradient { .. }
            | Self::Check { .. }
            | Self::Parity { .. }
            | Self::Output { .. } => FailureKind::Experiment,
            Self::Ranks(_) | Self::NotALabTask(_) => FailureKind::Crash,
        }
    }

    /// The error of a `value` that is not finite, read at `when`.
    pub fn diverged(what: &'static str, value: f64, when: String) -> Self {
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

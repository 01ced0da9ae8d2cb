//! Errors of a network's folder.

use std::{io, path::PathBuf};

/// A folder without a network that this program can use.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A file cannot be read.
    #[error("cannot read the network: {0}")]
    Read(#[source] io::Error),
    /// `config.json` is invalid.
    #[error("{}: {message}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The problem.
        message: String,
    },
    /// `model.safetensors` is invalid.
    #[error("{}: {message}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// The problem.
        message: String,
    },
}

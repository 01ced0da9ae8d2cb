//! Errors of a training's state.

use std::{io, path::PathBuf};

/// A state that cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file cannot be read.
    #[error("cannot read the training's state: {0}")]
    Read(#[source] io::Error),
    /// The file is not a state.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        message: String,
    },
    /// Something that must be there is not.
    #[error("the state has no `{name}`")]
    Missing {
        /// Its name.
        name: String,
    },
    /// A tensor has another length than its parameter.
    #[error("`{name}` has {found} elements, expected {expected}")]
    Length {
        /// Its name.
        name: String,
        /// Numbers in the state.
        found: usize,
        /// Numbers that there must be.
        expected: usize,
    },
    /// A file has changed since it was written.
    #[error("{}: its digest does not match its content", path.display())]
    Digest {
        /// The file.
        path: PathBuf,
    },
    /// A number is NaN or infinite, so that the training cannot continue.
    #[error("`{name}` contains a value that is not finite")]
    NotFinite {
        /// Its name.
        name: String,
    },
    /// A parameter has some of its moments, or some that this optimizer does not have.
    #[error("the moments of `{parameter}` do not match this optimizer: check whether `amsgrad` is the same")]
    Incomplete {
        /// The parameter.
        parameter: String,
    },
    /// The state contains a tensor that the training does not use.
    #[error("`{name}` is not part of this training")]
    Unknown {
        /// Its name.
        name: String,
    },
}

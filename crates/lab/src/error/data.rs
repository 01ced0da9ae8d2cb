//! Errors of tokens.

use std::{io, path::PathBuf};

/// Tokens that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The file cannot be read.
    #[error("cannot read the data: {0}")]
    Read(#[source] io::Error),
    /// The file cannot be written.
    #[error("cannot write the tokens: {0}")]
    Write(#[source] io::Error),
    /// A file that describes no tokenizer, or a tokenizer that fails.
    #[error("{name}: the tokenizer cannot be used: {problem}")]
    Tokenizer {
        /// The file.
        name: String,
        /// The problem.
        problem: String,
    },
    /// A description of a folder of tokens that cannot be read.
    #[error("{}: {problem}", path.display())]
    Meta {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A token that a token file cannot hold.
    #[error(
        "{name}: token {position} has id {id}, but token files hold ids of 16 bits: use a tokenizer with at most 65536 tokens"
    )]
    LargeToken {
        /// The tokenizer.
        name: String,
        /// The token's place in its part of the text, counted from 0.
        position: usize,
        /// Its id.
        id: u32,
    },
    /// Text that is not UTF-8.
    #[error("{}: not UTF-8 from byte {offset} on", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The first byte that is wrong, counted from 0.
        offset: usize,
    },
    /// Half a token at the end.
    #[error("{}: {length} bytes is not a multiple of 2, the size of a token", path.display())]
    OddLength {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// The parameter `tokens` does not fit the data.
    #[error("{name}: {problem}")]
    Format {
        /// The data.
        name: String,
        /// The problem.
        problem: &'static str,
    },
    /// A token that the network has no row for.
    #[error("{name}: token {position} has id {id}, but the network supports only ids below {vocab_size}")]
    UnknownToken {
        /// The file.
        name: String,
        /// The token's place in the file, counted from 0.
        position: usize,
        /// Its id.
        id: u32,
        /// Rows of the token table.
        vocab_size: usize,
    },
    /// Not one window fits.
    #[error("{name}: {part} has {found} tokens, but one window needs {needed} (the sequence and the token after it)")]
    TooShort {
        /// The file.
        name: String,
        /// `the training part` or `the held-out part`.
        part: &'static str,
        /// Tokens there are.
        found: usize,
        /// Tokens needed.
        needed: usize,
    },
}

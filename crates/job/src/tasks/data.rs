//! The data's parameters.

use std::path::PathBuf;

use crate::{
    Conflict, Kind, ParamType, Value,
    params::{choice, params},
};

choice! {
    /// Conversion of a file to tokens.
    pub enum TokenFormat {
        /// `uint16` for files that end in `.bin` and for folders, words for `stories`, else bytes.
        Auto = "auto",
        /// UTF-8 text; every byte is a token.
        Bytes = "bytes",
        /// nanoGPT's files: little-endian 16-bit token ids without a header.
        Uint16 = "uint16",
    }
}

/// Training data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Corpus {
    /// The first five books of the King James Bible, which ship with the program.
    Kjv,
    /// Short stories from a grammar, which the program writes.
    Stories,
    /// A file, or a folder with `train.bin` and `val.bin`.
    Path(PathBuf),
}

impl ParamType for Corpus {
    const KIND: Kind = Kind::Path(&["kjv", "stories"]);

    fn to_value(&self) -> Value {
        match self {
            Self::Kjv => Value::Text("kjv".into()),
            Self::Stories => Value::Text("stories".into()),
            Self::Path(path) => Value::Text(path.to_string_lossy().into_owned()),
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        Some(match value.as_text()? {
            "kjv" => Self::Kjv,
            "stories" => Self::Stories,
            path => Self::Path(path.into()),
        })
    }
}

/// Held-out tokens that one evaluation may use; all of them are in memory at once.
const MOST_HELD_OUT: usize = 1 << 30;

/// Refuses an evaluation whose batches no memory holds.
pub(super) fn held_out_conflict(batches: usize, batch_size: usize, block_size: usize) -> Option<Conflict> {
    let tokens = batches.checked_mul(batch_size).and_then(|tokens| tokens.checked_mul(block_size));
    let fits = tokens.is_some_and(|tokens| tokens <= MOST_HELD_OUT);
    (!fits).then(|| Conflict {
        params: vec!["eval_batches", "batch_size", "block_size"],
        message: format!("one evaluation would need {batches} x {batch_size} x {block_size} tokens"),
        advice: format!("keep their product at or below {MOST_HELD_OUT}"),
    })
}

params! {
    /// Tokens. The last tenth of a single file is held out for validation; it is never trained on.
    pub struct Data {
        /// `kjv` (public-domain text that ships with the program), `stories` (short stories that it writes by a grammar; every
        /// word is a token, of 2048), a UTF-8 file, a file of `uint16` tokens, or a folder
        /// with nanoGPT's `train.bin` and `val.bin`.
        data: Corpus = Corpus::Kjv;
        /// Conversion of the file to tokens.
        tokens: TokenFormat = TokenFormat::Auto;
    }
}

//! The parameters of the training data.

use std::path::PathBuf;

use crate::{
    Conflict, Kind, ParamType, Value,
    params::{choice, params},
};

choice! {
    /// The interpretation of a file as tokens.
    pub enum TokenFormat {
        /// `uint16` for `.bin` files and folders, words for `stories`, bytes otherwise.
        Auto = "auto",
        /// UTF-8 text; each byte is a token.
        Bytes = "bytes",
        /// nanoGPT's format: little-endian 16-bit token ids without a header.
        Uint16 = "uint16",
    }
}

/// The source of the training data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Corpus {
    /// The first five books of the King James Bible, included in the program.
    Kjv,
    /// Short stories that the program generates from a grammar.
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

/// Maximum number of held-out tokens per evaluation; all are in memory at once.
const MAX_HELD_OUT: usize = 1 << 30;

/// The conflict of an evaluation that exceeds [`MAX_HELD_OUT`], if it does.
pub(super) fn held_out_conflict(batches: usize, batch_size: usize, block_size: usize) -> Option<Conflict> {
    let tokens = batches.checked_mul(batch_size).and_then(|tokens| tokens.checked_mul(block_size));
    let fits = tokens.is_some_and(|tokens| tokens <= MAX_HELD_OUT);
    (!fits).then(|| Conflict {
        params: vec!["eval_batches", "batch_size", "block_size"],
        message: format!("an evaluation would use {batches} x {batch_size} x {block_size} tokens"),
        advice: format!("reduce their product to at most {MAX_HELD_OUT}"),
    })
}

params! {
    /// Tokens. The last tenth of a single file is held out for validation and never used for training.
    pub struct Data {
        /// Source of the tokens: `kjv` (public-domain text included in the program), `stories` (short stories generated
        /// from a grammar, with 2048 words as tokens), a UTF-8 file, a file of `uint16` tokens, or a folder with
        /// nanoGPT's `train.bin` and `val.bin`, such as the artifact of `tokenize`.
        data: Corpus = Corpus::Kjv;
        /// Interpretation of the file as tokens.
        tokens: TokenFormat = TokenFormat::Auto;
    }
}

//! Tokenizers in Hugging Face's format, and folders of their tokens.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokenizers::{
    decoders::byte_level::ByteLevel,
    models::{
        TrainerWrapper,
        bpe::{BPE, BpeTrainer},
    },
};

use super::DataError;

/// The file of a tokenizer in a folder.
const TOKENIZER_FILE: &str = "tokenizer.json";
/// The file that describes a folder of tokens.
const META_FILE: &str = "meta.json";
/// Texts are held in pieces of this length, so that training counts words without a copy of the whole text.
const PIECE_BYTES: usize = 1 << 20;

/// Converts between texts and tokens.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The file, for messages.
    name: String,
}

/// The description of a folder with `train.bin` and `val.bin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokensMeta {
    /// Number of different tokens: all ids are below it.
    pub vocab_size: usize,
    /// Size of `train.bin`.
    pub train: PartSize,
    /// Size of `val.bin`.
    pub validation: PartSize,
}

/// The size of a part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartSize {
    /// Tokens.
    pub tokens: usize,
    /// Bytes of text.
    pub bytes: usize,
}

impl Tokenizer {
    /// Reads the tokenizer of a file, or of a folder with a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or does not describe a tokenizer.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let is_folder = fs_err::metadata(path).map_err(DataError::Read)?.is_dir();
        let file = if is_folder { path.join(TOKENIZER_FILE) } else { path.to_owned() };
        let bytes = fs_err::read(&file).map_err(DataError::Read)?;
        let name = file.display().to_string();
        match tokenizers::Tokenizer::from_bytes(&bytes) {
            Ok(inner) => Ok(Self { inner, name }.without_limits()),
            Err(error) => Err(DataError::Tokenizer { name, problem: error.to_string() }),
        }
    }

    /// Trains a byte-level BPE tokenizer, as GPT-2 has, with at most `vocab_size` tokens on `text`. The same text gives the
    /// same tokenizer.
    ///
    /// # Errors
    ///
    /// If the training fails.
    pub fn train(text: &str, vocab_size: usize, min_frequency: usize) -> Result<Self, DataError> {
        let name = "the text".to_owned();
        let bytes = ByteLevel::new(false, false, true);
        let mut inner = tokenizers::Tokenizer::new(BPE::default());
        inner.with_pre_tokenizer(Some(bytes)).with_decoder(Some(bytes));
        let mut trainer = TrainerWrapper::from(
            BpeTrainer::builder()
                .show_progress(false)
                .vocab_size(vocab_size)
                .min_frequency(min_frequency as u64)
                .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
                .build(),
        );
        match inner.train(&mut trainer, pieces(text)) {
            Ok(_) => Ok(Self { inner, name }),
            Err(error) => Err(DataError::Tokenizer { name, problem: error.to_string() }),
        }
    }

    /// A tokenizer's own limits of lengths are for networks that read single sentences.
    fn without_limits(mut self) -> Self {
        self.inner.with_padding(None);
        // Only settings of a truncation can be wrong.
        self.inner.with_truncation(None).ok();
        self
    }

    /// Number of tokens, including special tokens.
    pub fn vocab_size(&self) -> usize {
        let max_id = self.inner.get_vocab(true).into_values().max();
        max_id.map_or(0, |id| id as usize + 1)
    }

    /// The tokens of `text`, without special tokens at its ends.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        match self.inner.encode_fast(text, false) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(error) => Err(self.problem(&*error)),
        }
    }

    /// The text of `tokens`, including special tokens.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, DataError> {
        self.inner.decode(tokens, false).map_err(|error| self.problem(&*error))
    }

    fn problem(&self, error: &dyn std::error::Error) -> DataError {
        DataError::Tokenizer { name: self.name.clone(), problem: error.to_string() }
    }

    /// Writes the tokens of `text`, whose part from byte `held_out` on is held out, to `folder` in nanoGPT's layout, with
    /// the tokenizer and a description.
    ///
    /// # Errors
    ///
    /// If an id has more than 16 bits, or a file cannot be written.
    pub fn write_folder(&self, text: &str, held_out: usize, folder: &Path) -> Result<TokensMeta, DataError> {
        fs_err::create_dir_all(folder).map_err(DataError::Write)?;
        let (train, validation) = text.split_at(held_out);
        let part = |text: &str, file: &str| {
            let ids = self.encode(text)?;
            let mut bytes = Vec::with_capacity(ids.len() * 2);
            for (position, id) in ids.iter().enumerate() {
                let name = || self.name.clone();
                let id = u16::try_from(*id).map_err(|_| DataError::LargeToken { name: name(), position, id: *id })?;
                bytes.extend(id.to_le_bytes());
            }
            fs_err::write(folder.join(file), bytes).map_err(DataError::Write)?;
            Ok(PartSize { tokens: ids.len(), bytes: text.len() })
        };
        let meta = TokensMeta {
            vocab_size: self.vocab_size(),
            train: part(train, "train.bin")?,
            validation: part(validation, "val.bin")?,
        };
        let tokenizer = self.inner.to_string(false).map_err(|error| self.problem(&*error))?;
        fs_err::write(folder.join(TOKENIZER_FILE), tokenizer).map_err(DataError::Write)?;
        let description = serde_json::to_string(&meta).map_err(|error| self.problem(&error))?;
        fs_err::write(folder.join(META_FILE), description + "\n").map_err(DataError::Write)?;
        Ok(meta)
    }
}

impl TokensMeta {
    /// Bytes of the held-out text per token; `None` without held-out tokens.
    pub fn bytes_per_token(self) -> Option<f64> {
        let PartSize { tokens, bytes } = self.validation;
        (tokens > 0 && bytes > 0).then(|| bytes as f64 / tokens as f64)
    }

    /// Reads the description of a folder; `None` if the folder has none, as in nanoGPT.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, DataError> {
        let path: PathBuf = folder.join(META_FILE);
        let bytes = match fs_err::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(DataError::Read(error)),
        };
        let meta = serde_json::from_slice(&bytes);
        let meta: Self = meta.map_err(|error| DataError::Meta { path: path.clone(), problem: error.to_string() })?;
        if (1..=1 << 16).contains(&meta.vocab_size) {
            return Ok(Some(meta));
        }
        let problem = format!("`vocab_size` is {}, but token files have 1 to 65536 tokens", meta.vocab_size);
        Err(DataError::Meta { path, problem })
    }
}

/// `text` in pieces that end with a line.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let start = text.len().min(PIECE_BYTES);
        let end = text.as_bytes()[start..].iter().position(|byte| *byte == b'\n');
        let (piece, rest) = text.split_at(end.map_or(text.len(), |end| start + end + 1));
        text = rest;
        Some(piece)
    })
}

//! Sources of tokens: the text that ships with the program, its stories, text files, and nanoGPT's token files.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::Arc,
};

use memmap2::Mmap;
use sweep_job::tasks::{Corpus, Data, TokenFormat};

use super::{DataError, TokensMeta, VOCAB_STORIES, stories};
use crate::{
    files,
    model::{VOCAB_BYTES, VOCAB_UINT16},
};

/// Genesis to Deuteronomy in the King James Version, public domain; `data/README.md` names its source.
pub const KJV: &[u8] = include_bytes!("../../data/kjv.txt");

/// The part of a single file that is held out, as one over this.
pub(super) const HELD_OUT: usize = 10;

/// Tokens to train on and tokens held out.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// To train on.
    pub train: Tokens,
    /// Held out; never trained on.
    pub validation: Tokens,
    /// Rows of the token table that such data needs.
    pub vocab_size: usize,
    /// Bytes of the held-out text per token, if known.
    pub bytes_per_token: Option<f64>,
}

/// A run of tokens in a file.
#[derive(Debug, Clone)]
pub struct Tokens {
    store: Arc<Store>,
    /// The file's name, for messages.
    pub(super) name: String,
    /// Use of these tokens, for messages.
    pub(super) part: &'static str,
    /// Place of the first token in the file.
    start: usize,
    len: usize,
}

#[derive(Debug)]
enum Store {
    Static(&'static [u8]),
    Words(&'static [u16]),
    Bytes(Vec<u8>),
    Uint16(Mmap),
    Ids(Vec<u32>),
    Empty,
}

impl Store {
    fn len(&self) -> usize {
        match self {
            Self::Static(bytes) => bytes.len(),
            Self::Words(words) => words.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Uint16(map) => map.len() / 2,
            Self::Ids(ids) => ids.len(),
            Self::Empty => 0,
        }
    }

    fn token(&self, index: usize) -> u32 {
        match self {
            Self::Static(bytes) => bytes[index].into(),
            Self::Words(words) => words[index].into(),
            Self::Bytes(bytes) => bytes[index].into(),
            Self::Uint16(map) => u16::from_le_bytes([map[2 * index], map[2 * index + 1]]).into(),
            Self::Ids(ids) => ids[index],
            Self::Empty => 0,
        }
    }
}

impl Dataset {
    /// Opens the data that a recipe requests.
    pub fn open(data: &Data) -> Result<Self, DataError> {
        let path = match (&data.data, data.tokens) {
            (Corpus::Kjv | Corpus::Stories, TokenFormat::Uint16) => {
                let name = if data.data == Corpus::Kjv { "kjv" } else { "stories" };
                let problem = "is text, which `tokens: uint16` does not fit";
                return Err(DataError::Format { name: name.into(), problem });
            }
            (Corpus::Kjv, TokenFormat::Auto | TokenFormat::Bytes) => {
                return Ok(Self::split("kjv".into(), Store::Static(KJV), VOCAB_BYTES));
            }
            (Corpus::Stories, TokenFormat::Auto) => {
                return Ok(Self::split("stories".into(), Store::Words(stories::tokens()), VOCAB_STORIES));
            }
            (Corpus::Stories, TokenFormat::Bytes) => {
                return Ok(Self::split("stories".into(), Store::Bytes(stories::text()), VOCAB_BYTES));
            }
            (Corpus::Path(path), _) => path,
        };
        let is_folder = fs_err::metadata(path).map_err(DataError::Read)?.is_dir();
        let is_bin = path.extension().is_some_and(|extension| extension == "bin");
        match data.tokens {
            TokenFormat::Bytes if is_folder => {
                let problem = "is a folder; `tokens: bytes` needs a file";
                Err(DataError::Format { name: path.display().to_string(), problem })
            }
            TokenFormat::Auto | TokenFormat::Uint16 if is_folder => Self::folder(path),
            TokenFormat::Uint16 => Ok(Self::split(path.display().to_string(), uint16(path)?, VOCAB_UINT16)),
            TokenFormat::Auto if is_bin => Ok(Self::split(path.display().to_string(), uint16(path)?, VOCAB_UINT16)),
            TokenFormat::Auto | TokenFormat::Bytes => {
                Ok(Self::split(path.display().to_string(), text(path)?, VOCAB_BYTES))
            }
        }
    }

    /// Tokens that are here already, called `name` in messages: their last tenth is held out.
    pub(super) fn of_ids(name: String, ids: Vec<u32>, vocab_size: usize) -> Self {
        Self::split(name, Store::Ids(ids), vocab_size)
    }

    /// A single file: its last tenth is held out.
    fn split(name: String, store: Store, vocab_size: usize) -> Self {
        let store = Arc::new(store);
        let total = store.len();
        let held_out = total / HELD_OUT;
        let train = Tokens {
            store: Arc::clone(&store),
            name: name.clone(),
            part: "the training part",
            start: 0,
            len: total - held_out,
        };
        let bytes_per_token = matches!(*store, Store::Static(_) | Store::Bytes(_)).then_some(1.0);
        let validation = Tokens { store, name, part: "the held-out part", start: total - held_out, len: held_out };
        Self { train, validation, vocab_size, bytes_per_token }
    }

    /// The text of `corpus`, and the byte at which its held-out part starts.
    ///
    /// # Errors
    ///
    /// If it is a folder or a token file, or not UTF-8.
    pub fn text(corpus: &Corpus) -> Result<(Cow<'static, str>, usize), DataError> {
        let (bytes, name): (Cow<'static, [u8]>, _) = match corpus {
            Corpus::Kjv => (KJV.into(), "kjv".to_owned()),
            Corpus::Stories => (stories::text().into(), "stories".to_owned()),
            Corpus::Path(path) => {
                let name = path.display().to_string();
                if path.extension().is_some_and(|extension| extension == "bin") {
                    return Err(DataError::Format { name, problem: "is a token file; `tokenize` needs a text" });
                }
                (fs_err::read(path).map_err(DataError::Read)?.into(), name)
            }
        };
        let text = match bytes {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|error| error.utf8_error()),
        };
        let text = text.map_err(|error| DataError::NotUtf8 { path: name.into(), offset: error.valid_up_to() })?;
        let mut held_out = text.len() - text.len() / HELD_OUT;
        while !text.is_char_boundary(held_out) {
            held_out += 1;
        }
        Ok((text, held_out))
    }

    /// nanoGPT's folder: `train.bin` and `val.bin`.
    fn folder(folder: &Path) -> Result<Self, DataError> {
        let file_tokens = |file: PathBuf, part: &'static str| {
            let store = uint16(&file)?;
            let len = store.len();
            Ok(Tokens { store: Arc::new(store), name: file.display().to_string(), part, start: 0, len })
        };
        let meta = TokensMeta::read(folder)?;
        Ok(Self {
            train: file_tokens(folder.join("train.bin"), "the training part")?,
            validation: file_tokens(folder.join("val.bin"), "the held-out part")?,
            vocab_size: meta.map_or(VOCAB_UINT16, |meta| meta.vocab_size),
            bytes_per_token: meta.and_then(TokensMeta::bytes_per_token),
        })
    }
}

impl Tokens {
    /// Tokens in the run.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the run has no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The token at `index` of the run, if the network has a row for it.
    pub fn get(&self, index: usize, vocab_size: usize) -> Result<u32, DataError> {
        let position = self.start + index;
        let id = self.store.token(position);
        if (id as usize) < vocab_size {
            return Ok(id);
        }
        Err(DataError::UnknownToken { name: self.name.clone(), position, id, vocab_size })
    }
}

fn text(path: &Path) -> Result<Store, DataError> {
    let bytes = fs_err::read(path).map_err(DataError::Read)?;
    match std::str::from_utf8(&bytes) {
        Ok(_) => Ok(Store::Bytes(bytes)),
        Err(error) => Err(DataError::NotUtf8 { path: path.to_owned(), offset: error.valid_up_to() }),
    }
}

fn uint16(path: &Path) -> Result<Store, DataError> {
    match files::map(path).map_err(DataError::Read)? {
        None => Ok(Store::Empty),
        Some(map) if map.len() % 2 == 1 => Err(DataError::OddLength { path: path.to_owned(), length: map.len() }),
        Some(map) => Ok(Store::Uint16(map)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_text_is_the_one_described() {
        let readme = include_str!("../../data/README.md");
        let digest = blake3::hash(KJV).to_string();
        assert!(readme.contains(&digest), "data/README.md must give the digest {digest}");
        assert!(KJV.is_ascii());
        let data = Dataset::open(&Data::default()).unwrap();
        assert_eq!(data.train.len() + data.validation.len(), KJV.len());
        assert_eq!(data.validation.len(), KJV.len() / 10);
    }
}

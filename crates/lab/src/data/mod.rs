//! Tokens for training and held-out tokens: their sources, and the windows that a job reads.

mod prefetch;
mod source;
mod stories;
mod tokenizer;
mod windows;
mod words;

pub use prefetch::{Batches, Order};
pub use source::{Dataset, KJV, Tokens};
pub use stories::VOCAB_STORIES;
pub use tokenizer::{PartSize, Tokenizer, TokensMeta};
pub use windows::{Batch, CoveringBatch};
pub use words::words;

use crate::DataError;

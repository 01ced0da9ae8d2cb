//! Tokens for training and held-out tokens: their sources, and the windows that a job reads.

mod prefetch;
mod source;
mod stories;
mod windows;
mod words;

pub use prefetch::{Batches, Order};
pub use source::{Dataset, KJV, Tokens};
pub use stories::VOCAB_STORIES;
pub use windows::Batch;
pub use words::words;

use crate::DataError;

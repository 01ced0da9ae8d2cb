//! Tokens to train on and tokens held out: where they come from, and which windows a job reads.

mod ahead;
mod source;
mod stories;
mod windows;
mod words;

pub use ahead::{Batches, Order};
pub use source::{Dataset, KJV, Tokens};
pub use stories::VOCAB_STORIES;
pub use windows::Batch;
pub use words::words;

use crate::DataError;

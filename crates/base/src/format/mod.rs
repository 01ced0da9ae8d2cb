//! Text for people: numbers with units, counts, and text that is safe to print.
//!
//! `damaged.rs` contains panics of readers, `delimited.rs` the fields of CSV, `event_file.rs` the event files of TensorBoard, `quantity.rs`
//! numbers with units, `progress.rs` the progress of a job, `shell.rs` words for a shell, `text.rs` counts and text that is safe to print.

mod arguments;
mod damaged;
mod delimited;
pub mod event_file;
mod progress;
mod quantity;
mod shell;
mod text;

pub use self::{
    arguments::{MASK, is_secret, masked},
    damaged::unless_it_panics,
    delimited::{fields, separator},
    quantity::{decimals, listed, number, shared_digits},
    shell::{quoted, quoted_path},
    text::{clean_in_place, readable, say, shortened, use_color},
};
pub use self::{
    progress::{latest, row_of_blocks, steps},
    quantity::{Scale, compute, duration, measured, quantity, speeds},
    text::{clean, clean_lines, count, printed_lines},
};

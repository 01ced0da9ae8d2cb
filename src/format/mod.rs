//! Text for people: numbers with units, counts, and text that is safe to print.

mod progress;
mod quantity;
mod text;

pub use self::{
    progress::{latest, steps},
    quantity::{Scale, duration, quantity, speeds},
    text::{clean, clean_lines, count},
};
pub(crate) use self::{
    quantity::{decimals, number},
    text::{clean_in_place, say},
};

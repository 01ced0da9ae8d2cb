//! Text for people: numbers with units, counts, and text that is safe to print.

mod quantity;
mod text;

pub use self::{
    quantity::{Scale, duration, quantity, speeds},
    text::{clean, clean_lines, count},
};
pub(crate) use self::{
    quantity::{decimals, number},
    text::{clean_in_place, say},
};

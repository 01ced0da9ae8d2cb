//! Statistics of repeated measurements, decisions from them, and suggestions of the next points of a search.

pub mod decide;
pub mod stats;
pub mod suggest;

use sweep_base::host;

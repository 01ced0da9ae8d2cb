//! The recipe language: parsing with source positions, checks, and the schema.

pub mod recipe;

use sweep_base::{format, host, record};
use sweep_charts::charts;
use sweep_stats::{decide, stats, suggest};

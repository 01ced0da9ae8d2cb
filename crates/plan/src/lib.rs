//! Plans of jobs with their keys, variants of the code, and the store of records.

pub mod plan;
pub mod store;
pub mod variant;

use sweep_base::{format, host, record};
use sweep_recipe::recipe;
use sweep_stats::{stats, suggest};

//! Tables, claims and figures from records, and the pages and texts that show them.

pub mod analysis;
pub mod batches;
pub mod render;

use sweep_base::{format, host, record};
use sweep_charts::charts;
use sweep_plan::{plan, store, variant};
use sweep_recipe::recipe;
use sweep_run::{progress, remote, run};
use sweep_stats::{decide, stats, suggest};

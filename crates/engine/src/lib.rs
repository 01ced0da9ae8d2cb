//! The engine of `sweep`: declarative ablations and sweeps for neural-network training.
//!
//! A recipe's way through the modules: [`recipe`] parses it, [`plan`] expands it to a graph of jobs with keys, [`run`]
//! runs the jobs that are not in the [`store`], [`analysis`] evaluates the records and [`render`] shows them. Imports
//! go one way, from later modules to earlier ones; `tests/modules.rs` has the order.

pub mod cli;
pub mod error;
pub mod export;
pub mod import;
pub mod init;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod propose;
pub mod query;
pub mod session;
pub mod shipped;
pub mod terminal;
#[cfg(feature = "ui")]
pub mod web;

pub use sweep_base::{format, host, record};
pub use sweep_charts::charts;
pub use sweep_plan::{plan, store, variant};
pub use sweep_recipe::recipe;
pub use sweep_report::{analysis, batches, render};
pub use sweep_run::{doctor, host_server, hosts, progress, remote, run};
pub use sweep_stats::{decide, stats, suggest};
pub use sweep_worker::worker;

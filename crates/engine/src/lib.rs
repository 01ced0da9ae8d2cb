//! The engine of `sweep`: declarative ablations and sweeps for neural-network training.
//!
//! A recipe's way through the modules: [`recipe`] parses it, [`plan`] expands it to a graph of jobs with keys, [`run`]
//! runs the jobs that are not in the [`store`], [`analysis`] evaluates the records and [`render`] shows them. Imports
//! go one way, from later modules to earlier ones; `tests/modules.rs` has the order.

pub mod analysis;
pub mod batches;
pub mod charts;
pub mod cli;
pub mod decide;
pub mod doctor;
pub mod error;
pub mod export;
pub mod format;
pub mod host;
pub mod host_server;
pub mod hosts;
pub mod import;
pub mod init;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod plan;
pub mod progress;
pub mod propose;
pub mod query;
pub mod recipe;
pub mod record;
pub mod remote;
pub mod render;
pub mod run;
pub mod session;
pub mod shipped;
pub mod stats;
pub mod store;
pub mod suggest;
pub mod terminal;
pub mod variant;
#[cfg(feature = "ui")]
pub mod web;
pub mod worker;

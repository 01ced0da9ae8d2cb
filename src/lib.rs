//! `sweep`: a declarative ablation and sweep engine for neural-network training.
//!
//! A recipe's way through the modules: [`recipe`] reads it, [`plan`] expands it to a graph of jobs with keys, [`run`]
//! brings the jobs that [`store`] does not know yet to worker processes, [`report`] turns records into tables.

pub mod cli;
pub mod device;
pub mod error;
pub mod explain;
mod fault;
pub mod machine;
pub mod plan;
pub mod recipe;
pub mod remote;
pub mod report;
pub mod run;
pub mod schema;
pub mod store;
pub mod text;
pub mod ui;
pub mod worker;

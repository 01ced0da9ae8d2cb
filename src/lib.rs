//! `sweep`: a declarative ablation and sweep engine for neural-network training.
//!
//! A recipe's way through the modules: [`recipe`] reads it, [`plan`] expands it to a graph of jobs with keys, [`run`]
//! brings the jobs that [`store`] does not know yet to worker processes, [`report`] turns records into tables.

mod archive;
pub mod bundle;
pub mod cli;
pub mod device;
pub mod diff;
pub mod error;
pub mod explain;
mod fault;
pub mod further;
pub mod machine;
pub mod mlflow;
pub mod plan;
pub mod query;
pub mod recipe;
pub mod remote;
pub mod report;
pub mod run;
pub mod schema;
#[cfg(feature = "ui")]
pub mod serve;
pub mod store;
pub mod tensorboard;
pub mod text;
mod threads;
pub mod ui;
pub mod worker;

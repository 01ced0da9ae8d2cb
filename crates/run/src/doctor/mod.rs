//! Checks of the requirements of an executor, with the remedy for each that is not met.
//!
//! `local.rs` checks this machine; an executor is checked by its `Cluster::examine` and a trial job. A check is a `Finding`
//! (`host/finding.rs`).

mod local;

use std::{path::Path, time::Duration};

pub use crate::host::finding::{Finding, Verdict};
use crate::{
    recipe::Executor,
    run::cluster::{self, Opening, trial},
    store::Store,
};

/// Checks this machine, and `executor` if it is a batch system: submits a trial job with `gpus` GPUs, which must end within
/// `patience`.
pub fn examine(results: &Path, executor: &Executor, gpus: usize, patience: Duration) -> Vec<Finding> {
    let mut findings = local::examine(results, matches!(executor, Executor::Local));
    let Executor::Batch(system) = executor else { return findings };
    match Store::new(results).id() {
        Ok(id) => {
            let cluster = cluster::open(
                system,
                Opening { jobs_name: format!("sweep-{id}"), results: results.to_owned(), remote: None },
            );
            findings.extend(trial::examine(&*cluster, results, gpus, patience));
        }
        Err(error) => {
            let help = "choose a results folder that this user can write to (`--results`)";
            findings.push(Finding::failed("results folder", error.to_string(), help));
        }
    }
    findings
}

//! `sweep cache verify RECIPE… --rerun N`: jobs that have records run again, each from its first step.

use std::path::PathBuf;

use clap::Args;
use sweep_job::Backend;

use super::{
    bundle::part,
    compared::{Reruns, Stores, any_seed},
};
use crate::{
    error::Error,
    export::bundle,
    plan::{JobId, Plan},
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct RerunArgs {
    /// Recipes whose jobs run again.
    #[arg(value_name = "RECIPE", requires = "rerun")]
    pub(super) recipes: Vec<PathBuf>,
    /// Run N randomly selected jobs of the recipes again, in a temporary folder, and compare their metrics with the recorded
    /// ones. Every job runs from its first step, without the state of another job.
    #[arg(long, value_name = "N", requires = "recipes")]
    pub(super) rerun: Option<usize>,
    /// Seed of the random selection.
    #[arg(long, value_name = "N", requires = "rerun")]
    seed: Option<u64>,
    /// Maximum relative difference of a metric from the recorded one. Times, rates and sizes are not compared.
    #[arg(long, value_name = "PART", default_value = "0.001", requires = "rerun", value_parser = part)]
    tolerance: f64,
}

/// Runs `n` of the jobs of a plan that have records again.
pub(super) fn rerun(store: &Store, plan: &Plan, backend: Backend, n: usize, args: &RerunArgs) -> Result<Reruns, Error> {
    let seed = args.seed.unwrap_or_else(any_seed);
    let wanted_jobs = bundle::sample(plan, store, n, seed);
    let jobs = plan.with_needs(wanted_jobs.iter().copied());
    let part = plan.part(&jobs, |_, _| {}).alone();
    let place = |id: &JobId| jobs.iter().position(|job| job == id).map(JobId::new);
    let sample: Vec<JobId> = wanted_jobs.iter().filter_map(place).collect();
    let folder = tempfile::tempdir().map_err(Error::io("cannot make a temporary folder"))?;
    let stores = Stores { then: store, again: &folder.path().join("results") };
    let mut reruns = Reruns::new(seed, Vec::new());
    reruns.run(&part, &sample, stores, backend, args.tolerance)?;
    Ok(reruns)
}

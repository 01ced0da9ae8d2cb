//! `sweep run`.

mod end;
mod prepared;
mod reports;
mod unread;

use std::{
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;

pub(super) use self::end::Ended;
use super::{ChangeArgs, OnlyArgs, answer::FormatArgs, log, remote::RemoteArgs};
use crate::{
    error::Error,
    plan::Plan,
    render::Page,
    session::{self, Request},
};

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct RunArgs {
    /// Recipes, or sweep files, which run recipes with other values; or a script, whose parameters `--axis` varies.
    #[arg(value_name = "RECIPE", required_unless_present_any = ["plan", "command"])]
    pub(super) paths: Vec<PathBuf>,
    /// A command line, in which `{AXIS}` stands for a value of `--axis` and `{seed}` for the seed; after a script, arguments for
    /// every job.
    #[arg(value_name = "COMMAND", last = true, conflicts_with = "plan")]
    pub(super) command: Vec<String>,
    /// Repeat each job of a script or a command line with the seeds 0, 1, …, N - 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "plan")]
    pub(super) seeds: Option<u32>,
    /// The Python interpreter that has a script's packages. Default: `python` on the PATH, else `python3`.
    #[arg(long, value_name = "PATH", conflicts_with = "plan")]
    pub(super) python: Option<String>,
    /// Run a saved plan, the output of `sweep plan --format json`. The plan is rejected if its recipes have changed since.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "set", "axes", "backend", "only"])]
    plan: Option<PathBuf>,
    #[command(flatten)]
    pub(super) changes: ChangeArgs,
    #[command(flatten)]
    pub(super) only: OnlyArgs,
    /// Maximum number of jobs at once. Default: limited only by cores, GPUs and memory.
    #[arg(long, short, value_name = "N", env = "SWEEP_JOBS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) jobs: Option<u16>,
    /// Stop at the first failure, instead of running the jobs that do not depend on the failed job.
    #[arg(long, overrides_with = "keep_going")]
    fail_fast: bool,
    /// End with exit code 6 if a claim is refuted.
    #[arg(long)]
    strict: bool,
    /// After a failure, run the jobs that do not depend on the failed job (the default).
    #[arg(long, overrides_with = "fail_fast")]
    keep_going: bool,
    /// See [`super::measure::ready`].
    #[arg(skip)]
    pub(super) measures: bool,
    /// True if the metrics of its jobs are found in what they print.
    #[arg(skip)]
    pub(super) is_study: bool,
    /// Rerun exclusive jobs and jobs that take turns, in whole rounds, if other processes disturbed their times or if
    /// they took no turns.
    #[arg(long)]
    remeasure: bool,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    pub(super) format: FormatArgs,
    /// With a batch system: exit after the jobs are submitted. Run the same command again to wait for them.
    #[arg(long)]
    detach: bool,
    /// With a batch system: submit N pilot jobs, each of which runs many jobs in its allocation, instead of one batch job per job;
    /// for jobs of a few seconds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pilot: Option<u16>,
    /// With a batch system: minimum interval between polls of the queue, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = poll)]
    poll: Duration,
}

fn poll(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.05..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "it must be a number from 0.05 to 3600".to_owned())
}

impl RunArgs {
    /// The settings of its session.
    fn request(&self, results: &Path) -> Result<Request, Error> {
        Ok(Request {
            jobs: self.jobs.map(usize::from),
            fail_fast: self.fail_fast,
            remeasure: self.remeasure,
            is_single: self.measures,
            detach: self.detach,
            pilots: self.pilot.map(usize::from),
            poll: self.poll,
            remote: self.remote.open()?,
            shows_all: log::is_verbose(),
            ..Request::new(results)
        })
    }

    /// The plan that it runs.
    pub(super) fn plan(&self, results: &Path) -> Result<ManuallyDrop<Plan>, Error> {
        Ok(self.changes.prepare(results, &self.paths, &self.only.only, false)?.plan)
    }
}

/// Runs the jobs of recipes, and prints the reports unless they are for JSON.
pub(super) fn run(results: &Path, args: &RunArgs) -> Result<Ended, Error> {
    let request = args.request(results)?;
    let (prepared, store, selected) = prepared::prepared(&request, args)?;
    let plan_again = || prepared::prepared(&request, args).map(|(prepared, _, selected)| (prepared, selected));
    let mut finished = session::run(&request, &store, (prepared, selected), plan_again)?;
    let is_mixed = matches!(finished.page, Page::Anew) && session::has_mixed_versions(&finished.prepared.plan, &store);
    // The plan is not dropped.
    finished.prepared.plan.moments.end();
    if is_mixed {
        // Jobs that read other versions of a file are not compared.
        finished.prepared = prepared::planned(&request, args)?.0;
    }
    end::conclude(results, args, &store, finished)
}

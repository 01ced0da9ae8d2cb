//! `sweep stop`.

use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::{
    answer::{self, FormatArgs, answer},
    print, runs,
};
use crate::{
    error::{Error, Exit},
    format::clean,
    record::Key,
    run::{request_stop, watch::Snapshot},
};

#[derive(Debug, Args)]
pub(super) struct StopArgs {
    /// Jobs, each by its step and point, or by a prefix of its key.
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    /// A run, by its folder's name. Default: the live run.
    #[arg(long)]
    run: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
}

/// The JSON output.
#[derive(Serialize)]
struct Output {
    run: String,
    /// The jobs whose end is requested.
    requested: Vec<Requested>,
}

#[derive(Serialize)]
struct Requested {
    job: String,
    key: Key,
}

pub(super) fn stop(results: &Path, args: &StopArgs) -> Result<Exit, Error> {
    let folder = runs::find(results, args.run.as_deref())?;
    let snapshot = Snapshot::read(&folder).map_err(Error::io("cannot read the run"))?;
    // All names are looked up before the first job is stopped.
    let jobs = args.jobs.iter().map(|job| runs::job_of(&snapshot, job)).collect::<Result<Vec<usize>, Error>>()?;
    let mut requests = Vec::new();
    for index in jobs {
        request_stop(&folder, &snapshot, index)?;
        let job = &snapshot.manifest.jobs[index];
        if !args.format.is_json() {
            print(&format!("the end of {} is requested; the run continues\n", clean(&job.label)))?;
        }
        requests.push(Requested { job: job.label.clone(), key: job.key });
    }
    if args.format.is_json() {
        let next = vec![answer::line(results, ["status", &folder.name()])];
        answer(&Output { run: folder.name(), requested: requests }, next)?;
    }
    Ok(Exit::Done)
}

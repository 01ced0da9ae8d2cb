//! `sweep exec-job` and `sweep exec-pilot`: the commands that a run through Slurm starts in its allocations.

use std::path::{Path, PathBuf};

use clap::Args;

use super::remote::RemoteArgs;
use crate::{
    error::{Error, Exit},
    format::say,
    record::Key,
    run::{
        SentJob,
        allocation::{self, Ended},
        cluster,
    },
};

#[derive(Debug, Args)]
pub(super) struct ExecJobArgs {
    /// The run, by its folder's name.
    run: PathBuf,
    /// Offset of the job's specification in the run's file.
    #[arg(long)]
    at: u64,
    /// The job's key.
    #[arg(long)]
    key: Key,
    /// The job was sent to this machine, and continues if the process that started it ends.
    #[arg(long)]
    hosted: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExecRemoteArgs {
    /// The run, by its folder's name.
    #[arg(value_parser = plain_name)]
    run: String,
    /// The name of all jobs of the submitting results folder.
    #[arg(long, value_parser = plain_name)]
    jobs_name: String,
    /// The number of this submission among those of the job.
    #[arg(long)]
    submission: u32,
    /// The job's key.
    #[arg(long)]
    key: Key,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
pub(super) struct ExecPilotArgs {
    /// The run, by its folder's name.
    run: PathBuf,
    /// The pilot's number.
    #[arg(long)]
    number: usize,
}

#[derive(Debug, Args)]
pub(super) struct ExecTrialArgs {
    /// The name of the file to write.
    #[arg(value_parser = plain_name)]
    name: String,
}

fn plain_name(text: &str) -> Result<String, String> {
    let is_plain = !text.is_empty() && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
    if is_plain { Ok(text.to_owned()) } else { Err("letters, digits and `-`".to_owned()) }
}

pub(super) fn trial(results: &Path, args: &ExecTrialArgs) -> Result<Exit, Error> {
    cluster::trial::write_note(results, &args.name).map_err(Error::io("the trial job cannot write its file"))?;
    Ok(Exit::Done)
}

pub(super) fn job(results: &Path, args: &ExecJobArgs) -> Result<Exit, Error> {
    let run = args.run.to_string_lossy();
    if args.hosted {
        allocation::detach(results, &run).map_err(Error::io("the job cannot be run"))?;
    }
    ended(args.key, allocation::job(results, &run, args.at, args.key, args.hosted))
}

pub(super) fn remote(results: &Path, args: &ExecRemoteArgs) -> Result<Exit, Error> {
    let ExecRemoteArgs { run, jobs_name, submission, key, remote } = args;
    let job = SentJob { jobs_name: jobs_name.clone(), run: run.clone(), key: *key, submission: *submission };
    ended(*key, allocation::job_from_afar(results, &*remote.required()?, &job))
}

fn ended(key: Key, result: std::io::Result<Ended>) -> Result<Exit, Error> {
    match result.map_err(Error::io("the job cannot be run"))? {
        Ended::Blocked(need) => {
            say(format_args!("{} does not run: {} has no record", key.short(), need.short()));
            Ok(Exit::Blocked)
        }
        Ended::Ran(summary) => Ok(exit(&summary)),
    }
}

pub(super) fn pilot(results: &Path, args: &ExecPilotArgs) -> Result<Exit, Error> {
    let summary = allocation::pilot(results, &args.run.to_string_lossy(), args.number);
    Ok(exit(&summary.map_err(Error::io("the pilot cannot continue"))?))
}

/// Slurm's dependencies go by it.
fn exit(summary: &crate::run::Summary) -> Exit {
    match (summary.interrupted, &summary.broken, summary.failed + summary.tolerated) {
        (Some(signal), ..) => Exit::Interrupted(signal),
        (None, Some(_), _) => Exit::Failure,
        (None, None, 0) => Exit::Done,
        (None, None, _) => Exit::JobFailed,
    }
}

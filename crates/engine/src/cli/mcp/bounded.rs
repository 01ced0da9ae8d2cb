//! `sweep exec-bounded`: the supervisor that the tools `run` and `propose` start.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Args;

use crate::{
    error::{Error, Exit},
    mcp::{self, Bounds},
};

#[derive(Debug, Args)]
pub(in crate::cli) struct ExecBoundedArgs {
    /// The file for the account.
    #[arg(long)]
    account: PathBuf,
    /// Maximum number of jobs.
    #[arg(long)]
    max_jobs: usize,
    /// Maximum duration, in seconds.
    #[arg(long)]
    max_seconds: f64,
    /// Maximum GPU time, in hours.
    #[arg(long)]
    max_gpu_hours: f64,
    /// The command of this program, with its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(in crate::cli) fn bounded(results: &Path, args: &ExecBoundedArgs) -> Result<Exit, Error> {
    let bounds = Bounds { jobs: args.max_jobs, seconds: args.max_seconds, gpu_hours: args.max_gpu_hours };
    mcp::supervise(results, &args.command, &args.account, bounds).map_err(Error::io("cannot supervise the run"))?;
    Ok(Exit::Done)
}

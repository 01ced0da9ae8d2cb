//! `sweep hosts`: the hosts of runs through `ssh`, and the server on them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{
    error::{Error, Exit},
    host_server,
};

#[derive(Debug, Args)]
pub(super) struct HostsArgs {
    #[command(subcommand)]
    command: HostsCommand,
}

#[derive(Debug, Subcommand)]
enum HostsCommand {
    /// Answer one connection on standard input and output, as another sweep has it started through `ssh`.
    #[command(hide = true)]
    Serve {
        /// The folder for programs, files and results.
        #[arg(long, value_name = "DIR")]
        workdir: PathBuf,
    },
}

pub(super) fn hosts(args: &HostsArgs) -> Result<Exit, Error> {
    match &args.command {
        HostsCommand::Serve { workdir } => {
            host_server::serve(workdir).map(|()| Exit::Done).map_err(Error::io("the host cannot be used"))
        }
    }
}

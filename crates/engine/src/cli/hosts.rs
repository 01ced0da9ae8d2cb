//! `sweep hosts`: the hosts of runs through `ssh`, and the server on them.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use sweep_job::{Unit, units::parse_bytes};

use super::{
    answer::{self, FormatArgs, answer},
    print,
};
use crate::{
    error::{Error, Exit},
    format::{clean, count, quantity, say},
    host_server,
    hosts::Cleaned,
    recipe::executor::ssh::SshHost,
    run::cluster::hosts::{
        cancel, clean_host,
        members::{HostState, Members, States},
    },
};

#[derive(Debug, Args)]
pub(super) struct HostsArgs {
    #[command(subcommand)]
    command: HostsCommand,
    #[command(flatten)]
    format: FormatArgs,
}

/// A host in the JSON output.
#[derive(Serialize)]
struct HostAnswer {
    host: String,
    /// The host's state in a run, or `added` or `removed`.
    state: String,
    /// Resources that a run uses on the host.
    #[serde(flatten)]
    use_of_run: Option<UseOfRun>,
}

/// Use of a host by the run in progress.
#[derive(Serialize)]
struct UseOfRun {
    cpus_used: usize,
    cpus: usize,
    gpus_used: usize,
    gpus: usize,
    jobs: usize,
    about: String,
}

impl HostAnswer {
    fn named(host: &str, state: &str) -> Self {
        Self { host: host.to_owned(), state: state.to_owned(), use_of_run: None }
    }

    /// A host of the run in progress.
    fn of_run(host: HostState) -> Self {
        let HostState { host, state, cpus, gpus, jobs, about } = host;
        let use_of_run = UseOfRun { cpus_used: cpus.0, cpus: cpus.1, gpus_used: gpus.0, gpus: gpus.1, jobs, about };
        Self { host, state, use_of_run: Some(use_of_run) }
    }

    /// Returns the line about the host.
    fn line(&self) -> String {
        let mut parts = vec![clean(&self.host).into_owned(), self.state.clone()];
        if let Some(UseOfRun { cpus_used, cpus, gpus_used, gpus, jobs, about }) = &self.use_of_run {
            if *cpus > 0 {
                parts.push(format!("{cpus_used} of {}", count(*cpus, "core")));
            }
            if *gpus > 0 {
                parts.push(format!("{gpus_used} of {}", count(*gpus, "GPU")));
            }
            parts.push(count(*jobs, "job"));
            parts.push(clean(about).into_owned());
        }
        parts.retain(|part| !part.is_empty());
        parts.join("  ")
    }
}

#[derive(Debug, Subcommand)]
enum HostsCommand {
    /// Add a host to the runs of this results folder, including runs in progress, or change its settings.
    Add(AddArgs),
    /// Remove a host from the runs of this results folder: it gets no new jobs, and jobs that run there finish there.
    Rm {
        /// The host.
        host: String,
    },
    /// List added and removed hosts, and the hosts of the run in progress.
    List,
    /// End the jobs that runs of this results folder have left on hosts and on this machine.
    Cancel,
    /// Remove files that no run needs from a host: programs of other versions, inputs, and records that were fetched.
    Clean(CleanArgs),
    /// Serve one connection on standard input and output; another sweep starts this command through `ssh`.
    #[command(hide = true)]
    Serve {
        /// The folder for programs, files and results.
        #[arg(long, value_name = "DIR")]
        workdir: PathBuf,
    },
}

#[derive(Debug, Args)]
struct AddArgs {
    /// The host, by the name that `ssh` accepts.
    host: String,
    /// Number of cores that jobs use on the host. Default: all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    cpus: Option<u16>,
    /// Number of GPUs that jobs use on the host. Default: all.
    #[arg(long, value_name = "N")]
    gpus: Option<u16>,
    /// Main memory that jobs use on the host, such as `64GiB`. Default: all.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// The folder on the host for programs, files and records. Default: `~/.sweep`.
    #[arg(long, value_name = "DIR")]
    workdir: Option<String>,
    /// An additional argument for `ssh`; can be repeated.
    #[arg(long = "option", value_name = "ARGUMENT", allow_hyphen_values = true)]
    options: Vec<String>,
}

#[derive(Debug, Args)]
struct CleanArgs {
    /// The host, by the name that `ssh` accepts.
    host: String,
    /// The folder on the host. Default: the folder given to `sweep hosts add`, else `~/.sweep`.
    #[arg(long, value_name = "DIR")]
    workdir: Option<String>,
    /// An additional argument for `ssh`; can be repeated. Default: the arguments given to `sweep hosts add`.
    #[arg(long = "option", value_name = "ARGUMENT", allow_hyphen_values = true)]
    options: Vec<String>,
}

fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

pub(super) fn hosts(results: &Path, args: &HostsArgs) -> Result<Exit, Error> {
    let format = args.format;
    match &args.command {
        HostsCommand::Serve { workdir } => {
            host_server::serve(workdir).map(|()| Exit::Done).map_err(Error::io("the host cannot be used"))
        }
        HostsCommand::Add(args) => {
            let host = added(args)?;
            say(format_args!("{} is used by the runs of this results folder", clean(&host.host)));
            let host_answer = HostAnswer::named(&host.host, "added");
            change(results, format, &host_answer, |members| members.add(host))
        }
        HostsCommand::Rm { host } => {
            named(host)?;
            say(format_args!("{} gets no new jobs from the runs of this results folder", clean(host)));
            change(results, format, &HostAnswer::named(host, "removed"), |members| members.remove(host))
        }
        HostsCommand::List => print_list(results, format).map(|()| Exit::Done),
        HostsCommand::Clean(args) => clean_up(results, args, format),
        HostsCommand::Cancel => {
            let cancellation = cancel(results).map_err(Error::io("the jobs cannot be ended"))?;
            for error in &cancellation.errors {
                say(format_args!("warning: {}", clean(error)));
            }
            say(format_args!("the end of {} was requested", count(cancellation.jobs, "job")));
            if format.is_json() {
                answer(&json!({ "jobs": cancellation.jobs, "errors": cancellation.errors }), Vec::new())?;
            }
            Ok(if cancellation.errors.is_empty() { Exit::Done } else { Exit::Failure })
        }
    }
}

fn named(name: &str) -> Result<SshHost, Error> {
    SshHost::named(name).map_err(|reason| Error::Host { name: name.to_owned(), reason })
}

fn added(args: &AddArgs) -> Result<SshHost, Error> {
    let AddArgs { host, cpus, gpus, memory, workdir, options } = args;
    Ok(SshHost {
        cpus: cpus.map(usize::from),
        gpus: gpus.map(usize::from),
        memory: *memory,
        workdir: workdir.clone(),
        options: options.clone(),
        ..named(host)?
    })
}

/// Removes the files and records that no run needs from a host.
fn clean_up(results: &Path, args: &CleanArgs, format: FormatArgs) -> Result<Exit, Error> {
    let members = Members::read(results).map_err(Error::io("the list of hosts cannot be read"))?;
    let member = members.added.into_iter().find(|member| member.host == args.host);
    let mut host = member.map_or_else(|| named(&args.host), Ok)?;
    host.workdir = args.workdir.clone().or(host.workdir);
    if !args.options.is_empty() {
        host.options.clone_from(&args.options);
    }
    let totals = clean_host(results, &host).map_err(Error::io("nothing was removed"))?;
    let Cleaned { programs, files, records, bytes } = totals;
    let parts = [count(programs, "program"), count(files, "file"), count(records, "record")];
    say(format_args!("{}: {} removed, {}", clean(&host.host), parts.join(", "), quantity(bytes as f64, Unit::Bytes)));
    if format.is_json() {
        answer(&totals, Vec::new())?;
    }
    Ok(Exit::Done)
}

fn change(
    results: &Path,
    format: FormatArgs,
    host_answer: &HostAnswer,
    change: impl FnOnce(&mut Members),
) -> Result<Exit, Error> {
    Members::change(results, change).map_err(Error::io("the list of hosts cannot be changed"))?;
    if format.is_json() {
        answer(host_answer, vec![answer::line(results, ["hosts", "list"])])?;
    }
    Ok(Exit::Done)
}

fn print_list(results: &Path, format: FormatArgs) -> Result<(), Error> {
    let members = Members::read(results).map_err(Error::io("the list of hosts cannot be read"))?;
    let run = States::read(results);
    let is_running = run.is_some();
    let mut hosts: Vec<HostAnswer> = run.into_iter().flat_map(|run| run.hosts).map(HostAnswer::of_run).collect();
    for SshHost { host, .. } in &members.added {
        if hosts.iter().all(|entry| entry.host != *host) {
            hosts.push(HostAnswer::named(host, "added"));
        }
    }
    hosts.extend(members.removed.iter().map(|name| HostAnswer::named(name, "removed")));
    if format.is_json() {
        let next = is_running.then(|| answer::line(results, ["status"]));
        return answer(&json!({ "hosts": hosts }), next.into_iter().collect());
    }
    let mut lines: Vec<String> = hosts.iter().map(HostAnswer::line).collect();
    if lines.is_empty() {
        lines.push("no host was added or removed, and no run with hosts is in progress".to_owned());
    }
    print(&(lines.join("\n") + "\n"))
}

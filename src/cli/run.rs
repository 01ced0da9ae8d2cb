//! `sweep run`.

use std::{
    io::{self, IsTerminal as _},
    path::Path,
};

use clap::Args;

use super::{Prepared, RecipeArgs, cpus, look_up, print, use_color};
use crate::{
    device,
    error::{Error, Exit},
    report::{Format, Report, records},
    run::{self, Journal, Observer, Options, Signals},
    ui::{Bars, Lines},
};

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Run at most so many jobs at once; on a GPU one, on the CPU as many as the cores are enough for.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Stop at the first failure, instead of running whatever does not need the failed job.
    #[arg(long)]
    fail_fast: bool,
}

pub(super) fn run(results: &Path, args: &RunArgs) -> Result<Exit, Error> {
    let Prepared { plan, device } = args.recipe.prepare(true)?;
    let (store, cached) = look_up(results, &plan);
    let open = cached.iter().filter(|cached| !**cached).count();
    let cpus = cpus();
    let on_gpu = device.as_ref().is_some_and(|(_, device)| device.backend != sweep_job::Backend::Cpu);
    let jobs = args.jobs.map_or(if on_gpu { 1 } else { cpus }, usize::from);
    let folder = run::new_folder(results);
    let mut bars;
    let mut lines;
    let mut journal = None;
    let mut observers: Vec<&mut dyn Observer> = Vec::new();
    if io::stderr().is_terminal() {
        bars = Bars::new(use_color(&io::stderr()));
        observers.push(&mut bars);
    } else {
        lines = Lines::new(io::stderr());
        observers.push(&mut lines);
    }
    // A rerun of what is done reads records and writes nothing but the tables.
    if open > 0 {
        if let Some((probe, device)) = &device {
            eprintln!("{}", device::describe(probe, device, cpus));
        }
        observers.push(journal.insert(Journal::create(&folder).map_err(Error::io("cannot write the journal"))?));
    }
    let signals = Signals::catch().map_err(Error::io("cannot catch signals"))?;
    let device = device.map(|(_, device)| device);
    let options = Options { cpus, jobs, fail_fast: args.fail_fast, device, folder };
    let summary = run::run(&plan, &store, &cached, &options, Some(signals), &mut observers)
        .map_err(Error::io("the run cannot go on"))?;
    if let Some(error) = journal.and_then(|journal| journal.error) {
        eprintln!("warning: the journal is not complete: {error}");
    }
    if summary.interrupted.is_none() {
        let report = Report::new(&plan, &records(&plan, &store)?);
        let folder = report.write(results).map_err(Error::io("cannot write the report"))?;
        if !report.tables.is_empty() {
            print(&format!("\n{}", report.render(Format::Term)))?;
            eprintln!("tables: {}", folder.join("tables").display());
        }
    }
    Ok(match (summary.interrupted, summary.failed) {
        (Some(signal), _) => Exit::Interrupted(signal),
        (None, 0) => Exit::Done,
        (None, _) => Exit::JobFailed,
    })
}

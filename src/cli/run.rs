//! `sweep run`.

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal as _},
    path::Path,
};

use clap::Args;

use super::{OnlyArgs, Prepared, RecipeArgs, cpus, look_up, print, use_color};
use crate::{
    device,
    error::{Error, Exit},
    plan::{JobId, Plan},
    report::{Format, Report, records},
    run::{self, Journal, Observer, Options, Signals, Wanted},
    store::{Store, StoreError},
    text::say,
    ui::{Bars, Lines},
};

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    #[command(flatten)]
    only: OnlyArgs,
    /// Run at most so many jobs at once; on a GPU one, on the CPU as many as the cores are enough for.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Stop at the first failure, instead of running whatever does not need the failed job.
    #[arg(long)]
    fail_fast: bool,
    /// Let nothing pass with a warning: a record that cannot be read and a journal that is not complete are failures too.
    #[arg(long)]
    strict: bool,
}

/// Leaves out the records that cannot be read: their jobs run again, and that is said before anything else. A record
/// from a later version is nobody's to run again, and with `strict` none is.
fn usable(store: &Store, plan: &Plan, found: &[bool], strict: bool) -> Result<Vec<bool>, StoreError> {
    let mut cached = found.to_vec();
    // Only the tables read records.
    let read: BTreeSet<JobId> =
        plan.recipe.tables.iter().flat_map(|table| &plan.steps[table.from.value]).map(|(_, id)| *id).collect();
    for id in read.into_iter().filter(|id| found[id.index()]) {
        match store.get(plan.job(id).key) {
            Ok(record) => cached[id.index()] = record.is_some(),
            Err(error @ StoreError::Damaged { .. }) if !strict => {
                say(format_args!("warning: {error}"));
                cached[id.index()] = false;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(cached)
}

pub(super) fn run(results: &Path, args: &RunArgs) -> Result<Exit, Error> {
    let Prepared { plan, device } = args.recipe.prepare(true)?;
    let store = Store::new(results);
    let selected = plan.select(&args.only.only)?;
    let cached = usable(&store, &plan, &look_up(&store, &plan), args.strict)?;
    let states: Vec<Wanted> = plan
        .jobs()
        .map(|(id, _)| match (selected.contains(&id), cached[id.index()]) {
            (false, _) => Wanted::No,
            (true, true) => Wanted::Cached,
            (true, false) => Wanted::Yes,
        })
        .collect();
    let open = states.iter().filter(|state| **state == Wanted::Yes).count();
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
            say(format_args!("{}", device::describe(probe, device, cpus)));
        }
        observers.push(journal.insert(Journal::create(&folder).map_err(Error::io("cannot write the journal"))?));
    }
    let signals = Signals::catch().map_err(Error::io("cannot catch signals"))?;
    let device = device.map(|(_, device)| device);
    let options = Options { cpus, jobs, fail_fast: args.fail_fast, device, folder };
    let summary = run::run(&plan, &store, &states, &options, Some(signals), &mut observers)
        .map_err(Error::io("the run cannot go on"))?;
    if let Some(error) = journal.and_then(|journal| journal.error) {
        if args.strict {
            return Err(Error::io("the journal is not complete")(error));
        }
        say(format_args!("warning: the journal is not complete: {error}"));
    }
    if summary.interrupted.is_none() {
        let report = Report::new(&plan, &records(&plan, &store)?);
        let folder = report.write(results).map_err(Error::io("cannot write the report"))?;
        if !report.tables.is_empty() {
            print(&format!("\n{}", report.render(Format::Term)))?;
            say(format_args!("tables: {}", folder.join("tables").display()));
        }
    }
    Ok(match (summary.interrupted, summary.failed) {
        (Some(signal), _) => Exit::Interrupted(signal),
        (None, 0) => Exit::Done,
        (None, _) => Exit::JobFailed,
    })
}

//! `sweep report`.

use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::{
    Prepared, RecipeArgs,
    answer::{self, TableFormat, answer},
    init::unchanged,
    print,
    run::{Ended, RunArgs},
};
use crate::{
    analysis::{Results, State},
    error::{Error, Exit},
    format::say,
    plan::Plan,
    render::{Page, Report, ReportData, overview},
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Output format of the tables.
    #[arg(long, value_enum, default_value = "term")]
    format: TableFormat,
    /// End with exit code 6 if a claim is refuted.
    #[arg(long)]
    strict: bool,
}

/// The JSON output.
#[derive(Serialize)]
struct Reports {
    reports: Vec<ReportData>,
}

/// Reports that were computed and written.
#[derive(Default)]
struct Made {
    /// For people.
    texts: Vec<String>,
    /// For JSON.
    data: Vec<ReportData>,
    /// True if a claim is refuted.
    refuted: bool,
}

impl Made {
    /// Makes the reports of a plan, and writes their pages.
    fn new(results: &Path, plan: &Plan, store: &Store, format: TableFormat) -> Result<Self, Error> {
        let job_results = Results::read(plan, store)?;
        let mut output = Self::default();
        let report = |study| Report::new(plan, study, &job_results, store);
        let reports: Vec<Report<'_>> = plan.studies.iter().map(report).collect();
        for report in &reports {
            let folder = report.write(results, Page::IfStale);
            if let Err(error) = &folder {
                // Finished jobs can be read in a read-only folder.
                say(format_args!("warning: the report is not written: {error}"));
            }
            if let Some(reason) = report.why_apart() {
                say(format_args!("note: {reason}"));
            }
            output.refuted |= report.verdicts.iter().any(|verdict| verdict.state == State::Refuted);
            match format.of_tables() {
                None => output.data.push(ReportData::new(report, folder.ok())),
                Some(_) if report.is_empty() => say(format_args!("{} has no tables and no claims", report.name())),
                Some(format) => output.texts.push(report.render(format)),
            }
        }
        if let Err(error) = overview::write(&reports, results) {
            say(format_args!("warning: the page of all recipes is not written: {error}"));
        }
        Ok(output)
    }

    fn print(&self) -> Result<(), Error> {
        print(&self.texts.join("\n"))
    }
}

pub(super) fn report(results: &Path, args: &ReportArgs) -> Result<Exit, Error> {
    let Prepared { plan, .. } = args.recipe.prepare(results, &[], false)?;
    let store = Store::open(results)?;
    let output = Made::new(results, &plan, &store, args.format)?;
    if args.format == TableFormat::Json {
        let next = is_open(&plan, &store).then(|| answer::with_words(results, "run", &plan.typed(), &[]));
        answer(&Reports { reports: output.data }, next.into_iter().collect())?;
    } else {
        output.print()?;
    }
    Ok(if args.strict && output.refuted { Exit::Refuted } else { Exit::Done })
}

/// Prints the reports of the recipes of a run, or adds them to its JSON output.
pub(super) fn report_again(results: &Path, run: &RunArgs, outcome: &mut Ended) -> Result<(), Error> {
    let Prepared { plan, .. } = run.changes.prepare(results, &run.paths, &[], false)?;
    let format = if run.format.is_json() { TableFormat::Json } else { TableFormat::Term };
    let output = Made::new(results, &plan, &Store::open(results)?, format)?;
    output.print()?;
    outcome.reports = output.data;
    Ok(())
}

/// Prints the report of a recipe whose jobs are done, and writes its page; for JSON, returns its tables instead.
pub(super) fn of_recipe(results: &Path, recipe: &Path, is_json: bool) -> Result<Vec<ReportData>, Error> {
    let Prepared { plan, .. } = unchanged().prepare(results, &[recipe.to_owned()], &[], false)?;
    let format = if is_json { TableFormat::Json } else { TableFormat::Term };
    let output = Made::new(results, &plan, &Store::open(results)?, format)?;
    output.print()?;
    Ok(output.data)
}

/// True if a job has no record that a run would make.
fn is_open(plan: &Plan, store: &Store) -> bool {
    plan.jobs().any(|(id, job)| !plan.is_reserve(id) && !plan.is_shared(id) && !store.contains(job.key))
}

//! `sweep report`.

use std::path::Path;

use clap::Args;

use super::{Prepared, RecipeArgs, print};
use crate::{
    analysis::{Results, State},
    error::{Error, Exit},
    format::say,
    render::{Format, Page, Report, overview},
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Output format of the tables.
    #[arg(long, value_enum, default_value = "term")]
    format: Format,
    /// End with exit code 6 if a claim is refuted.
    #[arg(long)]
    strict: bool,
}

pub(super) fn report(results: &Path, args: &ReportArgs) -> Result<Exit, Error> {
    let Prepared { plan, .. } = args.recipe.prepare(results, &[], false)?;
    let store = Store::open(results)?;
    let done = Results::read(&plan, &store)?;
    let mut texts = Vec::new();
    let mut refuted = false;
    let reports: Vec<Report<'_>> = plan.studies.iter().map(|study| Report::new(&plan, study, &done, &store)).collect();
    for report in &reports {
        if let Err(error) = report.write(results, Page::IfStale) {
            // Finished jobs can be read in a read-only folder.
            say(format_args!("warning: the report is not written: {error}"));
        }
        if let Some(why) = report.why_apart() {
            say(format_args!("note: {why}"));
        }
        refuted |= report.verdicts.iter().any(|verdict| verdict.state == State::Refuted);
        if report.is_empty() {
            say(format_args!("{} has no tables and no claims", report.name()));
        } else {
            texts.push(report.render(args.format));
        }
    }
    if let Err(error) = overview::write(&reports, results) {
        say(format_args!("warning: the page of all recipes is not written: {error}"));
    }
    print(&texts.join("\n"))?;
    Ok(if args.strict && refuted { Exit::Refuted } else { Exit::Done })
}

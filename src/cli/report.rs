//! `sweep report`.

use std::path::Path;

use clap::Args;

use super::{Prepared, RecipeArgs, print};
use crate::{
    error::{Error, Exit},
    report::{Format, Report, records},
    store::Store,
    text::say,
};

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// How to print the tables.
    #[arg(long, value_enum, default_value = "term")]
    format: Format,
}

pub(super) fn report(results: &Path, args: &ReportArgs) -> Result<Exit, Error> {
    let Prepared { plan, .. } = args.recipe.prepare(false)?;
    let report = Report::new(&plan, &records(&plan, &Store::open(results)?)?);
    report.write(results).map_err(Error::io("cannot write the report"))?;
    if report.tables.is_empty() {
        say(format_args!("{} has no tables", plan.recipe.name));
    }
    print(&report.render(args.format))?;
    Ok(Exit::Done)
}

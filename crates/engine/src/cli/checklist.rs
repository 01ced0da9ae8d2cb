//! `sweep checklist`.

use std::path::Path;

use clap::Args;

use super::{Prepared, RecipeArgs, print};
use crate::{
    analysis::Results,
    error::{Error, Exit},
    render::Report,
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct ChecklistArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
}

pub(super) fn checklist(results: &Path, args: &ChecklistArgs) -> Result<Exit, Error> {
    let Prepared { plan, .. } = args.recipe.prepare(results, &[], false)?;
    let store = Store::open(results)?;
    let job_results = Results::read(&plan, &store)?;
    let report = |study| Report::new(&plan, study, &job_results, &store).checklist();
    let texts: Vec<String> = plan.studies.iter().map(report).collect();
    print(&texts.join("\n"))?;
    Ok(Exit::Done)
}

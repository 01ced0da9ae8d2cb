//! `sweep plan`.

use std::path::Path;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets::NOTHING};

use super::{OnlyArgs, Prepared, RecipeArgs, look_up, print};
use crate::{
    error::{Error, Exit},
    store::Store,
    text::{clean, count},
};

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    #[command(flatten)]
    only: OnlyArgs,
    /// List every job with its key, not only the steps.
    #[arg(long)]
    list: bool,
}

pub(super) fn plan(results: &Path, args: &PlanArgs) -> Result<Exit, Error> {
    let Prepared { plan, .. } = args.recipe.prepare(false)?;
    let cached = look_up(&Store::new(results), &plan);
    let selected = plan.select(&args.only.only)?;
    let done = selected.iter().filter(|id| cached[id.index()]).count();
    let (all, open) = (selected.len(), selected.len() - done);
    let mut text = format!("{} · {}: {done} cached, {open} to run\n", plan.recipe.name, count(all, "job"));
    if let Some(about) = &plan.recipe.about {
        text = format!("{}\n{text}", clean(about));
    }
    let mut grid = Table::new();
    grid.load_style(NOTHING);
    if args.list {
        grid.set_header(["  job", "key", "state"]);
        for (id, job) in plan.jobs().filter(|(id, _)| selected.contains(id)) {
            let state = if cached[id.index()] { "cached" } else { "to run" };
            grid.add_row([format!("  {}", clean(&job.label.to_string())), job.key.short(), state.to_owned()]);
        }
    } else {
        grid.set_header(["  step", "jobs", "cached", "to run"]);
        for (step, jobs) in plan.recipe.steps.iter().zip(&plan.steps) {
            let jobs: Vec<_> = jobs.iter().map(|(_, id)| id).filter(|id| selected.contains(id)).collect();
            if jobs.is_empty() {
                continue;
            }
            let hits = jobs.iter().filter(|id| cached[id.index()]).count();
            let row = [jobs.len(), hits, jobs.len() - hits].map(|number| number.to_string());
            grid.add_row(std::iter::once(format!("  {}", step.name.value)).chain(row));
        }
        for column in grid.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    text.extend(grid.lines().map(|line| format!("{}\n", line.trim_end())));
    print(&text)?;
    Ok(Exit::Done)
}

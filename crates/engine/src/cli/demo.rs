//! `sweep demo` and `sweep examples`.

use std::path::{Path, PathBuf};

use clap::{Args, Parser as _, ValueEnum as _};

use super::{BackendArg, Cli, Command, nearby, print, run};
use crate::{
    error::{Error, Exit},
    format::{clean, count, quantity, row_of_blocks, say},
    plan::Plan,
    shipped,
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// The folder to copy to.
    #[arg(value_name = "DIR", default_value = "sweep-demo")]
    folder: PathBuf,
    /// Backend to compute on. `auto` selects CUDA, else a hardware GPU through wgpu, else the CPU.
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: BackendArg,
}

#[derive(Debug, Args)]
pub(super) struct ExamplesArgs {
    /// The folder to copy to. Without it, the recipes are listed.
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Columns of a curve.
const COLUMNS: usize = 48;

/// Copies the shipped files, runs the demo among them, draws its curves and prints the next steps.
pub(super) fn demo(results: &Path, args: &DemoArgs) -> Result<Exit, Error> {
    shipped::copy(&args.folder)?;
    let recipe = args.folder.join(shipped::demo().recipe);
    if let Some(about) = shipped::text(shipped::demo().recipe).and_then(nearby::about) {
        say(format_args!("{about}"));
    }
    say(format_args!("running: sweep run {}", recipe.display()));
    let backend = args.backend.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    // Read as if it had been typed, so that defaults are declared once.
    let command_line =
        ["sweep".into(), "run".into(), recipe.clone().into_os_string(), "--backend".into(), backend.into()];
    let Ok(Some(Command::Run(run))) = Cli::try_parse_from(command_line).map(|cli| cli.command) else {
        return Ok(Exit::Usage);
    };
    let exit = run::run(results, &run)?.exit;
    if exit != Exit::Done {
        return Ok(exit);
    }
    let plan = run.plan(results)?;
    print(&(curves(&plan, &Store::open(results)?)? + &next(&recipe, results, &plan)))?;
    Ok(exit)
}

/// The mean curve over the seeds of each configuration of the demo, as a row of blocks; all rows have one scale.
fn curves(plan: &Plan, store: &Store) -> Result<String, Error> {
    let mut rows: Vec<(String, Vec<Vec<f64>>)> = Vec::new();
    let mut unit = None;
    for (_, job) in plan.jobs() {
        let Some(record) = store.get(job.key)? else { continue };
        let Some(curve) = record.outcome.curves.get(shipped::DEMO_CURVE) else { continue };
        unit = Some(curve.unit);
        let axes = job.label.point.split(',').filter(|axis| !axis.starts_with("seed="));
        let name = axes.collect::<Vec<_>>().join(" ");
        match rows.iter_mut().find(|(row_name, _)| *row_name == name) {
            Some((_, curves)) => curves.push(curve.values.clone()),
            None => rows.push((name, vec![curve.values.clone()])),
        }
    }
    let Some(unit) = unit else { return Ok(String::new()) };
    let means: Vec<(String, Vec<f64>)> = rows.into_iter().map(|(name, curves)| (name, mean(&curves))).collect();
    let width = means.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let all_values = || means.iter().flat_map(|(_, values)| values.iter().copied()).filter(|value| value.is_finite());
    let (low, high) = (all_values().fold(f64::INFINITY, f64::min), all_values().fold(f64::NEG_INFINITY, f64::max));
    let mut text = format!("\n{} by step, mean over the seeds\n", shipped::DEMO_CURVE);
    for (name, values) in &means {
        let (Some(first_value), Some(last_value)) = (values.first(), values.last()) else { continue };
        let end_values = format!("{} → {}", quantity(*first_value, unit), quantity(*last_value, unit));
        let blocks = row_of_blocks(&thinned(values), low, high);
        text.extend([format!("  {:width$}  {blocks}  {end_values}\n", clean(name))]);
    }
    Ok(text)
}

/// The mean of several curves at each of their points, as far as the shortest goes.
fn mean(curves: &[Vec<f64>]) -> Vec<f64> {
    let points = curves.iter().map(Vec::len).min().unwrap_or(0);
    let mean_at = |point: usize| curves.iter().map(|values| values[point]).sum::<f64>() / curves.len() as f64;
    (0..points).map(mean_at).collect()
}

/// Returns at most [`COLUMNS`] of `values`, with the first and the last.
fn thinned(values: &[f64]) -> Vec<f64> {
    if values.len() <= COLUMNS {
        return values.to_vec();
    }
    (0..COLUMNS).map(|column| values[column * (values.len() - 1) / (COLUMNS - 1)]).collect()
}

/// Next steps after the demo.
fn next(recipe: &Path, results: &Path, plan: &Plan) -> String {
    let mut steps = Vec::new();
    if let [study] = plan.studies.as_slice() {
        let page = results.join("reports").join(&study.recipe.report).join("index.html");
        steps.push((page.display().to_string(), "open the report in a browser"));
    }
    let recipe = recipe.display();
    steps.push((
        format!("sweep run {recipe} {}", shipped::demo().change),
        "change a value: only the jobs that depend on it run",
    ));
    steps.push((
        format!("sweep explain {recipe} {} {}", shipped::demo().job, shipped::demo().change),
        "why a job would run",
    ));
    steps.push(("sweep new".to_owned(), "write a recipe of your own"));
    let lines = steps.into_iter().map(|(command, purpose)| format!("  {purpose}:\n    {command}\n"));
    std::iter::once("\nnext:\n".to_owned()).chain(lines).collect()
}

/// Lists the shipped recipes, or copies all shipped files.
pub(super) fn examples(args: &ExamplesArgs) -> Result<Exit, Error> {
    let Some(folder) = &args.folder else {
        let recipes: Vec<(&str, String)> =
            shipped::recipes().map(|(path, text)| (path, nearby::about(text).unwrap_or_default())).collect();
        let width = recipes.iter().map(|(path, _)| path.len()).max().unwrap_or(0);
        let lines = recipes.iter().map(|(path, about)| format!("{path:width$}  {about}").trim_end().to_owned() + "\n");
        print(&lines.collect::<String>())?;
        say(format_args!("next: `sweep examples DIR` copies them to a folder, with the data that they use"));
        return Ok(Exit::Done);
    };
    let files = shipped::copy(folder)?;
    print(&format!("{} in {}\n", count(files, "file"), folder.display()))?;
    say(format_args!("next: cd {} && sweep plan {}", folder.display(), shipped::demo().recipe));
    Ok(Exit::Done)
}

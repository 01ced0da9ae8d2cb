//! `sweep best`.

use std::{collections::BTreeSet, num::NonZeroUsize, path::Path};

use clap::{Args, ValueEnum};

use super::{
    ChangeArgs, Prepared,
    answer::{self, TableFormat, answer},
    init::unchanged,
    print,
};
use crate::{
    analysis::{
        Results,
        best::{Contest, Layout, Ranking},
    },
    error::{Error, Exit},
    plan::{Plan, Study},
    recipe::{OfStep, Recipe, Rungs, Search, Selection, Step, suggest},
    render,
    stats::Better,
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct BestArgs {
    /// The recipe or sweep file.
    recipe: std::path::PathBuf,
    #[command(flatten)]
    changes: ChangeArgs,
    /// The step. Default: the step with a `search`, or the only step with axes.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// The metric. Default: the metric of the step's `search`, or the only metric with a better direction that the report
    /// shows for the step.
    #[arg(long, value_name = "METRIC")]
    by: Option<String>,
    /// The better direction of the metric. Default: the direction that the metric or the step's `search` declares.
    #[arg(long, value_enum)]
    direction: Option<Direction>,
    /// Number of configurations to show.
    #[arg(long, value_name = "N", default_value = "10")]
    top: NonZeroUsize,
    /// Output format.
    #[arg(long, value_enum, default_value = "term")]
    format: TableFormat,
    /// The same as `--format json`.
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Direction {
    /// Smaller values are better.
    Min,
    /// Larger values are better.
    Max,
}

impl BestArgs {
    /// The best configurations of a recipe by a metric, for a terminal.
    pub(super) fn of(recipe: &Path, metric: &str) -> Self {
        const TOP: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9);
        Self {
            recipe: recipe.to_owned(),
            changes: unchanged(),
            step: None,
            by: Some(metric.to_owned()),
            direction: None,
            top: TOP,
            format: TableFormat::Term,
            json: false,
        }
    }
}

pub(super) fn best(results: &Path, args: &BestArgs) -> Result<Exit, Error> {
    let paths = std::slice::from_ref(&args.recipe);
    let Prepared { mut plan, .. } = args.changes.prepare(results, paths, &[], false)?;
    let (study, step) = step(&plan, args.step.as_deref())?;
    let contest = contest(&plan.studies[study], step, args)?;
    let name = plan.studies[study].recipe.steps[step].name.value.clone();
    // Only ranked results are read.
    let tables = contest.tables(&plan.studies[study].recipe);
    for (index, other_study) in plan.studies.iter_mut().enumerate() {
        let recipe = &mut other_study.recipe;
        recipe.tables = if index == study { tables.clone() } else { Vec::new() };
        recipe.figures.clear();
        recipe.claims.clear();
    }
    let store = Store::open(results)?;
    let job_results = Results::read(&plan, &store)?;
    let ranking = Ranking::new(&plan, &plan.studies[study], &contest, &job_results, &store);
    let top = args.top.get();
    let format = if args.json { TableFormat::Json } else { args.format };
    match format.of_tables() {
        Some(render::Format::Term) => {
            print(&render::narrow([Layout::Short, Layout::Joined].map(|layout| ranking.table(&name, top, layout))))?;
        }
        Some(format) => print(&render::render(&ranking.table(&name, top, Layout::Exact), format))?,
        None => answer(&ranking.json(top), vec![answer::with_words(results, "report", &plan.typed(), &[])])?,
    }
    Ok(Exit::Done)
}

/// The axes of a step that distinguish configurations: not seeds and repetitions, and not the rungs of a search.
fn axes(step: &Step) -> Vec<String> {
    let rungs = step.search.as_ref().and_then(Search::axis);
    step.axes()
        .into_iter()
        .filter(|axis| !step.is_repeated_by(axis) && Some(*axis) != rungs)
        .map(str::to_owned)
        .collect()
}

/// The step to rank, as indices of its study and in it.
fn step(plan: &Plan, name: Option<&str>) -> Result<(usize, usize), Error> {
    let candidates = plan.studies.iter().enumerate().flat_map(|(study, planned_study)| {
        planned_study.recipe.steps.iter().enumerate().map(move |(index, step)| ((study, index), step))
    });
    let candidates: Vec<((usize, usize), &Step)> = candidates.filter(|(_, step)| !axes(step).is_empty()).collect();
    let names = || candidates.iter().map(|(_, step)| step.name.value.as_str());
    let fitting_steps: Vec<&((usize, usize), &Step)> = match name {
        Some(name) => candidates.iter().filter(|(_, step)| step.name.value == name).collect(),
        None => {
            let searches: Vec<_> = candidates.iter().filter(|(_, step)| step.search.is_some()).collect();
            if searches.is_empty() { candidates.iter().collect() } else { searches }
        }
    };
    match (fitting_steps.as_slice(), name) {
        ([(place, _)], _) => Ok(*place),
        ([], Some(name)) => {
            let help = suggest(name, "steps with axes", names()).unwrap_or_default();
            Err(Error::NotFound { message: format!("no step with axes is called `{name}`"), help })
        }
        ([], None) => Err(Error::Unknown("no step has axes, so there is nothing to rank".to_owned())),
        (_, Some(name)) => Err(Error::Unknown(format!("several recipes have a step `{name}`; name only one recipe"))),
        (_, None) => {
            let names: Vec<&str> = names().collect();
            Err(Error::Unknown(format!("several steps have axes; choose one with `--step`: {}", names.join(", "))))
        }
    }
}

/// Returns the ranking of a step according to the arguments and the recipe.
fn contest(study: &Study, index: usize, args: &BestArgs) -> Result<Contest, Error> {
    let recipe = &study.recipe;
    let step = &recipe.steps[index];
    let name = &step.name.value;
    let search = step.search.as_ref();
    let metric = match &args.by {
        Some(metric) => {
            let is_known = step.task.open_metrics || recipe.read_off().any(|(name, _)| name == metric);
            if !is_known && step.task.metric(metric).is_none() {
                let metric_names = step.task.metrics().map(|metric| metric.name);
                let help = suggest(metric, "metrics", metric_names).unwrap_or_default();
                return Err(Error::NotFound { message: format!("step `{name}` does not measure `{metric}`"), help });
            }
            metric.clone()
        }
        None => match search.and_then(Search::metric) {
            Some((metric, _)) => metric.to_owned(),
            None => default_metric(recipe, index)?,
        },
    };
    let better = match args.direction {
        Some(Direction::Min) => Better::Less,
        Some(Direction::Max) => Better::More,
        None => recipe.better(step, &metric).ok_or_else(|| {
            Error::Unknown(format!(
                "the better direction of `{metric}` is unknown; add `--direction min` or `--direction max`"
            ))
        })?,
    };
    let selection = search.and_then(|search| search.rungs.as_ref()).map_or_else(Selection::default, Rungs::reported);
    // The step that measures the winners of a search on other seeds.
    let confirmation = recipe.steps.iter().position(|step| step.confirms == Some(index));
    let confirmation = confirmation.map(|step| OfStep { step, only: Selection::default() });
    Ok(Contest {
        of: OfStep { step: index, only: selection },
        confirmed: confirmation,
        axes: axes(step),
        metric,
        better,
    })
}

/// The only metric with a better direction that the report shows of a step.
fn default_metric(recipe: &Recipe, index: usize) -> Result<String, Error> {
    let step = &recipe.steps[index];
    let outputs = recipe.shown().filter(|output| output.steps.contains(&index));
    let metrics: BTreeSet<String> = outputs
        .flat_map(|output| output.metrics.into_iter().map(str::to_owned).collect::<Vec<_>>())
        .filter(|metric| step.axes().iter().all(|axis| axis != metric))
        .filter(|metric| recipe.traits(step, metric).better.is_some())
        .collect();
    let metrics: Vec<String> = metrics.into_iter().collect();
    match metrics.as_slice() {
        [metric] => Ok(metric.clone()),
        [] => Err(Error::Unknown(format!(
            "no table, figure or claim shows a metric of step `{}` with a better direction; name one with `--by`",
            step.name.value
        ))),
        names => Err(Error::Unknown(format!(
            "the report shows several metrics of step `{}`; choose one with `--by`: {}",
            step.name.value,
            names.join(", ")
        ))),
    }
}

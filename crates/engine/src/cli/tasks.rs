//! `sweep tasks`.

use clap::Args;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets::NOTHING};
use serde::Serialize;
use sweep_job::{Kind, Param, Task, TaskInfo, Value};

use super::{
    answer::{FormatArgs, answer},
    print,
};
use crate::{
    error::{Error, Exit},
    recipe::{schema, suggest},
};

#[derive(Debug, Args)]
pub(super) struct TasksArgs {
    /// The task to show. Default: a list of all tasks.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Columns that the text for a terminal takes at most.
const WIDTH: u16 = 100;

pub(super) fn tasks(args: &TasksArgs) -> Result<Exit, Error> {
    let listed_tasks = || Task::all().iter().filter(|task| !task.hidden);
    let is_json = args.format.is_json();
    let Some(name) = &args.name else {
        if is_json {
            answer(&TaskList { tasks: listed_tasks().map(TaskJson::new).collect() }, Vec::new())?;
        } else {
            print(&list(listed_tasks()))?;
        }
        return Ok(Exit::Done);
    };
    let task = Task::info(name).ok_or_else(|| Error::NotFound {
        message: format!("unknown task `{name}`"),
        help: suggest(name, "tasks", listed_tasks().map(|task| task.name)).unwrap_or_default(),
    })?;
    if is_json {
        answer(&TaskJson::new(task), Vec::new())?;
    } else {
        print(&show(task))?;
    }
    Ok(Exit::Done)
}

fn list(tasks: impl Iterator<Item = &'static TaskInfo>) -> String {
    let mut grid = grid(&[None, None]);
    for task in tasks {
        grid.add_row([task.name, task.about]);
    }
    format!("{}\n`sweep tasks NAME` shows a task's parameters and metrics\n", lines(grid))
}

fn show(task: &TaskInfo) -> String {
    let mut parameters = grid(&[None, None, Some(30), None]);
    parameters.set_header(["parameter", "default", "accepts", "meaning"]);
    for param in task.params() {
        let default = match (param.default)() {
            Value::Null => "–".to_owned(),
            default => default.to_string(),
        };
        parameters.add_row([param.name.to_owned(), default, accepts(param), plain(param.doc)]);
    }
    let mut metrics = grid(&[None, None, None]);
    metrics.set_header(["metric", "unit", "meaning"]);
    for metric in task.metrics() {
        metrics.add_row([metric.name.to_owned(), metric.unit.to_string(), plain(metric.doc)]);
    }
    format!("{}: {}\n\n{}\n{}", task.name, task.about, lines(parameters), lines(metrics))
}

/// A grid whose cells are wrapped to the terminal; a column can be held to a number of characters.
fn grid(columns: &[Option<u16>]) -> Table {
    let mut grid = Table::new();
    grid.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    let constraint = |max_width: &Option<u16>| match max_width {
        Some(max_width) => ColumnConstraint::UpperBoundary(Width::Fixed(*max_width)),
        None => ColumnConstraint::LowerBoundary(Width::Fixed(1)),
    };
    grid.set_constraints(columns.iter().map(constraint));
    grid
}

fn lines(mut grid: Table) -> String {
    for column in grid.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for line in grid.lines() {
        text.extend([line.trim_end(), "\n"]);
    }
    text
}

/// "integer from 1 to 1024, tokens": shorter than a sentence would have it.
fn accepts(param: &Param) -> String {
    let text = plain(&param.accepts());
    let article = ["one of ", "an ", "a "].into_iter().find_map(|article| text.strip_prefix(article));
    article.map_or_else(|| text.clone(), str::to_owned)
}

/// Removes Markdown's quotes, which a terminal would show.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

// ---- For machines ---------------------------------------------------------------------------------------------------

#[derive(Debug, Serialize)]
struct TaskList {
    tasks: Vec<TaskJson>,
}

#[derive(Debug, Serialize)]
struct TaskJson {
    name: &'static str,
    about: &'static str,
    revision: u32,
    on_device: bool,
    parameters: Vec<ParamJson>,
    metrics: Vec<MetricJson>,
}

#[derive(Debug, Serialize)]
struct ParamJson {
    name: &'static str,
    /// `bool`, `int`, `float`, `text`, `choice` or `path`.
    r#type: &'static str,
    /// `null` where it has none.
    default: Value,
    nullable: bool,
    min: Option<serde_json::Value>,
    max: Option<serde_json::Value>,
    unit: Option<&'static str>,
    /// The words of a choice; for a path, the names of the built-in files.
    words: &'static [&'static str],
    /// Excluded from the key.
    cosmetic: bool,
    doc: &'static str,
}

#[derive(Debug, Serialize)]
struct MetricJson {
    name: &'static str,
    unit: &'static str,
    doc: &'static str,
}

impl TaskJson {
    fn new(task: &'static TaskInfo) -> Self {
        let metric = |metric: &sweep_job::MetricInfo| MetricJson {
            name: metric.name,
            unit: metric.unit.symbol(),
            doc: metric.doc,
        };
        Self {
            name: task.name,
            about: task.about,
            revision: task.revision,
            on_device: task.on_device,
            parameters: task.params().map(ParamJson::new).collect(),
            metrics: task.metrics().map(metric).collect(),
        }
    }
}

impl ParamJson {
    fn new(param: &'static Param) -> Self {
        let (name, words): (_, &'static [&'static str]) = match param.kind {
            Kind::Bool => ("bool", &[]),
            Kind::Int => ("int", &[]),
            Kind::Float => ("float", &[]),
            Kind::Text => ("text", &[]),
            Kind::Choice(words) => ("choice", words),
            Kind::Path(words) => ("path", words),
            Kind::Folder => ("folder", &[]),
            Kind::Scalar => ("scalar", &[]),
            Kind::Variable => ("variable", &[]),
            Kind::Inside => ("relative path", &[]),
            Kind::List(_) => ("list", &[]),
            Kind::Map(_) => ("map", &[]),
            Kind::Any => ("any", &[]),
            Kind::Either(..) => ("either", &[]),
        };
        let bound = |bound: f64| (bound.abs() != f64::MAX).then(|| schema::number(bound));
        Self {
            name: param.name,
            r#type: name,
            default: (param.default)(),
            nullable: param.nullable,
            min: param.bounds.and_then(|bounds| bound(bounds.min)),
            max: param.bounds.and_then(|bounds| bound(bounds.max)),
            unit: param.unit,
            words,
            cosmetic: param.cosmetic,
            doc: param.doc,
        }
    }
}

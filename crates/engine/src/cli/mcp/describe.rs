//! The tool `describe`.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sweep_job::{Param, Task, TaskInfo};

use super::study::StudyInput;
use crate::{
    mcp::{Effect, Fault, FaultKind, Page, Session, Tool},
    plan::{Plan, Study},
    recipe::suggest,
};

/// Values of an axis that are shown.
const VALUES: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    /// The recipe or sweep file to describe, as a path from the project's folder.
    #[serde(default)]
    recipe: Option<String>,
    /// The task to describe: its parameters with units, ranges and defaults, and its metrics.
    #[serde(default)]
    task: Option<String>,
    #[serde(flatten)]
    page: Page,
}

/// A recipe file.
#[derive(Debug, Serialize, JsonSchema)]
struct File {
    /// Its path from the project's folder.
    path: String,
    /// True for a sweep file, which runs recipes with other values.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    sweep: bool,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<String>,
}

/// A task, parameter or metric.
#[derive(Debug, Serialize, JsonSchema)]
struct Item {
    /// Its name.
    name: String,
    /// Its meaning.
    about: String,
    /// Its unit; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    /// The accepted values of a parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    accepts: Option<String>,
    /// The default of a parameter; `null` without a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Value>,
}

/// A step.
#[derive(Debug, Serialize, JsonSchema)]
struct StepText {
    /// Its name.
    name: String,
    /// Its task.
    task: String,
    /// Number of its jobs.
    jobs: usize,
    /// Its axes, with their first 20 values.
    axes: Vec<AxisText>,
}

/// An axis.
#[derive(Debug, Serialize, JsonSchema)]
struct AxisText {
    /// Its name.
    name: String,
    /// Its first 20 values.
    values: Vec<Value>,
    /// Number of its values.
    number: usize,
}

/// A recipe.
#[derive(Debug, Serialize, JsonSchema)]
struct RecipeText {
    /// Its name.
    name: String,
    /// The question that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<String>,
    /// Its params with their values, which `set` changes.
    params: Vec<ParamText>,
    /// Its scales.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scales: Vec<String>,
    /// Its steps.
    steps: Vec<StepText>,
    /// The names of its tables.
    tables: Vec<String>,
    /// The names of its figures.
    figures: Vec<String>,
    /// Its claims, each with its statement in words.
    claims: Vec<String>,
}

/// A param of a recipe.
#[derive(Debug, Serialize, JsonSchema)]
struct ParamText {
    /// Its name.
    name: String,
    /// Its value.
    value: Value,
}

/// Recipes and tasks, a recipe, or a task.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct Output {
    /// The recipes and sweep files of the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<File>>,
    /// The tasks that steps can use.
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<Vec<Item>>,
    /// The recipes of the requested file.
    #[serde(skip_serializing_if = "Option::is_none")]
    recipes: Option<Vec<RecipeText>>,
    /// The parameters of the requested task.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Vec<Item>>,
    /// The metrics of the requested task.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Vec<Item>>,
    /// The cursor of the following recipe files or parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) fn tool() -> Tool {
    const ABOUT: &str = "Without arguments, lists the project's recipes and the tasks; with `recipe`, shows its params, steps, axes, \
        tables and claims; with `task`, shows its parameters with units, ranges and defaults, and its metrics.";
    Tool::new(("describe", "Describe recipes and tasks"), ABOUT, Effect::Reads, describe)
}

fn describe(session: &Session, input: Input) -> Result<Output, Fault> {
    let cursor = input.page.cursor()?;
    match (input.recipe, input.task) {
        (Some(_), Some(_)) => {
            let fault = Fault::new(FaultKind::Arguments, "`recipe` and `task` exclude each other");
            Err(fault.help("call `describe` twice"))
        }
        (Some(recipe), None) => {
            let study = StudyInput {
                recipes: vec![recipe],
                scale: None,
                set: Vec::new(),
                axes: Vec::new(),
                only: Vec::new(),
                backend: None,
            };
            let recipes = study.with_plan(session, |plan| Ok(recipes(plan)))?;
            Ok(Output { recipes: Some(recipes), ..Output::default() })
        }
        (None, Some(task)) => {
            let task = known(&task)?;
            let (parameters, next) = cursor.take(task.params().map(parameter));
            let metrics = (cursor.from == 0).then(|| task.metrics().map(metric).collect());
            Ok(Output { parameters: Some(parameters), metrics, next, ..Output::default() })
        }
        (None, None) => {
            let files = session.project.recipes(&[&session.results]);
            let file = |file: crate::mcp::RecipeFile| File { path: file.path, sweep: file.is_sweep, about: file.about };
            let (files, next) = cursor.take(files.into_iter().map(file));
            let listed_tasks = || Task::all().iter().filter(|task| !task.hidden);
            let item = |task: &TaskInfo| Item {
                name: task.name.to_owned(),
                about: task.about.to_owned(),
                unit: None,
                accepts: None,
                default: None,
            };
            let tasks = (cursor.from == 0).then(|| listed_tasks().map(item).collect());
            Ok(Output { files: Some(files), tasks, next, ..Output::default() })
        }
    }
}

fn known(name: &str) -> Result<&'static TaskInfo, Fault> {
    Task::info(name).ok_or_else(|| {
        let names = Task::all().iter().filter(|task| !task.hidden).map(|task| task.name);
        let fault = Fault::new(FaultKind::NotFound, format!("there is no task `{name}`"));
        fault.help(suggest(name, "tasks", names).unwrap_or_default())
    })
}

fn parameter(param: &'static Param) -> Item {
    Item {
        name: param.name.to_owned(),
        about: param.doc.to_owned(),
        unit: param.unit.map(str::to_owned),
        accepts: Some(param.accepts()),
        default: Some(json!((param.default)())),
    }
}

fn metric(metric: &'static sweep_job::MetricInfo) -> Item {
    let unit = metric.unit.symbol();
    Item {
        name: metric.name.to_owned(),
        about: metric.doc.to_owned(),
        unit: (!unit.is_empty()).then(|| unit.to_owned()),
        accepts: None,
        default: None,
    }
}

fn recipes(plan: &Plan) -> Vec<RecipeText> {
    let text_of = |study: &Study| {
        let recipe = &study.recipe;
        let param = |(name, value): (&String, &crate::recipe::Spanned<sweep_job::Value>)| ParamText {
            name: name.clone(),
            value: json!(value.value),
        };
        let claim = |claim: &crate::recipe::Claim| match &claim.says {
            Some(says) => format!("{}: {says}", claim.name.value),
            None => claim.name.value.clone(),
        };
        RecipeText {
            name: recipe.name.clone(),
            about: recipe.about.clone(),
            params: recipe.params.iter().map(param).collect(),
            scales: recipe.scales.iter().map(|(name, _)| name.clone()).collect(),
            steps: steps(study),
            tables: recipe.tables.iter().map(|table| table.name.value.clone()).collect(),
            figures: recipe.figures.iter().map(|figure| figure.name.value.clone()).collect(),
            claims: recipe.claims.iter().map(claim).collect(),
        }
    };
    plan.studies.iter().map(text_of).collect()
}

fn steps(study: &Study) -> Vec<StepText> {
    let steps = study.recipe.steps.iter().zip(&study.steps);
    let steps = steps.map(|(step, jobs)| {
        let axis = |name: &str| {
            let mut texts = BTreeSet::new();
            let values =
                jobs.iter().filter_map(|(point, _)| point.get(name)).filter(|value| texts.insert(value.to_string()));
            let mut values: Vec<Value> = values.map(|value| json!(value)).collect();
            let number = values.len();
            values.truncate(VALUES);
            AxisText { name: name.to_owned(), values, number }
        };
        StepText {
            name: step.name.value.clone(),
            task: step.task.name.to_owned(),
            jobs: jobs.len(),
            axes: step.axes().into_iter().map(axis).collect(),
        }
    });
    steps.collect()
}

//! The tool `query`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{fault, study::StudyInput};
use crate::{
    error::Error,
    mcp::{Effect, Fault, FaultKind, Page, Session, Tool},
    plan::Plan,
    query::{Question, Records},
    recipe::Filter,
    store::Store,
};

#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    /// Recipes or sweep files whose records are returned, as paths from the project's folder. Default: all records.
    #[serde(default)]
    recipes: Vec<String>,
    /// A scale of the recipes.
    #[serde(default)]
    scale: Option<String>,
    /// Other values of params: `PARAM=VALUE`.
    #[serde(default)]
    set: Vec<String>,
    /// Other values of axes: `AXIS=A,B`.
    #[serde(default)]
    axes: Vec<String>,
    /// Conditions that all must hold, such as `loss < 2.5 && prune != 'none'`.
    #[serde(default)]
    r#where: Vec<String>,
    /// Columns: axes, metrics, parameters, `label`, `task`, `key`, `started`, `seconds`, `backend`, `device`, `host`.
    #[serde(default)]
    select: Vec<String>,
    /// Columns to sort by; `-loss` sorts in descending order.
    #[serde(default)]
    sort: Vec<String>,
    #[serde(flatten)]
    page: Page,
}

/// A column.
#[derive(Debug, Serialize, JsonSchema)]
struct Column {
    /// Its name.
    name: String,
    /// The unit of its numbers; empty without one.
    unit: &'static str,
}

/// Records as a table.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The columns.
    columns: Vec<Column>,
    /// The records: a value for each column, numbers in the units of the columns, `null` without a value.
    rows: Vec<Vec<serde_json::Value>>,
    /// Number of records that were searched.
    asked: usize,
    /// The cursor of the following records.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) fn tool() -> Tool {
    const ABOUT: &str = "Finds and sorts records (finished jobs) with their parameters and metrics. To compare configurations, prefer \
        `report`: its comparisons are tested over seeds and corrected for their number.";
    Tool::new(("query", "Query records"), ABOUT, Effect::Reads, query)
}

fn query(session: &Session, input: Input) -> Result<Output, Fault> {
    let Input { recipes, scale, set, axes, r#where, select, sort, page } = input;
    let filter = |text: &String| {
        let filter_fault =
            |reason| Fault::new(FaultKind::Arguments, format!("the condition `{text}` cannot be read: {reason}"));
        Filter::parse(text).map_err(filter_fault)
    };
    let filters = r#where.iter().map(filter).collect::<Result<Vec<_>, _>>()?;
    let cursor = page.cursor()?;
    let limit = Some(cursor.from.saturating_add(cursor.limit).saturating_add(1));
    let question = Question { filters, select, sort, limit };
    let ask = |plan: Option<&Plan>| {
        let store = Store::open(&session.results).map_err(|error| fault(error.into()))?;
        let records = Records::new(&store, plan).map_err(Error::io("cannot read the store")).map_err(fault)?;
        let answer = records.ask(&question, true).map_err(|error| fault(error.into()))?;
        let columns =
            answer.columns.iter().map(|column| Column { name: column.name.clone(), unit: column.unit.symbol() });
        let (rows, next) =
            cursor.take(answer.rows.iter().map(|row| row.iter().map(|value| serde_json::json!(value)).collect()));
        Ok(Output { columns: columns.collect(), rows, asked: answer.asked, next })
    };
    if recipes.is_empty() {
        return ask(None);
    }
    let study = StudyInput { recipes, scale, set, axes, only: Vec::new(), backend: None };
    study.with_plan(session, |plan| ask(Some(plan)))
}

//! The tool `explain`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{fault, study::StudyInput};
use crate::{
    cli::explain::explained,
    mcp::{Effect, Fault, Page, Session, Tool},
    store::Store,
};

#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    #[serde(flatten)]
    study: StudyInput,
    /// The job: its step and point as `plan` lists them (`train/prune=none,seed=0`), or the beginning of its key.
    job: String,
    #[serde(flatten)]
    page: Page,
}

/// An explanation.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The difference from the nearest record and its place in the recipe, or the origin of the record.
    lines: Vec<String>,
    /// The cursor of the following lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) fn tool() -> Tool {
    const ABOUT: &str = "Explains why a job will run (the difference to the nearest record, with its place in the recipe, and what \
        depends on the job), or where its record comes from.";
    Tool::new(("explain", "Explain a job"), ABOUT, Effect::Reads, explain)
}

fn explain(session: &Session, input: Input) -> Result<Output, Fault> {
    let cursor = input.page.cursor()?;
    input.study.with_plan(session, |plan| {
        let store = Store::open(&session.results).map_err(|error| fault(error.into()))?;
        let (lines, next) = cursor.take(explained(plan, &store, &input.job).map_err(fault)?.lines);
        Ok(Output { lines, next })
    })
}

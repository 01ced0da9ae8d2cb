//! The tool `ledger`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fault;
use crate::{
    cli::ledger::questions,
    error::Error,
    mcp::{Effect, Fault, Page, Session, Tool},
    propose::{Ledger, ProposeError},
    stats::online::RATE,
    store::Store,
};

#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    /// List only the accepted changes, in the order of their verdicts.
    #[serde(default)]
    accepted: bool,
    #[serde(flatten)]
    page: Page,
}

/// The questions of a project.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The rate of false discoveries that the levels keep.
    rate: f64,
    /// Number of questions that had a level.
    tests: usize,
    /// Number of accepted changes.
    accepted: usize,
    /// The level of the next question.
    next_level: f64,
    /// Digest of the newest entry.
    head: String,
    /// The questions: number, time, question, level (`grant`), calls that differed from it while it was open (`altered`), and
    /// verdict with its grounds (`conclusion`), each `null` while there is none.
    questions: Vec<Value>,
    /// The cursor of the following questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) fn tool() -> Tool {
    const ABOUT: &str = "Shows every change that was proposed in this project: its level, verdict, effect with interval, and cost. \
        `accepted` shows the changes that hold.";
    Tool::new(("ledger", "Show the ledger of proposals"), ABOUT, Effect::Reads, ledger)
}

fn ledger(session: &Session, Input { accepted, page }: Input) -> Result<Output, Fault> {
    let cursor = page.cursor()?;
    let store = Store::open(&session.results).map_err(|error| fault(error.into()))?;
    let ledger = Ledger::read(&store).map_err(|error| fault(Error::from(ProposeError::from(error))))?;
    let (questions, next) = cursor.take(questions(&store, &ledger, accepted).map_err(fault)?);
    let (tests, accepted, head) = (ledger.tests(), ledger.discoveries(), ledger.head.clone());
    Ok(Output { rate: RATE, tests, accepted, next_level: ledger.next_level(), head, questions, next })
}

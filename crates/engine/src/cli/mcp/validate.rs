//! The tool `validate`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::study::{StudyInput, invalid, warnings};
use crate::mcp::{Effect, Fault, Mistake, Page, Session, Tool};

#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    #[serde(flatten)]
    study: StudyInput,
    #[serde(flatten)]
    page: Page,
}

/// Mistakes and warnings.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// True if the recipes can be planned.
    valid: bool,
    /// Every mistake, in the order of the text.
    mistakes: Vec<Mistake>,
    /// Valid but possibly unintended declarations.
    warnings: Vec<Mistake>,
    /// The cursor of the following mistakes.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) fn tool() -> Tool {
    const ABOUT: &str = "Checks recipes without running anything: every mistake with its place, the allowed values and the \
        remedy. Call it after each edit of a recipe.";
    Tool::new(("validate", "Check recipes"), ABOUT, Effect::Reads, validate)
}

fn validate(session: &Session, Input { study, page }: Input) -> Result<Output, Fault> {
    let cursor = page.cursor()?;
    match study.with_plan(session, |plan| Ok(warnings(plan))) {
        Ok(warnings) => Ok(Output { valid: true, mistakes: Vec::new(), warnings, next: None }),
        Err(fault) => {
            let (mistakes, next) = cursor.take(invalid(fault)?);
            Ok(Output { valid: false, mistakes, warnings: Vec::new(), next })
        }
    }
}

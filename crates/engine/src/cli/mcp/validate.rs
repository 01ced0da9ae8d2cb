//! The tool `validate`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::study::{StudyInput, invalid, warnings};
use crate::mcp::{Effect, Fault, Mistake, Session, Tool};

#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    #[serde(flatten)]
    study: StudyInput,
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
}

pub(super) fn tool() -> Tool {
    const ABOUT: &str = "Checks recipes without running anything: every mistake with its place, the allowed values and the \
        remedy. Call it after each edit of a recipe.";
    Tool::new(("validate", "Check recipes"), ABOUT, Effect::Reads, validate)
}

fn validate(session: &Session, input: Input) -> Result<Output, Fault> {
    match input.study.with_plan(session, |plan| Ok(warnings(plan))) {
        Ok(warnings) => Ok(Output { valid: true, mistakes: Vec::new(), warnings }),
        Err(fault) => Ok(Output { valid: false, mistakes: invalid(fault)?, warnings: Vec::new() }),
    }
}

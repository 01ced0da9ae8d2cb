//! The tool `run`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    fault,
    status::{Output, Target, state},
    study::{StudyInput, not_allowed},
};
use crate::{
    cli::{
        design::DesignArgs,
        plan::{PlanArgs, viewed},
    },
    error::Error,
    mcp::{Cursor, Effect, Fault, Session, Tool, Work},
};

/// Time in which a run has a folder, in seconds.
const FOLDER: f64 = 20.0;

/// Jobs that the answer lists.
const JOBS: Cursor = Cursor { from: 0, limit: 20 };

#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    #[serde(flatten)]
    study: StudyInput,
    /// Time to wait for the end of the run, in seconds. Default: 10. The run continues afterwards; `status` waits for
    /// it.
    #[serde(default)]
    #[schemars(range(min = 0, max = 60))]
    wait_seconds: Option<f64>,
}

pub(super) fn tool() -> Tool {
    const ABOUT: &str = "Runs the jobs of recipes that are not cached, within the user's budget of jobs, time and GPU \
        hours. The run is a separate process: it continues when the client disconnects, and stops at the budget. Only \
        recipes that the user allows can be run.";
    Tool::new(("run", "Run a study"), ABOUT, Effect::Runs, run)
}

fn run(session: &Session, input: Input) -> Result<Output, Fault> {
    let vetted_study = input.study.vet(session)?;
    if let Some(path) = vetted_study.paths.iter().find(|path| !session.may_run(path)) {
        return Err(not_allowed(&format!("`{}` would be run", path.display()), "--allow-run PATH"));
    }
    if let Some(step) = vetted_study.program.as_ref().filter(|_| !session.permissions.programs) {
        return Err(not_allowed(&format!("step `{step}` runs a program"), "--allow-programs"));
    }
    let (recipe, only) = vetted_study.arguments();
    let args = PlanArgs::of(recipe, only, DesignArgs::of(Vec::new(), None));
    let result = vetted_study.with_plan(session, |plan| {
        viewed(&session.results, &args, plan, |view, _| (view.tally().most(), view.saved(&args, None))).map_err(fault)
    });
    let (max_jobs, saved_plan) = result?;
    let saved_plan = serde_json::to_string_pretty(&saved_plan)
        .map_err(|error| fault(Error::io("cannot write the plan")(error.into())))?;
    let number = session.start(Work::Plan(&saved_plan), max_jobs)?;
    let account = || session.account(number).filter(|account| account.ended || !account.runs.is_empty());
    session.wait(FOLDER, account);
    session.wait(input.wait_seconds.unwrap_or(10.0), || account().filter(|account| account.ended));
    state(session, &Target::Number(number), false, JOBS)
}

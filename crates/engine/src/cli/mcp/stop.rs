//! The tool `stop`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::status::{Output, Target, state};
use crate::mcp::{Cursor, Effect, Fault, FaultKind, Session, Tool};

/// Jobs that the answer lists.
const JOBS: Cursor = Cursor { from: 0, limit: 20 };

#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    /// Time to wait for the end of the run, in seconds. Default: 10.
    #[serde(default)]
    #[schemars(range(min = 0, max = 60))]
    wait_seconds: Option<f64>,
}

pub(super) fn tool() -> Tool {
    const ABOUT: &str = "Stops the run that this server has started: its jobs have a short time to save their states, finished jobs \
        stay cached, and the next run of the same recipes continues it.";
    Tool::new(("stop", "Stop the run"), ABOUT, Effect::Runs, stop)
}

fn stop(session: &Session, Input { wait_seconds }: Input) -> Result<Output, Fault> {
    let number = session.stop().ok_or_else(|| {
        let fault = Fault::new(FaultKind::NotFound, "no run of this server is in progress");
        fault.help("`status` shows the latest run")
    })?;
    let final_account = || session.account(number).filter(|account| account.ended);
    session.wait(wait_seconds.unwrap_or(10.0), final_account);
    state(session, &Target::Number(number), false, JOBS)
}

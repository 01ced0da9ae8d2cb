//! The tool `plan`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    fault,
    status::Left,
    study::{StudyInput, warnings},
};
use crate::{
    cli::{
        design::DesignArgs,
        plan::{JobLine, PlanArgs, PlanTally, StepLine, viewed},
    },
    mcp::{Effect, Fault, FaultKind, Mistake, Page, Session, Tool},
};

#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    #[serde(flatten)]
    study: StudyInput,
    /// List the jobs that are not cached, each with the reason why it will run.
    #[serde(default)]
    jobs: bool,
    /// Differences to detect, as `METRIC=DIFFERENCE` in the metric's unit or in percent (`loss=0.01`,
    /// `time.step=2%`): shows the power of every claim and comparison, and the seeds that each needs.
    #[serde(default)]
    detect: Vec<String>,
    /// With `detect`: choose the cheapest seeds within this total duration of all jobs, such as `2h`.
    #[serde(default)]
    budget: Option<String>,
    #[serde(flatten)]
    page: Page,
}

/// The plan of a run.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The recipes' names.
    title: String,
    /// Numbers of jobs by state.
    tally: PlanTally,
    /// Maximum number of jobs that a run can start, which must fit into the budget.
    most_jobs: usize,
    /// Estimated duration of the jobs to run on this machine, in seconds, from the durations of earlier jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// The steps.
    steps: Vec<StepLine>,
    /// The jobs that are not cached, if they were requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<JobLine>,
    /// The power and the seeds for `detect`: per decision, the standard deviation, the planned and the needed seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    power: Option<Value>,
    /// Valid but possibly unintended declarations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Mistake>,
    /// The rest of the budget.
    left: Left,
    /// The cursor of the following jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) fn tool() -> Tool {
    const ABOUT: &str = "Shows what a run would do, without running anything: the number of jobs that are cached and that will run, \
        the estimated time, why each step runs, and with `detect` the statistical power and the seeds that a difference needs.";
    Tool::new(("plan", "Plan a study"), ABOUT, Effect::Reads, plan)
}

fn plan(session: &Session, input: Input) -> Result<Output, Fault> {
    let Input { study, jobs, detect, budget, page } = input;
    if budget.is_some() && detect.is_empty() {
        let fault = Fault::new(FaultKind::Arguments, "`budget` chooses seeds for `detect`, which is missing");
        return Err(fault.help("give a difference, such as `loss=0.01`"));
    }
    let cursor = page.cursor()?;
    let vetted_study = study.vet(session)?;
    let (recipe, only) = vetted_study.arguments();
    let args = PlanArgs::of(recipe, only, DesignArgs::of(detect, budget));
    vetted_study.with_plan(session, |plan| {
        let output = viewed(&session.results, &args, plan, |view, design| {
            let (jobs, next) = if jobs { cursor.take(view.job_lines()) } else { (Vec::new(), None) };
            let tally = view.tally();
            Output {
                title: plan.title(),
                tally,
                most_jobs: tally.most(),
                seconds: view.seconds(),
                steps: view.step_lines(),
                jobs,
                power: design.and_then(|design| serde_json::to_value(design).ok()),
                warnings: warnings(plan),
                left: Left::of(session),
                next,
            }
        });
        output.map_err(fault)
    })
}

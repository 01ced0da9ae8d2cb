//! The tool `propose`.

use std::{ffi::OsString, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    fault,
    study::{StudyInput, not_allowed},
};
use crate::{
    error::Error,
    format::clean,
    mcp::{Effect, Fault, FaultKind, Session, Tool, Work},
    propose::{self, Change, Direction, Proposal, Standing},
    store::Store,
};

/// Most sealed seeds, unless the call says otherwise.
const MAX_SEALED_SEEDS: u16 = 20;
/// Error of a call without a change, or with several.
const ONE_CHANGE: &str = "a proposal has one change: give one of `delta`, `patch` and `rev`";

/// The better direction of a metric.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Better {
    /// Smaller values are better.
    Min,
    /// Larger values are better.
    Max,
}

/// Content of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Content {
    /// Effects with intervals, p-value, level and bundle.
    #[default]
    Full,
    /// Only whether the change is accepted.
    Bit,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    /// The recipe with the baseline, as a path from the project's folder.
    recipe: String,
    /// The change: a recipe with `extends: RECIPE` and the differences. Alternatives: `patch` or `rev`.
    #[serde(default)]
    delta: Option<String>,
    /// The change: a patch of the project's code, as a path from the project's folder.
    #[serde(default)]
    patch: Option<String>,
    /// The change: a revision of the project's repository.
    #[serde(default)]
    rev: Option<String>,
    /// The step whose code `patch` or `rev` changes. Default: the step that measures.
    #[serde(default)]
    code_step: Option<String>,
    /// The metric that the change should improve.
    metric: String,
    /// The better direction of the metric.
    better: Better,
    /// The smallest improvement that matters, above zero, in the unit of the metric.
    least: f64,
    /// The step that measures. Default: the only step with seeds.
    #[serde(default)]
    step: Option<String>,
    /// Configurations of the step, by values of axes: `AXIS=VALUE`. The mean over them is compared.
    #[serde(default)]
    at: Vec<String>,
    /// Maximum number of sealed seeds. Default: 20.
    #[serde(default)]
    #[schemars(range(min = 4, max = 1000))]
    most: Option<u16>,
    /// Backend to compute on: `auto` (default), `cuda`, `wgpu` or `cpu`.
    #[serde(default)]
    backend: Option<String>,
    /// Run nothing: return the known results, the expected cost and the power.
    #[serde(default)]
    estimate: bool,
    /// Files and folders that only the evaluation may read, as paths from the project's folder. A change is refused
    /// if it reads a file there that the baseline does not read, or changes a step that reads there.
    #[serde(default)]
    sealed: Vec<String>,
    /// The content of the answer: `full` (default), or `bit`, only whether the change is accepted.
    #[serde(default)]
    answer: Content,
    /// Time to wait for the verdict, in seconds. Default: 10. The run continues afterwards: wait with `status`, then
    /// call again.
    #[serde(default)]
    #[schemars(range(min = 0, max = 60))]
    wait_seconds: Option<f64>,
}

/// State of a proposal.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// Number of the run in this session, if one was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<usize>,
    /// True while its jobs run; then there is no answer yet.
    going_on: bool,
    /// The answer: `standing` (`refused`, `known`, `estimate`, `judged`), `reason`, `question`, `cost`, `noise`,
    /// `level`, `pairs`, `power`, and `conclusion` with the verdict, the effects of the search and of the sealed
    /// seeds, the evidence and the bundle. With `bit`: `standing`, `accepted`, and the `reason` of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Value>,
}

pub(super) fn tool() -> Tool {
    const ABOUT: &str = "Tests whether a change to a recipe improves a metric. A repeated question is answered from \
        the ledger; a new question is judged on sealed seeds, at a level that keeps the rate of false discoveries \
        over all proposals of the project. Another seed or name does not make a new question, and each question \
        lowers the level of later ones: call it with `estimate` first. It runs jobs within the user's budget, as \
        `run` does.";
    Tool::new(("propose", "Propose a change"), ABOUT, Effect::Runs, propose)
}

fn propose(session: &Session, input: Input) -> Result<Output, Fault> {
    let wait = input.wait_seconds.unwrap_or(10.0);
    let recipe = vetted(session, &input.recipe, &input)?;
    let store = Store::open(&session.results).map_err(|error| fault(error.into()))?;
    let change = match (&input.delta, &input.patch, &input.rev) {
        (Some(_), None, None) => None,
        (None, Some(patch), None) => Some(Change::Patch(session.project.root().join(session.project.inside(patch)?))),
        (None, None, Some(revision)) => Some(Change::Revision(revision.clone())),
        _ => return Err(Fault::new(FaultKind::Arguments, ONE_CHANGE)),
    };
    let delta = match (&change, &input.delta) {
        (Some(change), _) => {
            let result = change.write(&recipe, input.code_step.as_deref().or(input.step.as_deref()), &store);
            result.map_err(Error::proposal(input.recipe.clone())).map_err(fault)?
        }
        (None, delta) => vetted(session, delta.as_deref().unwrap_or_default(), &input)?,
    };
    let is_quiet = session.permissions.one_bit || input.answer == Content::Bit;
    let sealed = input.sealed.iter().map(|path| Ok(session.project.root().join(session.project.inside(path)?)));
    let sealed = sealed.collect::<Result<Vec<_>, Fault>>()?;
    let proposal = Proposal {
        recipe,
        delta,
        step: input.step.clone(),
        at: input.at.clone(),
        metric: input.metric.clone(),
        better: match input.better {
            Better::Min => Direction::Min,
            Better::Max => Direction::Max,
        },
        least: input.least,
        most: usize::from(input.most.unwrap_or(MAX_SEALED_SEEDS)),
        backend: StudyInput::backend(input.backend.as_deref())?.choice(),
        sealed,
        is_quiet,
    };
    let name = format!("{}, {}", input.recipe, proposal.delta.display());
    let estimate = propose::propose(&proposal, &store, true).map_err(Error::proposal(name)).map_err(fault)?;
    if input.estimate || estimate.standing != Standing::Estimate {
        let answer = if is_quiet { serde_json::to_value(estimate.one_bit()) } else { serde_json::to_value(estimate) };
        let answer = answer.map_err(|error| fault(Error::Key(error)))?;
        return Ok(Output { run: None, going_on: false, answer: Some(answer) });
    }
    // The number of sealed seeds follows from the noise. No more starts than the budget allows, however many they are.
    let jobs = estimate.cost.open + estimate.cost.noise + estimate.cost.pair * estimate.pairs.unwrap_or(0);
    let number = session.start(Work::Command(command(&proposal, input.backend)), jobs)?;
    let account = || session.account(number).filter(|account| account.ended);
    let Some(account) = session.wait(wait, account) else {
        return Ok(Output { run: Some(number), going_on: true, answer: None });
    };
    let output = session.output(number).map_err(Fault::io("cannot read the answer"))?;
    match verdict(&output) {
        Some(answer) => Ok(Output { run: Some(number), going_on: false, answer: Some(answer) }),
        None if account.stopped_by.is_some() => {
            let fault = Fault::new(FaultKind::Budget, "the budget was used up before the verdict");
            Err(fault
                .help("ask the user for a larger budget; the same call then continues, with the same level and seeds"))
        }
        None => {
            let run_fault = Fault::new(FaultKind::Failed, "the proposal has no verdict, because its run failed");
            let run_fault = run_fault.help("the same call continues, with the same level and seeds");
            Err(Fault { program_output: Some(clean(&account.says).into_owned()), ..run_fault })
        }
    }
}

/// The answer that the command printed, without the commands that follow; `None` for a failure.
fn verdict(output: &str) -> Option<Value> {
    let mut answer: Value = serde_json::from_str(output).ok()?;
    let fields = answer.as_object_mut()?;
    fields.remove("next");
    (!fields.contains_key("error")).then_some(answer)
}

/// The path of a recipe that may be read, and run unless only an estimate is wanted.
fn vetted(session: &Session, path: &str, input: &Input) -> Result<PathBuf, Fault> {
    let recipes = vec![path.to_owned()];
    let (scale, set, axes, only) = (None, Vec::new(), Vec::new(), Vec::new());
    let study = StudyInput { recipes, scale, set, axes, only, backend: input.backend.clone() }.vet(session)?;
    let place = study.paths[0].clone();
    if !input.estimate {
        if !session.may_run(&place) {
            return Err(not_allowed(&format!("`{}` would be run", place.display()), "--allow-run PATH"));
        }
        if let Some(step) = study.program.as_ref().filter(|_| !session.permissions.programs) {
            return Err(not_allowed(&format!("step `{step}` runs a program"), "--allow-programs"));
        }
    }
    study.with_plan(session, |_| Ok(()))?;
    Ok(place)
}

/// The proposal as a command.
fn command(proposal: &Proposal, backend: Option<String>) -> Vec<OsString> {
    let Proposal { recipe, delta, step, at, metric, better, least, most, sealed, is_quiet, .. } = proposal;
    let better = match better {
        Direction::Min => "min",
        Direction::Max => "max",
    };
    let mut command: Vec<OsString> = vec!["propose".into()];
    command.extend([format!("--metric={metric}"), format!("--better={better}")].map(OsString::from));
    command.extend(
        [format!("--least={least:e}"), format!("--most={most}"), "--format=json".to_owned()].map(OsString::from),
    );
    command.extend(step.iter().map(|step| format!("--step={step}").into()));
    command.extend(at.iter().map(|at| format!("--at={at}").into()));
    command.extend(sealed.iter().map(|path| OsString::from_iter(["--sealed=".as_ref(), path.as_os_str()])));
    command.extend(is_quiet.then(|| "--answer=bit".into()));
    command.extend(backend.map(|backend| format!("--backend={backend}").into()));
    command.extend(["--".into(), recipe.into(), delta.into()]);
    command
}

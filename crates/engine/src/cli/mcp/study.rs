//! The recipes of a call: read within the project's folder, checked against the user's permissions, and planned.

use std::{mem::ManuallyDrop, path::PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use sweep_job::{TaskSpec as _, tasks::Command};

use super::{
    super::{BackendArg, ChangeArgs, OnlyArgs, Prepared, RecipeArgs},
    fault,
};
use crate::{
    error::Error,
    mcp::{Fault, FaultKind, Mistake, Session},
    plan::Plan,
    recipe::{Draft, Executor, Request, Warning},
    suggest::Source,
};

/// Recipes, and changes to their values.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct StudyInput {
    /// Recipes, or sweep files, which run recipes with other values; paths from the project's folder.
    #[schemars(length(min = 1, max = 50))]
    pub(super) recipes: Vec<String>,
    /// A scale of the recipes, or `quick` for their plain values.
    #[serde(default)]
    pub(super) scale: Option<String>,
    /// Other values of params: `PARAM=VALUE`.
    #[serde(default)]
    pub(super) set: Vec<String>,
    /// Other values of axes: `AXIS=A,B` or `STEP.AXIS=A,B`.
    #[serde(default)]
    pub(super) axes: Vec<String>,
    /// A part of the study, with its dependencies: `STEP` or `STEP/AXIS=VALUE,…`.
    #[serde(default)]
    pub(super) only: Vec<String>,
    /// Backend to compute on: `auto` (default), `cuda`, `wgpu` or `cpu`.
    #[serde(default)]
    pub(super) backend: Option<String>,
}

/// Recipes of a call that may be planned.
#[derive(Debug)]
pub(super) struct Vetted {
    /// The recipes, from the project's folder.
    pub(super) paths: Vec<PathBuf>,
    changes: ChangeArgs,
    only: Vec<String>,
    /// The recipes as they were read, so that the planned recipes are the checked ones.
    draft: Draft,
    /// The first step that runs a program.
    pub(super) program: Option<String>,
}

impl StudyInput {
    /// The backend with a name.
    pub(super) fn backend(name: Option<&str>) -> Result<BackendArg, Fault> {
        match name {
            None | Some("auto") => Ok(BackendArg::Auto),
            Some("cuda") => Ok(BackendArg::Cuda),
            Some("wgpu") => Ok(BackendArg::Wgpu),
            Some("cpu") => Ok(BackendArg::Cpu),
            Some(unknown_name) => {
                let fault = Fault::new(FaultKind::Arguments, format!("there is no backend `{unknown_name}`"));
                Err(fault.help("backends: `auto`, `cuda`, `wgpu`, `cpu`"))
            }
        }
    }

    /// Reads the recipes, and refuses recipes that the user has not allowed.
    pub(super) fn vet(self, session: &Session) -> Result<Vetted, Fault> {
        let paths = self.recipes.iter().map(|path| session.project.inside(path)).collect::<Result<Vec<_>, _>>()?;
        let backend = Self::backend(self.backend.as_deref())?;
        let Self { scale, set, axes, only, .. } = self;
        let request = Request { paths: &paths, set: &set, axes: &axes, scale: scale.as_deref(), only: &only };
        let draft = Draft::load_inside(&request, session.project.root());
        let draft = draft.map_err(Error::recipe(self.recipes.join(", "))).map_err(fault)?;
        let steps = draft.recipes.iter().flat_map(|recipe| &recipe.steps);
        let asks = |step: &&crate::recipe::Step| {
            let suggest = step.search.as_ref().and_then(|search| search.suggest.as_ref());
            suggest.is_some_and(|suggest| matches!(suggest.source, Source::Provider(_)))
        };
        // A sampler runs while a plan is made.
        if let Some(step) = steps.clone().find(asks).filter(|_| !session.permissions.programs) {
            return Err(not_allowed(
                &format!("the sampler of step `{}` is a program", step.name.value),
                "--allow-programs",
            ));
        }
        if draft.executor != Executor::Local && !session.permissions.executors {
            return Err(not_allowed("the sweep file has an executor other than `local`", "--allow-executors"));
        }
        let program = steps.clone().find(|step| step.task.name == Command::NAME).map(|step| step.name.value.clone());
        let changes = ChangeArgs { scale, set, axes, backend, executor: None, hosts: Vec::new() };
        Ok(Vetted { paths, changes, only, draft, program })
    }

    /// Plans the recipes and works with the plan.
    pub(super) fn with_plan<T>(
        self,
        session: &Session,
        work: impl FnOnce(&Plan) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.vet(session)?.with_plan(session, work)
    }
}

impl Vetted {
    /// The recipes as arguments of commands.
    pub(super) fn arguments(&self) -> (RecipeArgs, OnlyArgs) {
        let recipe = RecipeArgs { paths: self.paths.clone(), changes: self.changes.clone() };
        (recipe, OnlyArgs { only: self.only.clone() })
    }

    /// Plans the recipes and works with the plan.
    pub(super) fn with_plan<T>(
        self,
        session: &Session,
        work: impl FnOnce(&Plan) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let names: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        let prepared = self.changes.plan(&session.results, self.draft, names.join(", "), false).map_err(fault)?;
        let Prepared { plan, .. } = prepared;
        // Unlike a command, the server does not end after a plan.
        let plan = ManuallyDrop::into_inner(plan);
        if let Some(path) = plan.inputs().into_keys().find(|path| !session.project.holds(path)) {
            let message = format!("a step reads `{}`, which is outside of the project's folder", path.display());
            return Err(Fault::new(FaultKind::Outside, message).help("copy the file to the project's folder"));
        }
        work(&plan)
    }
}

/// A fault about a missing permission.
pub(super) fn not_allowed(action: &str, flag: &str) -> Fault {
    let fault = Fault::new(FaultKind::NotAllowed, format!("{action}, which the user has not allowed"));
    fault.help(format!("the user can start the server with `{flag}`"))
}

/// The warnings about a plan.
pub(super) fn warnings(plan: &Plan) -> Vec<Mistake> {
    let warning = |warning: &Warning| Mistake {
        at: warning.at.clone(),
        message: warning.message.clone(),
        help: Some(warning.help.clone()),
    };
    plan.warnings.iter().map(warning).collect()
}

/// Returns the mistakes of recipes that cannot be planned, and passes other faults on.
pub(super) fn invalid(fault: Fault) -> Result<Vec<Mistake>, Fault> {
    if fault.kind == FaultKind::Recipe { Ok(fault.mistakes) } else { Err(fault) }
}

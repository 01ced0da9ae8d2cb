//! A sweep file: its recipes, and the changes to them.

use serde_json::{Value as Json, json};

use super::Lower;
use crate::recipe::{
    Executor,
    compose::Overlay,
    keys::{Custom, Mapping as _, Text, Texts, mapping},
    node::{Entry, Node, NodeKind},
    schema::{NAME, named, reference, whole},
    source::Spanned,
};

mapping! {
    /// The keys of a sweep file.
    struct SweepKeys = "sweep" {
        /// Names the reports' folder; the file's name if left out.
        ///
        /// With one recipe the reports are in `reports/<name>`, with several in `reports/<name>/<recipe's file name>`.
        name: Text = Text::NAME,
        /// What this is for, for readers.
        about: Text,
        /// The recipe; a path from this file's folder.
        recipe: Text = Text::PATH,
        /// The recipes; paths from this file's folder.
        ///
        /// They are planned and run together; what is the same job in two of them is one.
        recipes: Texts = Texts { schema: recipes, accepts: "a list of paths" },
        /// Other values for params.
        ///
        /// As `--set iters=1000`, in every recipe that has the param.
        set: Custom = Custom { schema: || named("literal"), accepts: "name to value" },
        /// Other values for axes: `AXIS`, or `STEP.AXIS` for those of one step.
        ///
        /// As `--axis seed=0,1,2` and `--axis train.lr={logspace: [1e-4, 1e-2, 3]}`, in all forms of an axis. An axis that follows
        /// another step's goes on to follow it. A step that is named may get a new axis, which takes the place of what `with`
        /// gives.
        axes: Custom = Custom { schema: axes, accepts: "axis to values" },
        /// A part of the recipes: `STEP`, or `STEP/AXIS=VALUE,…`, and what that needs.
        ///
        /// As `--only train/seed=0`.
        only: Texts = Texts {
            schema: || json!({ "type": ["array", "string"], "items": { "type": "string" } }),
            accepts: "a selection, or a list of them",
        },
        /// How the jobs get their processes: `local`, `slurm`, or a map with what is asked of Slurm.
        ///
        /// As `--executor slurm`; see [cluster.md](cluster.md).
        executor: Custom = Custom {
            schema: super::executor::schema,
            accepts: "`local`, `slurm`, or `slurm: { … }`",
        },
    }
}

fn recipes() -> Json {
    let path = json!({ "type": "string", "minLength": 1 });
    json!({ "type": ["array", "string"], "minItems": 1, "minLength": 1, "items": path })
}

fn axes() -> Json {
    let mut axes = json!({ "type": "object", "additionalProperties": reference("axis") });
    axes["propertyNames"] = json!({
        "type": "string",
        "pattern": whole(&format!(r"{NAME}(?:\.{NAME})?")),
        "patternErrorMessage": "`AXIS`, or `STEP.AXIS`.",
    });
    axes
}

/// What a sweep file says.
#[derive(Debug, Default)]
pub(in crate::recipe) struct Sweep {
    /// Its name, if it has one of its own: names the folder of the reports.
    pub(in crate::recipe) name: Option<String>,
    /// The files of the recipes.
    pub(in crate::recipe) recipes: Vec<Spanned<String>>,
    /// Changes to the recipes.
    pub(in crate::recipe) changes: Overlay,
    /// The selected part.
    pub(in crate::recipe) only: Vec<Spanned<String>>,
    /// Executor of its jobs.
    pub(in crate::recipe) executor: Option<Executor>,
    /// The steps that it names there.
    pub(in crate::recipe) executor_steps: Vec<Spanned<String>>,
}

impl Lower<'_> {
    /// Reads a sweep file.
    pub(in crate::recipe) fn sweep(mut self, node: &Node) -> Sweep {
        let keys = SweepKeys::read_or_empty(&mut self, node, "a sweep file");
        let name = keys.name.spanned();
        if let Some(name) = &name {
            self.check_name(name, "sweep");
        }
        // For readers only; that it is text has been seen to.
        drop(keys.about);
        let (one, several) = (keys.recipe.node(), keys.recipes.node());
        let recipes = match (one, several) {
            (Some(_), Some(several)) => {
                let help = "put all of them into `recipes`";
                self.problem(several.span, "`recipe` and `recipes` exclude each other", "also here", help);
                Vec::new()
            }
            (Some(_), None) => keys.recipe.spanned().into_iter().collect(),
            (None, several) => {
                let recipes = keys.recipes.value.unwrap_or_default();
                if let Some(Node { kind: NodeKind::List(items), span }) = several
                    && items.is_empty()
                {
                    let help = "name a recipe, for example `[../recipes/bitter.yaml]`";
                    self.problem(*span, "`recipes` is empty", "nothing to run", help);
                }
                recipes
            }
        };
        let mut changes = |node: Option<&Node>, key: &str| -> Vec<(Spanned<String>, Node)> {
            let entries = node.map(|node| self.entries(node, key)).unwrap_or_default();
            entries.iter().map(|Entry { key, value }| (key.clone(), value.clone())).collect()
        };
        let changes = Overlay { set: changes(keys.set.node(), "`set`"), axes: changes(keys.axes.node(), "`axes`") };
        let only = keys.only.value.unwrap_or_default();
        let (executor, executor_steps) = keys.executor.node().map(|node| self.executor(node)).unwrap_or_default();
        Sweep { name: name.map(|name| name.value), recipes, changes, only, executor, executor_steps }
    }
}

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
        /// The name of the reports' folder. Default: the name of the file.
        ///
        /// With one recipe the reports are in `reports/<name>`. With several recipes they are in
        /// `reports/<name>/<recipe's file name>`.
        name: Text = Text::NAME,
        /// A description of the sweep for readers.
        about: Text,
        /// The path of the recipe, relative to the folder of this file.
        recipe: Text = Text::PATH,
        /// The paths of the recipes, relative to the folder of this file.
        ///
        /// The recipes are planned and run together. A job that occurs in several of them runs once.
        recipes: Texts = Texts { schema: recipes, accepts: "a list of paths" },
        /// New values for params.
        ///
        /// An entry `iters: 1000` has the effect of `--set iters=1000` on every recipe that has the param.
        set: Custom = Custom { schema: || named("literal"), accepts: "name to value" },
        /// New values for axes: `AXIS` for the axis in all steps, `STEP.AXIS` for the axis of one step.
        ///
        /// An entry has the effect of `--axis seed=0,1,2` or `--axis train.lr={logspace: [1e-4, 1e-2, 3]}`. All forms
        /// of an axis are accepted. An axis that follows the axis of another step continues to follow it. `STEP.AXIS`
        /// can also add an axis to the step; it replaces the value in `with`.
        axes: Custom = Custom { schema: axes, accepts: "axis to values" },
        /// The scale of the recipes: the name of an entry of their `scales`, or `quick` for their plain values.
        ///
        /// This has the effect of `--scale paper-cpu`. `set` and `axes` take precedence over the scale's values. If there are
        /// several recipes, those without the scale run at their plain values, with a warning. See [`scales`](#scales).
        scale: Text = Text::NAME,
        /// A part of the recipes: `STEP` or `STEP/AXIS=VALUE,…`, with everything that it needs.
        ///
        /// An entry `train/seed=0` has the effect of `--only train/seed=0`.
        only: Texts = Texts {
            schema: || json!({ "type": ["array", "string"], "items": { "type": "string" } }),
            accepts: "a selection, or a list of them",
        },
        /// The executor that starts the jobs: its name, or a map with its options.
        ///
        /// This has the effect of `--executor slurm`. See [cluster.md](cluster.md).
        executor: Custom = Custom {
            schema: super::executor::schema,
            accepts: super::executor::accepted(),
        },
    }
}

fn recipes() -> Json {
    let path = json!({ "type": "string", "minLength": 1 });
    json!({ "type": ["array", "string"], "minItems": 1, "minLength": 1, "items": path })
}

pub(super) fn axes() -> Json {
    let mut axes = json!({ "type": "object", "additionalProperties": reference("axis") });
    axes["propertyNames"] = json!({
        "type": "string",
        "pattern": whole(&format!(r"{NAME}(?:\.{NAME})?")),
        "patternErrorMessage": "`AXIS`, or `STEP.AXIS`.",
    });
    axes
}

/// Content of a sweep file.
#[derive(Debug, Default)]
pub(in crate::recipe) struct Sweep {
    /// The sweep's explicit name, if any: the name of the reports' folder.
    pub(in crate::recipe) name: Option<String>,
    /// The files of the recipes.
    pub(in crate::recipe) recipes: Vec<Spanned<String>>,
    /// Changes to the recipes.
    pub(in crate::recipe) changes: Overlay,
    /// The scale of the recipes.
    pub(in crate::recipe) scale: Option<Spanned<String>>,
    /// The selected part.
    pub(in crate::recipe) only: Vec<Spanned<String>>,
    /// Executor of its jobs.
    pub(in crate::recipe) executor: Option<Executor>,
    /// Steps that the executor's options name.
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
        // For readers only; reading the key has checked that it is text.
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
        let changes =
            Overlay { set: self.changes(keys.set.node(), "`set`"), axes: self.changes(keys.axes.node(), "`axes`") };
        let scale = keys.scale.spanned();
        if let Some(scale) = &scale {
            self.check_name(scale, "scale");
        }
        let only = keys.only.value.unwrap_or_default();
        let (executor, executor_steps) = keys.executor.node().map(|node| self.executor(node)).unwrap_or_default();
        Sweep { name: name.map(|name| name.value), recipes, changes, scale, only, executor, executor_steps }
    }

    /// The entries of a map of changes: what is changed, and to what.
    pub(super) fn changes(&mut self, node: Option<&Node>, key: &str) -> Vec<(Spanned<String>, Node)> {
        let entries = node.map(|node| self.entries(node, key)).unwrap_or_default();
        entries.iter().map(|Entry { key, value }| (key.clone(), value.clone())).collect()
    }
}

//! A sweep file: its recipes, and the changes to them.

use super::{Lower, SWEEP_KEYS, find};
use crate::recipe::{
    Executor,
    compose::Overlay,
    node::{Entry, Node, NodeKind},
    source::Spanned,
};

/// Contents of a sweep file.
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
        let keys = self.map(node, "a sweep file", SWEEP_KEYS).unwrap_or_default();
        let name = find(keys, "name").and_then(|node| Some(Spanned::new(self.text(node, "`name`")?, node.span)));
        if let Some(name) = &name {
            self.check_name(name, "sweep");
        }
        if let Some(about) = find(keys, "about") {
            self.text(about, "`about`");
        }
        let recipes = match (find(keys, "recipe"), find(keys, "recipes")) {
            (Some(_), Some(several)) => {
                let help = "put all of them into `recipes`";
                self.problem(several.span, "`recipe` and `recipes` exclude each other", "also here", help);
                Vec::new()
            }
            (Some(one), None) => {
                self.text(one, "`recipe`").map(|path| Spanned::new(path, one.span)).into_iter().collect()
            }
            (None, several) => {
                let recipes = several.map(|node| self.texts(node, "`recipes`")).unwrap_or_default();
                if let Some(Node { kind: NodeKind::List(items), span }) = several
                    && items.is_empty()
                {
                    let help = "name a recipe, for example `[../recipes/bitter.yaml]`";
                    self.problem(*span, "`recipes` is empty", "nothing to run", help);
                }
                recipes
            }
        };
        let mut changes = |key: &str| -> Vec<(Spanned<String>, Node)> {
            let entries = find(keys, key).map(|node| self.entries(node, &format!("`{key}`"))).unwrap_or_default();
            entries.iter().map(|Entry { key, value }| (key.clone(), value.clone())).collect()
        };
        let changes = Overlay { set: changes("set"), axes: changes("axes") };
        let only = find(keys, "only").map_or_else(Vec::new, |node| self.texts(node, "`only`"));
        let (executor, executor_steps) = find(keys, "executor").map(|node| self.executor(node)).unwrap_or_default();
        Sweep { name: name.map(|name| name.value), recipes, changes, only, executor, executor_steps }
    }
}

//! `extends`: a recipe merged over another one, entry by entry.

use sweep_job::Value;

use crate::recipe::{
    node::{Entry, Node, NodeKind},
    problem::{Collector, Problem},
    source::Sources,
};

/// Depth to which maps are merged before the later one replaces the earlier one.
#[derive(Clone, Copy)]
enum Level {
    /// The recipe: its sections are merged, the rest is replaced.
    Recipe,
    /// A section: steps and tables are merged by name, params are replaced.
    Section(&'static str),
    /// A step: maps with keys chosen by the author are merged, the rest is replaced.
    Step,
    /// Entries are replaced.
    Entries,
}

/// Merges `over` into `base`: entries of `over` replace entries of `base`, and new entries are appended. The name of
/// `base` is not inherited: it is the name of the report's folder, and two recipes have two reports.
pub(super) fn recipes(mut base: Node, over: Node, sources: &Sources, problems: &mut Collector) -> Node {
    if let NodeKind::Map(entries) = &mut base.kind {
        entries.retain(|entry| entry.key.value != "name");
    }
    merge(base, over, Level::Recipe, sources, problems)
}

fn merge(base: Node, over: Node, level: Level, sources: &Sources, problems: &mut Collector) -> Node {
    let span = over.span;
    let (NodeKind::Map(mut entries), NodeKind::Map(changes)) = (base.kind, over.kind.clone()) else {
        // A value that is not a map is a mistake or an intended replacement; reading it decides which.
        return over;
    };
    for change in changes {
        let place = entries.iter().position(|entry| entry.key.value == change.key.value);
        if level.removable() && matches!(change.value.kind, NodeKind::Scalar(Value::Null)) {
            match place {
                Some(index) => drop(entries.remove(index)),
                None => {
                    let message = format!("`{}` is not in the base recipe", change.key.value);
                    let problem = Problem::new(sources, change.key.span, message, "nothing to remove");
                    problems.push(change.key.span, problem.help("remove the entry, or give it a value"));
                }
            }
            continue;
        }
        let Some(index) = place else {
            entries.push(change);
            continue;
        };
        let below = level.below(&change.key.value);
        let Entry { value: earlier, .. } = entries.remove(index);
        let value = match below {
            Some(below) => merge(earlier, change.value, below, sources, problems),
            None => change.value,
        };
        entries.insert(index, Entry { key: change.key, value });
    }
    Node { kind: NodeKind::Map(entries), span }
}

impl Level {
    /// Depth for the value of a key; `None` if the value is replaced.
    fn below(self, key: &str) -> Option<Self> {
        match (self, key) {
            (Self::Recipe, "params") => Some(Self::Section("params")),
            (Self::Recipe, "scales") => Some(Self::Section("scales")),
            (Self::Recipe, "steps") => Some(Self::Section("steps")),
            (Self::Recipe, "tables") => Some(Self::Section("tables")),
            (Self::Recipe, "figures") => Some(Self::Section("figures")),
            (Self::Recipe, "claims") => Some(Self::Section("claims")),
            (Self::Section("steps"), _) => Some(Self::Step),
            (Self::Section("tables" | "figures" | "claims"), _) | (Self::Step, "with" | "matrix" | "resources") => {
                Some(Self::Entries)
            }
            _ => None,
        }
    }

    /// True if `null` removes an entry, because it cannot be a value there.
    fn removable(self) -> bool {
        matches!(self, Self::Section("scales" | "steps" | "tables" | "figures" | "claims"))
    }
}

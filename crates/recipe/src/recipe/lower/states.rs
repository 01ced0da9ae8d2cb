//! `states`: the states that jobs leave for longer jobs to continue from; and `adopt`: the earlier results that hold after a
//! change of the code. Neither is part of a key.

use serde::{Deserialize, Serialize};
use sweep_job::{TaskInfo, TaskSpec as _, tasks::Command};

use super::Lower;
use crate::recipe::{
    keys::{Flag, Mapping as _, Whole, Word, mapping},
    node::Node,
};

/// States that the jobs of a step leave and share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StatePolicy {
    /// True if jobs of the step that begin in the same way share the state until they differ.
    pub share: bool,
    /// The states that are kept after a run.
    pub keep: KeptStates,
}

/// The states that are kept after a run, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeptStates {
    /// None.
    None,
    /// The last state of each configuration, until a longer job has a result.
    #[default]
    Last,
    /// The states of all jobs that end before the end of the whole.
    Rungs,
}

/// Adoption of earlier results after a change of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptPolicy {
    /// The step up to which a program must repeat the earlier run.
    pub after: u64,
}

impl StatePolicy {
    /// True if the step has the default policy.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl KeptStates {
    const WORDS: &[(&str, Self)] = &[("rungs", Self::Rungs), ("last", Self::Last), ("none", Self::None)];
}

mapping! {
    /// The keys of `states`.
    struct StateKeys = "states" {
        /// Trains the common beginning of several jobs of the step only once: the jobs continue from the state at
        /// which they begin to differ. Default: `false`.
        ///
        /// The results are those of jobs that run alone, bit for bit on the CPU. `sweep plan` shows the savings.
        share: Flag,
        /// The states that are kept after a run: `last` keeps the state at the end of a job until a longer one has a
        /// result, `rungs` keeps all of them, `none` keeps none. Default: `last`.
        ///
        /// A job leaves a state only if it ends before the end of its schedule, at `until`. Every state can be
        /// removed; a job without a state runs from its first step.
        keep: Word<KeptStates> = Word(KeptStates::WORDS),
    }
}

mapping! {
    /// The keys of `adopt`.
    struct AdoptKeys = "adopt" {
        /// The step up to which a program must repeat the earlier run, bit for bit.
        ///
        /// Choose a step after which an unintended change would have shown: after the first update of the weights, the first
        /// evaluation and the first epoch, if these have code of their own.
        after [required]: Whole = Whole { range: 1..=1_000_000_000, of: "steps" },
    }
}

impl Lower<'_> {
    /// Reads `adopt: { after }` of a step with this task.
    pub(super) fn adopt(&mut self, node: &Node, task: &TaskInfo, is_exclusive: bool) -> Option<AdoptPolicy> {
        let keys = AdoptKeys::read_or_empty(self, node, "`adopt`");
        if self.is_missing(node, "after", &keys.after) {
            let help = "write `adopt: { after: 40 }`: after 40 equal steps, the earlier result is adopted";
            self.problem(node.span, "`adopt` has no `after`", "`after` is missing", help);
        }
        if is_exclusive {
            let message = "the step is exclusive because its times are measured, but `adopt` keeps times of earlier \
                code";
            self.problem(node.span, message, "times of earlier code", "remove `adopt`, or `exclusive: true`");
        }
        if task.name != Command::NAME {
            let message = format!("`adopt` is for programs, whose code is observed, but the step uses `{}`", task.name);
            self.problem(node.span, message, "not a program", "remove `adopt`");
        }
        Some(AdoptPolicy { after: keys.after.value?.into() })
    }

    /// Reads `states: { share, keep }`.
    pub(super) fn states(&mut self, node: &Node) -> StatePolicy {
        let keys = StateKeys::read_or_empty(self, node, "`states`");
        StatePolicy { share: keys.share.value.unwrap_or(false), keep: keys.keep.value.unwrap_or_default() }
    }
}

//! `states`: the states that jobs leave for longer jobs to continue from. `states` is not part of a key.

use serde::{Deserialize, Serialize};

use super::Lower;
use crate::recipe::{
    keys::{Flag, Mapping as _, Word, mapping},
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
        /// Trains what several jobs of the step have in common only once: jobs that begin in the same way continue from
        /// the state at which they begin to differ. Default: `false`.
        ///
        /// The results are those of jobs that run alone, bit for bit on the CPU. `sweep plan` shows what it saves.
        share: Flag,
        /// The states that are kept after a run: `last` keeps the state at the end of a job until a longer one has a
        /// result, `rungs` keeps all of them, `none` keeps none. Default: `last`.
        ///
        /// Only a job that ends before the end of the whole leaves a state: `until` says where. Every state can be
        /// removed; a job without it runs from its first step.
        keep: Word<KeptStates> = Word(KeptStates::WORDS),
    }
}

impl Lower<'_> {
    /// Reads `states: { share, keep }`.
    pub(super) fn states(&mut self, node: &Node) -> StatePolicy {
        let keys = StateKeys::read_or_empty(self, node, "`states`");
        StatePolicy { share: keys.share.value.unwrap_or(false), keep: keys.keep.value.unwrap_or_default() }
    }
}

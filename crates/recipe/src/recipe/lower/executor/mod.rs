//! The executor that starts jobs: this machine or a batch system. The executor is not part of a key.
//!
//! A batch system has a file here with its settings and their keys, and a line in `batch_systems!`.

pub mod batch;
pub mod ray;
pub mod slurm;
pub mod ssh;

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::Lower;
use crate::recipe::{
    Draft, Problem,
    keys::{Declaration, Mapping, Within, mapping},
    node::{Node, NodeKind},
    schema::whole,
    source::{Span, Spanned},
    suggest,
};

/// The settings of a batch system, as they are read.
pub(in crate::recipe) trait Settings: Default {
    /// Reads the settings; also returns the steps that they name.
    fn read(lower: &mut Lower<'_>, node: &Node) -> (Self, Vec<Spanned<String>>);

    /// Further mappings inside of the settings, for the documentation.
    fn declarations() -> Vec<Declaration> {
        Vec::new()
    }

    /// Definitions that the schema of the settings refers to.
    fn definitions() -> Vec<(&'static str, Json)> {
        Vec::new()
    }
}

/// Declares the batch systems: for each, its word in recipes, its settings, and their keys.
macro_rules! batch_systems {
    ($( $(#[doc = $doc:literal])* $word:ident: $module:ident::$Settings:ident, $Keys:ident; )+) => {
        /// A batch system with the settings of its jobs.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each variant has the name of its settings")]
        pub enum BatchSystem { $( $Settings(Box<$module::$Settings>), )+ }

        impl BatchSystem {
            /// The words for batch systems.
            pub const WORDS: &'static [&'static str] = &[$(stringify!($word)),+];

            /// The system with this word, with default settings.
            pub fn named(word: &str) -> Option<Self> {
                $( if word == stringify!($word) {
                    return Some(Self::$Settings(Box::default()));
                } )+
                None
            }

            /// The executor's word.
            pub fn word(&self) -> &'static str {
                match self {
                    $( Self::$Settings(_) => stringify!($word), )+
                }
            }
        }

        mapping! {
            /// The keys of `executor`: one of the batch systems.
            struct ExecutorKeys = "executor" {
                $( $(#[doc = $doc])* $word: Within<$module::$Keys<'static>>, )+
            }
        }

        impl ExecutorKeys<'_> {
            /// The systems that are given, each with its place and the steps that it names.
            fn systems(self, lower: &mut Lower<'_>) -> Vec<(Span, BatchSystem, Vec<Spanned<String>>)> {
                let mut found = Vec::new();
                $( if let Some(node) = self.$word.node() {
                    let (settings, steps) = $module::$Settings::read(lower, node);
                    found.push((node.span, BatchSystem::$Settings(Box::new(settings)), steps));
                } )+
                found
            }
        }

        /// Every mapping of the settings, in the order of the documentation.
        pub(super) fn declarations() -> Vec<Declaration> {
            let mut all = vec![ExecutorKeys::declaration()];
            $(
                all.push($module::$Keys::declaration());
                all.extend($module::$Settings::declarations());
            )+
            all
        }

        /// Definitions that the schema of `executor` refers to.
        pub(in crate::recipe) fn definitions() -> Vec<(&'static str, Json)> {
            [$( $module::$Settings::definitions() ),+].concat()
        }
    };
}

batch_systems! {
    /// Slurm options for every job.
    slurm: slurm::Slurm, SlurmKeys;
    /// Hosts that are reached by SSH.
    ssh: ssh::Ssh, SshKeys;
    /// A Ray cluster.
    ray: ray::Ray, RayKeys;
    /// Command templates for any other batch system.
    batch: batch::CommandTemplates, BatchKeys;
}

/// The way in which jobs are started.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Executor {
    /// On this machine.
    #[default]
    Local,
    /// Through a batch system.
    Batch(BatchSystem),
}

impl Executor {
    /// The words for executors.
    pub fn words() -> Vec<&'static str> {
        [&["local"], BatchSystem::WORDS].concat()
    }

    /// Makes it the executor with this word. If it is that one already, it keeps its settings.
    pub fn select(&mut self, word: &str) {
        let same = matches!(self, Self::Batch(system) if system.word() == word);
        if let Some(named) = Self::named(word).filter(|_| !same) {
            *self = named;
        }
    }

    /// The word for the executor of `--hosts`.
    pub const OF_HOSTS: &'static str = "ssh";

    /// Replaces the executor by one for the hosts `names`. Keeps the settings of hosts in both lists, and all other
    /// settings.
    ///
    /// # Errors
    /// A name that `ssh` would not take for a host, and why.
    pub fn select_hosts(&mut self, names: &[String]) -> Result<(), (String, &'static str)> {
        let mut settings = match std::mem::take(self) {
            Self::Batch(BatchSystem::Ssh(settings)) => settings,
            _ => Box::<ssh::Ssh>::default(),
        };
        settings.select(names)?;
        *self = Self::Batch(BatchSystem::Ssh(settings));
        Ok(())
    }

    /// The executor with this word, with default settings.
    pub fn named(word: &str) -> Option<Self> {
        if word == "local" { Some(Self::Local) } else { BatchSystem::named(word).map(Self::Batch) }
    }
}

impl Draft {
    /// Checks that the steps that an executor names exist.
    pub(in crate::recipe) fn check_executor_steps(&mut self, named: &[Spanned<String>]) {
        let steps = || self.recipes.iter().flat_map(|recipe| &recipe.steps).map(|step| step.name.value.as_str());
        for name in named.iter().filter(|name| !steps().any(|step| step == name.value)) {
            let help = suggest(&name.value, "steps", steps());
            let message = format!("unknown step `{}`", name.value);
            let problem = Problem::new(&self.sources, name.span, message, "no step has this name").maybe_help(help);
            self.problems.push(name.span, problem);
        }
    }
}

pub(super) fn schema() -> Json {
    let mut schema = ExecutorKeys::schema_of_one();
    schema["type"] = json!(["string", "object"]);
    schema["pattern"] = json!(whole(&Executor::words().join("|")));
    schema["patternErrorMessage"] = json!(format!("Expected {}.", expected()));
    schema
}

/// The accepted values of `executor`, as a phrase.
pub(super) fn accepted() -> &'static str {
    "the name of an executor, or a map with its options"
}

/// The words for executors, as a phrase.
fn expected() -> String {
    let words: Vec<String> = Executor::words().iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        Some((last, first_words)) if !first_words.is_empty() => format!("{} or {last}", first_words.join(", ")),
        _ => words.concat(),
    }
}

impl Lower<'_> {
    /// Reads `executor: slurm` or `executor: { slurm: { … } }`; also returns the steps that it names.
    pub(super) fn executor(&mut self, node: &Node) -> (Option<Executor>, Vec<Spanned<String>>) {
        if let NodeKind::Scalar(word) = &node.kind {
            let named = if let Value::Text(word) = word { Executor::named(word) } else { None };
            if named.is_none() {
                let message = format!("unknown executor {}", node.describe());
                let help = format!("write {}", expected());
                self.problem(node.span, message, "not an executor", help);
            }
            return (named, Vec::new());
        }
        let mut systems = ExecutorKeys::read_or_empty(self, node, "`executor`").systems(self).into_iter();
        let Some((_, system, steps)) = systems.next() else {
            if !matches!(&node.kind, NodeKind::Map(entries) if !entries.is_empty()) {
                self.problem(node.span, "`executor` is empty", "no executor", format!("write {}", expected()));
            }
            return (None, Vec::new());
        };
        if let Some((span, other, _)) = systems.next() {
            let message = format!("`{}` and `{}` exclude each other", system.word(), other.word());
            self.problem(span, message, "a second executor", "keep one of them");
        }
        (Some(Executor::Batch(system)), steps)
    }
}

//! The executor that starts jobs: this machine or a batch system. It is not part of a key.

use super::{Draft, Problem, Slurm, Spanned, suggest};

/// The way in which jobs are started.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Executor {
    /// On this machine.
    #[default]
    Local,
    /// Through a batch system.
    Batch(BatchSystem),
}

/// Declares the batch systems: for each, the type of its settings and its word in recipes.
macro_rules! batch_systems {
    ($($system:ident = $word:literal),+ $(,)?) => {
        /// A batch system with the settings of its jobs.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each variant has the name of its settings")]
        pub enum BatchSystem { $( $system($system), )+ }

        impl BatchSystem {
            /// The words for batch systems.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The system with this word, with default settings.
            pub fn named(word: &str) -> Option<Self> {
                match word {
                    $( $word => Some(Self::$system($system::default())), )+
                    _ => None,
                }
            }

            /// Its word.
            pub fn word(&self) -> &'static str {
                match self {
                    $( Self::$system(_) => $word, )+
                }
            }
        }
    };
}

batch_systems! {
    Slurm = "slurm",
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

    /// The executor with this word, with default settings.
    pub fn named(word: &str) -> Option<Self> {
        if word == "local" { Some(Self::Local) } else { BatchSystem::named(word).map(Self::Batch) }
    }
}

impl Draft {
    /// Checks that the steps that an executor names exist.
    pub(super) fn check_executor_steps(&mut self, named: &[Spanned<String>]) {
        let steps = || self.recipes.iter().flat_map(|recipe| &recipe.steps).map(|step| step.name.value.as_str());
        for name in named.iter().filter(|name| !steps().any(|step| step == name.value)) {
            let help = suggest(&name.value, "steps", steps());
            let message = format!("unknown step `{}`", name.value);
            let problem = Problem::new(&self.sources, name.span, message, "no step has this name").maybe_help(help);
            self.problems.push(name.span, problem);
        }
    }
}

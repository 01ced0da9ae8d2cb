//! The executor that starts jobs: this machine or Slurm. It is not part of a key.

use super::{Draft, Problem, Slurm, Spanned, suggest};

/// The way in which jobs are started.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Executor {
    /// On this machine.
    #[default]
    Local,
    /// Through Slurm.
    Slurm(Slurm),
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

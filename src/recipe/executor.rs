//! The executor that gives jobs their processes: this machine, or Slurm. None of it is part of a key.

use super::{Draft, Problem, Slurm, Spanned, suggest};

/// Source of the jobs' processes.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Executor {
    /// On this machine.
    #[default]
    Local,
    /// Through Slurm.
    Slurm(Slurm),
}

impl Draft {
    /// The steps that an executor names must be there.
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

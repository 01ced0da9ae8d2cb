//! The executor that gives jobs their processes: this machine, or Slurm. None of it is part of a key.

use std::time::Duration;

use super::{Draft, Problem, Spanned, suggest};

/// Source of the jobs' processes.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Executor {
    /// On this machine.
    #[default]
    Local,
    /// Through Slurm.
    Slurm(Slurm),
}

/// Settings for Slurm.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slurm {
    /// For every job.
    pub all: Request,
    /// For the jobs of single steps, in the place of what is asked for every job.
    pub steps: Vec<(String, Request)>,
}

/// Settings for Slurm for a job, beyond its resources. Omitted settings have the cluster's defaults.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// `--partition`.
    pub partition: Option<String>,
    /// `--account`.
    pub account: Option<String>,
    /// `--qos`.
    pub qos: Option<String>,
    /// `--gres`, in the place of the GPUs that the resources ask for.
    pub gres: Option<String>,
    /// `--time`, in the place of what follows from the job's `timeout`.
    pub time: Option<Duration>,
    /// Further options of `sbatch`, as they are.
    pub options: Vec<String>,
}

impl Slurm {
    /// Settings for a step's jobs.
    pub fn of_step(&self, step: &str) -> Request {
        let mut request = self.all.clone();
        for (_, own) in self.steps.iter().filter(|(name, _)| name == step) {
            let Request { partition, account, qos, gres, time, options } = own.clone();
            request = Request {
                partition: partition.or(request.partition),
                account: account.or(request.account),
                qos: qos.or(request.qos),
                gres: gres.or(request.gres),
                time: time.or(request.time),
                // Where one is given twice, Slurm takes the last.
                options: request.options.into_iter().chain(options).collect(),
            };
        }
        request
    }
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

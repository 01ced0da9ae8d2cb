//! Jobs that are added to a run, in a few words.

use crate::{
    format::{clean, count},
    plan::{JobId, Plan},
};

/// Jobs that were added one after the other, by step.
#[derive(Debug, Default)]
pub(super) struct Added(Vec<OfStep>);

/// The added jobs of a step.
#[derive(Debug)]
struct OfStep {
    step: String,
    jobs: usize,
    /// The name of the first job.
    first: String,
    /// The different reasons.
    because: Vec<String>,
}

impl Added {
    /// Adds a job with this name, and the reason for it.
    pub(super) fn push(&mut self, plan: &Plan, job: usize, name: String, because: &str) {
        let label = &plan.job(JobId::new(job)).label;
        let step =
            label.recipe.as_ref().map_or_else(|| label.step.to_string(), |recipe| format!("{recipe}:{}", label.step));
        match self.0.iter_mut().find(|of_step| of_step.step == step) {
            Some(of_step) => {
                of_step.jobs += 1;
                if !of_step.because.iter().any(|known| known == because) {
                    of_step.because.push(because.to_owned());
                }
            }
            None => self.0.push(OfStep { step, jobs: 1, first: name, because: vec![because.to_owned()] }),
        }
    }

    /// For each step, its only job or the number of its jobs, with the first reason. Afterwards there are none.
    pub(super) fn take(&mut self) -> Vec<String> {
        let text = |OfStep { step, jobs, first, because }| {
            let jobs = if jobs == 1 { first } else { format!("{} of {}", count(jobs, "job"), clean(&step)) };
            let first = because.first().map_or_else(String::new, |first| format!(", because {}", clean(first)));
            let remainder = match because.len() {
                0 | 1 => String::new(),
                reasons => format!("; and {}", count(reasons - 1, "further reason")),
            };
            format!("{jobs}{first}{remainder}")
        };
        std::mem::take(&mut self.0).into_iter().map(text).collect()
    }
}

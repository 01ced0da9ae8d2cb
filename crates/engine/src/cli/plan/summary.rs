//! A plan in short, for the tools of `sweep mcp`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{DesignArgs, OnlyArgs, PlanArgs, PlanFormat, RecipeArgs, View};
use crate::plan::JobId;

/// Numbers of jobs by state.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
pub(in crate::cli) struct PlanTally {
    /// Jobs whose records exist.
    pub(in crate::cli) cached: usize,
    /// Jobs that will run.
    pub(in crate::cli) to_run: usize,
    /// Jobs that another process runs, or whose needs it runs.
    pub(in crate::cli) blocked: usize,
    /// Jobs that run only if results are undecided without them.
    pub(in crate::cli) in_reserve: usize,
    /// Jobs that decisions of searches have stopped.
    pub(in crate::cli) stopped: usize,
    /// Most jobs that decisions of searches may still add.
    pub(in crate::cli) added_by_searches: usize,
}

/// A step in short.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(in crate::cli) struct StepLine {
    /// Its name.
    step: String,
    /// Number of its jobs, without those in reserve.
    jobs: usize,
    /// Jobs whose records exist.
    cached: usize,
    /// Jobs that will run.
    to_run: usize,
    /// The reason that these have in common.
    why: String,
}

/// A job that is not cached.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(in crate::cli) struct JobLine {
    /// Its step and point.
    job: String,
    /// Beginning of its key.
    key: String,
    /// `to run`, `blocked`, `in reserve` or `stopped`.
    state: &'static str,
    /// The difference to the nearest record.
    why: String,
}

impl PlanTally {
    /// Most jobs that a run can start.
    pub(in crate::cli) fn most(self) -> usize {
        self.to_run + self.blocked + self.in_reserve + self.added_by_searches
    }
}

impl PlanArgs {
    /// The arguments of a plan whose states and reasons are wanted.
    pub(in crate::cli) fn of(recipe: RecipeArgs, only: OnlyArgs, design: DesignArgs) -> Self {
        Self { recipe, only, list: false, jobs: None, why: false, design, format: PlanFormat::Table }
    }
}

impl View<'_> {
    /// Numbers of jobs by state.
    pub(in crate::cli) fn tally(&self) -> PlanTally {
        let mut tally = PlanTally { added_by_searches: self.plan.left(), ..PlanTally::default() };
        for id in &self.selected {
            *match self.state(*id) {
                "cached" => &mut tally.cached,
                "stopped" => &mut tally.stopped,
                "in reserve" => &mut tally.in_reserve,
                "blocked" => &mut tally.blocked,
                _ => &mut tally.to_run,
            } += 1;
        }
        tally
    }

    /// Estimated duration of the jobs to run, in seconds; `None` if it is not known.
    pub(in crate::cli) fn seconds(&self) -> Option<f64> {
        self.about
    }

    /// The steps that have selected jobs.
    pub(in crate::cli) fn step_lines(&self) -> Vec<StepLine> {
        let mut steps: BTreeMap<(usize, usize), (StepLine, Vec<JobId>)> = BTreeMap::new();
        let has_several = self.plan.studies.len() > 1;
        for (index, study) in self.plan.studies.iter().enumerate() {
            for (place, (step, jobs)) in study.recipe.steps.iter().zip(&study.steps).enumerate() {
                for (_, id) in jobs.iter().filter(|(_, id)| self.selected.contains(id) && !self.is_reserve(*id)) {
                    let (line, open_jobs) = steps.entry((index, place)).or_default();
                    let recipe = if has_several { format!("{}:", study.recipe.name) } else { String::new() };
                    line.step = format!("{recipe}{}", step.name.value);
                    line.jobs += 1;
                    if self.cached[id.index()] { line.cached += 1 } else { open_jobs.push(*id) }
                }
            }
        }
        let lines = steps.into_values().map(|(line, open_jobs)| {
            let reasons = if open_jobs.is_empty() { String::new() } else { self.common_reasons(&open_jobs) };
            StepLine {
                to_run: open_jobs.len(),
                why: reasons.replace("`--why` lists them", "`jobs: true` lists them"),
                ..line
            }
        });
        lines.collect()
    }

    /// The jobs that are not cached, in the plan's order.
    pub(in crate::cli) fn job_lines(&self) -> impl Iterator<Item = JobLine> + '_ {
        self.jobs().filter(|(id, _)| !self.cached[id.index()]).map(|(id, job)| JobLine {
            job: job.label.to_string(),
            key: job.key.short(),
            state: self.state(id),
            why: self.why(id),
        })
    }
}

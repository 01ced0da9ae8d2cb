//! Lines of `sweep plan` about the time that shared states save.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use sweep_job::Unit;

use crate::{
    error::Error,
    format::{count, duration, quantity},
    plan::{JobId, Plan, Saving, Stretch},
    run::TimeSaving,
    store::{Entry, State, Store},
};

/// The name of the task whose steps are iterations.
const TRAIN: &str = "train";

/// Saving by shared states in a step of a recipe.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct StepSaving {
    /// The step, with its recipe's name where there are several.
    step: String,
    /// Number of jobs that continue from a state.
    jobs: usize,
    /// Number of iterations of all jobs, if each ran alone.
    alone: u64,
    /// Number of iterations with the states.
    shared: u64,
    /// Number of shared states.
    states: usize,
    /// Estimated job time, in seconds; `None` if earlier records do not suffice.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<StepSeconds>,
    /// Estimated duration of each job, in seconds.
    #[serde(skip)]
    pub(super) of_jobs: BTreeMap<JobId, f64>,
    #[serde(skip)]
    who: String,
    #[serde(skip)]
    word: &'static str,
}

/// Estimated job time of a step.
#[derive(Debug, Serialize)]
struct StepSeconds {
    alone: f64,
    shared: f64,
    /// Number of records from which it follows.
    records: usize,
}

/// The savings of the `open` jobs, by the step.
pub(super) fn savings(
    plan: &Plan,
    store: &Store,
    entries: &[Entry],
    open: &HashSet<JobId>,
) -> Result<Vec<StepSaving>, Error> {
    let mut savings = Vec::new();
    for (step, saving) in plan.savings(open) {
        let time = TimeSaving::of(&saving, plan, entries, store).map_err(Error::io("cannot read the store"))?;
        let of_jobs = time.as_ref().map(|time| time.of_jobs.clone()).unwrap_or_default();
        let seconds = time.map(|TimeSaving { alone, shared, records, .. }| StepSeconds { alone, shared, records });
        let is_training = saving.jobs().all(|stretch| plan.job(stretch.job).task.name == TRAIN);
        let word = if is_training { "iterations" } else { "steps" };
        let (jobs, alone, shared, states) = (saving.continuing(), saving.alone(), saving.shared(), saving.states());
        savings.push(StepSaving {
            step,
            jobs,
            alone,
            shared,
            states,
            seconds,
            of_jobs,
            who: who(plan, &saving, word),
            word,
        });
    }
    Ok(savings)
}

/// The jobs that share states, and the shared steps: `13 variants × 5 seeds share 10 of 60 iterations`.
fn who(plan: &Plan, saving: &Saving, word: &str) -> String {
    let jobs: Vec<&Stretch> = saving.jobs().collect();
    let Some((start, end)) = saving.uniform() else {
        let continuing_jobs = saving.continuing();
        let part = if continuing_jobs < jobs.len() { format!("{continuing_jobs} of ") } else { String::new() };
        return format!("{part}{} continue from shared states", count(jobs.len(), "job"));
    };
    let seed = |stretch: &&Stretch| {
        let point = &plan.job(stretch.job).label.point;
        point.split(',').find_map(|part| part.strip_prefix("seed=")).map(str::to_owned)
    };
    let seeds: HashSet<Option<String>> = jobs.iter().map(seed).collect();
    let is_grid = !seeds.contains(&None) && seeds.len() > 1 && jobs.len().is_multiple_of(seeds.len());
    let who = if is_grid {
        format!("{} × {} seeds", count(jobs.len() / seeds.len(), "variant"), seeds.len())
    } else {
        count(jobs.len(), "job")
    };
    format!("{who} share {start} of {end} {word}")
}

impl StepSaving {
    /// Lines for a person.
    pub(super) fn lines(&self, known_states: &[State]) -> String {
        let Self { step, alone, shared, states, seconds, who, word, .. } = self;
        let size = if known_states.is_empty() {
            String::new()
        } else {
            let bytes: u64 = known_states.iter().map(State::bytes).sum();
            format!(" of {}", quantity(bytes as f64 / known_states.len() as f64, Unit::Bytes))
        };
        let saving = percent(*alone as f64, *shared as f64);
        let states = count(*states, "shared state");
        let time = match seconds {
            Some(StepSeconds { alone, shared, records }) => format!(
                "about {} of job time instead of {}, {:.0} % {}, by {}",
                duration(*shared),
                duration(*alone),
                percent(*alone, *shared).abs(),
                if shared > alone { "more" } else { "less" },
                count(*records, "earlier job")
            ),
            None => "no earlier job shows how much time this is".to_owned(),
        };
        format!(
            "{step}: {who}: {saving:.0} % fewer ({shared} {word} instead of {alone}; {states}{size})\n{}{time}\n",
            " ".repeat(step.chars().count() + 2)
        )
    }
}

/// The part that is saved, in percent; negative if states cost more than they save.
fn percent(alone: f64, shared: f64) -> f64 {
    if alone > 0.0 { 100.0 * (alone - shared) / alone } else { 0.0 }
}

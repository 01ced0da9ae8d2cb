//! Decisions of a step with `search`, from the results of its jobs.
//!
//! The rules are in [`crate::decide`]. Here a plan's jobs become configurations, their records become values, and the
//! outcome becomes a [`Decision`] that the store keeps. `planner.rs` makes the decisions of a run; reports follow only
//! decisions that the store has for exactly the present values.

mod planner;
mod race;
mod reached;
mod rungs;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    io,
};

use sweep_job::current_name;

pub use self::{
    planner::Searches,
    reached::{Extent, Reached, reached},
};
use crate::{
    plan::{JobId, Plan, Study, configuration},
    record::Key,
    store::{Decision, Measured, Member, Store},
};

/// Knowledge about a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Known {
    /// It has not ended.
    Open,
    /// It has ended, with its value; `None` if it failed or diverged.
    Ended(Option<f64>),
}

/// A job that has not ended.
#[derive(Debug, Clone, Copy)]
struct Open;

impl Known {
    fn ended(self) -> Result<Option<f64>, Open> {
        match self {
            Self::Open => Err(Open),
            Self::Ended(value) => Ok(value),
        }
    }
}

/// A decision about a step, with its meaning for the jobs of the plan.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The index of the step.
    pub step: usize,
    /// The key of the decision in the store.
    pub key: Key,
    /// The decision.
    pub decision: Decision,
    /// False if more of it may follow, because its jobs have not ended.
    pub is_final: bool,
    /// A sentence about it.
    pub text: String,
    /// The jobs that it releases, each with the reason.
    pub released: Vec<(JobId, String)>,
    /// The jobs that will not run because of it, each with the reason.
    pub stopped: Vec<(JobId, String)>,
}

/// The jobs of a configuration: those at each rung, or those at each seed of a race.
#[derive(Debug, Clone)]
struct Configuration {
    /// Its values on the axes, as a text.
    label: String,
    stages: Vec<Vec<JobId>>,
}

/// A step whose decisions are followed.
struct Followed<'a> {
    plan: &'a Plan,
    study: &'a Study,
    step: usize,
    known: &'a dyn Fn(JobId) -> Known,
}

/// Accepts a decision, so that decisions that follow from it can be made.
type Accept<'a> = dyn FnMut(&Decision) -> io::Result<Option<Key>> + 'a;

/// Follows the decisions of a step as far as its jobs have ended and `accept` knows or keeps the decision.
fn follow(
    plan: &Plan,
    study: &Study,
    step: usize,
    known: &dyn Fn(JobId) -> Known,
    accept: &mut Accept<'_>,
) -> io::Result<Vec<Decided>> {
    let followed = Followed { plan, study, step, known };
    let Some(search) = &study.recipe.steps[step].search else { return Ok(Vec::new()) };
    let mut decisions = Vec::new();
    if let Some(rules) = &search.rungs {
        for mut configurations in followed.configurations(&rules.axis) {
            followed.sort(&mut configurations);
            decisions.extend(match rules.workers {
                None => followed.halve(rules, &configurations, accept)?,
                Some(workers) => followed.halve_by_clock(rules, workers, &configurations, accept)?,
            });
        }
    }
    if let Some(rules) = &search.racing {
        for mut configurations in followed.configurations("seed") {
            followed.sort(&mut configurations);
            decisions.extend(followed.race(rules, &configurations, accept)?);
        }
    }
    Ok(decisions)
}

impl Followed<'_> {
    fn key(&self, job: JobId) -> Key {
        self.plan.job(job).key
    }

    /// The configurations that are decided about together, with their jobs at each of the values of an axis, in the order of the recipe:
    /// all configurations of the step, or of each batch of a sampler.
    fn configurations(&self, axis: &str) -> Vec<Vec<Configuration>> {
        let step = &self.study.recipe.steps[self.step];
        let mut values: Vec<String> = Vec::new();
        for (point, _) in &self.study.steps[self.step] {
            let value = point.get(axis).map(|value| format!("{value:?}"));
            values.extend(value.filter(|value| !values.contains(value)));
        }
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut list: Vec<Configuration> = Vec::new();
        let mut batches: Vec<Option<usize>> = Vec::new();
        let searched = self.study.searched.get(&self.step);
        for (point, job) in &self.study.steps[self.step] {
            let value = point.get(axis).map(|value| format!("{value:?}"));
            let Some(stage) = value.and_then(|value| values.iter().position(|known| *known == value)) else { continue };
            let label = configuration(step, point).to_string();
            let place = *places.entry(label.clone()).or_insert_with(|| {
                list.push(Configuration { label, stages: vec![Vec::new(); values.len()] });
                batches.push(searched.and_then(|searched| searched.batch_of(point)));
                list.len() - 1
            });
            let jobs = &mut list[place].stages[stage];
            if !jobs.contains(job) {
                jobs.push(*job);
            }
        }
        let mut groups: BTreeMap<Option<usize>, Vec<Configuration>> = BTreeMap::new();
        for (batch, configuration) in batches.into_iter().zip(list) {
            groups.entry(batch).or_default().push(configuration);
        }
        groups.into_values().collect()
    }

    /// Sorts configurations by the smallest key of their first jobs, and the jobs of each by key: the order of the recipe
    /// decides nothing.
    fn sort(&self, configurations: &mut [Configuration]) {
        for stage in configurations.iter_mut().flat_map(|configuration| &mut configuration.stages) {
            stage.sort_by_key(|job| self.key(*job));
        }
        configurations.sort_by_cached_key(|configuration| {
            (
                configuration.stages.iter().find_map(|jobs| jobs.first()).map(|job| self.key(*job)),
                configuration.label.clone(),
            )
        });
    }

    /// The values of jobs, if all have ended.
    fn values(&self, jobs: &[JobId]) -> Option<Vec<Option<f64>>> {
        jobs.iter().map(|job| (self.known)(*job).ended().ok()).collect()
    }

    /// The jobs with their values, as members of a decision; each once.
    fn members(&self, jobs: impl IntoIterator<Item = JobId>) -> Vec<Member> {
        let jobs: BTreeSet<JobId> = jobs.into_iter().collect();
        let value = |job| (self.known)(job).ended().ok().flatten();
        jobs.into_iter().map(|job| Member { key: self.key(job), value: value(job) }).collect()
    }

    fn keys(&self, jobs: &[JobId]) -> Vec<Key> {
        jobs.iter().map(|job| self.key(*job)).collect()
    }
}

/// The decisions about the steps of a study that hold for the present results: the decisions in the store that were made for exactly the
/// present values of the records.
pub fn decided(
    plan: &Plan,
    study: &Study,
    measured: &BTreeMap<JobId, Measured>,
    store: &Store,
) -> io::Result<Vec<Decided>> {
    let mut decisions = Vec::new();
    for (step, declared) in study.recipe.steps.iter().enumerate() {
        let Some(metric) = metric(declared) else { continue };
        let of_step = values(plan, study, step, metric, measured, store)?;
        // A job without a record has failed if a decision states this.
        let known = |job: JobId| Known::Ended(of_step.get(&job).copied().flatten());
        let mut accept = |decision: &Decision| -> io::Result<Option<Key>> {
            let key = decision.key()?;
            Ok(store.decision(&key)?.map(|_| key))
        };
        decisions.extend(follow(plan, study, step, &known, &mut accept)?);
    }
    Ok(decisions)
}

/// The jobs of a study that will not run because of a decision, each with the reason. Jobs that another decision releases, or that
/// have run nevertheless, are not among them.
pub fn stopped(
    plan: &Plan,
    study: &Study,
    measured: &BTreeMap<JobId, Measured>,
    store: &Store,
) -> io::Result<BTreeMap<JobId, String>> {
    Ok(stopped_by(plan, &decided(plan, study, measured, store)?))
}

/// The jobs that will not run because of these decisions.
pub fn stopped_by(plan: &Plan, decided: &[Decided]) -> BTreeMap<JobId, String> {
    let released: HashSet<JobId> =
        decided.iter().flat_map(|decided| decided.released.iter().map(|(job, _)| *job)).collect();
    let stopped = decided.iter().flat_map(|decided| decided.stopped.iter().cloned());
    stopped.filter(|(job, _)| !released.contains(job) && plan.is_held(*job)).collect()
}

/// Jobs of a plan about which searches have decided, with the reasons.
#[derive(Debug, Default)]
pub struct DecidedJobs(HashMap<JobId, (DecidedState, String)>);

/// State of a job that follows from decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecidedState {
    /// It runs.
    Released,
    /// It does not run.
    Stopped,
}

impl DecidedJobs {
    /// The decisions that hold for the present records.
    pub fn read(plan: &Plan, store: &Store) -> io::Result<Self> {
        let mut decided_jobs = HashMap::new();
        for study in &plan.studies {
            let decided = decided(plan, study, &BTreeMap::new(), store)?;
            for Decided { released, stopped, .. } in decided {
                for (job, because) in stopped {
                    decided_jobs.entry(job).or_insert((DecidedState::Stopped, because));
                }
                for (job, because) in released {
                    decided_jobs.insert(job, (DecidedState::Released, because));
                }
            }
        }
        decided_jobs.retain(|job, _| plan.is_held(*job));
        Ok(Self(decided_jobs))
    }

    /// The state of a job, and the reason.
    pub fn of(&self, job: JobId) -> Option<(DecidedState, &str)> {
        self.0.get(&job).map(|(fate, because)| (*fate, because.as_str()))
    }

    /// True if a job does not run.
    pub fn is_stopped(&self, job: JobId) -> bool {
        matches!(self.of(job), Some((DecidedState::Stopped, _)))
    }
}

/// The metric by which a step decides.
fn metric(step: &crate::recipe::Step) -> Option<&str> {
    let search = step.search.as_ref()?;
    let by = search.rungs.as_ref().map(|rungs| &rungs.by).or(search.racing.as_ref().map(|racing| &racing.by))?;
    Some(current_name(&by.value))
}

/// The values of a step's jobs that have a record.
fn values(
    plan: &Plan,
    study: &Study,
    step: usize,
    metric: &str,
    measured: &BTreeMap<JobId, Measured>,
    store: &Store,
) -> io::Result<HashMap<JobId, Option<f64>>> {
    let jobs: BTreeSet<JobId> = study.steps[step].iter().map(|(_, job)| *job).collect();
    let value = |measured: &Measured| measured.metrics.get(metric).map(|found| found.value);
    let mut values: HashMap<JobId, Option<f64>> = HashMap::new();
    let mut unread = Vec::new();
    for job in jobs {
        match measured.get(&job).map(value) {
            Some(Some(value)) => {
                values.insert(job, Some(value));
            }
            // Reports need other metrics, and other points.
            _ => unread.extend(store.stamp(plan.job(job).key).map(|stamp| (job, stamp))),
        }
    }
    let stamps: Vec<_> = unread.iter().map(|(job, stamp)| (plan.job(*job).key, *stamp)).collect();
    let ids: HashMap<Key, JobId> = unread.iter().map(|(job, _)| (plan.job(*job).key, *job)).collect();
    let records = store.measured_by(&stamps, &HashSet::from([metric])).map_err(io::Error::other)?;
    values.extend(records.iter().filter_map(|record| Some((*ids.get(&record.key)?, value(record)))));
    Ok(values)
}

/// A point's values on the axes of its configuration, for people.
fn named(label: &str) -> &str {
    if label.is_empty() { "the only configuration" } else { label }
}

//! The configurations of a step, with the results of their jobs.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io,
};

use sweep_job::{Value, current_name};

use super::Mode;
use crate::{
    analysis::search::{Known, reached},
    decide,
    plan::{JobId, Plan, Point, Study},
    record::Key,
    store::{Member, Store, StoreError},
    suggest::Outcome,
};

/// A configuration and its jobs.
#[derive(Debug)]
pub(super) struct Configuration {
    pub(super) values: Vec<Value>,
    /// The configuration's jobs, each with its rung.
    pub(super) jobs: Vec<(JobId, usize)>,
}

/// The results of jobs, as far as they have ended.
#[derive(Debug)]
pub(super) struct Ended {
    by_key: HashMap<Key, State>,
}

/// End of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum State {
    /// The job has a record; `None` if the metric is missing or not finite.
    Measured(Option<f64>),
    /// The job ended without a record.
    Failed,
    /// The job has not ended, or its end is unknown.
    Open,
}

/// The configurations of a step in the order of its points: their values on some axes, and the jobs that have them. `rung` is
/// the axis of the rungs with its values.
pub(super) fn configurations(
    points: &[(Point, JobId)],
    axes: &[String],
    rung: Option<(&str, &[u64])>,
) -> Vec<Configuration> {
    let mut configurations: Vec<Configuration> = Vec::new();
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for (point, id) in points {
        let values: Vec<Value> = axes.iter().filter_map(|axis| point.get(axis).cloned()).collect();
        let text = values.iter().map(ToString::to_string).collect::<Vec<_>>().join("\0");
        let equal_places = places.entry(text).or_default();
        let place =
            equal_places.iter().copied().find(|place| configurations[*place].values == values).unwrap_or_else(|| {
                configurations.push(Configuration { values: values.clone(), jobs: Vec::new() });
                configurations.len() - 1
            });
        if !equal_places.contains(&place) {
            equal_places.push(place);
        }
        let rung_index = |(axis, rungs): (&str, &[u64])| {
            let value = point.get(axis)?.as_f64()?;
            rungs.iter().position(|rung| *rung as f64 == value)
        };
        configurations[place].jobs.push((*id, rung.and_then(rung_index).unwrap_or(0)));
    }
    configurations
}

impl Ended {
    /// Reads a metric of jobs.
    pub(super) fn read(
        plan: &Plan,
        store: &Store,
        jobs: impl Iterator<Item = JobId>,
        metric: &str,
        mode: Mode<'_>,
    ) -> Result<Self, StoreError> {
        let keys: HashSet<Key> = jobs.map(|id| plan.job(id).key).collect();
        let stamps: Vec<_> = keys.iter().filter_map(|key| Some((*key, store.stamp(*key)?))).collect();
        let names: HashSet<&str> = [metric, current_name(metric)].into();
        let results = store.measured_by(&stamps, &names)?;
        let mut by_key: HashMap<Key, State> = HashMap::new();
        for result in results {
            let value = result.metrics.get(metric).map(|metric| metric.value).filter(|value| value.is_finite());
            by_key.insert(result.key, State::Measured(value));
        }
        if let Mode::Decide(lost) = mode {
            for key in keys.intersection(lost) {
                by_key.entry(*key).or_insert(State::Failed);
            }
        }
        Ok(Self { by_key })
    }

    pub(super) fn of(&self, key: Key) -> State {
        self.by_key.get(&key).copied().unwrap_or(State::Open)
    }

    fn value(&self, key: Key) -> Option<f64> {
        if let State::Measured(value) = self.of(key) { value } else { None }
    }

    /// The jobs of a step that have to end before the next decision about it: the jobs that run in any case, and the jobs that decisions
    /// release. With `hypothetical`, jobs that have not ended count as failed.
    pub(super) fn required(
        &self,
        plan: &Plan,
        study: &Study,
        step: usize,
        hypothetical: bool,
    ) -> io::Result<BTreeSet<JobId>> {
        let state = |id: JobId| match self.of(plan.job(id).key) {
            State::Open if !hypothetical => Known::Open,
            State::Measured(value) => Known::Ended(value),
            State::Failed | State::Open => Known::Ended(None),
        };
        Ok(reached(plan, study, step, &state)?.required)
    }

    /// True if all jobs of these configurations have ended.
    pub(super) fn all(&self, plan: &Plan, configurations: &[Configuration]) -> bool {
        let jobs = configurations.iter().flat_map(|configuration| &configuration.jobs);
        jobs.into_iter().all(|(id, _)| self.of(plan.job(*id).key) != State::Open)
    }

    /// The jobs of these configurations, as members of a decision.
    pub(super) fn members(&self, plan: &Plan, configurations: &[Configuration]) -> Vec<Member> {
        let jobs = configurations.iter().flat_map(|configuration| &configuration.jobs);
        let keys: HashSet<Key> = jobs.map(|(id, _)| plan.job(*id).key).collect();
        keys.into_iter().map(|key| Member { key, value: self.value(key) }).collect()
    }

    /// The result of a configuration: the mean over the jobs of its last rung.
    pub(super) fn outcome(&self, plan: &Plan, configuration: &Configuration) -> Outcome {
        let rung = configuration.jobs.iter().map(|(_, rung)| *rung).max().unwrap_or(0);
        let last_jobs = configuration.jobs.iter().filter(|(_, job_rung)| *job_rung == rung);
        let values: Vec<Option<f64>> = last_jobs.map(|(id, _)| self.value(plan.job(*id).key)).collect();
        match decide::mean(&values) {
            Some(value) => Outcome::Measured { rung, value },
            None => Outcome::Failed,
        }
    }
}

//! Records of imported runs in the store.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use sweep_job::tasks::Imported;

use super::{Earlier, Run, Study, outcome};
use crate::{
    host,
    plan::{Job, Plan},
    record::{Key, Milestones, Provenance, Record},
    store::{Claim, Store, StoreError},
};

/// Number of threads that write records. They mostly wait for the disk.
const WRITERS: usize = 8;

/// Numbers of records.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Stored {
    /// Records that were written.
    pub new: usize,
    /// Records that were in the store.
    pub known: usize,
    /// New records of runs that have not changed since the import before, but have other parameters.
    pub again: usize,
}

/// Writes the missing records of the jobs of `plan`, the plan of a study's recipe. `source` is the store in words, and `earlier` has the
/// runs of the import before.
pub fn store_records(
    plan: &Plan,
    runs: &[Run],
    study: &Study,
    source: &str,
    store: &Store,
    earlier: &Earlier,
) -> Result<Stored, StoreError> {
    let by_reference: HashMap<&str, &Run> = study.references.iter().map(String::as_str).zip(runs).collect();
    let jobs: Vec<(&Job, &Run)> =
        plan.jobs().filter_map(|(_, job)| Some((job, *by_reference.get(job.values.get("run")?.as_text()?)?))).collect();
    store.create()?;
    let _held = store.hold()?;
    let seeds = seeds(plan);
    let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
    let (new, known, repeats) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let has_other_params = earlier.has_other_params(study);
    let is_again = |job: &Job| {
        let reference = job.values.get("run").and_then(sweep_job::Value::as_text);
        has_other_params && reference.is_some_and(|reference| earlier.has(reference))
    };
    thread::scope(|scope| {
        for _ in 0..WRITERS.min(jobs.len()) {
            scope.spawn(|| {
                while let Some((job, run)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match write(job, run, seeds.get(&job.key).copied(), source, store) {
                        Ok(true) => {
                            repeats.fetch_add(usize::from(is_again(job)), Ordering::Relaxed);
                            new.fetch_add(1, Ordering::Relaxed)
                        }
                        Ok(false) => known.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                            next.store(jobs.len(), Ordering::Relaxed);
                            return;
                        }
                    };
                }
            });
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(Stored { new: new.into_inner(), known: known.into_inner(), again: repeats.into_inner() }),
    }
}

/// The number of seeds of each job's configuration.
fn seeds(plan: &Plan) -> HashMap<Key, usize> {
    let mut groups: BTreeMap<Vec<String>, (BTreeSet<String>, Vec<Key>)> = BTreeMap::new();
    for (point, job) in plan.studies.iter().flat_map(|study| study.steps.iter().flatten()) {
        let (seed, configuration) = point.seed_and_configuration();
        let (seeds, keys) = groups.entry(configuration).or_default();
        seeds.insert(seed);
        keys.push(plan.job(*job).key);
    }
    groups.into_values().flat_map(|(seeds, keys)| keys.into_iter().map(move |key| (key, seeds.len()))).collect()
}

/// Writes the record of a run; `false` if it is there.
fn write(job: &Job, run: &Run, seeds: Option<usize>, source: &str, store: &Store) -> Result<bool, StoreError> {
    let Claim::Miss(pending) = store.claim(job.key)? else { return Ok(false) };
    let (mut outcome, notices) = outcome(run, source);
    outcome.facts.extend(seeds.map(|seeds| (Imported::SEEDS.to_owned(), seeds.to_string())));
    let started = run.started.and_then(|started| jiff::Timestamp::from_millisecond(started).ok());
    let record = Record {
        format: Record::format_of(&outcome),
        key: job.key,
        identity: job.identity.clone(),
        label: job.label.to_string(),
        params: job.values.clone(),
        outcome,
        files: std::collections::BTreeMap::new(),
        read: None,
        provenance: Provenance {
            sweep: env!("CARGO_PKG_VERSION").to_owned(),
            started: started.unwrap_or_else(host::clock::now),
            seconds: run.seconds,
            device: None,
            threads: 1,
            host: "unknown".to_owned(),
            conditions: None,
            continued: None,
            milestones: Milestones::default(),
            log: None,
            measured: None,
            adopted: None,
            notices,
        },
    };
    pending.commit(record).map(|_| true)
}

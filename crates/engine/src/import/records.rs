//! Records of imported runs in the store.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{Earlier, Run, Study, outcome};
use crate::{
    host,
    plan::{Job, Plan},
    record::{Milestones, Provenance, Record},
    store::{Claim, Store, StoreError},
};

/// Threads that write records: most of their time, the disk works.
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

/// Writes the records of the jobs of a plan, which is that of a study's recipe, unless they are there. `source` is the store in words, and
/// `earlier` has the runs of the import before.
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
                    match write(job, run, source, store) {
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

/// Writes the record of a run; `false` if it is there.
fn write(job: &Job, run: &Run, source: &str, store: &Store) -> Result<bool, StoreError> {
    let Claim::Miss(pending) = store.claim(job.key)? else { return Ok(false) };
    let (outcome, notices) = outcome(run, source);
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

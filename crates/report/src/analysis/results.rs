//! Results of a plan: the jobs' measurements, and their records on request.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    thread,
};

use sweep_job::{Curve, Metric, Unit, Value, current_name};

use super::{curves, evidence::traits};
use crate::{
    host::threads,
    plan::{JobId, Plan, Study},
    recipe::{CurveRead, ReadOff, UnitOf},
    record::{Key, Record},
    store::{Measured, Stamp, Store, StoreError},
};

/// The finished jobs of a plan.
#[derive(Debug, Default)]
pub struct Results {
    /// Stamps of the jobs' records.
    stamps: HashMap<JobId, Stamp>,
    /// Measurements of the jobs in tables, figures and claims: at least the metrics that these need.
    measured: BTreeMap<JobId, Measured>,
    /// Records that have been read.
    records: BTreeMap<JobId, Record>,
}

impl Results {
    /// Finds the jobs that are done, and reads the metrics that tables, figures and claims need. The records themselves
    /// are not read.
    pub fn read(plan: &Plan, store: &Store) -> Result<Self, StoreError> {
        Self::read_of(plan, store, plan.jobs().map(|(_, job)| store.stamp(job.key)))
    }

    /// Reads results like [`read`](Self::read), of records whose stamps are known, in the plan's order.
    pub fn read_of(
        plan: &Plan,
        store: &Store,
        stamps: impl IntoIterator<Item = Option<Stamp>>,
    ) -> Result<Self, StoreError> {
        let stamps: HashMap<JobId, Stamp> =
            plan.jobs().zip(stamps).filter_map(|((id, _), stamp)| Some((id, stamp?))).collect();
        let reported: BTreeSet<JobId> = plan.studies.iter().flat_map(Study::reported).map(|(_, id)| *id).collect();
        let stamped_jobs: Vec<(JobId, Key, Stamp)> =
            reported.into_iter().filter_map(|id| Some((id, plan.job(id).key, *stamps.get(&id)?))).collect();
        let names = plan.studies.iter().flat_map(|study| study.recipe.metrics());
        let metrics: HashSet<&str> = names.flat_map(|name| [name, current_name(name)]).collect();
        let stamped: Vec<(Key, Stamp)> = stamped_jobs.iter().map(|(_, key, stamp)| (*key, *stamp)).collect();
        let lines = store.measured_by(&stamped, &metrics)?;
        let ids: HashMap<Key, JobId> = stamped_jobs.iter().map(|(id, key, _)| (*key, *id)).collect();
        let mut measured = lines.into_iter().filter_map(|line| Some((*ids.get(&line.key)?, line))).collect();
        read_off_curves(plan, store, &mut measured);
        in_one_unit(plan, &mut measured);
        Ok(Self { stamps, measured, records: BTreeMap::new() })
    }

    /// Results with these measurements only.
    #[cfg(test)]
    pub(super) fn of(measured: BTreeMap<JobId, Measured>) -> Self {
        Self { measured, ..Self::default() }
    }

    /// Adds the record of a job, if the job is done and its record has not been read. Records are immutable, so a
    /// record is read only once.
    pub fn add(&mut self, plan: &Plan, id: JobId, store: &Store) {
        let key = plan.job(id).key;
        if self.records.contains_key(&id) {
            return;
        }
        if let (Some(stamp), Ok(Some(record))) = (store.stamp(key), store.get(key)) {
            self.stamps.insert(id, stamp);
            let measured = Measured { origin: store.origin(key), ..Measured::from(&record) };
            let mut of_job = BTreeMap::from([(id, measured)]);
            read_off_curves(plan, store, &mut of_job);
            self.measured.append(&mut of_job);
            self.records.insert(id, record);
        }
    }

    /// Measurements of jobs.
    pub fn measured(&self) -> &BTreeMap<JobId, Measured> {
        &self.measured
    }

    /// True if a job is done.
    pub fn is_done(&self, id: JobId) -> bool {
        self.stamps.contains_key(&id)
    }

    /// Stamp of a job's record.
    pub fn stamp(&self, id: JobId) -> Option<Stamp> {
        self.stamps.get(&id).copied()
    }

    /// The readable records of jobs. Unreadable ones are skipped, because a report cannot repair them.
    pub fn records(
        &self,
        plan: &Plan,
        store: &Store,
        jobs: impl Iterator<Item = JobId>,
    ) -> BTreeMap<JobId, Cow<'_, Record>> {
        let jobs: BTreeSet<JobId> = jobs.filter(|id| self.is_done(*id)).collect();
        let (loaded, unread): (Vec<JobId>, Vec<JobId>) = jobs.into_iter().partition(|id| self.records.contains_key(id));
        let mut records: BTreeMap<JobId, Cow<'_, Record>> =
            loaded.iter().filter_map(|id| Some((*id, Cow::Borrowed(self.records.get(id)?)))).collect();
        let read = |ids: &[JobId]| -> Vec<(JobId, Record)> {
            ids.iter().filter_map(|id| Some((*id, store.get(plan.job(*id).key).ok()??))).collect()
        };
        // Most of the time is spent on parsing, which is parallel.
        let threads = thread::available_parallelism().map_or(1, usize::from).min(unread.len() / 500 + 1);
        let parts: Vec<&[JobId]> = unread.chunks(unread.len().div_ceil(threads).max(1)).collect();
        let read = threads::each(&parts, read).into_iter().flatten();
        records.extend(read.map(|(id, record)| (id, Cow::Owned(record))));
        records
    }
}

/// Adds the metrics that recipes read off the curves of records.
fn read_off_curves(plan: &Plan, store: &Store, measured: &mut BTreeMap<JobId, Measured>) {
    for study in plan.studies.iter().filter(|study| study.recipe.read_off().next().is_some()) {
        let jobs =
            study.steps.iter().enumerate().flat_map(|(step, points)| points.iter().map(move |(_, id)| (step, *id)));
        let jobs: Vec<(usize, JobId, Key)> =
            jobs.filter_map(|(step, id)| Some((step, id, measured.get(&id)?.key))).collect();
        // Each record is read once.
        let names: BTreeSet<&str> = study.recipe.read_off().map(|(_, read)| read.curve.value.as_str()).collect();
        let wanted = jobs.iter().flat_map(|(_, _, key)| names.iter().map(move |name| (*key, *name)));
        let curves = curves::load(wanted, store);
        for (name, ReadOff { curve, number }) in study.recipe.read_off() {
            let curve = curve.value.as_str();
            for (step, id, key) in &jobs {
                let Some(measured) = measured.get_mut(id) else { continue };
                let Some(found) = curves.get(&(*key, curve.to_owned())) else {
                    measured.remarks.unread.insert(name.to_owned(), format!("no curve `{curve}` was recorded"));
                    continue;
                };
                let better = study.recipe.traits(&study.recipe.steps[*step], curve).better;
                let unit = if let CurveRead::Target(_) = number { Unit::One } else { found.unit };
                match curves::read_off(found, *number, better) {
                    Some(value) => drop(measured.metrics.insert(name.to_owned(), Metric { value, unit })),
                    None => drop(measured.remarks.unread.insert(name.to_owned(), unread(curve, found, *number))),
                }
            }
        }
    }
}

/// The reason why a curve lacks this number.
fn unread(name: &str, curve: &Curve, number: CurveRead) -> String {
    let (first, last) = (curve.at.first().copied().unwrap_or(0), curve.at.last().copied().unwrap_or(0));
    match number {
        CurveRead::Target(target) => format!("`{name}` does not reach {} by step {last}", Value::Float(target)),
        CurveRead::Area(place) | CurveRead::At(place) => {
            format!("`{name}` has steps {first} to {last}, and not {}", Value::Float(place))
        }
    }
}

/// Converts the metrics that reports show to one unit for each step, as far as they measure the same quantity.
fn in_one_unit(plan: &Plan, measured: &mut BTreeMap<JobId, Measured>) {
    for study in &plan.studies {
        let metrics: BTreeSet<&str> = study.recipe.metrics().collect();
        for (step, points) in study.steps.iter().enumerate() {
            for metric in &metrics {
                let traits = traits(study, measured, step, metric);
                // Records already use the unit that follows from the name or the task.
                if traits.unit_of == UnitOf::Metric {
                    continue;
                }
                for (_, id) in points {
                    let Some(reading) = measured.get_mut(id).and_then(|measured| measured.metrics.get_mut(*metric))
                    else {
                        continue;
                    };
                    if let Some(value) = traits.value(metric, *reading) {
                        *reading = Metric { value, unit: traits.unit };
                    }
                }
            }
        }
    }
}

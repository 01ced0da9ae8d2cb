//! Jobs that differ only in the variant of their code: a job that starts after another has ended takes its result, if
//! its program reads the same files.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::{
    plan::{JobId, Plan},
    record::Key,
};

/// The jobs of a plan that differ in the variant of their code only.
#[derive(Debug, Default)]
pub(super) struct Twins {
    /// The keys without code of jobs that share them, by the jobs.
    bases: HashMap<usize, Key>,
    /// The keys of which a job has ended with a result.
    ended: HashSet<Key>,
    /// Jobs that wait for the result of another one to be stored.
    parked: BTreeSet<usize>,
}

impl Twins {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut by_base: HashMap<Key, Vec<JobId>> = HashMap::new();
        for (id, job) in plan.jobs().filter(|(_, job)| job.code.is_some()) {
            if let Ok(base) = job.identity.base_key() {
                by_base.entry(base).or_default().push(id);
            }
        }
        let groups = by_base.into_iter().filter(|(_, jobs)| jobs.len() > 1);
        let bases = groups.flat_map(|(base, jobs)| jobs.into_iter().map(move |id| (id.index(), base)));
        Self { bases: bases.collect(), ended: HashSet::new(), parked: BTreeSet::new() }
    }

    /// Records that a job has a result; returns true if other jobs differ only in their variant.
    pub(super) fn end(&mut self, job: usize) -> bool {
        let base = self.bases.get(&job);
        self.ended.extend(base);
        base.is_some()
    }

    /// True if the result of a job that differs only in its variant is being stored.
    pub(super) fn are_among(&self, job: usize, storing: &BTreeSet<usize>) -> bool {
        let base = self.bases.get(&job);
        base.is_some() && storing.iter().any(|other| self.bases.get(other) == base)
    }

    /// Records that a job waits until the result of another job is stored.
    pub(super) fn park(&mut self, job: usize) {
        self.parked.insert(job);
    }

    /// Records that a job waits no longer; returns true if it did.
    pub(super) fn unpark(&mut self, job: usize) -> bool {
        self.parked.remove(&job)
    }

    /// True if a job that differs in its variant only has ended with a result in this run.
    pub(super) fn have_ended(&self, job: usize) -> bool {
        self.bases.get(&job).is_some_and(|base| self.ended.contains(base))
    }
}

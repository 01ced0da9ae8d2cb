//! Verification of the finished jobs of a plan: a record is compared with its digest, and an artifact that an
//! unfinished job uses with the digests in its record.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::reads::Artifact;
use crate::{
    plan::{Digests, JobId, Plan},
    record::Key,
    store::{Measured, Stamp, Store, StoreError, out_of_turn},
};

/// The finished jobs of a plan.
#[derive(Debug)]
pub struct Standing {
    /// True for each job, in the plan's order, that is finished.
    pub cached: Vec<bool>,
    /// The stamp of each job's record; `None` for a job without a record.
    pub stamps: Vec<Option<Stamp>>,
    /// A sentence for each damaged record or artifact.
    pub warnings: Vec<String>,
    /// Damaged artifacts that a job uses.
    damaged: Vec<Artifact>,
    /// Undamaged records of measurements that will be repeated.
    disturbed: Vec<(Key, Stamp)>,
}

/// Numbers of measurements that will be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remeasured {
    /// Number of measurements that other processes disturbed.
    pub disturbed: usize,
    /// Number of the other measurements of their rounds, and of measurements in rounds without turns.
    pub in_rounds: usize,
}

impl Standing {
    /// Checks the records of all jobs of a plan, and the artifacts that selected unfinished jobs use.
    pub fn of(plan: &Plan, store: &Store, selected: &HashSet<JobId>) -> Result<Self, StoreError> {
        let keys: Vec<Key> = plan.jobs().map(|(_, job)| job.key).collect();
        let records = store.look(&keys)?;
        let warnings = records.damaged.iter().map(ToString::to_string).collect();
        let mut standing = Self {
            cached: records.whole,
            stamps: records.stamps,
            warnings,
            damaged: Vec::new(),
            disturbed: Vec::new(),
        };
        if selected.iter().any(|id| !standing.cached[id.index()]) {
            standing.look_at_artifacts(plan, store, selected);
        }
        Ok(standing)
    }

    /// Marks measurements that must be repeated as unfinished, and counts them: measurements that other processes
    /// disturbed, and all measurements of a round with a disturbed measurement or in which jobs did not take turns.
    ///
    /// A job measures if it is exclusive or takes turns with others.
    pub fn measure_again(
        &mut self,
        plan: &Plan,
        store: &Store,
        selected: &HashSet<JobId>,
    ) -> Result<Remeasured, StoreError> {
        let measures = |id: JobId| {
            let job = plan.job(id);
            job.resources.exclusive || job.turn.is_some()
        };
        let done = plan.jobs().filter(|(id, _)| selected.contains(id) && self.cached[id.index()] && measures(*id));
        let done: HashMap<Key, (JobId, Stamp)> =
            done.filter_map(|(id, job)| Some((job.key, (id, self.stamps[id.index()]?)))).collect();
        let stamps: Vec<(Key, Stamp)> = done.iter().map(|(key, (_, stamp))| (*key, *stamp)).collect();
        let measurements = store.measured_by(&stamps, &HashSet::new())?;
        let disturbed = measurements.iter().filter(|one| one.under.as_ref().is_some_and(|under| under.is_disturbed()));
        let mut again: HashSet<Key> = disturbed.map(|one| one.key).collect();
        let disturbed = again.len();
        let mut groups: BTreeMap<usize, BTreeMap<usize, Vec<&Measured>>> = BTreeMap::new();
        for one in &measurements {
            if let Some(turn) = done.get(&one.key).and_then(|(id, _)| plan.job(*id).turn) {
                groups.entry(turn.group).or_default().entry(turn.round).or_default().push(one);
            }
        }
        for rounds in groups.into_values() {
            let rounds: Vec<Vec<&Measured>> = rounds.into_values().collect();
            for (round, is_out) in rounds.iter().zip(out_of_turn(&rounds)) {
                if is_out || round.iter().any(|one| again.contains(&one.key)) {
                    again.extend(round.iter().map(|one| one.key));
                }
            }
        }
        for (id, stamp) in again.iter().filter_map(|key| done.get(key)) {
            self.cached[id.index()] = false;
            self.disturbed.push((plan.job(*id).key, *stamp));
        }
        Ok(Remeasured { disturbed, in_rounds: again.len() - disturbed })
    }

    fn look_at_artifacts(&mut self, plan: &Plan, store: &Store, selected: &HashSet<JobId>) {
        let places: HashMap<Key, JobId> = plan.jobs().map(|(id, job)| (job.key, id)).collect();
        let mut digests = Digests::open(store.digests());
        let mut seen = HashSet::new();
        // Needed jobs come first in a plan. In the reverse order, a job that must run again is known before the
        // artifacts that it takes are checked.
        let mut jobs: Vec<JobId> = plan.jobs().map(|(id, _)| id).filter(|id| selected.contains(id)).collect();
        jobs.reverse();
        for id in jobs {
            if self.cached[id.index()] {
                continue;
            }
            for (key, name) in plan.taken_by(id) {
                let Some(need) = places.get(&key).filter(|need| self.cached[need.index()]) else { continue };
                if !seen.insert((key, name.clone())) {
                    continue;
                }
                let Some(artifact) = Artifact::new(store, key, name) else { continue };
                if let Err(change) = artifact.check(&mut digests) {
                    let label = &plan.job(*need).label;
                    let text = change.to_string();
                    let text = text.strip_suffix("; run again").unwrap_or(&text);
                    self.warnings.push(format!("{text}, so {label} runs again"));
                    self.cached[need.index()] = false;
                    self.damaged.push(artifact);
                }
            }
        }
        digests.keep();
    }

    /// Renames the records with damaged artifacts and of disturbed measurements, so that all processes run their jobs
    /// again. The caller must hold the store (`Store::hold`).
    ///
    /// # Errors
    ///
    /// A record cannot be locked or renamed.
    pub fn take_back(&self, store: &Store) -> std::io::Result<()> {
        for artifact in &self.damaged {
            // Another process may have created the artifact again since it was checked.
            let now = |key| Artifact::new(store, key, artifact.name().to_owned());
            let damaged = || now(artifact.key()).is_some_and(|now| now.check(&mut Digests::default()).is_err());
            store.condemn(artifact.key(), damaged)?;
        }
        for (key, stamp) in &self.disturbed {
            // Another process may have repeated the measurement since it was checked.
            store.condemn(*key, || store.stamp(*key) == Some(*stamp))?;
        }
        Ok(())
    }
}

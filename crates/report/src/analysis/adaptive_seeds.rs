//! Adaptive seeds: seeds that are added to a run while a result is undecided.
//!
//! A step with `seeds: { min, max, until: decided }` has all its points in the plan, those beyond `min` in reserve.
//! The claims and the marked comparisons are evaluated after everything else has run. Every group of points that differ
//! only in `seed` and belong to an undecided result gets its next seed. That is a round. Each evaluation uses a level
//! that allows for all evaluations, so that stopping at the first decision does not raise the error rate.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    io,
};

use crate::{
    analysis::{self, Results},
    plan::{JobId, Plan, Study},
    run::{Addition, Disposition, RoundPlanner},
    store::Store,
};

/// Selects the seeds that are added.
#[derive(Debug)]
pub struct AdaptiveSeeds<'a> {
    plan: &'a Plan,
    store: &'a Store,
    /// The jobs that are left in reserve.
    reserve: BTreeSet<JobId>,
    /// The next round, if it is already known.
    ahead: Vec<Addition>,
}

impl<'a> AdaptiveSeeds<'a> {
    /// Starts with the jobs that are held in reserve.
    pub fn new(plan: &'a Plan, store: &'a Store, wanted: &[Disposition]) -> Self {
        let reserve = plan.jobs().map(|(id, _)| id).filter(|id| wanted[id.index()] == Disposition::Reserve).collect();
        Self { plan, store, reserve, ahead: Vec::new() }
    }

    /// Number of jobs of the next round, from the current state of the store.
    pub fn plan_ahead(&mut self) -> io::Result<usize> {
        self.ahead = self.next(&BTreeSet::new())?;
        Ok(self.ahead.len())
    }

    /// A job of the reserve with the jobs that it needs, if none of them is lost.
    fn with_needs(&self, job: JobId, lost_jobs: &BTreeSet<usize>) -> Option<Vec<JobId>> {
        let (mut additions, mut lists) = (BTreeSet::new(), HashSet::new());
        let mut open = vec![job];
        while let Some(job) = open.pop() {
            if lost_jobs.contains(&job.index()) {
                return None;
            }
            if self.reserve.contains(&job) && additions.insert(job) {
                let new = self.plan.lists_of(job).iter().filter(|list| lists.insert(**list));
                open.extend(new.flat_map(|list| self.plan.list(*list)));
            }
        }
        Some(additions.into_iter().collect())
    }
}

/// True if the added seeds of a step have used up their time.
fn is_spent(study: &Study, step: usize, results: &Results) -> bool {
    let Some(budget) = study.recipe.steps[step].adaptive.and_then(|adaptive| adaptive.budget) else { return false };
    let added_points = study.steps[step].iter().filter(|(_, id)| study.rounds.contains_key(id));
    let jobs: BTreeSet<JobId> = added_points.map(|(_, id)| *id).collect();
    let seconds: f64 = jobs.iter().filter_map(|id| results.measured().get(id)).map(|measured| measured.seconds).sum();
    seconds >= budget.as_secs_f64()
}

impl RoundPlanner for AdaptiveSeeds<'_> {
    fn next(&mut self, lost_jobs: &BTreeSet<usize>) -> io::Result<Vec<Addition>> {
        if !self.ahead.is_empty() {
            return Ok(std::mem::take(&mut self.ahead));
        }
        if self.reserve.is_empty() {
            return Ok(Vec::new());
        }
        let results = Results::read(self.plan, self.store).map_err(io::Error::other)?;
        let mut additions: BTreeMap<JobId, String> = BTreeMap::new();
        for study in self.plan.studies.iter().filter(|study| !study.rounds.is_empty()) {
            let spent: Vec<bool> = (0..study.steps.len()).map(|step| is_spent(study, step, &results)).collect();
            let places: BTreeMap<JobId, (usize, String)> = study
                .steps
                .iter()
                .enumerate()
                .flat_map(|(step, points)| points.iter().map(move |(point, id)| (*id, (step, point.but("seed")))))
                .collect();
            for (because, jobs) in analysis::undecided(study, results.measured(), lost_jobs) {
                // The first unused seed of each group: the plan is in the order of the seeds.
                let mut groups = BTreeSet::new();
                for job in jobs.into_iter().filter(|job| self.reserve.contains(job)) {
                    let Some(place) = places.get(&job).filter(|(step, _)| !spent[*step]) else { continue };
                    let Some(jobs) = self.with_needs(job, lost_jobs).filter(|_| !groups.contains(place)) else {
                        continue;
                    };
                    groups.insert(place.clone());
                    for job in jobs {
                        additions.entry(job).or_insert_with(|| because.clone());
                    }
                }
            }
        }
        self.reserve.retain(|job| !additions.contains_key(job));
        Ok(additions.into_iter().map(|(job, because)| Addition { job, because }).collect())
    }
}

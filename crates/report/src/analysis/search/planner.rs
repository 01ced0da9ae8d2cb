//! The decisions of a run: made as soon as all their jobs have ended, kept in the store, and carried out.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    io,
};

use super::{Decided, Known, follow, metric, values};
use crate::{
    analysis::adaptive_seeds::AdaptiveSeeds,
    plan::{JobId, Plan},
    record::Key,
    run::{Addition, Disposition, Released, RoundPlanner},
    store::{Decision, Store},
};

/// The decisions of a plan's searches, and the seeds that are added when all other jobs have ended.
#[derive(Debug)]
pub struct Searches<'a> {
    plan: &'a Plan,
    store: &'a Store,
    seeds: AdaptiveSeeds<'a>,
    /// The jobs that are left in reserve and that only a decision releases.
    held: BTreeSet<JobId>,
    /// The jobs of each of `steps`.
    known: HashMap<(usize, JobId), Known>,
    /// The steps with `search`, as indices of study and step.
    steps: Vec<(usize, usize)>,
    /// The steps that a job belongs to, as indices into `steps`.
    of_job: HashMap<JobId, Vec<usize>>,
    /// Decisions that have been announced, or need not be.
    told: HashSet<Key>,
    /// Decisions that were made in this run.
    made: HashSet<Key>,
}

impl<'a> Searches<'a> {
    /// The state before a run: jobs with a record have ended, the others have not.
    pub fn new(plan: &'a Plan, store: &'a Store, wanted: &[Disposition]) -> io::Result<Self> {
        let reserve = plan.jobs().map(|(id, _)| id).filter(|id| wanted[id.index()] == Disposition::Reserve);
        let mut searches = Self {
            plan,
            store,
            seeds: AdaptiveSeeds::new(plan, store, wanted),
            held: reserve.filter(|id| plan.is_held(*id)).collect(),
            known: HashMap::new(),
            steps: Vec::new(),
            of_job: HashMap::new(),
            told: HashSet::new(),
            made: HashSet::new(),
        };
        for (index, study) in plan.studies.iter().enumerate() {
            for (step, declared) in study.recipe.steps.iter().enumerate() {
                let Some(metric) = metric(declared) else { continue };
                let place = searches.steps.len();
                searches.steps.push((index, step));
                let results = values(plan, study, step, metric, &BTreeMap::new(), store)?;
                for (_, job) in &study.steps[step] {
                    // A job whose record cannot be relied on is to run again.
                    let cached = matches!(wanted[job.index()], Disposition::Cached | Disposition::No);
                    let metric_value = results.get(job).filter(|_| cached || searches.held.contains(job));
                    let state = metric_value.map_or(Known::Open, |value| Known::Ended(*value));
                    searches.known.insert((place, *job), state);
                    let places = searches.of_job.entry(*job).or_default();
                    if !places.contains(&place) {
                        places.push(place);
                    }
                }
            }
        }
        Ok(searches)
    }

    /// Number of jobs that are released or added next, from the current state of the store.
    pub fn plan_ahead(&mut self) -> io::Result<usize> {
        let all: Vec<usize> = (0..self.steps.len()).collect();
        let mut accept = |decision: &Decision| Ok(Some(decision.key()?));
        let decisions = self.decide(&all, &mut accept)?;
        let count = self.additions(&decisions, &BTreeSet::new()).len();
        Ok(if count > 0 { count } else { self.seeds.plan_ahead()? })
    }

    /// The decisions about steps, as indices into `steps`.
    fn decide(
        &self,
        steps: &[usize],
        accept: &mut dyn FnMut(&Decision) -> io::Result<Option<Key>>,
    ) -> io::Result<Vec<Decided>> {
        let mut decisions = Vec::new();
        for place in steps {
            let known = |job: JobId| self.known.get(&(*place, job)).copied().unwrap_or(Known::Open);
            let (study, step) = self.steps[*place];
            decisions.extend(follow(self.plan, &self.plan.studies[study], step, &known, accept)?);
        }
        Ok(decisions)
    }

    /// The jobs of the reserve that decisions release, and the jobs whose other needs are done, each after the jobs that it needs.
    fn additions(&self, decisions: &[Decided], lost_jobs: &BTreeSet<usize>) -> BTreeMap<JobId, String> {
        let mut additions: BTreeMap<JobId, String> = BTreeMap::new();
        let released = decisions.iter().flat_map(|decided| &decided.released);
        for (job, because) in released.filter(|(job, _)| self.held.contains(job)) {
            additions.entry(*job).or_insert_with(|| because.clone());
        }
        // In the plan's order, so that a job comes after its needed jobs.
        for job in self.held.iter().copied().filter(|job| !self.of_job.contains_key(job)) {
            let needs: BTreeSet<JobId> =
                self.plan.lists_of(job).iter().flat_map(|list| self.plan.list(*list)).copied().collect();
            let waits = |need: &JobId| self.held.contains(need) && !additions.contains_key(need);
            let because = needs.iter().find_map(|need| additions.get(need)).cloned();
            if let Some(because) = because.filter(|_| !needs.iter().any(waits)) {
                additions.insert(job, because);
            }
        }
        // A job whose needs are lost cannot run.
        additions.retain(|job, _| {
            let needs = self.plan.lists_of(*job).iter().flat_map(|list| self.plan.list(*list));
            !needs.into_iter().any(|need| lost_jobs.contains(&need.index()))
        });
        additions
    }
}

impl RoundPlanner for Searches<'_> {
    fn ended(&mut self, ended: &[(JobId, bool)], lost_jobs: &BTreeSet<usize>) -> io::Result<Released> {
        let mut places: BTreeSet<usize> = BTreeSet::new();
        for (job, is_done) in ended {
            let Some(of_job) = self.of_job.get(job) else { continue };
            let record =
                if *is_done { self.store.get(self.plan.job(*job).key).map_err(io::Error::other)? } else { None };
            for place in of_job {
                let (study, step) = self.steps[*place];
                let metric = metric(&self.plan.studies[study].recipe.steps[step]);
                let metrics = record.as_ref().map(|record| &record.outcome.metrics);
                let value = metrics.zip(metric).and_then(|(metrics, metric)| metrics.get(metric));
                self.known.insert((*place, *job), Known::Ended(value.map(|found| found.value)));
                places.insert(*place);
            }
        }
        if ended.is_empty() {
            places = (0..self.steps.len()).collect();
        }
        if places.is_empty() {
            return Ok(Released::default());
        }
        let places: Vec<usize> = places.into_iter().collect();
        let mut made = HashSet::new();
        let mut accept = |decision: &Decision| -> io::Result<Option<Key>> {
            let key = decision.key()?;
            if !self.told.contains(&key) && self.store.decision(&key)?.is_none() {
                self.store.keep_decision(decision)?;
                made.insert(key);
            }
            Ok(Some(key))
        };
        let decisions = self.decide(&places, &mut accept)?;
        self.made.extend(made);
        let additions = self.additions(&decisions, lost_jobs);
        self.held.retain(|job| !additions.contains_key(job));
        let mut released = Released::default();
        for decision in decisions.into_iter().filter(|decision| decision.is_final) {
            // Decisions of an earlier run are not reported again.
            if self.told.insert(decision.key) && self.made.contains(&decision.key) {
                released.decided.push((decision.key, decision.text));
            }
        }
        released.added = additions.into_iter().map(|(job, because)| Addition { job, because }).collect();
        Ok(released)
    }

    fn next(&mut self, lost_jobs: &BTreeSet<usize>) -> io::Result<Vec<Addition>> {
        self.seeds.next(lost_jobs)
    }
}

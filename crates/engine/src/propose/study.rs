//! The baseline and the candidate of a proposal as one plan, with chosen seeds.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt::Arguments,
    path::PathBuf,
};

use sweep_base::SEED;
use sweep_job::{Backend, BackendChoice, Value};

use super::{
    ProposeError,
    attempts::Attempts,
    code::{Code, code},
    judge::Effect,
    ledger::Grant,
    question::{Proposal, Question},
};
use crate::{
    batches::Batches,
    format::say,
    host,
    plan::{JobId, Plan, Point, Study, normal},
    recipe::{Draft, Executor, Recipe, Request, Step},
    record::{Key, input_paths, without_keys},
    run::{Disposition, History, Observer, Standing, Summary},
    session::run_jobs,
    store::Store,
};

/// The seed with which digests are computed, because a question does not depend on its seeds.
const CANONICAL: i64 = 0;

/// A proposal whose step is known.
pub(super) struct Subject<'a> {
    pub(super) proposal: &'a Proposal,
    pub(super) store: &'a Store,
    /// The step that measures.
    pub(super) step: String,
    /// The seeds of the recipe, for the search.
    pub(super) seeds: Vec<i64>,
    backend: Backend,
}

/// The jobs that a run of a plan takes.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Disposition of each job, in the plan's order.
    pub(super) states: Vec<Disposition>,
    /// Number of jobs that are done.
    pub(super) cached: usize,
    /// Number of jobs that are to run.
    pub(super) open: usize,
}

/// The values of a metric by seed, as means over configurations.
pub(super) type Values = BTreeMap<i64, f64>;

impl<'a> Subject<'a> {
    /// Prints progress, unless the answer has one bit.
    pub(super) fn tell(&self, message: Arguments<'_>) {
        if !self.proposal.is_quiet {
            say(message);
        }
    }

    /// Finds the step, and checks that it can be proposed on.
    pub(super) fn new(proposal: &'a Proposal, store: &'a Store) -> Result<Self, ProposeError> {
        let paths = [proposal.recipe.clone()];
        let draft = load(&paths, &[], &[])?;
        if draft.executor != Executor::Local {
            return Err(ProposeError::Elsewhere);
        }
        let backend = backend(&draft, proposal.backend)?;
        let (_, plan) = Batches::plan(draft, backend, store)?;
        let [study] = plan.studies.as_slice() else { return Err(ProposeError::Several) };
        let step = step(&study.recipe, proposal.step.as_deref())?;
        let points = points(study, &step, &proposal.at);
        let seeds: BTreeSet<i64> = points.iter().filter_map(|(point, _)| seed(point)).collect();
        if seeds.len() < 2 {
            return Err(ProposeError::NoSeeds(step));
        }
        let subject = Self { proposal, store, step, seeds: seeds.into_iter().collect(), backend };
        let delta = subject.plan(std::slice::from_ref(&proposal.delta), None, false)?;
        let base = normal(&proposal.recipe);
        if !delta.sources().files().any(|(path, _)| normal(path) == base) {
            let [delta, recipe] = [&proposal.delta, &proposal.recipe].map(|path| path.display().to_string());
            return Err(ProposeError::NoDelta { delta, recipe });
        }
        Ok(subject)
    }

    /// Takes the seeds that the search of a granted question had. Returns the other differences between the proposal and the question.
    pub(super) fn hold_to(&mut self, grant: &Grant, question: &Question) -> Vec<String> {
        let mut altered = Vec::new();
        if !grant.searched.is_empty() && self.seeds != grant.searched {
            altered.push("the seeds of the recipe".to_owned());
            self.seeds.clone_from(&grant.searched);
        }
        if self.proposal.least.total_cmp(&question.least).is_ne() {
            altered.push("the least effect".to_owned());
        }
        altered
    }

    /// The files of the baseline and of the candidate.
    pub(super) fn both(&self) -> [PathBuf; 2] {
        [self.proposal.recipe.clone(), self.proposal.delta.clone()]
    }

    /// The change of the recipes that gives them these seeds.
    pub(super) fn axes(seeds: &[i64]) -> Vec<String> {
        let seeds: Vec<String> = seeds.iter().map(ToString::to_string).collect();
        vec![format!("{SEED}={}", seeds.join(","))]
    }

    /// Plans recipes with these seeds, or with their own; all of their steps if `whole`, else only the measuring step.
    pub(super) fn plan(&self, paths: &[PathBuf], seeds: Option<&[i64]>, whole: bool) -> Result<Plan, ProposeError> {
        let axes = seeds.map(Self::axes).unwrap_or_default();
        let at = self.proposal.at.join(",");
        let only = if at.is_empty() { self.step.clone() } else { format!("{}/{at}", self.step) };
        let only = if whole { Vec::new() } else { vec![only] };
        let (_, plan) = Batches::plan(load(paths, &axes, &only)?, self.backend, self.store)?;
        Ok(plan)
    }

    /// The digests of the baseline's and the candidate's jobs, whatever their seeds.
    pub(super) fn digests(&self) -> Result<[Key; 2], ProposeError> {
        let plan = self.plan(&self.both(), Some(&[CANONICAL]), false)?;
        let [baseline, candidate] = plan.studies.as_slice() else { return Err(ProposeError::Several) };
        Ok([self.digest(&plan, baseline)?, self.digest(&plan, candidate)?])
    }

    fn digest(&self, plan: &Plan, study: &Study) -> Result<Key, ProposeError> {
        let points = points(study, &self.step, &self.proposal.at);
        if points.is_empty() {
            return Err(ProposeError::NoStep { step: self.step.clone(), known: names(&study.recipe) });
        }
        let keys: Result<BTreeSet<Key>, _> = points.iter().map(|(_, id)| plan.key_of_variant(*id)).collect();
        Ok(Key::of_json(&keys?)?)
    }

    /// Number of jobs that each further seed takes.
    pub(super) fn jobs_of_seed(&self, paths: &[PathBuf]) -> Result<usize, ProposeError> {
        let jobs = |seeds: &[i64]| Ok::<_, ProposeError>(self.plan(paths, Some(seeds), false)?.selection()?.len());
        Ok(jobs(&[CANONICAL, CANONICAL + 1])?.saturating_sub(jobs(&[CANONICAL])?))
    }

    /// The jobs that a run takes.
    pub(super) fn wanted(&self, plan: &Plan) -> Result<Wanted, ProposeError> {
        let selected: HashSet<JobId> = plan.selection()?;
        let standing = Standing::of(plan, self.store, &selected)?;
        let mut wanted = Wanted::default();
        for (id, _) in plan.jobs() {
            let state = match (selected.contains(&id), standing.cached[id.index()]) {
                (false, _) => Disposition::No,
                (true, true) => Disposition::Cached,
                (true, false) => Disposition::Yes,
            };
            wanted.cached += usize::from(state == Disposition::Cached);
            wanted.open += usize::from(state == Disposition::Yes);
            wanted.states.push(state);
        }
        Ok(wanted)
    }

    /// Runs the jobs of recipes with these seeds that are not done, and plans again: records may have made code known.
    pub(super) fn run(
        &self,
        paths: &[PathBuf],
        seeds: &[i64],
        attempts: Option<&mut Attempts>,
    ) -> Result<Plan, ProposeError> {
        let plan = self.plan(paths, Some(seeds), false)?;
        let wanted = self.wanted(&plan)?;
        if wanted.open == 0 {
            return Ok(plan);
        }
        let observer = attempts.map(|attempts| attempts as &mut dyn Observer);
        let Summary { failed, skipped, interrupted, broken, .. } =
            run_jobs(&plan, self.store, self.backend, &wanted.states, observer, self.proposal.is_quiet)?;
        match (interrupted, broken) {
            (Some(signal), _) => Err(ProposeError::Interrupted(signal)),
            (None, Some(reason)) => Err(ProposeError::Broken(reason)),
            (None, None) if failed + skipped > 0 => Err(ProposeError::Failed(failed)),
            (None, None) => self.plan(paths, Some(seeds), false),
        }
    }

    /// The present code of the search's jobs.
    pub(super) fn code(&self) -> Result<Code, ProposeError> {
        let plan = self.plan(&self.both(), Some(&self.seeds), false)?;
        Ok(code(&plan, plan.selection()?)?)
    }

    /// The digest of the parameters of the search's jobs, wherever their input files are. The question does not contain all of them,
    /// because some only select measurements.
    pub(super) fn parameters(&self) -> Result<Key, ProposeError> {
        let plan = self.plan(&self.both(), Some(&self.seeds), false)?;
        let jobs: BTreeSet<JobId> = plan.selection()?.into_iter().collect();
        let mut all = Vec::new();
        for job in jobs.into_iter().map(|id| plan.job(id)) {
            let mut values = job.values.clone();
            // The name of a variant is the digest of its content.
            if let Some(Value::Text(folder)) = values.get_mut("code") {
                *folder = PathBuf::from(&*folder).file_name().unwrap_or_default().to_string_lossy().into_owned();
            }
            for param in job.task.params() {
                let value = values.get_mut(param.name).into_iter();
                value.flat_map(|value| input_paths(param.kind, value)).for_each(|(_, path)| path.clear());
            }
            all.push((job.label.to_string(), without_keys(&serde_json::to_string(&values)?)));
        }
        Ok(Key::of_json(&all)?)
    }

    /// The jobs that measure with these seeds, in both recipes.
    pub(super) fn measuring(&self, plan: &Plan, seeds: &[i64]) -> BTreeSet<JobId> {
        measuring(plan, seeds, &self.step, &self.proposal.at)
    }

    /// The values of each recipe of a plan, by seed.
    pub(super) fn values(&self, plan: &Plan, store: &Store) -> Result<Vec<Values>, ProposeError> {
        values(plan, store, &self.step, &self.proposal.at, &self.proposal.metric)
    }

    /// The effect with these seeds; both recipes must have run.
    pub(super) fn effect(&self, plan: &Plan, seeds: &[i64]) -> Result<Effect, ProposeError> {
        let values = self.values(plan, self.store)?;
        paired(&values, seeds, self.proposal.better.sign()).ok_or_else(|| ProposeError::Unpaired(self.step.clone()))
    }

    /// Seconds of the jobs of a plan that are done.
    pub(super) fn seconds(&self, plan: &Plan) -> Result<f64, ProposeError> {
        let mut seconds = 0.0;
        for id in plan.selection()? {
            seconds += self.store.get(plan.job(id).key)?.map_or(0.0, |record| record.provenance.seconds);
        }
        Ok(seconds)
    }

    /// Expected seconds of the jobs of the search that are not done, one after the other, and of a further pair of seeds;
    /// `None` if nothing is known.
    pub(super) fn cost(&self, plan: &Plan, wanted: &Wanted) -> Result<Option<[f64; 2]>, ProposeError> {
        let known = History::read(self.store, plan)?.known(plan);
        let (mut open, mut all) = (0.0, 0.0);
        for (seconds, state) in known.into_iter().zip(&wanted.states).filter(|(_, state)| **state != Disposition::No) {
            let Some(seconds) = seconds else { return Ok(None) };
            open += if *state == Disposition::Yes { seconds } else { 0.0 };
            all += seconds;
        }
        Ok(Some([open, all / self.seeds.len().max(1) as f64]))
    }
}

/// The effect of values by seed of a baseline and of a candidate.
pub(super) fn paired(values: &[Values], seeds: &[i64], sign: f64) -> Option<Effect> {
    let [old, new] = values else { return None };
    let of = |values: &Values| seeds.iter().map(|seed| values.get(seed).copied()).collect::<Option<Vec<f64>>>();
    Effect::new(seeds.to_vec(), of(old)?, of(new)?, sign)
}

/// The jobs of the selected configurations of a step with these seeds, in all recipes of a plan.
pub(super) fn measuring(plan: &Plan, seeds: &[i64], step: &str, at: &[String]) -> BTreeSet<JobId> {
    let points = plan.studies.iter().flat_map(|study| points(study, step, at));
    points.filter(|(point, _)| seed(point).is_some_and(|seed| seeds.contains(&seed))).map(|(_, id)| id).collect()
}

/// The values of a metric of each recipe of a plan by seed, as means over the jobs of the selected configurations. A job that
/// several points mean counts once, because a question is about jobs.
pub(super) fn values(
    plan: &Plan,
    store: &Store,
    step: &str,
    at: &[String],
    metric: &str,
) -> Result<Vec<Values>, ProposeError> {
    let mut all = Vec::new();
    for study in &plan.studies {
        let mut sums: BTreeMap<i64, (f64, usize)> = BTreeMap::new();
        let mut counted = HashSet::new();
        for (point, id) in points(study, step, at) {
            let Some(seed) = seed(point) else { return Err(ProposeError::NoSeeds(step.to_owned())) };
            if !counted.insert((seed, id)) {
                continue;
            }
            let Some(record) = store.get(plan.job(id).key)? else { continue };
            let metrics = &record.outcome.metrics;
            let Some(found) = metrics.get(metric) else {
                let known = metrics.keys().cloned().collect::<Vec<_>>().join(", ");
                return Err(ProposeError::NoMetric { step: step.to_owned(), metric: metric.to_owned(), known });
            };
            let sum = sums.entry(seed).or_default();
            *sum = (sum.0 + found.value, sum.1 + 1);
        }
        all.push(sums.into_iter().map(|(seed, (sum, count))| (seed, sum / count as f64)).collect());
    }
    Ok(all)
}

/// The points of a step with these values, and their jobs.
fn points<'s>(study: &'s Study, step: &str, at: &[String]) -> Vec<(&'s Point, JobId)> {
    let Some((index, _)) = study.recipe.step(step) else { return Vec::new() };
    let holds = |point: &Point| {
        at.iter().all(|condition| {
            let (axis, value) = condition.split_once('=').unwrap_or((condition, ""));
            point.is_at(axis, value)
        })
    };
    study.steps[index].iter().filter(|(point, _)| holds(point)).map(|(point, id)| (point, *id)).collect()
}

fn seed(point: &Point) -> Option<i64> {
    match point.get(SEED) {
        Some(Value::Int(seed)) => Some(*seed),
        _ => None,
    }
}

fn names(recipe: &Recipe) -> String {
    recipe.steps.iter().map(|step| step.name.value.as_str()).collect::<Vec<_>>().join(", ")
}

/// The step with this name, or the only one with seeds.
pub(super) fn step(recipe: &Recipe, name: Option<&str>) -> Result<String, ProposeError> {
    let found: Vec<&Step> = match name {
        Some(name) => recipe.step(name).map(|(_, step)| step).into_iter().collect(),
        None => recipe.steps.iter().filter(|step| step.axes().contains(&SEED)).collect(),
    };
    let [step] = found.as_slice() else {
        let step = name.unwrap_or_default().to_owned();
        return Err(ProposeError::NoStep { step, known: names(recipe) });
    };
    if step.search.is_some() || step.adaptive.is_some() || step.confirms.is_some() {
        return Err(ProposeError::Searches(step.name.value.clone()));
    }
    Ok(step.name.value.clone())
}

pub(super) fn load(paths: &[PathBuf], axes: &[String], only: &[String]) -> Result<Draft, ProposeError> {
    Ok(Draft::load(&Request { paths, set: &[], axes, scale: None, only })?)
}

fn backend(draft: &Draft, choice: BackendChoice) -> Result<Backend, ProposeError> {
    if draft.needs_device() && host::lab::is_installed() {
        return Ok(host::devices::choose(&host::devices::probe()?, choice)?.backend);
    }
    Ok(match choice {
        BackendChoice::Only(backend) => backend,
        BackendChoice::Auto => Backend::Cpu,
    })
}

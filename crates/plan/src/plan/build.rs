//! The points of a recipe's steps as jobs: their values, checked, with inputs, keys and dependencies.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    rc::Rc,
    sync::Arc,
};

use sweep_base::{SEED, settings::Settings};
use sweep_job::{Backend, Name, Param};

use super::{
    Digests, Job, JobId, Label, ListId, Manifests, Origin, PlanError, Point,
    join::{Group, Join},
    lint,
    needs::Needs,
    room::Room,
    selection::{resolved, selected},
    values::JobValues,
};
use crate::recipe::{Collector, Names, Need, Problem, Recipe, Step, Template};
use crate::record::{Identity, Key, KeyList, SeedPlan};
use crate::variant::Variants;

/// The jobs of all recipes.
#[derive(Default)]
pub(super) struct Jobs {
    /// All jobs, each after the jobs that it needs.
    pub(super) all: Vec<Job>,
    pub(super) needs: Needs,
    /// The keys of lists of jobs.
    keys: HashMap<ListId, Arc<KeyList>>,
    pub(super) origins: Vec<Origin>,
    /// For every job, the number of the further round in which it may run; 0 for a job that runs at once.
    pub(super) rounds: Vec<usize>,
    /// For every job, true if it only runs if a decision of a search releases it.
    pub(super) held: Vec<bool>,
    by_key: HashMap<Key, JobId>,
    pub(super) digests: Digests,
    pub(super) manifests: Manifests,
    pub(super) variants: Variants,
    /// Files of settings by their paths; a text for one that cannot be read.
    pub(super) settings: HashMap<String, Result<Rc<Settings>, String>>,
}

impl Jobs {
    /// Creates an empty collection of jobs, with digests of input files from earlier runs.
    pub(super) fn new(mut digests: Digests) -> Self {
        let manifests = std::mem::take(&mut digests.manifests);
        Self { digests, manifests, ..Self::default() }
    }

    /// Adds a job with the needs and the step of the job `like`; returns the existing job with the same key, if there
    /// is one.
    pub(super) fn add(&mut self, job: Job, like: JobId) -> JobId {
        if let Some(existing_id) = self.by_key.get(&job.key) {
            return *existing_id;
        }
        let id = JobId::new(self.all.len());
        self.by_key.insert(job.key, id);
        self.all.push(job);
        self.needs.push_like(like);
        self.origins.push(self.origins[like.index()]);
        self.rounds.push(0);
        self.held.push(self.held[like.index()]);
        id
    }

    /// The keys of a list's jobs.
    fn keys(&mut self, list: ListId) -> Arc<KeyList> {
        let (jobs, needs) = (&self.all, &self.needs);
        let keys = || needs.jobs(list).iter().map(|id| jobs[id.index()].key).collect();
        Arc::clone(self.keys.entry(list).or_insert_with(|| Arc::new(KeyList::new(keys()))))
    }
}

/// Turns the points of a recipe into jobs.
pub(super) struct Builder<'a> {
    /// The recipe's index.
    pub(super) study: usize,
    pub(super) recipe: &'a Recipe,
    /// The names of the metrics that it uses.
    pub(super) used: Arc<BTreeSet<String>>,
    /// The recipe's name, where there are several.
    pub(super) prefix: Option<Name>,
    pub(super) backend: Backend,
    pub(super) jobs: &'a mut Jobs,
    pub(super) steps: Vec<Vec<(Point, JobId)>>,
    pub(super) problems: &'a mut Collector,
    pub(super) room: &'a mut Room,
}

/// The numbers of seeds that a step plans.
struct PlannedSeeds {
    /// The plan of seeds of every point; `None` if the points have no seed.
    of_step: Option<SeedPlan>,
    /// With `include`, which gives points different seeds: the seeds of each point, by the point without its seed.
    by_point: HashMap<String, HashSet<u64>>,
}

impl PlannedSeeds {
    fn new(step: &Step, points: &[Point]) -> Self {
        let mut by_point: HashMap<String, HashSet<u64>> = HashMap::new();
        if let Some(adaptive) = step.adaptive {
            let of_step = Some(SeedPlan { least: adaptive.least, most: adaptive.most });
            return Self { of_step, by_point };
        }
        let seed = |point: &Point| Some(point.get(SEED)?.as_f64()?.to_bits());
        if !step.matrix.include.is_empty() {
            for (point, seed) in points.iter().filter_map(|point| Some((point, seed(point)?))) {
                by_point.entry(point.but(SEED)).or_default().insert(seed);
            }
        }
        let seeds: HashSet<u64> = points.iter().filter_map(seed).collect();
        let of_step = (!seeds.is_empty()).then_some(SeedPlan { least: seeds.len(), most: seeds.len() });
        Self { of_step, by_point }
    }

    fn of(&self, point: &Point) -> Option<SeedPlan> {
        if self.by_point.is_empty() {
            return self.of_step;
        }
        let seeds = self.by_point.get(&point.but(SEED))?.len();
        Some(SeedPlan { least: seeds, most: seeds })
    }
}

impl Builder<'_> {
    pub(super) fn add_step(&mut self, index: usize, points: Vec<Point>) -> Result<(), PlanError> {
        let step = &self.recipe.steps[index];
        let mut joins: Vec<Join> = step.needs.iter().map(|need| self.join(need, &points)).collect();
        let planned_seeds = PlannedSeeds::new(step, &points);
        let template = |param: &Param| step.with.iter().find(|(name, _)| name.value == param.name);
        let with_template = |param| (param, template(param).map(|(_, template)| template));
        let params: Vec<(&'static Param, Option<&Template>)> = step.task.params().map(with_template).collect();
        for point in points {
            let needs = self.needed_jobs(step, &point, &mut joins);
            let matrix: Names = point.values.iter().cloned().collect();
            let Some(JobValues { values, keyed, inputs }) = self.values(step, &point, &matrix, &params, &needs) else {
                continue;
            };
            if self.steps[index].is_empty() {
                // The scripts of a bundle are on the machine that wrote it.
                if !self.jobs.digests.is_locked() {
                    lint::scripts(self.recipe, step, &point, &values, self.problems);
                }
                lint::unread(self.recipe, step, &point, self.problems);
            }
            let label = self.label(step, &point);
            lint::point(self.recipe, step, &matrix, &label, self.problems);
            let round = self.round(step, &point, &needs);
            let is_held = self.held(step, &point, &needs);
            let backend = step.task.on_device.then_some(self.backend);
            let lists = || needs.iter().filter_map(|group| group.list);
            let keys = lists().map(|list| self.jobs.keys(list)).collect();
            let mut identity = Identity::new(step.task, keyed.as_ref().unwrap_or(&values), backend, inputs, keys);
            let folder = self.recipe.sources.folder(step.name.span.source);
            let Jobs { manifests, digests, .. } = &mut *self.jobs;
            let (key, code) = manifests.keyed(&mut identity, &values, folder, digests)?;
            let id = match self.jobs.by_key.get(&key) {
                Some(id) => *id,
                None => {
                    let Step { task, resources, policy, .. } = *step;
                    let (turn, used) = (None, Arc::default());
                    let seeds = planned_seeds.of(&point);
                    let job = Job { key, identity, task, values, resources, policy, turn, label, seeds, code, used };
                    let id = JobId::new(self.jobs.all.len());
                    self.jobs.all.push(job);
                    self.jobs.needs.push(lists());
                    let point = self.steps[index].len();
                    self.jobs.origins.push(Origin { study: self.study, step: index, point });
                    self.jobs.by_key.insert(key, id);
                    self.jobs.rounds.push(round);
                    self.jobs.held.push(is_held);
                    id
                }
            };
            self.jobs.all[id.index()].use_metrics(&self.used);
            // A job that one recipe holds in reserve may be wanted at once by another recipe.
            let earliest_round = &mut self.jobs.rounds[id.index()];
            *earliest_round = round.min(*earliest_round);
            self.jobs.held[id.index()] &= is_held;
            self.steps[index].push((point, id));
        }
        Ok(())
    }

    /// Returns the number of the further round in which a job may run: the distance of its seed from the seeds that every
    /// point has, and at least the round of each job that it needs.
    fn round(&mut self, step: &Step, point: &Point, needs: &[Rc<Group>]) -> usize {
        let seed = step.adaptive.and_then(|adaptive| {
            let seed = point.get(SEED)?.as_f64()?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, from 0 to 10,000")]
            Some((seed as usize + 1).saturating_sub(adaptive.least))
        });
        let mut round = seed.unwrap_or(0);
        for (need, group) in step.needs.iter().zip(needs) {
            let (first_round, last_round) = group.rounds;
            if first_round < last_round {
                let name = &self.recipe.steps[need.step].name.value;
                let message = format!(
                    "`{}` needs every seed of `{name}`, but the run decides how many there are",
                    step.name.value
                );
                let help = format!("select seeds that always exist: `{{ step: {name}, where: {{ seed: [0, 1] }} }}`");
                let problem = Problem::new(&self.recipe.sources, need.span, message, "not a count").help(help);
                self.problems.push(need.span, problem);
            }
            round = round.max(last_round);
        }
        round
    }

    /// Sorts the points of a needed step by the axes that they all share with these points.
    fn join(&self, need: &Need, points: &[Point]) -> Join {
        let (recipe, candidates) = (self.recipe, &self.steps[need.step]);
        let is_common = |axis: &str| {
            points.iter().all(|point| point.get(axis).is_some())
                && candidates.iter().all(|(point, _)| point.get(axis).is_some())
        };
        let all: Vec<String> = recipe.steps[need.step].axes().into_iter().map(str::to_owned).collect();
        let axes = all.iter().filter(|axis| is_common(axis)).cloned().collect();
        let selection = resolved(recipe, &need.only);
        // An axis that the needed step does not have has been reported, and so has a step without jobs.
        let known_axes = recipe.steps[need.step].axes();
        let sound = !candidates.is_empty() && selection.iter().all(|(axis, _)| known_axes.contains(axis));
        let mut join = Join { axes, all, by_shared: HashMap::new(), groups: HashMap::new(), sound };
        for (index, (point, _)) in candidates.iter().enumerate() {
            if selected(point, &selection) {
                join.by_shared.entry(join.key(point)).or_default().push(index);
            }
        }
        join
    }

    /// For each needed step, its jobs whose points agree with this one and are selected.
    fn needed_jobs(&mut self, step: &Step, point: &Point, joins: &mut [Join]) -> Vec<Rc<Group>> {
        let mut needed_jobs = Vec::with_capacity(joins.len());
        for (need, join) in step.needs.iter().zip(joins) {
            let values = join.group(point);
            let group = match join.groups.get(&values) {
                Some(group) => Rc::clone(group),
                None => {
                    let group = Rc::new(self.group(need, join, point));
                    join.groups.insert(values, Rc::clone(&group));
                    group
                }
            };
            if group.jobs.is_empty() && join.sound {
                let needed_name = &self.recipe.steps[need.step].name.value;
                let message =
                    format!("`{}` needs `{needed_name}`, but no point of that step agrees", self.label(step, point));
                let help = "steps join on their common axes; add these values to the needed step";
                let problem = Problem::new(&self.recipe.sources, need.span, message, "no point agrees").help(help);
                self.problems.push(need.span, problem);
            }
            needed_jobs.push(group);
        }
        needed_jobs
    }

    /// The jobs of a needed step whose points agree with a point.
    fn group(&mut self, need: &Need, join: &Join, point: &Point) -> Group {
        let candidates = join.by_shared.get(&join.key(point)).map(Vec::as_slice).unwrap_or_default();
        let needed_points = &self.steps[need.step];
        let matching_points =
            candidates.iter().map(|index| &needed_points[*index]).filter(|(other, _)| point.agrees(other));
        let mut distinct_ids = HashSet::new();
        let jobs: Vec<JobId> = matching_points.map(|(_, id)| *id).filter(|id| distinct_ids.insert(*id)).collect();
        let rounds = jobs.iter().map(|id| self.jobs.rounds[id.index()]);
        let rounds = (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0));
        let list = (!jobs.is_empty()).then(|| self.jobs.needs.list(jobs.clone()));
        let is_held = |id: &JobId| self.jobs.held[id.index()];
        let held = (jobs.iter().any(is_held), jobs.iter().all(is_held));
        Group { jobs, list, rounds, held }
    }

    pub(super) fn label(&self, step: &Step, point: &Point) -> Label {
        Label { recipe: self.prefix.clone(), step: step.name.value.as_str().into(), point: point.to_string().into() }
    }
}

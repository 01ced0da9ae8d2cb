//! Jobs that continue from the states of others, and jobs whose only purpose is a state that several jobs share.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use sweep_job::Values;

use super::{Job, JobId, Label, Plan, PlanError, Point, Study, build::Jobs};
use crate::{
    recipe::KeptStates,
    record::{Identity, Key, Prefixes},
};

/// A job whose only purpose is the state that several jobs have in common.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The job.
    pub job: JobId,
    /// The step after which the state is taken.
    pub step: u64,
    /// Key of the state.
    pub state: Key,
    /// The jobs that have it in common.
    pub of: Vec<JobId>,
}

/// The steps that a job computes, with the states of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The job.
    pub job: JobId,
    /// The step of the state with which it begins; 0 without one.
    pub from: u64,
    /// Number of its steps, including the steps before `from`.
    pub end: u64,
    /// True if the job's only purpose is a state that several jobs share.
    pub is_shared: bool,
}

/// The steps of jobs that share states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saving(Vec<Stretch>);

impl Saving {
    /// The jobs' steps.
    pub fn stretches(&self) -> &[Stretch] {
        &self.0
    }

    /// The jobs that are ends in themselves.
    pub fn jobs(&self) -> impl Iterator<Item = &Stretch> {
        self.0.iter().filter(|stretch| !stretch.is_shared)
    }

    /// Number of jobs that continue from a state.
    pub fn continuing(&self) -> usize {
        self.jobs().filter(|stretch| stretch.from > 0).count()
    }

    /// Number of steps if each of the jobs ran alone.
    pub fn alone(&self) -> u64 {
        self.jobs().fold(0, |sum, stretch| sum.saturating_add(stretch.end))
    }

    /// Number of steps with the states of the plan.
    pub fn shared(&self) -> u64 {
        self.0.iter().fold(0, |sum, stretch| sum.saturating_add(stretch.end - stretch.from))
    }

    /// Number of states that are shared.
    pub fn states(&self) -> usize {
        self.0.len() - self.jobs().count()
    }

    /// The number of shared steps and the number of all steps, if both are the same for all jobs.
    pub fn uniform(&self) -> Option<(u64, u64)> {
        let first = self.jobs().next()?;
        let (from, end) = (first.from, first.end);
        (from > 0 && self.jobs().all(|other| (other.from, other.end) == (from, end))).then_some((from, end))
    }
}

/// The states of a group of jobs.
struct Tree<'a> {
    prefixes: &'a HashMap<JobId, Prefixes>,
    jobs: &'a [Job],
    /// The steps at which jobs can begin to differ, in ascending order.
    steps: Vec<u64>,
    found: Vec<(u64, Key, Vec<JobId>)>,
}

impl Tree<'_> {
    /// The jobs that have a state after a step in common, for each such state.
    fn groups(&self, members: &[JobId], step: u64) -> Result<Vec<(Key, Vec<JobId>)>, serde_json::Error> {
        let mut groups: Vec<(Key, Vec<JobId>)> = Vec::new();
        let mut places: HashMap<Key, usize> = HashMap::new();
        for id in members {
            let prefixes = &self.prefixes[id];
            if prefixes.reach.end.is_some_and(|end| step > end || (step == end && !prefixes.reach.leaves_state)) {
                continue;
            }
            let key = prefixes.key(&self.jobs[id.index()].identity, step)?;
            let place = *places.entry(key).or_insert_with(|| {
                groups.push((key, Vec::new()));
                groups.len() - 1
            });
            groups[place].1.push(*id);
        }
        Ok(groups)
    }

    /// Finds the states of jobs that agree until the step with this index.
    fn grow(&mut self, key: Key, members: &[JobId], at: usize) -> Result<(), serde_json::Error> {
        let (mut key, mut at) = (key, at);
        let mut groups = Vec::new();
        while let Some(step) = self.steps.get(at + 1) {
            groups = self.groups(members, *step)?;
            let Some((next, _)) = groups.first().filter(|(_, group)| group.len() == members.len()) else { break };
            (key, at) = (*next, at + 1);
            groups = Vec::new();
        }
        self.found.push((self.steps[at], key, members.to_vec()));
        for (key, group) in groups.into_iter().filter(|(_, group)| group.len() > 1) {
            self.grow(key, &group, at + 1)?;
        }
        Ok(())
    }
}

/// The jobs by the states that they leave: by the step and the key of a state.
pub(super) type Left = HashMap<(u64, Key), JobId>;

/// Adds the jobs whose only purpose is a state that several jobs of a step share. Returns these jobs, and the job that leaves each state.
pub(super) fn share(studies: &[Study], jobs: &mut Jobs) -> Result<(Vec<Shared>, Left), PlanError> {
    let mut shared = Vec::new();
    let mut left_states = left_by(&jobs.all)?;
    for study in studies {
        for (index, points) in study.steps.iter().enumerate() {
            let step = &study.recipe.steps[index];
            if !step.policy.states.share || step.resources.exclusive {
                continue;
            }
            let mut distinct_ids = HashSet::new();
            let members: Vec<JobId> = points.iter().map(|(_, id)| *id).filter(|id| distinct_ids.insert(*id)).collect();
            for (at, state, of) in states_of(&members, &jobs.all)? {
                if left_states.contains_key(&(at, state)) {
                    continue;
                }
                let Some(job) = add(study, index, at, &of, jobs)? else { continue };
                left_states.insert((at, state), job);
                shared.push(Shared { job, step: at, state, of });
            }
        }
    }
    Ok((shared, left_states))
}

/// The states that jobs have in common: the last step of each, its key, and the jobs.
fn states_of(members: &[JobId], jobs: &[Job]) -> Result<Vec<(u64, Key, Vec<JobId>)>, serde_json::Error> {
    let of = |id: &JobId| Prefixes::of(jobs[id.index()].task, &jobs[id.index()].values).map(|prefixes| (*id, prefixes));
    let prefixes: HashMap<JobId, Prefixes> = members.iter().filter_map(of).collect();
    let members: Vec<JobId> = members.iter().copied().filter(|id| prefixes.contains_key(id)).collect();
    let end = |prefixes: &Prefixes| prefixes.reach.end.filter(|_| prefixes.reach.leaves_state);
    let steps: BTreeSet<u64> =
        prefixes.values().flat_map(|job_prefixes| job_prefixes.breakpoints().chain(end(job_prefixes))).collect();
    let mut tree = Tree { prefixes: &prefixes, jobs, steps: steps.into_iter().collect(), found: Vec::new() };
    if let Some(first) = tree.steps.first().copied() {
        for (key, group) in tree.groups(&members, first)?.into_iter().filter(|(_, group)| group.len() > 1) {
            tree.grow(key, &group, 0)?;
        }
    }
    Ok(tree.found)
}

/// Adds the job that makes the state after a step of these jobs, of which the one with the first key is the example.
fn add(study: &Study, step: usize, at: u64, of: &[JobId], jobs: &mut Jobs) -> Result<Option<JobId>, PlanError> {
    let Some(example) = of.iter().copied().min_by_key(|id| jobs.all[id.index()].key) else { return Ok(None) };
    let mut job = jobs.all[example.index()].clone();
    let Some(values) = job.task.prefix(&job.values, at) else { return Ok(None) };
    job.identity = Identity { code: None, ..identity(&job, &values) };
    let folder = study.recipe.sources.folder(study.recipe.steps[step].name.span.source);
    let Jobs { manifests, digests, .. } = &mut *jobs;
    (job.key, job.code) = manifests.keyed(&mut job.identity, &values, folder, digests)?;
    job.values = values;
    (job.turn, job.seeds) = (None, None);
    if job.policy.states.keep == KeptStates::None {
        job.policy.states.keep = KeptStates::Last;
    }
    job.label.point = label(&study.steps[step], of, at).into();
    Ok(Some(jobs.add(job, example)))
}

/// The identity of a job with other parameters. Unchanged parameters keep the spelling of the key.
fn identity(job: &Job, values: &Values) -> Identity {
    let Identity { backend, inputs, needs, params, .. } = job.identity.clone();
    let mut identity = Identity::new(job.task, values, backend, inputs, needs);
    let same_params = params.into_iter().filter(|(name, _)| values.get(name) == job.values.get(name));
    identity.params.extend(same_params);
    identity
}

/// The step of some jobs, and the values that their points have in common.
fn label(points: &[(Point, JobId)], of: &[JobId], at: u64) -> String {
    let of: HashSet<JobId> = of.iter().copied().collect();
    let mut points = points.iter().filter(|(_, id)| of.contains(id)).map(|(point, _)| point);
    let Some(first_point) = points.next() else { return format!("until={at}") };
    let mut common = first_point.values.clone();
    for point in points {
        common.retain(|(axis, value)| point.get(axis) == Some(&value.value));
    }
    let parts =
        common.iter().filter(|(axis, _)| axis != "until").map(|(axis, value)| format!("{axis}={}", value.value));
    parts.chain([format!("until={at}")]).collect::<Vec<String>>().join(",")
}

/// The jobs by the states that they leave.
pub(super) fn left_by(jobs: &[Job]) -> Result<Left, serde_json::Error> {
    let mut left_states = HashMap::new();
    for (index, job) in jobs.iter().enumerate() {
        let Some(prefixes) = Prefixes::of(job.task, &job.values) else { continue };
        if let Some(state) = prefixes.left(&job.identity)? {
            left_states.entry(state).or_insert_with(|| JobId::new(index));
        }
    }
    Ok(left_states)
}

/// For every job, the job from whose state it continues: of the states that it passes, the latest that another job leaves.
pub(super) fn continues(jobs: &[Job], left_states: &Left) -> Result<Vec<Option<JobId>>, serde_json::Error> {
    let steps: BTreeSet<u64> = left_states.keys().map(|(step, _)| *step).collect();
    let mut predecessors = vec![None; jobs.len()];
    for (index, job) in jobs.iter().enumerate().filter(|(_, job)| !steps.is_empty() && !job.resources.exclusive) {
        let Some(prefixes) = Prefixes::of(job.task, &job.values) else { continue };
        let earlier_steps = steps.iter().rev().filter(|step| prefixes.reach.end.is_none_or(|end| **step < end));
        for step in earlier_steps.filter(|step| prefixes.contains(**step)) {
            let key = prefixes.key(&job.identity, *step)?;
            if let Some(other) = left_states.get(&(*step, key)) {
                predecessors[index] = Some(*other);
                break;
            }
        }
    }
    Ok(predecessors)
}

impl Plan {
    /// Returns this plan with jobs that always begin with their first step.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { continues: vec![None; self.jobs.len()], is_alone: true, ..self }
    }

    /// True if no job continues from the state of another one.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// The job of the plan from whose state a job continues.
    pub fn continues(&self, id: JobId) -> Option<JobId> {
        self.continues[id.index()]
    }

    /// True if a job of the plan continues from the state of this one.
    pub fn is_continued(&self, id: JobId) -> bool {
        self.continues.contains(&Some(id))
    }

    /// True if the only purpose of a job is a state that several jobs share.
    pub fn is_shared(&self, id: JobId) -> bool {
        self.shared.iter().any(|shared| shared.job == id)
    }

    /// The jobs for shared states without which several of the `open` jobs would compute the same steps; `has_state` returns true for
    /// existing states.
    pub fn worth_sharing(&self, open: &HashSet<JobId>, has_state: impl Fn(u64, Key) -> bool) -> BTreeSet<JobId> {
        let mut shared_jobs = BTreeSet::new();
        // The job that continues from the next state of each job: the job itself, or the job for a later state.
        let mut heads: HashMap<JobId, JobId> = open.iter().map(|id| (*id, *id)).collect();
        let mut covered_jobs: HashSet<JobId> = HashSet::new();
        let mut shared: Vec<&Shared> = self.shared.iter().collect();
        shared.sort_by_key(|shared| std::cmp::Reverse(shared.step));
        for Shared { job, step, state, of } in shared {
            if has_state(*step, *state) {
                covered_jobs.extend(of);
                continue;
            }
            let members = || of.iter().filter(|id| open.contains(id) && !covered_jobs.contains(id));
            let continuations: BTreeSet<JobId> = members().filter_map(|id| heads.get(id).copied()).collect();
            if continuations.len() > 1 {
                shared_jobs.insert(*job);
                members().for_each(|id| {
                    heads.insert(*id, *job);
                });
            }
        }
        shared_jobs
    }

    /// Savings by the states of the plan, by the steps of the recipes, among the `open` jobs.
    pub fn savings(&self, open: &HashSet<JobId>) -> BTreeMap<String, Saving> {
        let mut savings: BTreeMap<String, Saving> = BTreeMap::new();
        let end = |id: JobId| {
            let Job { task, values, .. } = self.job(id);
            task.reach(values).and_then(|reach| reach.end)
        };
        let mut ids: Vec<JobId> = open.iter().copied().collect();
        ids.sort_unstable();
        for id in ids.into_iter().filter(|id| self.job(*id).policy.states.share) {
            let Some(steps) = end(id) else { continue };
            let from = self.continues(id).filter(|other| open.contains(other)).and_then(end);
            let Label { recipe, step, .. } = &self.job(id).label;
            let name = recipe.as_ref().map_or_else(|| step.to_string(), |recipe| format!("{recipe}:{step}"));
            let from = from.unwrap_or(0).min(steps);
            let stretch = Stretch { job: id, from, end: steps, is_shared: self.is_shared(id) };
            savings.entry(name).or_default().0.push(stretch);
        }
        savings.retain(|_, saving| saving.continuing() > 0);
        savings
    }
}

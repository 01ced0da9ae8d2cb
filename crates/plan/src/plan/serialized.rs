//! Jobs in serialized form, so that another process, on another machine, runs them without planning again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use sweep_job::{Task, Values};

use super::{Code, Job, JobId, Label, ListId, Plan, Site, Turn, lint::COMMAND, needs::Needs, states};
use crate::recipe::{Executor, Policy, Resources, Sources};
use crate::record::{Identity, Key, Needed, SeedPlan};

/// A job, whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SerializedJob {
    /// The job's place in the plan.
    pub index: usize,
    /// The job's key.
    pub key: Key,
    /// Name for people.
    pub label: Label,
    /// Identity, from which the key is computed, as [`Plan::serialize_job`] gives it without the keys in `lists`.
    pub identity: Identity,
    /// Every parameter; references to other jobs have their keys.
    pub values: Values,
    /// Resources of the machine that it uses.
    pub resources: Resources,
    /// Policy for failures.
    pub policy: Policy,
    /// The job's place in the order of its step, if that step measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// The jobs that it needs, by their places in the plan; all of them come earlier.
    pub needs: Vec<usize>,
    /// More of them: lists that other jobs need, too, by the writer's numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<usize>,
    /// Seeds that its step plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<SeedPlan>,
    /// Folder of the project whose files the program is observed to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// The place of the program in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Names of metrics and curves that its recipes use.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub used: BTreeSet<String>,
}

impl SerializedJob {
    /// True if it runs a program of the user's, which may read any file of its project.
    pub fn is_program(&self) -> bool {
        self.identity.task == COMMAND
    }
}

/// Error of a file with jobs that are not a plan.
#[derive(Debug, thiserror::Error)]
pub enum DeserializeError {
    /// The task or its revision is unknown.
    #[error("the task `{0}` was planned by another version of the program: use the same version")]
    Task(String),
    /// The jobs do not form a DAG.
    #[error("the job {0} needs a job that is not listed before it")]
    Order(String),
}

impl Plan {
    /// A job as another process gets it. `number` gives the lists that it shares with other jobs their numbers.
    pub fn serialize_job(&self, id: JobId, number: impl FnMut(ListId) -> usize) -> SerializedJob {
        let Job { key, identity, values, resources, policy, turn, label, seeds, code, used, .. } = self.job(id).clone();
        let (project, place) = code.map(|code| (code.project.clone(), code.site.place.clone())).unzip();
        let place = place.unwrap_or_default();
        let (lists, own_needs) = self.written_needs(id);
        let needs = Needed::from(own_needs.iter().map(|need| self.job(*need).key).collect::<Vec<Key>>());
        let identity = Identity { needs, ..identity };
        let needs = own_needs.into_iter().map(JobId::index).collect();
        let lists = lists.into_iter().map(number).collect();
        let index = id.index();
        let used = Arc::unwrap_or_clone(used);
        SerializedJob {
            index,
            key,
            label,
            identity,
            values,
            resources,
            policy,
            turn,
            needs,
            lists,
            seeds,
            project,
            place,
            used,
        }
    }

    /// The plan of these jobs, with whole identities. Jobs, needed jobs and the jobs in shared lists are identified by their indices in the
    /// list. The plan has no recipes to report on.
    pub fn from_serialized(
        serialized: impl IntoIterator<Item = SerializedJob>,
        shared: &HashMap<usize, Vec<usize>>,
    ) -> Result<Self, DeserializeError> {
        let (mut jobs, mut graph): (Vec<Job>, Needs) = (Vec::new(), Needs::default());
        // Each with the first place that may need it.
        let mut lists_by_number: HashMap<usize, (ListId, usize)> = HashMap::new();
        for (number, list) in shared.iter().filter(|(_, list)| !list.is_empty()) {
            let first_user = list.iter().max().map_or(0, |last| last + 1);
            lists_by_number.insert(*number, (graph.list(list.iter().copied().map(JobId::new).collect()), first_user));
        }
        for serialized in serialized {
            let SerializedJob { key, label, identity, values, resources, policy, turn, .. } = serialized;
            let SerializedJob { needs, lists, seeds, project, place, used, .. } = serialized;
            let task = Task::info(&identity.task).filter(|task| {
                task.revision_of(&values, identity.backend) == identity.revision && identity.has_this_program(task)
            });
            let task = task.ok_or_else(|| DeserializeError::Task(identity.task.to_string()))?;
            let lists: Option<Vec<(ListId, usize)>> =
                lists.iter().map(|number| lists_by_number.get(number).copied()).collect();
            let lists = lists.filter(|lists| lists.iter().all(|(_, first_user)| *first_user <= jobs.len()));
            let Some(lists) = lists.filter(|_| needs.iter().all(|need| *need < jobs.len())) else {
                return Err(DeserializeError::Order(label.to_string()));
            };
            let own_list = (!needs.is_empty()).then(|| graph.list(needs.into_iter().map(JobId::new).collect()));
            graph.push(lists.into_iter().map(|(list, _)| list).chain(own_list));
            let code = project.map(|project| {
                let site = Site::of(place, &values, &project);
                Arc::new(Code::of_project(project, site))
            });
            let used = Arc::new(used);
            jobs.push(Job { key, identity, task, values, resources, policy, turn, label, seeds, code, used });
        }
        Ok(Self::bare(jobs, graph))
    }

    /// Returns some of the jobs as a separate plan with the same order. Needed jobs that are not among them are
    /// dropped. `change` may change a job's values.
    pub fn part(&self, of: &BTreeSet<JobId>, mut change: impl FnMut(JobId, &mut Values)) -> Self {
        let places: HashMap<JobId, JobId> = of.iter().enumerate().map(|(place, id)| (*id, JobId::new(place))).collect();
        let (mut jobs, mut graph) = (Vec::new(), Needs::default());
        let mut new_lists: HashMap<ListId, Option<ListId>> = HashMap::new();
        for id in of {
            let mut job = self.job(*id).clone();
            change(*id, &mut job.values);
            jobs.push(job);
            for list in self.lists_of(*id) {
                new_lists.entry(*list).or_insert_with(|| {
                    let part_jobs = self.list(*list).iter().filter_map(|need| places.get(need).copied());
                    Some(part_jobs.collect::<Vec<JobId>>()).filter(|jobs| !jobs.is_empty()).map(|jobs| graph.list(jobs))
                });
            }
            graph.push(self.lists_of(*id).iter().filter_map(|list| new_lists[list]));
        }
        Self::bare(jobs, graph)
    }

    /// A plan without recipes.
    fn bare(jobs: Vec<Job>, needs: Needs) -> Self {
        // If the continuations cannot be determined, no job continues another one.
        let continues = states::left_by(&jobs).and_then(|left_states| states::continues(&jobs, &left_states));
        let continues = continues.unwrap_or_else(|_| vec![None; jobs.len()]);
        Self {
            studies: Vec::new(),
            executor: Executor::default(),
            only: Vec::new(),
            sources: Sources::default(),
            warnings: Vec::new(),
            typed: Vec::new(),
            rounds: vec![0; jobs.len()],
            held: vec![false; jobs.len()],
            jobs,
            needs,
            origins: Vec::new(),
            continues,
            shared: Vec::new(),
            is_alone: false,
            variants: BTreeMap::new(),
            moments: Arc::default(),
        }
    }
}

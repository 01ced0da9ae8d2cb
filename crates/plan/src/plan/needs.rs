//! The graph of a plan, as lists of jobs that are needed together. Jobs share lists: if `n` jobs need the same `m`
//! jobs, there are `n + m` entries and not `n · m`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{JobId, Plan};

/// A list's index in a [`Plan`].
pub type ListId = usize;

/// The lists, and which of them each job needs.
#[derive(Debug, Default)]
pub(super) struct Needs {
    lists: Vec<Arc<[JobId]>>,
    /// Number of jobs that need each list.
    users: Vec<usize>,
    /// The lists that each job needs; no job is in two of them.
    of: Vec<Vec<ListId>>,
    by_jobs: HashMap<Arc<[JobId]>, ListId>,
    /// Difference of two lists, for long lists.
    without: HashMap<(ListId, ListId), Option<ListId>>,
}

/// A list of this length is looked through again and again.
const SHORT: usize = 16;

impl Needs {
    /// The list of these jobs, which are at least one.
    pub(super) fn list(&mut self, mut jobs: Vec<JobId>) -> ListId {
        jobs.sort_unstable();
        jobs.dedup();
        let jobs: Arc<[JobId]> = jobs.into();
        let next = self.lists.len();
        let list = *self.by_jobs.entry(Arc::clone(&jobs)).or_insert(next);
        if list == next {
            self.lists.push(jobs);
            self.users.push(0);
        }
        list
    }

    /// The jobs of a list, in the plan's order.
    pub(super) fn jobs(&self, list: ListId) -> &[JobId] {
        &self.lists[list]
    }

    /// Adds the dependencies of the next job: all of these lists.
    pub(super) fn push(&mut self, lists: impl IntoIterator<Item = ListId>) {
        let mut own_lists: Vec<ListId> = Vec::new();
        for list in lists {
            let remainder = own_lists.iter().try_fold(list, |remainder, other| self.without(remainder, *other));
            own_lists.extend(remainder);
        }
        for list in &own_lists {
            self.users[*list] += 1;
        }
        self.of.push(own_lists);
    }

    /// Gives the next job the dependencies of job `other`.
    pub(super) fn push_like(&mut self, other: JobId) {
        let lists = self.of[other.index()].clone();
        self.push(lists);
    }

    /// Difference of two lists; `None` if it is empty.
    fn without(&mut self, list: ListId, other: ListId) -> Option<ListId> {
        if let Some(remainder) = self.without.get(&(list, other)) {
            return *remainder;
        }
        let (jobs, other_jobs) = (&self.lists[list], &self.lists[other]);
        let (short_list, long_list) =
            if jobs.len() < other_jobs.len() { (jobs, other_jobs) } else { (other_jobs, jobs) };
        let (is_short, meet) =
            (short_list.len() <= SHORT, short_list.iter().any(|job| long_list.binary_search(job).is_ok()));
        let remainder = if meet {
            let remainder: Vec<JobId> =
                jobs.iter().copied().filter(|job| other_jobs.binary_search(job).is_err()).collect();
            (!remainder.is_empty()).then(|| self.list(remainder))
        } else {
            Some(list)
        };
        if meet || !is_short {
            self.without.insert((list, other), remainder);
        }
        remainder
    }

    /// True if a list should be stored separately because that takes less space.
    fn is_shared(&self, list: ListId) -> bool {
        let (jobs, users) = (self.lists[list].len(), self.users[list]);
        jobs * users > jobs + users
    }
}

impl Plan {
    /// The jobs that a job needs, each once.
    pub fn needs(&self, id: JobId) -> impl Iterator<Item = JobId> + '_ {
        self.lists_of(id).iter().flat_map(|list| self.list(*list).iter().copied())
    }

    /// The lists of the jobs that a job needs. No job is in two of them.
    pub fn lists_of(&self, id: JobId) -> &[ListId] {
        &self.needs.of[id.index()]
    }

    /// The jobs of a list, in the plan's order.
    pub fn list(&self, list: ListId) -> &[JobId] {
        self.needs.jobs(list)
    }

    /// All lists, by their index.
    pub fn lists(&self) -> impl Iterator<Item = &[JobId]> {
        self.needs.lists.iter().map(AsRef::as_ref)
    }

    /// Dependencies of a job in serialized form: lists that it shares with other jobs, and single jobs.
    pub fn written_needs(&self, id: JobId) -> (Vec<ListId>, Vec<JobId>) {
        let (shared, own_lists): (Vec<ListId>, Vec<ListId>) =
            self.lists_of(id).iter().partition(|list| self.needs.is_shared(**list));
        (shared, own_lists.into_iter().flat_map(|list| self.list(list).iter().copied()).collect())
    }

    /// Returns these jobs, and all jobs that they need.
    pub fn with_needs(&self, jobs: impl IntoIterator<Item = JobId>) -> BTreeSet<JobId> {
        let mut queue: Vec<JobId> = jobs.into_iter().collect();
        let (mut all_jobs, mut visited_lists) = (BTreeSet::new(), HashSet::new());
        while let Some(job) = queue.pop() {
            if all_jobs.insert(job) {
                let new_lists = self.lists_of(job).iter().filter(|list| visited_lists.insert(**list));
                queue.extend(new_lists.flat_map(|list| self.list(*list)));
            }
        }
        all_jobs
    }

    /// The jobs that need a job, directly or through others.
    pub fn dependents(&self, id: JobId) -> HashSet<JobId> {
        let mut dependents = HashSet::new();
        let mut lists: HashMap<ListId, bool> = HashMap::new();
        // Needed jobs come before the jobs that need them, so only later jobs can be dependents.
        for (job, _) in self.jobs().skip(id.index() + 1) {
            let mut needs = self.lists_of(job).iter();
            let meets = |list: &ListId| self.list(*list).iter().any(|need| *need == id || dependents.contains(need));
            if needs.any(|list| *lists.entry(*list).or_insert_with(|| meets(list))) {
                dependents.insert(job);
            }
        }
        dependents
    }
}

/// Numbers for the shared lists that are written, in the order in which they occur.
#[derive(Debug, Default)]
pub struct Numbering {
    numbers: BTreeMap<ListId, usize>,
    lists: Vec<ListId>,
}

impl Numbering {
    /// The numbers of lists.
    pub fn of(&mut self, lists: Vec<ListId>) -> Vec<usize> {
        let number = |list| {
            *self.numbers.entry(list).or_insert_with(|| {
                self.lists.push(list);
                self.lists.len() - 1
            })
        };
        lists.into_iter().map(number).collect()
    }

    /// The lists, each at its number.
    pub fn lists(self) -> Vec<ListId> {
        self.lists
    }
}

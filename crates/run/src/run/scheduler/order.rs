//! The order of jobs in the queue before a run begins, and the jobs that are held.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{JobSpec, Node, State};

/// A job that runs only once it is released.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The lists of jobs that the held job needs.
    pub(super) needs: Vec<usize>,
    /// The lists that the held job belongs to.
    pub(super) lists: Vec<usize>,
    /// The job after which the held job starts, if that job has not ended.
    pub(super) after: Option<usize>,
}

/// Lets jobs follow others, and lengthens the ways of these accordingly.
pub(super) fn follow(jobs: &mut [Node], specs: &[JobSpec]) {
    let is_open = |job: &usize| !specs[*job].cached;
    let pairs: Vec<(usize, usize)> =
        (0..specs.len()).filter(is_open).filter_map(|job| Some((specs[job].after.filter(is_open)?, job))).collect();
    for (first, second) in &pairs {
        jobs[*first].followers.push(*second);
        jobs[*second].waiting_for += 1;
    }
    // Chains are short. No way is longer than all jobs together.
    for _ in 0..pairs.len() {
        let mut is_changed = false;
        for (first, second) in &pairs {
            let way = jobs[*second].place.way.0.saturating_add(specs[*first].expected);
            is_changed |= way > jobs[*first].place.way.0;
            jobs[*first].place.way = jobs[*first].place.way.min(Reverse(way));
        }
        if !is_changed {
            break;
        }
    }
}

/// Gives all jobs of a measuring step that have not run the longest of their paths, and the first of their indices. Returns these places by
/// group.
pub(super) fn group(jobs: &mut [Node]) -> BTreeMap<usize, (Reverse<u64>, usize)> {
    let mut heads: BTreeMap<usize, (Reverse<u64>, usize)> = BTreeMap::new();
    let is_waiting = |job: &&mut Node| job.state == State::Waiting;
    for job in jobs.iter_mut().filter(is_waiting) {
        if let Some(turn) = job.place.turn {
            let head = heads.entry(turn.group).or_insert((job.place.way, job.place.first));
            head.0 = head.0.min(job.place.way);
        }
    }
    for job in jobs.iter_mut().filter(is_waiting) {
        if let Some(head) = job.place.turn.and_then(|turn| heads.get(&turn.group)) {
            (job.place.way, job.place.first) = *head;
        }
    }
    heads
}

/// The jobs that run only once they are released, with the lists that they need and the lists to which they belong.
pub(super) fn held(specs: &[JobSpec], lists: &[Vec<usize>]) -> BTreeMap<usize, Held> {
    let held = specs.iter().enumerate().filter(|(_, spec)| spec.held);
    let mut held: BTreeMap<usize, Held> = held
        .map(|(job, spec)| (job, Held { needs: spec.needs.clone(), lists: Vec::new(), after: spec.after }))
        .collect();
    if !held.is_empty() {
        for (list, members) in lists.iter().enumerate() {
            for member in members {
                if let Some(held) = held.get_mut(member) {
                    held.lists.push(list);
                }
            }
        }
    }
    held
}

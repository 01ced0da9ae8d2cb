//! The scheduler: a pure function from events to the jobs that start. No clock, no process, no disk.
//!
//! Jobs on the longest path to the end of the run start first. A job that must wait for memory reserves the free part of it, and a job that
//! must wait for GPUs reserves the GPUs that need the least to end before it fits: later jobs may start first only if they need none of
//! these, so that narrow jobs do not starve a wide one. The jobs of a measuring step are one group, whose place is determined by its
//! longest path; within it, their turns decide.

mod order;
mod queue;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use self::order::{Held, follow, group, held};
use super::slots::{Demand, Lease, Limits, Slots};
use crate::plan::Turn;

/// Decides which jobs start or are skipped, and when a run is over.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent states of a run")]
pub struct Scheduler {
    jobs: Vec<Node>,
    barriers: Vec<Barrier>,
    /// Jobs that could start, sorted by their resources: of jobs with the same resources, none fits if the first does
    /// not.
    ready: BTreeMap<Demand, BTreeSet<Place>>,
    slots: Slots,
    open: usize,
    running: usize,
    stopping: bool,
    /// True if the machine is not to be had, so that nothing starts.
    refused: bool,
    fail_fast: bool,
    over: bool,
    /// The jobs that run only once they are released.
    held: BTreeMap<usize, Held>,
    /// The places of the measuring steps in the queue.
    heads: BTreeMap<usize, (Reverse<u64>, usize)>,
}

/// A job's place in the queue: the longest way to the end first, then the plan's order. All jobs of a measuring step have
/// the way and the index of its first one, so that nothing comes between them, and then their turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    way: Reverse<u64>,
    first: usize,
    turn: Option<Turn>,
    job: usize,
}

/// A job as the scheduler sees it.
#[derive(Debug, Clone, Default)]
pub struct JobSpec {
    /// The job's dependencies: every job of these lists, by the lists' indices.
    pub needs: Vec<usize>,
    /// The job that this job follows: this job starts when that one has ended, with or without a result.
    pub after: Option<usize>,
    /// The job's resources.
    pub demand: Demand,
    /// Expected duration, in any unit; only the order of starts depends on it.
    pub expected: u64,
    /// True if the job is done already.
    pub cached: bool,
    /// True if the job runs only once it is released.
    pub held: bool,
    /// True if its failure does not stop the run.
    pub tolerated: bool,
    /// The job's turn, if it measures.
    pub turn: Option<Turn>,
}

/// Input of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The run begins.
    Begin,
    /// A started job has ended and its result is being stored: it gives its slots back.
    Storing(usize),
    /// A started job has a result.
    Done(usize),
    /// A started job has failed and will not get a result.
    Failed(usize),
    /// A started job was ended on request: it gets no result, and the run continues even if a failure would stop it.
    Stopped(usize),
    /// A started job cannot run now, because another process runs it or because it failed and will be tried again: it
    /// gives its slots back and waits.
    Later(usize),
    /// The cause of a job's wait is over: it may start.
    Free(usize),
    /// A started job cannot run now, because another sweep has the machine: it gives its slots back, keeps its place, and
    /// nothing starts.
    Refused(usize),
    /// The machine may be free again.
    Retry,
    /// A held job runs after all. The jobs that it needs are released before it. Nothing starts before the next event.
    Release(usize),
    /// The user stops the run: no more jobs start.
    Stop,
}

/// Output of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start a job.
    Start {
        /// The job.
        job: usize,
        /// The job's lease.
        lease: Lease,
    },
    /// A job can no longer run.
    Skip {
        /// The job.
        job: usize,
        /// The failure.
        because: Reason,
    },
    /// Everything has ended.
    Finish,
}

/// Reason for skipping a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A needed job failed or was skipped.
    Needs(usize),
    /// The run was stopped.
    Stopped,
}

#[derive(Debug)]
struct Node {
    /// Number of barriers before the job.
    waiting_for: usize,
    /// The barriers that wait for the job.
    before: Vec<usize>,
    /// The jobs that wait for its end.
    followers: Vec<usize>,
    demand: Demand,
    place: Place,
    tolerated: bool,
    gpus: Vec<usize>,
    state: State,
}

/// A list of jobs that other jobs need. It stands between both groups, so that the work is linear in the number of
/// jobs, not in the number of pairs.
#[derive(Debug, Clone, Default)]
struct Barrier {
    /// Number of its jobs that are not done.
    waiting_for: usize,
    /// The jobs that need it.
    dependents: Vec<usize>,
    /// A job of the list that failed or was skipped.
    lost: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Storing,
    Done,
    /// Failed or skipped.
    Lost,
}

impl State {
    /// True if the job may still get a result.
    fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Running | Self::Storing)
    }
}

impl Scheduler {
    /// A scheduler for these jobs, each of which comes after the jobs that it needs; `lists` has the jobs that are
    /// needed together, each once. A job that demands more than the limits gets the limits.
    pub fn new(specs: &[JobSpec], lists: &[Vec<usize>], limits: &Limits, fail_fast: bool) -> Self {
        let mut jobs: Vec<Node> = specs
            .iter()
            .enumerate()
            .map(|(index, spec)| Node {
                waiting_for: 0,
                before: Vec::new(),
                followers: Vec::new(),
                demand: limits.clamp(spec.demand),
                place: Place { way: Reverse(spec.expected), first: index, turn: spec.turn, job: index },
                tolerated: spec.tolerated,
                gpus: Vec::new(),
                state: if spec.cached { State::Done } else { State::Waiting },
            })
            .collect();
        let mut barriers = vec![Barrier::default(); lists.len()];
        for (list, members) in lists.iter().enumerate() {
            for member in members.iter().copied().filter(|member| !specs[*member].cached) {
                jobs[member].before.push(list);
                barriers[list].waiting_for += 1;
            }
        }
        // The order is from the end, so that a job's own chain is complete before it counts for the jobs that it needs.
        let mut beyond = vec![0_u64; lists.len()];
        for (index, spec) in specs.iter().enumerate().rev().filter(|(_, spec)| !spec.cached) {
            let max_beyond = jobs[index].before.iter().map(|list| beyond[*list]).max().unwrap_or(0);
            let way = max_beyond.saturating_add(spec.expected);
            jobs[index].place.way = Reverse(way);
            for list in spec.needs.iter().copied() {
                // A list whose jobs are all done delays no other job.
                if barriers[list].waiting_for > 0 {
                    jobs[index].waiting_for += 1;
                    barriers[list].dependents.push(index);
                    beyond[list] = beyond[list].max(way);
                }
            }
        }
        follow(&mut jobs, specs);
        let heads = group(&mut jobs);
        let held_jobs = held(specs, lists);
        // In the plan's order.
        for barrier in &mut barriers {
            barrier.dependents.reverse();
        }
        let waiting_jobs = jobs.iter().filter(|job| job.state == State::Waiting).count();
        let mut scheduler = Self {
            jobs,
            barriers,
            ready: BTreeMap::new(),
            slots: Slots::new(limits),
            open: waiting_jobs,
            running: 0,
            stopping: false,
            refused: false,
            fail_fast,
            over: false,
            held: held_jobs,
            heads,
        };
        for job in 0..scheduler.jobs.len() {
            if scheduler.jobs[job].state == State::Waiting && scheduler.jobs[job].waiting_for == 0 {
                scheduler.queue(job);
            }
        }
        scheduler
    }

    /// True if no job is started anymore.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Actions that follow from an event. After [`Action::Finish`] no event has any.
    pub fn on(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Event::Release(job) = event {
            self.release(job, &mut actions);
            return actions;
        }
        if self.over {
            return actions;
        }
        match event {
            Event::Begin | Event::Release(_) => {}
            Event::Storing(job) => {
                let node = &mut self.jobs[job];
                if node.state == State::Running {
                    node.state = State::Storing;
                    self.slots.give_back_storing(&node.demand, &std::mem::take(&mut node.gpus));
                }
            }
            Event::Done(job) => {
                if self.end(job, State::Done) {
                    for barrier in std::mem::take(&mut self.jobs[job].before) {
                        self.lower(barrier);
                    }
                    self.let_follow(job);
                }
            }
            Event::Failed(job) | Event::Stopped(job) => {
                if self.end(job, State::Lost) {
                    self.skip_dependents(job, &mut actions);
                    self.let_follow(job);
                    if matches!(event, Event::Failed(_)) && self.fail_fast && !self.jobs[job].tolerated {
                        self.stop(&mut actions);
                    }
                }
            }
            Event::Later(job) => {
                if self.end(job, State::Waiting) {
                    self.open += 1;
                    if self.stopping {
                        self.skip(job, Reason::Stopped, &mut actions);
                    }
                }
            }
            Event::Free(job) => {
                if self.jobs[job].state == State::Waiting && self.jobs[job].waiting_for == 0 {
                    self.queue(job);
                }
            }
            Event::Refused(job) => {
                self.refused = true;
                if self.end(job, State::Waiting) {
                    self.open += 1;
                    if self.stopping {
                        self.skip(job, Reason::Stopped, &mut actions);
                    } else {
                        self.queue(job);
                    }
                }
            }
            Event::Retry => self.refused = false,
            Event::Stop => self.stop(&mut actions),
        }
        self.start(&mut actions);
        if self.open == 0 && self.running == 0 {
            self.over = true;
            actions.push(Action::Finish);
        }
        actions
    }

    /// Takes a running job's slots back; `false` if it was not running.
    fn end(&mut self, job: usize, state: State) -> bool {
        let node = &mut self.jobs[job];
        match node.state {
            State::Running => self.slots.give_back(&node.demand, &std::mem::take(&mut node.gpus)),
            State::Storing => self.slots.stored(),
            State::Waiting | State::Done | State::Lost => return false,
        }
        node.state = state;
        self.running -= 1;
        true
    }

    /// Lets a held job run.
    fn release(&mut self, job: usize, actions: &mut Vec<Action>) {
        let Some(Held { needs, lists, after }) = self.held.remove(&job) else { return };
        self.over = false;
        self.open += 1;
        self.jobs[job].state = State::Waiting;
        for list in lists {
            self.barriers[list].waiting_for += 1;
            self.jobs[job].before.push(list);
        }
        if let Some(turn) = self.jobs[job].place.turn {
            let place = &mut self.jobs[job].place;
            (place.way, place.first) = *self.heads.entry(turn.group).or_insert((place.way, place.first));
        }
        if let Some(first) = after.filter(|first| self.jobs[*first].state.is_open()) {
            self.jobs[first].followers.push(job);
            self.jobs[job].waiting_for += 1;
        }
        let mut lost = None;
        for list in needs {
            let barrier = &mut self.barriers[list];
            lost = lost.or(barrier.lost);
            if barrier.waiting_for > 0 {
                barrier.dependents.push(job);
                self.jobs[job].waiting_for += 1;
            }
        }
        if let Some(lost) = lost {
            self.skip(job, Reason::Needs(lost), actions);
            self.skip_dependents(job, actions);
        } else if self.stopping {
            self.skip(job, Reason::Stopped, actions);
        } else if self.jobs[job].waiting_for == 0 {
            self.queue(job);
        }
    }

    /// A job of a barrier is done.
    fn lower(&mut self, barrier: usize) {
        let barrier = &mut self.barriers[barrier];
        barrier.waiting_for -= 1;
        if barrier.waiting_for > 0 {
            return;
        }
        for dependent in std::mem::take(&mut barrier.dependents) {
            let node = &mut self.jobs[dependent];
            node.waiting_for -= 1;
            if node.waiting_for == 0 && node.state == State::Waiting {
                self.queue(dependent);
            }
        }
    }

    /// Handles the end of a job: jobs that wait only for it may start.
    fn let_follow(&mut self, job: usize) {
        for follower in std::mem::take(&mut self.jobs[job].followers) {
            let node = &mut self.jobs[follower];
            node.waiting_for -= 1;
            if node.waiting_for == 0 && node.state == State::Waiting {
                self.queue(follower);
            }
        }
    }

    /// Starts the jobs that fit.
    fn start(&mut self, actions: &mut Vec<Action>) {
        if self.refused {
            return;
        }
        // The memory that a job waits for, and the GPUs.
        let (mut memory, mut gpus) = (false, BTreeSet::new());
        let mut passed_demands = Vec::new();
        loop {
            let heads = self.ready.iter().filter(|(demand, _)| !passed_demands.contains(*demand));
            let Some((place, demand)) = heads.filter_map(|(demand, queue)| Some((*queue.first()?, *demand))).min()
            else {
                return;
            };
            let lack = self.slots.lack_beside(&demand, &gpus);
            if lack.is_common() {
                return;
            }
            if !lack.is_nothing() || (memory && demand.memory > 0) {
                if lack.gpus {
                    gpus.extend(self.slots.nearest(&demand, &gpus));
                }
                memory |= lack.memory;
                passed_demands.push(demand);
                continue;
            }
            self.unqueue(place.job);
            let lease = self.slots.take(&demand, &gpus);
            let node = &mut self.jobs[place.job];
            node.state = State::Running;
            node.gpus.clone_from(&lease.gpus);
            self.open -= 1;
            self.running += 1;
            actions.push(Action::Start { job: place.job, lease });
        }
    }

    fn skip_dependents(&mut self, lost: usize, actions: &mut Vec<Action>) {
        let mut stack = vec![lost];
        while let Some(job) = stack.pop() {
            let barriers = std::mem::take(&mut self.jobs[job].before);
            for barrier in &barriers {
                self.barriers[*barrier].lost.get_or_insert(job);
            }
            let dependents = barriers.into_iter().map(|barrier| std::mem::take(&mut self.barriers[barrier].dependents));
            for dependent in dependents.flatten().collect::<Vec<usize>>() {
                if self.jobs[dependent].state == State::Waiting {
                    self.skip(dependent, Reason::Needs(job), actions);
                    stack.push(dependent);
                }
            }
        }
    }

    fn stop(&mut self, actions: &mut Vec<Action>) {
        self.stopping = true;
        for job in 0..self.jobs.len() {
            if self.jobs[job].state == State::Waiting {
                self.skip(job, Reason::Stopped, actions);
            }
        }
    }

    fn skip(&mut self, job: usize, because: Reason, actions: &mut Vec<Action>) {
        self.jobs[job].state = State::Lost;
        self.unqueue(job);
        self.open -= 1;
        actions.push(Action::Skip { job, because });
        self.let_follow(job);
    }
}

#[cfg(test)]
mod tests;

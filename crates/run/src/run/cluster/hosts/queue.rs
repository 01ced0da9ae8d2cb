//! The queue of a run through hosts: decides the place of each job. The queue is pure: it uses no clock, no process and no disk.
//!
//! A job has *copies*: usually one, on the place where it runs. The jobs of a place that cannot be reached count as
//! running for a while; then they get a second copy on another place, and the first result is used.

mod job;
mod seen;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::{Duration, Instant},
};

pub(super) use self::job::{Collected, Entry, Order, Sent, There};
use self::job::{Copy, Job, Phase, Stage};
use super::place::{Free, Place, PlaceId};
use crate::{
    record::Key,
    run::cluster::{BatchId, CancelScope, QueuedState},
};

/// Pause before the next attempt after a temporary failure.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Time for which a host whose disk is full gets no new jobs.
const FULL: Duration = Duration::from_mins(1);

/// Beginning of the word for the end of a job that its place has lost; the place follows.
pub(super) const LOST: &str = "lost: ";

/// Jobs, places, and the jobs on the places.
#[derive(Debug)]
pub(super) struct Queue {
    jobs: Vec<Job>,
    by_id: HashMap<BatchId, usize>,
    by_key: HashMap<Key, usize>,
    /// Jobs that could start, in the order of their submission.
    ready: BTreeSet<usize>,
    pub(super) places: Vec<Place>,
    lost_after: Duration,
    orders: Vec<Order>,
}

impl Queue {
    pub(super) fn new(lost_after: Duration) -> Self {
        Self {
            jobs: Vec::new(),
            by_id: HashMap::new(),
            by_key: HashMap::new(),
            ready: BTreeSet::new(),
            places: Vec::new(),
            lost_after,
            orders: Vec::new(),
        }
    }

    /// The orders since the last call.
    pub(super) fn orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// True if a job with this key is in the queue and has not ended.
    pub(super) fn has(&self, key: Key) -> bool {
        self.by_key.get(&key).is_some_and(|job| !self.is_over(*job))
    }

    /// Adds a job at the end of the queue.
    pub(super) fn submit(&mut self, entry: Entry) {
        let job = self.add(entry);
        if self.jobs[job].blockers == 0 && self.jobs[job].stage == Stage::Waiting {
            self.ready.insert(job);
        }
    }

    /// Adds a job that an earlier process has placed; it counts as running until its place reports another state.
    pub(super) fn adopt(&mut self, entry: Entry, place: PlaceId) {
        let key = entry.key;
        self.add(entry);
        self.attach(key, place);
    }

    /// Records that a job of the queue is already on a place, where another process has submitted it.
    pub(super) fn attach(&mut self, key: Key, place: PlaceId) {
        let Some(job) = self.by_key.get(&key).copied().filter(|job| !self.is_over(*job)) else { return };
        self.ready.remove(&job);
        (self.jobs[job].stage, self.jobs[job].busy) = (Stage::Placed, None);
        self.jobs[job].copies.push(Copy { place, phase: Phase::Unsure, holds: None, stray: false });
        if self.places[place].is_up() {
            self.orders.push(Order::List { place });
        }
    }

    /// Handles a job whose record is stored: its copies are removed from the places.
    pub(super) fn finish(&mut self, key: Key) {
        if let Some(job) = self.by_key.get(&key).copied() {
            self.end(job, QueuedState::Completed);
        }
    }

    /// True if a place has a job, or may have it.
    pub(super) fn is_on(&self, key: Key, place: PlaceId) -> bool {
        self.copy(key, place).is_some()
    }

    /// True if a job is on no place.
    pub(super) fn is_free(&self, key: Key) -> bool {
        self.by_key.get(&key).is_some_and(|job| self.jobs[*job].stage == Stage::Waiting)
    }

    fn add(&mut self, entry: Entry) -> usize {
        let Entry { id, tag, key, wants, after } = entry;
        let number = self.jobs.len();
        let (mut blockers, mut orphaned) = (0, false);
        for need in after.iter().filter_map(|id| self.by_id.get(id).copied()) {
            match &self.jobs[need].stage {
                Stage::Over { state: QueuedState::Completed, .. } => {}
                Stage::Over { .. } => orphaned = true,
                Stage::Waiting | Stage::Placed => {
                    blockers += 1;
                    self.jobs[need].dependents.push(number);
                }
            }
        }
        let stage = if orphaned { Stage::Over { state: QueuedState::Canceled, orphaned } } else { Stage::Waiting };
        self.by_id.insert(id.clone(), number);
        // Copies that an earlier submission left on places block this submission.
        let earlier = self.by_key.insert(key, number);
        let copies = earlier.map(|earlier| std::mem::take(&mut self.jobs[earlier].copies)).unwrap_or_default();
        let dependents = Vec::new();
        self.jobs.push(Job { id, tag, key, wants, blockers, dependents, stage, copies, canceled: false, busy: None });
        number
    }

    /// Gives the free places their next jobs.
    pub(super) fn schedule(&mut self, now: Instant) {
        let mut free = Free::new(&self.places, now);
        let mut starts = Vec::new();
        for job in self.ready.iter().copied() {
            if free.is_nothing() {
                break;
            }
            let waits = self.jobs[job].busy.is_some_and(|until| until > now);
            if waits {
                continue;
            }
            let elsewhere: HashSet<PlaceId> = self.jobs[job].copies.iter().map(|copy| copy.place).collect();
            if let Some(free_place) = free.find(&self.places, &self.jobs[job].wants, &elsewhere) {
                let (place, demand) = free_place;
                let lease = self.places[place].take(&demand, &free.kept(place));
                starts.push((job, place, demand, lease));
            }
        }
        for (number, place, demand, lease) in starts {
            self.ready.remove(&number);
            let job = &mut self.jobs[number];
            (job.stage, job.busy) = (Stage::Placed, None);
            let holds = Some((demand, lease.gpus.clone()));
            job.copies.push(Copy { place, phase: Phase::Sending, holds, stray: false });
            self.orders.push(Order::Start { key: job.key, place, lease });
        }
    }

    /// Handles the end of an attempt to start a job.
    pub(super) fn sent(&mut self, key: Key, place: PlaceId, sent: Sent, now: Instant) {
        let Some((job, at)) = self.copy(key, place) else { return };
        match sent {
            Sent::There(state) => self.found(job, at, state, now),
            Sent::Unsure => {
                self.jobs[job].copies[at].phase = Phase::Unsure;
                if self.places[place].is_up() {
                    self.orders.push(Order::List { place });
                }
            }
            Sent::Busy => {
                self.jobs[job].busy = Some(now + RETRY_DELAY);
                self.withdraw(job, at);
            }
            Sent::Done => {
                self.drop_copy(job, at);
                self.end(job, QueuedState::Completed);
            }
            Sent::Full => {
                self.places[place].pause(now + FULL);
                self.withdraw(job, at);
            }
            Sent::Refused => self.withdraw(job, at),
            Sent::Never(reason) => {
                self.drop_copy(job, at);
                self.end(job, QueuedState::Ended(reason));
            }
        }
    }

    /// Handles the list of all jobs on a place, after the place has responded (again).
    pub(super) fn listed(&mut self, place: PlaceId, listing: &HashMap<Key, There>, now: Instant) {
        for job in 0..self.jobs.len() {
            let key = self.jobs[job].key;
            let Some(at) = self.jobs[job].copies.iter().position(|copy| copy.place == place) else { continue };
            match (listing.get(&key), self.jobs[job].copies[at].phase) {
                // The operation in progress reports its own end.
                (_, Phase::Sending | Phase::Collecting) => {}
                (Some(state), _) => self.found(job, at, *state, now),
                (None, Phase::Running) if !self.jobs[job].copies[at].stray => {
                    let reason = format!("{LOST}{}", self.places[place].name);
                    self.drop_copy(job, at);
                    self.end_unless_elsewhere(job, QueuedState::Ended(reason));
                }
                (None, Phase::Surplus) => self.drop_copy(job, at),
                (None, _) => self.withdraw(job, at),
            }
        }
        for (key, state) in listing {
            let Some(job) = self.by_key.get(key).copied() else { continue };
            if self.jobs[job].copies.iter().any(|copy| copy.place == place) {
                continue;
            }
            self.jobs[job].copies.push(Copy { place, phase: Phase::Unsure, holds: None, stray: true });
            let at = self.jobs[job].copies.len() - 1;
            self.found(job, at, *state, now);
        }
    }

    /// Handles the state of a job that a place has reported.
    fn found(&mut self, job: usize, at: usize, state: There, now: Instant) {
        let (key, place) = (self.jobs[job].key, self.jobs[job].copies[at].place);
        let is_wanted = !self.is_over(job) && self.jobs[job].copies[at].phase != Phase::Surplus;
        match state {
            There::Running => {
                let phase = if is_wanted { Phase::Running } else { Phase::Surplus };
                let was = std::mem::replace(&mut self.jobs[job].copies[at].phase, phase);
                self.hold(job, at);
                if !is_wanted || self.jobs[job].canceled {
                    self.orders.push(Order::Stop { key, place, scope: CancelScope::All });
                }
                if is_wanted {
                    self.jobs[job].copies[at].stray = false;
                    self.jobs[job].stage = Stage::Placed;
                    self.ready.remove(&job);
                }
                if was != Phase::Sending && was != Phase::Running {
                    self.orders.push(Order::Follow { key, place });
                }
            }
            There::Recorded | There::Ended if is_wanted => {
                self.release(job, at);
                let copy = &mut self.jobs[job].copies[at];
                copy.stray &= state == There::Ended;
                if matches!(copy.phase, Phase::Later(time) if time > now) {
                    return;
                }
                copy.phase = Phase::Collecting;
                if state == There::Recorded {
                    self.jobs[job].stage = Stage::Placed;
                    self.ready.remove(&job);
                }
                self.orders.push(Order::Collect { key, place });
            }
            There::Recorded | There::Ended => {
                self.drop_copy(job, at);
                self.orders.push(Order::Forget { key, place });
            }
        }
    }

    /// Handles the end of a job's process.
    pub(super) fn ended(&mut self, key: Key, place: PlaceId, there: There, now: Instant) {
        if let Some((job, at)) = self.copy(key, place) {
            self.found(job, at, there, now);
        }
    }

    /// Handles the end of an attempt to fetch the results of a job.
    pub(super) fn collected(&mut self, key: Key, place: PlaceId, collected: Collected, now: Instant) {
        let Some((job, at)) = self.copy(key, place) else { return };
        match collected {
            Collected::Stored => {
                self.drop_copy(job, at);
                self.end(job, QueuedState::Completed);
            }
            Collected::Nothing(word) => {
                self.drop_copy(job, at);
                let canceled = self.jobs[job].canceled;
                let state = if canceled { QueuedState::Canceled } else { QueuedState::Failed(word) };
                self.end_unless_elsewhere(job, state);
            }
            Collected::Away => {
                self.jobs[job].copies[at].phase = Phase::Unsure;
                if self.places[place].is_up() {
                    self.orders.push(Order::List { place });
                }
            }
            Collected::Full => {
                self.places[place].pause(now + FULL);
                self.withdraw(job, at);
            }
            Collected::Later => self.jobs[job].copies[at].phase = Phase::Later(now + RETRY_DELAY),
        }
    }

    /// Cancels jobs: ends waiting jobs, and orders the end of running ones.
    pub(super) fn cancel(&mut self, ids: &[BatchId], scope: CancelScope) {
        for job in ids.iter().filter_map(|id| self.by_id.get(id).copied()).collect::<Vec<_>>() {
            match self.jobs[job].stage {
                Stage::Over { .. } => {}
                Stage::Waiting if scope == CancelScope::Interrupt => {}
                Stage::Waiting => self.end(job, QueuedState::Canceled),
                Stage::Placed if scope == CancelScope::Pending => {}
                Stage::Placed => {
                    let again = self.jobs[job].canceled && scope == CancelScope::All;
                    self.jobs[job].canceled |= scope == CancelScope::All;
                    let key = self.jobs[job].key;
                    let is_running = |copy: &&Copy| copy.phase == Phase::Running && self.places[copy.place].is_up();
                    let places: Vec<PlaceId> =
                        self.jobs[job].copies.iter().filter(is_running).map(|copy| copy.place).collect();
                    let reachable = |copy: &Copy| self.places[copy.place].is_up();
                    if !again {
                        self.orders.extend(places.into_iter().map(|place| Order::Stop { key, place, scope }));
                    }
                    // Copies on unreachable places continue; the next run finds them.
                    if scope == CancelScope::All && !self.jobs[job].copies.iter().any(reachable) {
                        self.end(job, QueuedState::Canceled);
                    }
                }
            }
        }
    }

    /// Handles the loss of the connection to a place.
    pub(super) fn lost(&mut self, place: PlaceId, now: Instant) {
        self.places[place].lose(now);
        let canceled: Vec<usize> = (0..self.jobs.len())
            .filter(|job| self.jobs[*job].canceled && !self.is_over(*job))
            .filter(|job| !self.jobs[*job].copies.iter().any(|copy| self.places[copy.place].is_up()))
            .collect();
        for job in canceled {
            self.end(job, QueuedState::Canceled);
        }
    }

    /// Handles expired time limits.
    pub(super) fn tick(&mut self, now: Instant) {
        for place in 0..self.places.len() {
            let is_gone = self.places[place].lost_since().is_some_and(|since| now >= since + self.lost_after);
            for job in 0..self.jobs.len() {
                let Some(at) = self.jobs[job].copies.iter().position(|copy| copy.place == place) else { continue };
                let copy = &mut self.jobs[job].copies[at];
                if let Phase::Later(time) = copy.phase
                    && time <= now
                    && self.places[place].is_up()
                {
                    copy.phase = Phase::Collecting;
                    self.orders.push(Order::Collect { key: self.jobs[job].key, place });
                } else if is_gone && !copy.stray && !matches!(copy.phase, Phase::Sending | Phase::Collecting) {
                    copy.stray = true;
                    self.wait_again(job);
                }
            }
        }
    }

    /// Ends the jobs that wait for a place with `reason`, because no place can be used.
    pub(super) fn give_up(&mut self, reason: &str) {
        for job in std::mem::take(&mut self.ready) {
            if self.jobs[job].copies.is_empty() {
                self.end(job, QueuedState::Ended(reason.to_owned()));
            }
        }
    }

    /// True if a job waits for a place.
    pub(super) fn is_waiting(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Number of jobs that are on a place, or may be.
    pub(super) fn count_on(&self, place: PlaceId) -> usize {
        self.jobs.iter().filter(|job| job.copies.iter().any(|copy| copy.place == place)).count()
    }

    /// Returns a job to the queue, because a place does not have it.
    fn withdraw(&mut self, job: usize, at: usize) {
        self.drop_copy(job, at);
        self.wait_again(job);
    }

    /// Lets a job wait for a place, unless it is on a place.
    fn wait_again(&mut self, job: usize) {
        if self.is_over(job) || self.jobs[job].copies.iter().any(|copy| !copy.stray) {
            return;
        }
        if self.jobs[job].canceled {
            self.end(job, QueuedState::Canceled);
        } else {
            self.jobs[job].stage = Stage::Waiting;
            self.ready.insert(job);
        }
    }

    fn end_unless_elsewhere(&mut self, job: usize, state: QueuedState) {
        // A second copy that only waits for a place does not keep the job from ending.
        if !self.jobs[job].copies.iter().any(|copy| !copy.stray) {
            self.end(job, state);
        }
    }

    /// Ends a job, and the jobs that cannot run without its result.
    fn end(&mut self, job: usize, state: QueuedState) {
        let mut ending = vec![(job, state, false)];
        while let Some((job, state, orphaned)) = ending.pop() {
            if self.is_over(job) {
                continue;
            }
            let completed = state == QueuedState::Completed;
            self.jobs[job].stage = Stage::Over { state, orphaned };
            self.ready.remove(&job);
            self.give_up_copies(job);
            for dependent in std::mem::take(&mut self.jobs[job].dependents) {
                if !completed {
                    ending.push((dependent, QueuedState::Canceled, true));
                    continue;
                }
                self.jobs[dependent].blockers -= 1;
                if self.jobs[dependent].blockers == 0 && self.jobs[dependent].stage == Stage::Waiting {
                    self.ready.insert(dependent);
                }
            }
        }
    }

    /// Gives up the copies of a job that has ended.
    fn give_up_copies(&mut self, job: usize) {
        let key = self.jobs[job].key;
        for copy in &mut self.jobs[job].copies {
            if copy.phase == Phase::Running && self.places[copy.place].is_up() {
                self.orders.push(Order::Stop { key, place: copy.place, scope: CancelScope::All });
            }
            if matches!(copy.phase, Phase::Running | Phase::Unsure) {
                copy.phase = Phase::Surplus;
            }
        }
    }

    fn is_over(&self, job: usize) -> bool {
        matches!(self.jobs[job].stage, Stage::Over { .. })
    }

    fn copy(&self, key: Key, place: PlaceId) -> Option<(usize, usize)> {
        let job = *self.by_key.get(&key)?;
        let at = self.jobs[job].copies.iter().position(|copy| copy.place == place)?;
        Some((job, at))
    }

    /// Reserves resources for a copy that a place reports, even if they are not free.
    fn hold(&mut self, job: usize, at: usize) {
        let job = &mut self.jobs[job];
        let copy = &mut job.copies[at];
        if copy.holds.is_none() {
            copy.holds = self.places[copy.place].hold(&job.wants);
        }
    }

    fn release(&mut self, job: usize, at: usize) {
        let copy = &mut self.jobs[job].copies[at];
        if let Some((demand, gpus)) = copy.holds.take() {
            self.places[copy.place].give_back(&demand, &gpus);
        }
    }

    fn drop_copy(&mut self, job: usize, at: usize) {
        self.release(job, at);
        self.jobs[job].copies.remove(at);
    }
}

#[cfg(test)]
mod tests;

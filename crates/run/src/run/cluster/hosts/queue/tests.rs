//! The queue on chosen events, and on random hosts that come, go, and respond late.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::*;
use crate::run::{
    cluster::hosts::place::Wants,
    slots::{Demand, Limits},
};

fn key(number: usize) -> Key {
    format!("{number:064x}").parse().unwrap()
}

fn id(number: usize) -> BatchId {
    (number as u64).into()
}

fn limits(cpus: usize, gpus: usize) -> Limits {
    Limits { cpus, gpus, gpu_memory: Vec::new(), memory: 1 << 30, jobs: cpus.max(gpus) }
}

fn wants(cpus: usize, gpus: usize) -> Wants {
    Wants::asking(Demand { cpus, gpus, ..Demand::default() })
}

fn entry(number: usize, wants: Wants, after: &[usize]) -> Entry {
    let after = after.iter().map(|need| id(*need)).collect();
    Entry { id: id(number), tag: String::new(), key: key(number), wants, after }
}

/// Returns a queue with places of these resources, all of which respond.
fn queue(places: &[Limits]) -> Queue {
    let mut queue = Queue::new(Duration::from_mins(10));
    for (number, limits) in places.iter().enumerate() {
        let mut place = Place::new(format!("box{number}"));
        place.connect(limits.clone());
        queue.places.push(place);
    }
    queue
}

/// The jobs that start now, each with its place.
fn starts(queue: &mut Queue, now: Instant) -> Vec<(usize, PlaceId)> {
    queue.schedule(now);
    let starts = queue.orders().into_iter().filter_map(|order| match order {
        Order::Start { key, place, .. } => Some((number(key), place)),
        _ => None,
    });
    starts.collect()
}

fn number(key: Key) -> usize {
    usize::from_str_radix(&key.to_string(), 16).unwrap()
}

fn state(queue: &Queue, job: usize) -> QueuedState {
    queue.state(&id(job)).unwrap()
}

fn there(queue: &mut Queue, job: usize, place: PlaceId, now: Instant) {
    queue.sent(key(job), place, Sent::There(There::Running), now);
}

#[test]
fn jobs_are_spread_over_free_hosts_in_their_order() {
    let (mut queue, now) = (queue(&[limits(2, 0), limits(4, 0)]), Instant::now());
    for job in 0..8 {
        queue.submit(entry(job, wants(1, 0), &[]));
    }
    let places: Vec<PlaceId> = starts(&mut queue, now).into_iter().map(|(_, place)| place).collect();
    assert_eq!(places.iter().filter(|place| **place == 0).count(), 2);
    assert_eq!(places.len(), 6);
    assert_eq!((state(&queue, 5), state(&queue, 6)), (QueuedState::Pending, QueuedState::Pending));
}

#[test]
fn a_wide_job_is_not_passed_by_narrow_ones() {
    let (mut queue, now) = (queue(&[limits(4, 0)]), Instant::now());
    queue.submit(entry(0, wants(2, 0), &[]));
    queue.submit(entry(1, wants(4, 0), &[]));
    queue.submit(entry(2, wants(1, 0), &[]));
    assert_eq!(starts(&mut queue, now), [(0, 0)]);
    there(&mut queue, 0, 0, now);
    queue.ended(key(0), 0, There::Recorded, now);
    assert_eq!(queue.orders(), [Order::Collect { key: key(0), place: 0 }]);
    assert_eq!(starts(&mut queue, now), [(1, 0)]);
}

#[test]
fn gpus_are_needed_and_cores_are_taken_as_they_are() {
    let (mut queue, now) = (queue(&[limits(2, 0), limits(2, 1)]), Instant::now());
    queue.submit(entry(0, wants(64, 0), &[]));
    queue.submit(entry(1, wants(1, 2), &[]));
    queue.submit(entry(2, wants(1, 1), &[]));
    let started = starts(&mut queue, now);
    assert_eq!(started.len(), 2, "{started:?}");
    assert!(started.contains(&(2, 1)));
    let jobs = queue.all();
    assert_eq!((jobs[1].state.clone(), jobs[1].reason.as_str()), (QueuedState::Pending, super::super::place::NOWHERE));
}

#[test]
fn a_measuring_job_is_alone_on_its_host() {
    let (mut queue, now) = (queue(&[limits(4, 0), limits(4, 0)]), Instant::now());
    let alone = Wants::asking(Demand { cpus: 1, exclusive: true, ..Demand::default() });
    for job in 0..3 {
        queue.submit(entry(job, alone, &[]));
    }
    queue.submit(entry(3, wants(1, 0), &[]));
    let started = starts(&mut queue, now);
    assert_eq!(started.iter().map(|(job, _)| *job).collect::<Vec<_>>(), [0, 1]);
    assert_ne!(started[0].1, started[1].1);
}

#[test]
fn a_failed_job_ends_what_needs_it() {
    let (mut queue, now) = (queue(&[limits(1, 0)]), Instant::now());
    queue.submit(entry(0, wants(1, 0), &[]));
    queue.submit(entry(1, wants(1, 0), &[0]));
    queue.submit(entry(2, wants(1, 0), &[1]));
    assert_eq!(starts(&mut queue, now), [(0, 0)]);
    there(&mut queue, 0, 0, now);
    queue.ended(key(0), 0, There::Ended, now);
    queue.collected(key(0), 0, Collected::Nothing("exit 1".into()), now);
    assert_eq!(state(&queue, 0), QueuedState::Failed("exit 1".into()));
    let jobs = queue.all();
    assert!(jobs[1..].iter().all(|job| job.orphaned && job.state == QueuedState::Canceled), "{jobs:?}");
}

#[test]
fn the_jobs_of_a_lost_host_run_elsewhere_after_a_while_and_the_first_result_is_used() {
    let (mut queue, now) = (queue(&[limits(1, 0), limits(1, 0)]), Instant::now());
    queue.submit(entry(0, wants(1, 0), &[]));
    let (_, first) = starts(&mut queue, now)[0];
    let second = 1 - first;
    there(&mut queue, 0, first, now);
    queue.lost(first, now);
    queue.tick(now + Duration::from_mins(9));
    assert_eq!(starts(&mut queue, now + Duration::from_mins(9)), []);
    assert_eq!(state(&queue, 0), QueuedState::Running, "it usually does");
    let later = now + Duration::from_mins(11);
    queue.tick(later);
    assert_eq!(starts(&mut queue, later), [(0, second)]);
    there(&mut queue, 0, second, later);
    queue.orders();
    // The host comes back with the result.
    queue.places[first].connect(limits(1, 0));
    queue.listed(first, &HashMap::from([(key(0), There::Recorded)]), later);
    assert_eq!(queue.orders(), [Order::Collect { key: key(0), place: first }]);
    queue.collected(key(0), first, Collected::Stored, later);
    assert_eq!(state(&queue, 0), QueuedState::Completed);
    assert_eq!(queue.orders(), [Order::Stop { key: key(0), place: second, scope: CancelScope::All }]);
    queue.ended(key(0), second, There::Ended, later);
    assert_eq!(queue.orders(), [Order::Forget { key: key(0), place: second }]);
    assert_eq!((queue.count_on(first), queue.count_on(second)), (0, 0));
}

#[test]
fn a_start_of_which_nothing_is_known_is_looked_up() {
    let (mut queue, now) = (queue(&[limits(1, 0)]), Instant::now());
    queue.submit(entry(0, wants(1, 0), &[]));
    assert_eq!(starts(&mut queue, now), [(0, 0)]);
    queue.lost(0, now);
    queue.sent(key(0), 0, Sent::Unsure, now);
    queue.places[0].connect(limits(1, 0));
    queue.listed(0, &HashMap::new(), now);
    assert_eq!(starts(&mut queue, now), [(0, 0)], "it never arrived");
    queue.sent(key(0), 0, Sent::Unsure, now);
    assert_eq!(queue.orders(), [Order::List { place: 0 }]);
    queue.listed(0, &HashMap::from([(key(0), There::Running)]), now);
    assert_eq!(queue.orders(), [Order::Follow { key: key(0), place: 0 }]);
    assert_eq!(state(&queue, 0), QueuedState::Running);
}

#[test]
fn a_cancellation_reaches_what_can_be_reached() {
    let (mut queue, now) = (queue(&[limits(1, 0), limits(1, 0)]), Instant::now());
    for job in 0..3 {
        queue.submit(entry(job, wants(1, 0), &[]));
    }
    for (job, place) in starts(&mut queue, now) {
        there(&mut queue, job, place, now);
    }
    let all: Vec<BatchId> = (0..3).map(id).collect();
    queue.cancel(&all, CancelScope::Pending);
    let states = |queue: &Queue| (0..3).map(|job| state(queue, job)).collect::<Vec<_>>();
    assert_eq!(states(&queue), [QueuedState::Running, QueuedState::Running, QueuedState::Canceled]);
    queue.lost(1, now);
    queue.cancel(&all, CancelScope::All);
    queue.cancel(&all, CancelScope::All);
    let running = (0..2).find(|job| state(&queue, *job) == QueuedState::Running).unwrap();
    assert_eq!(
        queue.orders(),
        [Order::Stop { key: key(running), place: 0, scope: CancelScope::All }],
        "it is told once"
    );
    queue.ended(key(running), 0, There::Ended, now);
    queue.collected(key(running), 0, Collected::Nothing(String::new()), now);
    assert_eq!(states(&queue), [const { QueuedState::Canceled }; 3]);
}

/// Random numbers of a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }
}

/// The real state of hosts, of which the queue only gets reports.
struct World {
    random: Random,
    queue: Queue,
    now: Instant,
    up: Vec<bool>,
    spools: Vec<BTreeMap<usize, There>>,
    records: HashSet<usize>,
    started: HashMap<usize, usize>,
    /// Orders that are being carried out.
    open: Vec<Order>,
    fails: Vec<bool>,
    ended: HashMap<usize, QueuedState>,
}

const CPUS: usize = 2;

impl World {
    fn new(seed: u64, places: usize, jobs: usize) -> Self {
        let mut random = Random(seed);
        let mut queue = queue(&vec![limits(CPUS, 0); places]);
        for job in 0..jobs {
            let after: Vec<usize> = (0..job).filter(|_| random.below(jobs) == 0).collect();
            queue.submit(entry(job, wants(1 + random.below(CPUS), 0), &after));
        }
        let fails = (0..jobs).map(|_| random.below(8) == 0).collect();
        Self {
            random,
            queue,
            now: Instant::now(),
            up: vec![true; places],
            spools: vec![BTreeMap::new(); places],
            records: HashSet::new(),
            started: HashMap::new(),
            open: Vec::new(),
            fails,
            ended: HashMap::new(),
        }
    }

    /// Applies one random event.
    fn step(&mut self, quiet: bool) {
        match self.random.below(10) {
            0 if !quiet => self.flip(),
            1 => {
                let minutes = if quiet { 0 } else { self.random.below(8) as u64 };
                self.now += Duration::from_secs(6 + 60 * minutes);
                self.queue.tick(self.now);
            }
            2..=4 => self.end_one(),
            _ => self.carry_out_one(),
        }
        self.queue.schedule(self.now);
        let orders = self.queue.orders();
        self.open.extend(orders);
        self.check();
    }

    /// Disconnects or reconnects a host.
    fn flip(&mut self) {
        let place = self.random.below(self.up.len());
        if self.up[place] {
            self.up[place] = false;
            self.queue.lost(place, self.now);
        } else {
            self.connect(place);
        }
    }

    fn connect(&mut self, place: PlaceId) {
        self.up[place] = true;
        self.queue.places[place].connect(limits(CPUS, 0));
        let listing = self.listing(place);
        self.queue.listed(place, &listing, self.now);
    }

    fn listing(&self, place: PlaceId) -> HashMap<Key, There> {
        self.spools[place].iter().map(|(job, state)| (key(*job), *state)).collect()
    }

    /// Ends a job on a host, reported or not.
    fn end_one(&mut self) {
        let place = self.random.below(self.up.len());
        let mut running = self.spools[place].iter().filter(|(_, state)| **state == There::Running);
        let Some((job, _)) = running.next() else { return };
        let job = *job;
        self.end_there(job, place, self.fails[job]);
    }

    fn end_there(&mut self, job: usize, place: PlaceId, fails: bool) {
        let state = if fails { There::Ended } else { There::Recorded };
        self.spools[place].insert(job, state);
        if self.up[place] {
            self.queue.ended(key(job), place, state, self.now);
        }
    }

    fn carry_out_one(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let order = self.open.remove(self.random.below(self.open.len()));
        match order {
            Order::Start { key, place, .. } => {
                let job = number(key);
                let arrives = self.up[place] || self.random.below(2) == 0;
                if arrives && !self.spools[place].contains_key(&job) {
                    self.spools[place].insert(job, There::Running);
                    *self.started.entry(job).or_default() += 1;
                }
                let answer = if self.up[place] { Sent::There(self.spools[place][&job]) } else { Sent::Unsure };
                self.queue.sent(key, place, answer, self.now);
            }
            Order::Collect { key, place } => {
                let job = number(key);
                let collected = match self.spools[place].get(&job) {
                    _ if !self.up[place] => Collected::Away,
                    _ if self.random.below(10) == 0 => Collected::Later,
                    Some(There::Recorded) => {
                        // A second one finds the first in the store.
                        self.records.insert(job);
                        self.spools[place].remove(&job);
                        Collected::Stored
                    }
                    _ => {
                        self.spools[place].remove(&job);
                        Collected::Nothing(String::new())
                    }
                };
                self.queue.collected(key, place, collected, self.now);
            }
            Order::Stop { key, place, .. } => {
                if self.up[place] && self.spools[place].get(&number(key)) == Some(&There::Running) {
                    self.end_there(number(key), place, true);
                }
            }
            Order::Forget { key, place } => {
                if self.up[place] {
                    self.spools[place].remove(&number(key));
                }
            }
            Order::List { place } => {
                if self.up[place] {
                    let listing = self.listing(place);
                    self.queue.listed(place, &listing, self.now);
                }
            }
            Order::Follow { .. } => {}
        }
    }

    fn check(&mut self) {
        for spool in &self.spools {
            let running = spool.values().filter(|state| **state == There::Running).count();
            assert!(running <= CPUS, "slots are exceeded: {spool:?}");
        }
        for (job, seen) in self.queue.all().into_iter().enumerate() {
            if seen.state.is_live() {
                assert!(!self.ended.contains_key(&job), "a job ends once");
                continue;
            }
            assert_eq!(*self.ended.entry(job).or_insert_with(|| seen.state.clone()), seen.state);
            assert_eq!(seen.state == QueuedState::Completed, self.records.contains(&job));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_job_ends_once_whatever_the_hosts_do(seed: u64, places in 1..4_usize, jobs in 1..12_usize) {
        let mut world = World::new(seed, places, jobs);
        for _ in 0..300 {
            world.step(false);
        }
        for place in 0..places {
            if !world.up[place] {
                world.connect(place);
            }
        }
        for _ in 0..3000 {
            world.step(true);
        }
        let open: Vec<_> = world.queue.all().into_iter().filter(|job| job.state.is_live()).collect();
        prop_assert!(open.is_empty(), "{open:?}");
        prop_assert!(world.spools.iter().all(BTreeMap::is_empty), "{:?}", world.spools);
        for place in 0..places {
            prop_assert_eq!(world.queue.count_on(place), 0);
            prop_assert_eq!(world.queue.places[place].used(), (0, 0));
        }
        for (job, state) in &world.ended {
            prop_assert!(*state == QueuedState::Completed || world.fails[*job] || *state == QueuedState::Canceled, "{job}: {state:?}");
        }
    }

    #[test]
    fn without_losses_every_job_starts_once(seed: u64, places in 1..4_usize, jobs in 1..12_usize) {
        let mut world = World::new(seed, places, jobs);
        for _ in 0..3000 {
            world.step(true);
        }
        prop_assert!(world.started.values().all(|count| *count == 1), "{:?}", world.started);
        prop_assert!(world.queue.all().iter().all(|job| !job.state.is_live()));
    }
}

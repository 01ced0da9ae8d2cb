//! The scheduler on chosen and on random graphs.

mod gpus;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::run::slots::WHOLE;

fn job(needs: &[usize], demand: Demand) -> JobSpec {
    JobSpec { needs: needs.to_vec(), demand, expected: 1, ..JobSpec::default() }
}

/// A scheduler for jobs whose needs are other jobs, each in a separate list.
fn scheduler(specs: &[JobSpec], limits: &Limits, fail_fast: bool) -> Scheduler {
    let lists: Vec<Vec<usize>> = (0..specs.len()).map(|job| vec![job]).collect();
    Scheduler::new(specs, &lists, limits, fail_fast)
}

fn cpus(cpus: usize) -> Demand {
    Demand { cpus, ..Demand::default() }
}

fn start(job: usize, cpus: usize, gpus: &[usize]) -> Action {
    Action::Start { job, lease: Lease { cpus, gpus: gpus.to_vec(), ..Lease::default() } }
}

fn chain() -> Vec<JobSpec> {
    vec![job(&[], cpus(1)), job(&[0], cpus(1)), job(&[1], cpus(1))]
}

const LIMITS: Limits = Limits { cpus: 2, gpus: 2, gpu_memory: Vec::new(), memory: 100, jobs: 2 };

#[test]
fn a_failure_skips_what_needs_it() {
    let mut scheduler = scheduler(&chain(), &LIMITS, false);
    assert_eq!(scheduler.on(Event::Begin), [start(0, 1, &[])]);
    let skip = |job, need| Action::Skip { job, because: Reason::Needs(need) };
    assert_eq!(scheduler.on(Event::Failed(0)), [skip(1, 0), skip(2, 1), Action::Finish]);
}

#[test]
fn cached_needs_count_as_done() {
    let mut specs = chain();
    specs[0].cached = true;
    let mut scheduler = scheduler(&specs, &LIMITS, false);
    assert_eq!(scheduler.on(Event::Begin), [start(1, 1, &[])]);
}

#[test]
fn a_job_follows_another_whether_that_has_a_result_or_not() {
    let follower = || vec![job(&[], cpus(1)), JobSpec { after: Some(0), ..job(&[], cpus(1)) }];
    for event in [Event::Done(0), Event::Failed(0)] {
        let mut scheduler = scheduler(&follower(), &LIMITS, false);
        assert_eq!(scheduler.on(Event::Begin), [start(0, 1, &[])]);
        assert_eq!(scheduler.on(Event::Later(0)), []);
        assert_eq!(scheduler.on(Event::Free(0)), [start(0, 1, &[])]);
        assert_eq!(scheduler.on(event), [start(1, 1, &[])]);
    }
    let mut specs = follower();
    specs[0].cached = true;
    assert_eq!(scheduler(&specs, &LIMITS, false).on(Event::Begin), [start(1, 1, &[])]);
    // The first one is skipped, because a job that it needs fails; the chain is longer than the other job.
    let mut specs = vec![job(&[], cpus(1)), job(&[0], cpus(1)), JobSpec { after: Some(1), ..job(&[], cpus(1)) }];
    specs.push(JobSpec { expected: 2, ..job(&[], cpus(1)) });
    let mut scheduler = scheduler(&specs, &Limits { cpus: 1, ..LIMITS }, false);
    assert_eq!(scheduler.on(Event::Begin), [start(0, 1, &[])]);
    let skip = Action::Skip { job: 1, because: Reason::Needs(0) };
    assert_eq!(scheduler.on(Event::Failed(0)), [skip, start(3, 1, &[])]);
    assert_eq!(scheduler.on(Event::Done(3)), [start(2, 1, &[])]);
}

#[test]
fn nothing_to_do_is_over_at_once() {
    assert_eq!(scheduler(&[], &LIMITS, false).on(Event::Begin), [Action::Finish]);
}

#[test]
fn a_job_that_wants_everything_waits_for_everything_and_is_not_overtaken() {
    let mut specs = [job(&[], cpus(1)), job(&[], cpus(99)), job(&[], cpus(1))];
    specs[0].expected = 2;
    let mut scheduler = scheduler(&specs, &LIMITS, false);
    assert_eq!(scheduler.on(Event::Begin), [start(0, 1, &[])]);
    assert_eq!(scheduler.on(Event::Done(0)), [start(1, 2, &[])]);
    assert_eq!(scheduler.on(Event::Done(1)), [start(2, 1, &[])]);
}

#[test]
fn the_longest_way_goes_first() {
    // Job 2 leads to a long job 3; job 1 is longer than 2 alone.
    let mut specs = vec![job(&[], cpus(1)), job(&[], cpus(1)), job(&[], cpus(1)), job(&[2], cpus(1))];
    for (spec, expected) in specs.iter_mut().zip([1, 5, 2, 9]) {
        spec.expected = expected;
    }
    let mut scheduler = scheduler(&specs, &Limits { cpus: 1, ..LIMITS }, false);
    let mut order = Vec::new();
    let mut actions = scheduler.on(Event::Begin);
    while let Some(Action::Start { job, .. }) = actions.first() {
        order.push(*job);
        actions = scheduler.on(Event::Done(*job));
    }
    assert_eq!(order, [2, 3, 1, 0]);
}

#[test]
fn measuring_jobs_run_in_rounds_and_other_jobs_do_not_come_between() {
    let turn = |group, round, position| Some(Turn { group, round, position });
    // Two variants with two seeds each, and a step that does not measure; a second measuring step is longer.
    let turns = [turn(0, 0, 1), turn(0, 1, 0), None, turn(0, 0, 0), turn(0, 1, 1), turn(1, 1, 0), turn(1, 0, 0)];
    let mut specs = turns.map(|turn| JobSpec { turn, ..job(&[], cpus(1)) });
    for (spec, expected) in specs.iter_mut().zip([5, 1, 3, 4, 2, 7, 1]) {
        spec.expected = expected;
    }
    let mut scheduler = scheduler(&specs, &Limits { jobs: 1, ..LIMITS }, false);
    let mut order = Vec::new();
    let mut actions = scheduler.on(Event::Begin);
    while let Some(Action::Start { job, .. }) = actions.first() {
        order.push(*job);
        actions = scheduler.on(Event::Done(*job));
    }
    assert_eq!(order, [6, 5, 3, 0, 1, 4, 2], "of the steps, the longest way goes first; in a step, the turn decides");
}

#[test]
fn a_job_that_does_not_get_the_machine_keeps_its_place() {
    let specs = [job(&[], cpus(1)), job(&[], cpus(1)), job(&[], cpus(1))];
    let mut scheduler = scheduler(&specs, &LIMITS, false);
    assert_eq!(scheduler.on(Event::Begin), [start(0, 1, &[]), start(1, 1, &[])]);
    assert_eq!(scheduler.on(Event::Refused(1)), []);
    assert_eq!(scheduler.on(Event::Done(0)), [], "nothing passes it");
    assert_eq!(scheduler.on(Event::Retry), [start(1, 1, &[]), start(2, 1, &[])]);
    assert_eq!(scheduler.on(Event::Refused(1)), []);
    assert_eq!(scheduler.on(Event::Refused(2)), []);
    let skip = |job| Action::Skip { job, because: Reason::Stopped };
    assert_eq!(scheduler.on(Event::Stop), [skip(1), skip(2), Action::Finish]);
}

#[test]
fn a_held_job_runs_once_it_is_released() {
    let mut specs = chain();
    specs.push(job(&[1], cpus(1)));
    for spec in &mut specs[1..] {
        (spec.cached, spec.held) = (true, true);
    }
    let limits = Limits { jobs: 3, cpus: 3, ..LIMITS };
    let mut scheduler = scheduler(&specs, &limits, false);
    assert_eq!(scheduler.on(Event::Begin), [start(0, 1, &[])]);
    assert_eq!(scheduler.on(Event::Release(1)), []);
    assert_eq!(scheduler.on(Event::Release(2)), []);
    assert_eq!(scheduler.on(Event::Begin), [], "it needs the running one");
    assert_eq!(scheduler.on(Event::Done(0)), [start(1, 1, &[])]);
    assert_eq!(scheduler.on(Event::Done(1)), [start(2, 1, &[])]);
    assert_eq!(scheduler.on(Event::Done(2)), [Action::Finish]);
    // Released after the end, with nothing left to wait for.
    assert_eq!(scheduler.on(Event::Release(3)), []);
    assert_eq!(scheduler.on(Event::Release(3)), [], "once");
    assert_eq!(scheduler.on(Event::Begin), [start(3, 1, &[])]);
    assert_eq!(scheduler.on(Event::Done(3)), [Action::Finish]);
}

#[test]
fn a_held_job_whose_need_is_lost_is_skipped() {
    let mut specs = chain();
    (specs[1].cached, specs[1].held) = (true, true);
    (specs[2].cached, specs[2].held) = (true, true);
    let begin = || {
        let mut scheduler = scheduler(&specs, &LIMITS, false);
        scheduler.on(Event::Begin);
        scheduler
    };
    let skip = |job, because| Action::Skip { job, because };
    let mut late = begin();
    assert_eq!(late.on(Event::Failed(0)), [Action::Finish]);
    assert_eq!(late.on(Event::Release(1)), [skip(1, Reason::Needs(0))]);
    assert_eq!(late.on(Event::Release(2)), [skip(2, Reason::Needs(1))]);
    assert_eq!(late.on(Event::Begin), [Action::Finish]);
    let mut early = begin();
    early.on(Event::Release(1));
    early.on(Event::Release(2));
    assert_eq!(early.on(Event::Failed(0)), [skip(1, Reason::Needs(0)), skip(2, Reason::Needs(1)), Action::Finish]);
    let mut stopped = begin();
    stopped.on(Event::Stop);
    assert_eq!(stopped.on(Event::Release(1)), [skip(1, Reason::Stopped)]);
}

#[test]
fn a_list_that_many_need_is_a_barrier() {
    // Both of the last need both of the first.
    let both = JobSpec { needs: vec![0], ..job(&[], cpus(1)) };
    let specs = [job(&[], cpus(1)), job(&[], cpus(1)), both.clone(), both];
    let limits = Limits { cpus: 4, jobs: 4, ..LIMITS };
    let begin = || {
        let mut scheduler = Scheduler::new(&specs, &[vec![0, 1]], &limits, false);
        assert_eq!(scheduler.on(Event::Begin), [start(0, 1, &[]), start(1, 1, &[])]);
        assert_eq!(scheduler.on(Event::Done(1)), []);
        scheduler
    };
    assert_eq!(begin().on(Event::Done(0)), [start(2, 1, &[]), start(3, 1, &[])]);
    let skip = |job| Action::Skip { job, because: Reason::Needs(0) };
    assert_eq!(begin().on(Event::Failed(0)), [skip(2), skip(3), Action::Finish]);
}

#[test]
fn every_gpu_has_one_job_and_others_go_on_without() {
    let gpu = Demand { gpus: 1, ..cpus(1) };
    let mut specs = vec![job(&[], gpu), job(&[], gpu), job(&[], gpu), job(&[], cpus(1))];
    specs[3].expected = 0;
    let limits = Limits { cpus: 8, memory: 0, jobs: 8, ..LIMITS };
    let mut scheduler = scheduler(&specs, &limits, false);
    assert_eq!(scheduler.on(Event::Begin), [start(0, 1, &[0]), start(1, 1, &[1]), start(3, 1, &[])]);
    assert_eq!(scheduler.on(Event::Done(1)), [start(2, 1, &[1])]);
}

#[test]
fn a_measuring_job_is_alone() {
    let alone = Demand { exclusive: true, ..cpus(1) };
    let specs = [job(&[], cpus(1)), job(&[], alone), job(&[], cpus(1))];
    let mut scheduler = scheduler(&specs, &LIMITS, false);
    assert_eq!(scheduler.on(Event::Begin), [start(0, 1, &[])]);
    assert_eq!(scheduler.on(Event::Done(0)), [start(1, 1, &[])]);
    assert_eq!(scheduler.on(Event::Done(1)), [start(2, 1, &[])]);
}

#[test]
fn what_is_being_stored_takes_no_slot_but_is_not_done() {
    let alone = Demand { exclusive: true, ..cpus(1) };
    let mut specs = vec![job(&[], cpus(2)), job(&[0], cpus(1)), job(&[], cpus(2)), job(&[], alone)];
    specs[3].expected = 0;
    let mut scheduler = scheduler(&specs, &LIMITS, false);
    assert_eq!(scheduler.on(Event::Begin), [start(0, 2, &[])]);
    assert_eq!(scheduler.on(Event::Storing(0)), [start(2, 2, &[])], "what needs it waits for its record");
    assert_eq!(scheduler.on(Event::Storing(2)), [], "and what must be alone for the disk");
    assert_eq!(scheduler.on(Event::Done(0)), [start(1, 1, &[])]);
    assert_eq!(scheduler.on(Event::Done(1)), []);
    assert_eq!(scheduler.on(Event::Done(2)), [start(3, 1, &[])]);
    assert_eq!(scheduler.on(Event::Done(3)), [Action::Finish]);
}

#[test]
fn a_tolerated_failure_stops_nothing() {
    let mut specs = vec![job(&[], cpus(1)), job(&[0], cpus(1)), job(&[], cpus(1))];
    specs[0].tolerated = true;
    let mut scheduler = scheduler(&specs, &Limits { jobs: 1, ..LIMITS }, true);
    assert_eq!(scheduler.on(Event::Begin), [start(0, 1, &[])]);
    let skip = Action::Skip { job: 1, because: Reason::Needs(0) };
    assert_eq!(scheduler.on(Event::Failed(0)), [skip, start(2, 1, &[])]);
}

fn demands() -> impl Strategy<Value = Demand> {
    let share = proptest::option::weighted(0.5, prop_oneof![Just(0), Just(250), Just(500), 0u16..1000]);
    let gpu_memory = prop_oneof![Just(0), 0u64..12_000];
    let cpus = (0usize..5, proptest::option::weighted(0.3, 1u16..1000));
    (cpus, 0usize..4, (share, gpu_memory), 0u64..150, proptest::bool::weighted(0.1)).prop_map(
        |((cpus, core_share), gpus, (share, gpu_memory), memory, exclusive)| {
            // A part is one of a single GPU.
            let gpus = if share.is_some() { gpus.min(1) } else { gpus };
            Demand { cpus, core_share, gpus, share, gpu_memory, memory, exclusive }
        },
    )
}

/// Jobs, and the lists of jobs that are needed together.
type Graph = (Vec<JobSpec>, Vec<Vec<usize>>);

/// Random graphs (edges go from lower to higher indices), slots, and outcomes. Lists are shared, and may have jobs in common.
fn runs() -> impl Strategy<Value = (Graph, Limits, bool, Vec<(u8, u8)>)> {
    let specs = (1usize..20).prop_flat_map(|count| {
        let list = (0..count).prop_flat_map(|last| proptest::collection::btree_set(0..=last, 1..=last + 1));
        let lists = proptest::collection::vec(list, 1..8);
        let jobs: Vec<_> = (0..count)
            .map(|index| {
                let needs = proptest::collection::vec(0..8usize, 0..4usize);
                let flags = (proptest::bool::weighted(0.15), proptest::bool::weighted(0.2));
                let turn = proptest::option::of((0usize..3, 0usize..3, any::<usize>()));
                let after = proptest::option::of(any::<usize>());
                (needs, after, demands(), any::<u64>(), flags, turn).prop_map(
                    move |(mut needs, after, demand, expected, (cached, tolerated), turn)| {
                        let after = after.and_then(|after| after.checked_rem(index));
                        needs.sort_unstable();
                        needs.dedup();
                        let turn = turn.map(|(group, round, position)| Turn { group, round, position });
                        (index, JobSpec { needs, after, demand, expected, cached, held: false, tolerated, turn })
                    },
                )
            })
            .collect();
        (jobs, lists).prop_map(|(jobs, lists)| {
            let lists: Vec<Vec<usize>> = lists.into_iter().map(|list| list.into_iter().collect()).collect();
            let jobs = jobs.into_iter().map(|(index, mut job)| {
                // A job cannot need a list that contains the job itself or a later one.
                job.needs.retain(|list| lists.get(*list).is_some_and(|list| list.iter().all(|need| *need < index)));
                job
            });
            (jobs.collect(), lists)
        })
    });
    let gpu_memory = proptest::collection::vec(prop_oneof![Just(0), Just(8_000), 1u64..20_000], 0..3);
    let limits = (1usize..5, 0usize..3, gpu_memory, 0u64..120, 1usize..5)
        .prop_map(|(cpus, gpus, gpu_memory, memory, jobs)| Limits { cpus, gpus, gpu_memory, memory, jobs });
    (specs, limits, proptest::bool::weighted(0.2), proptest::collection::vec(any::<(u8, u8)>(), 64))
}

/// A run from the engine's view, which checks all guarantees of the scheduler.
struct Model<'a> {
    specs: &'a [JobSpec],
    lists: &'a [Vec<usize>],
    limits: Limits,
    fail_fast: bool,
    running: BTreeMap<usize, Lease>,
    done: BTreeSet<usize>,
    ended: BTreeSet<usize>,
    /// Jobs of another process, or waiting for another attempt.
    elsewhere: BTreeSet<usize>,
    /// Jobs that have ended and are being stored.
    storing: BTreeSet<usize>,
    stopped: bool,
    /// The machine is not to be had.
    refused: bool,
}

impl Model<'_> {
    /// True if a job could start if there were room.
    fn is_ready(&self, job: usize) -> bool {
        let is_begun = self.running.contains_key(&job) || self.elsewhere.contains(&job) || self.storing.contains(&job);
        let follows = self.specs[job].after.is_none_or(|first| self.specs[first].cached || self.ended.contains(&first));
        !is_begun && !self.ended.contains(&job) && follows && self.needs(job).all(|need| self.done.contains(&need))
    }

    /// Ready jobs of a measuring step with the same demand start in their order.
    fn check_turn(&self, job: usize) -> Result<(), TestCaseError> {
        let demand = |job: usize| self.limits.clamp(self.specs[job].demand);
        let Some(turn) = self.specs[job].turn else { return Ok(()) };
        for (other, spec) in self.specs.iter().enumerate() {
            let same = spec.turn.is_some_and(|other| other.group == turn.group) && demand(other) == demand(job);
            if same && self.is_ready(other) {
                prop_assert!(spec.turn >= Some(turn), "{other} comes before {job}");
            }
        }
        Ok(())
    }

    fn needs(&self, job: usize) -> impl Iterator<Item = usize> {
        self.specs[job].needs.iter().flat_map(|list| self.lists[*list].iter().copied())
    }

    fn take(&mut self, actions: Vec<Action>) -> Result<bool, TestCaseError> {
        let mut over = false;
        for action in actions {
            prop_assert!(!over, "nothing follows the end");
            match action {
                Action::Start { job, lease } => {
                    prop_assert!(!self.stopped, "started after a stop");
                    prop_assert!(!self.refused, "started without the machine");
                    self.check_turn(job)?;
                    prop_assert!(self.needs(job).all(|need| self.done.contains(&need)), "needs first");
                    prop_assert!(!self.ended.contains(&job) && !self.elsewhere.contains(&job));
                    prop_assert!(!self.storing.contains(&job));
                    prop_assert!(self.storing.is_empty() || !self.specs[job].demand.exclusive, "not quite alone");
                    let demand = self.limits.clamp(self.specs[job].demand);
                    prop_assert_eq!((lease.cpus, lease.gpus.len()), (demand.cpus, demand.gpus));
                    prop_assert!(self.running.insert(job, lease).is_none());
                }
                Action::Skip { job, because } => {
                    if let Reason::Needs(need) = because {
                        prop_assert!(self.needs(job).any(|other| other == need) && self.ended.contains(&need));
                    }
                    self.elsewhere.remove(&job);
                    self.stopped |= because == Reason::Stopped;
                    prop_assert!(!self.storing.contains(&job));
                    prop_assert!(self.ended.insert(job) && !self.running.contains_key(&job));
                }
                Action::Finish => over = true,
            }
            self.check_slots()?;
        }
        Ok(over)
    }

    fn check_slots(&self) -> Result<(), TestCaseError> {
        let demand = |job: &usize| self.limits.clamp(self.specs[*job].demand);
        prop_assert!(self.running.len() <= self.limits.jobs);
        let millicores: usize = self.running.keys().map(|job| demand(job).millicores()).sum();
        prop_assert!(millicores <= self.limits.cpus * usize::from(WHOLE));
        prop_assert!(self.running.keys().map(|job| demand(job).memory).sum::<u64>() <= self.limits.memory);
        for gpu in 0..self.limits.gpus {
            let memory = self.limits.gpu_memory.get(gpu).copied().unwrap_or(0);
            let on: Vec<&Lease> = self.running.values().filter(|lease| lease.gpus.contains(&gpu)).collect();
            let is_whole = on.iter().any(|lease| lease.share.is_none());
            prop_assert!(!is_whole || on.len() == 1, "nobody shares a whole GPU");
            prop_assert!(on.iter().filter_map(|lease| lease.share).sum::<u16>() <= 1000, "no more than all of it");
            prop_assert!(memory == 0 || on.iter().all(|lease| lease.gpu_memory <= memory), "large enough");
            let used_memory: u64 = on.iter().filter(|lease| lease.share.is_some()).map(|lease| lease.gpu_memory).sum();
            prop_assert!(memory == 0 || used_memory <= memory, "no more than its memory");
            let by_memory = on.iter().any(|lease| lease.share == Some(0));
            prop_assert!(memory > 0 || !by_memory || on.len() == 1, "memory that is not known cannot be shared");
        }
        for lease in self.running.values() {
            let different: BTreeSet<usize> = lease.gpus.iter().copied().collect();
            prop_assert_eq!(different.len(), lease.gpus.len(), "no GPU twice");
            prop_assert!(lease.gpus.iter().all(|gpu| *gpu < self.limits.gpus));
        }
        prop_assert!(self.running.len() < 2 || !self.running.keys().any(|job| demand(job).exclusive), "alone");
        Ok(())
    }

    /// Applies an event.
    fn event(&mut self, which: u8, kind: u8) -> Event {
        if let Some(job) = self.storing.first().copied()
            && (self.running.is_empty() || kind.is_multiple_of(3))
        {
            self.storing.remove(&job);
            self.ended.insert(job);
            if kind.is_multiple_of(2) {
                self.stopped |= self.fail_fast && !self.specs[job].tolerated;
                return Event::Failed(job);
            }
            self.done.insert(job);
            return Event::Done(job);
        }
        if self.refused && (self.running.is_empty() || kind.is_multiple_of(5)) {
            self.refused = false;
            return Event::Retry;
        }
        if self.running.is_empty() || (kind.is_multiple_of(4) && !self.elsewhere.is_empty()) {
            return Event::Free(self.elsewhere.pop_first().unwrap());
        }
        let job = *self.running.keys().nth(usize::from(which) % self.running.len()).unwrap();
        if kind < 10 {
            self.stopped = true;
            return Event::Stop;
        }
        self.running.remove(&job);
        match kind {
            10..=59 => {
                self.ended.insert(job);
                self.stopped |= self.fail_fast && !self.specs[job].tolerated;
                Event::Failed(job)
            }
            60..=74 => {
                self.elsewhere.insert(job);
                Event::Later(job)
            }
            75..=89 => {
                self.refused = true;
                Event::Refused(job)
            }
            90..=169 => {
                self.storing.insert(job);
                Event::Storing(job)
            }
            _ => {
                self.ended.insert(job);
                self.done.insert(job);
                Event::Done(job)
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn every_job_ends_once_and_slots_hold(((specs, lists), limits, fail_fast, choices) in runs()) {
        let mut scheduler = Scheduler::new(&specs, &lists, &limits, fail_fast);
        let cached: BTreeSet<usize> = (0..specs.len()).filter(|job| specs[*job].cached).collect();
        let mut model = Model {
            specs: &specs,
            lists: &lists,
            limits: limits.clone(),
            fail_fast,
            running: BTreeMap::new(),
            done: cached.clone(),
            ended: cached,
            elsewhere: BTreeSet::new(),
            storing: BTreeSet::new(),
            stopped: false,
            refused: false,
        };
        let mut choices = choices.into_iter().cycle();
        let mut event = Event::Begin;
        for _ in 0..2_000 {
            let actions = scheduler.on(event);
            if model.take(actions)? {
                prop_assert!(model.running.is_empty() && model.storing.is_empty());
                prop_assert_eq!(model.ended.len(), specs.len(), "every job ends");
                prop_assert!(scheduler.on(Event::Stop).is_empty(), "and nothing happens after the end");
                return Ok(());
            }
            let idle = model.running.is_empty() && model.elsewhere.is_empty() && model.storing.is_empty();
            let busy = !idle || model.refused;
            prop_assert!(busy, "neither running nor over: a deadlock");
            let Some((which, what)) = choices.next() else { break };
            event = model.event(which, what);
        }
        prop_assert!(false, "does not terminate");
    }
}

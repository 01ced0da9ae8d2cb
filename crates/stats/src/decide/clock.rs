//! Asynchronous halving by a virtual clock: a configuration is promoted as soon as it is among the best of the configurations that have
//! reached its rung, without waiting for the others.
//!
//! The configurations that have reached a rung by then must not depend on the speed of machines. So a number of virtual
//! workers trains the configurations: a rung takes a worker its declared cost, and the workers take the configurations in
//! the given order. Only the values of the real jobs count. The simulation stops where it needs a value that is not known
//! yet, and values that become known later leave the starts up to there as they are.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

use super::{Fraction, ranking};
use crate::stats::Better;

/// The version of this rule; raised when the rule changes the result for the same values.
pub const VERSION: u32 = 1;

/// Rules of an asynchronous search.
#[derive(Debug, Clone)]
pub struct Course {
    /// Number of configurations.
    pub configurations: usize,
    /// Virtual time that a configuration takes at each rung.
    pub costs: Vec<u64>,
    /// The fraction of the configurations at a rung that is promoted.
    pub keep: Fraction,
    /// The better direction.
    pub better: Better,
    /// Number of virtual workers, at least 1.
    pub workers: usize,
}

/// Knowledge about a configuration at a rung.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Known {
    /// Its jobs have not ended.
    Open,
    /// Its value; `None` if it failed or diverged.
    Value(Option<f64>),
}

/// A configuration that starts at a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The configuration.
    pub configuration: usize,
    /// The rung.
    pub rung: usize,
    /// The virtual time.
    pub at: u64,
    /// Its rank, from 1, among the configurations that had reached the rung below; 0 at the first rung.
    pub rank: usize,
    /// Number of configurations that had reached the rung below.
    pub of: usize,
}

/// The starts up to where the values are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// In the order of the virtual clock.
    pub starts: Vec<Start>,
    /// True if no start can follow.
    pub ended: bool,
}

/// State of the simulation.
struct Clock<'a> {
    course: &'a Course,
    now: u64,
    idle: usize,
    /// Number of configurations that have started.
    begun: usize,
    /// The work of the busy workers: its end, the configuration, the rung.
    busy: BinaryHeap<Reverse<(u64, usize, usize)>>,
    /// For each rung, the configurations that have reached it, in ascending order, with their values.
    reached: Vec<Vec<(usize, Option<f64>)>>,
    /// For each rung, the configurations that have gone on.
    promoted: Vec<BTreeSet<usize>>,
    starts: Vec<Start>,
}

/// Runs the virtual clock. `known` returns the knowledge about a configuration and a rung.
pub fn simulate(course: &Course, known: impl Fn(usize, usize) -> Known) -> Timeline {
    let rungs = course.costs.len();
    let mut clock = Clock {
        course,
        now: 0,
        idle: course.workers.max(1),
        begun: 0,
        busy: BinaryHeap::new(),
        reached: vec![Vec::new(); rungs],
        promoted: vec![BTreeSet::new(); rungs],
        starts: Vec::new(),
    };
    if rungs == 0 {
        return Timeline { starts: Vec::new(), ended: true };
    }
    loop {
        clock.assign();
        let Some(Reverse((end, ..))) = clock.busy.peek().copied() else {
            return Timeline { starts: clock.starts, ended: true };
        };
        clock.now = end;
        while let Some(Reverse((at, configuration, rung))) = clock.busy.peek().copied().filter(|next| next.0.0 == end) {
            let Known::Value(value) = known(configuration, rung) else {
                return Timeline { starts: clock.starts, ended: false };
            };
            debug_assert_eq!(at, end);
            clock.busy.pop();
            clock.idle += 1;
            let results = &mut clock.reached[rung];
            let place = results.partition_point(|(other, _)| *other < configuration);
            results.insert(place, (configuration, value));
        }
    }
}

impl Clock<'_> {
    /// Gives the idle workers something to do.
    fn assign(&mut self) {
        while self.idle > 0 {
            let Some(start) = self.promotion().or_else(|| self.fresh()).or_else(|| self.last_resort()) else {
                return;
            };
            if let Some(lower_rung) = start.rung.checked_sub(1) {
                self.promoted[lower_rung].insert(start.configuration);
            } else {
                self.begun += 1;
            }
            self.idle -= 1;
            let end = self.now.saturating_add(self.course.costs[start.rung]);
            self.busy.push(Reverse((end, start.configuration, start.rung)));
            self.starts.push(start);
        }
    }

    /// The best configuration that can be promoted, from the highest rung.
    fn promotion(&self) -> Option<Start> {
        let keep = |rung: usize| self.course.keep.of(self.reached[rung].len());
        (0..self.course.costs.len() - 1).rev().find_map(|rung| self.promotion_from(rung, keep(rung)))
    }

    /// The best of the first `keep` configurations of a rung that has not been promoted.
    fn promotion_from(&self, rung: usize, keep: usize) -> Option<Start> {
        let results = &self.reached[rung];
        let values: Vec<Option<f64>> = results.iter().map(|(_, value)| *value).collect();
        let best_results = ranking(&values, self.course.better).into_iter().take(keep).enumerate();
        let promotion = |(index, place): (usize, usize)| {
            let (configuration, value) = results[place];
            let can_start = value.is_some_and(f64::is_finite) && !self.promoted[rung].contains(&configuration);
            can_start.then_some(Start {
                configuration,
                rung: rung + 1,
                at: self.now,
                rank: index + 1,
                of: results.len(),
            })
        };
        best_results.into_iter().find_map(promotion)
    }

    /// The next configuration that has not started.
    fn fresh(&self) -> Option<Start> {
        let next_configuration = (self.begun < self.course.configurations).then_some(self.begun);
        next_configuration.map(|configuration| Start { configuration, rung: 0, at: self.now, rank: 0, of: 0 })
    }

    /// The best configuration of a rung with too few configurations for a promotion, once nothing else is left.
    fn last_resort(&self) -> Option<Start> {
        if !self.busy.is_empty() {
            return None;
        }
        let lowest_rung = (0..self.course.costs.len() - 1).find(|rung| self.promoted[*rung].is_empty())?;
        self.promotion_from(lowest_rung, 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn course(configurations: usize, workers: usize) -> Course {
        let keep = Fraction::parse("1/3").unwrap();
        Course { configurations, costs: vec![1, 2, 6], keep, better: Better::Less, workers }
    }

    fn value(values: &[Option<f64>], configuration: usize, rung: usize) -> Option<f64> {
        // Better with each rung, and not always in the same order.
        values[configuration].map(|value| value / (rung + 1) as f64 + (configuration % 3) as f64 * 0.1)
    }

    #[test]
    fn one_worker_goes_on_with_the_best_of_three() {
        let values = [Some(3.0), Some(1.0), Some(2.0)];
        let timeline = simulate(&course(3, 1), |configuration, _| Known::Value(values[configuration]));
        let starts: Vec<(usize, usize, u64)> =
            timeline.starts.iter().map(|start| (start.configuration, start.rung, start.at)).collect();
        // The last configuration is alone on the second rung, and is promoted once nothing else is left.
        assert_eq!(starts, [(0, 0, 0), (1, 0, 1), (2, 0, 2), (1, 1, 3), (1, 2, 5)]);
        assert!(timeline.ended);
        assert_eq!((timeline.starts[3].rank, timeline.starts[3].of), (1, 3));
    }

    #[test]
    fn nothing_goes_on_after_failures_only() {
        let timeline = simulate(&course(5, 2), |_, _| Known::Value(None));
        assert!(timeline.ended);
        assert_eq!(timeline.starts.len(), 5);
        let no_jobs = simulate(&course(0, 2), |_, _| Known::Open);
        assert_eq!(no_jobs, Timeline { starts: Vec::new(), ended: true });
    }

    proptest! {
        /// Results that arrive in any order start the same configurations, and a later result revokes no start.
        #[test]
        fn the_order_of_arrival_decides_nothing(
            values in prop::collection::vec(prop::option::weighted(0.9, 0.0..10.0_f64), 1..40),
            workers in 1..12_usize,
            order in any::<u64>(),
        ) {
            let course = course(values.len(), workers);
            let full_timeline =
                simulate(&course, |configuration, rung| Known::Value(value(&values, configuration, rung)));
            prop_assert!(full_timeline.ended);
            let mut finished_jobs = BTreeSet::new();
            let mut state = order;
            let mut last_starts = Vec::new();
            loop {
                let outcome = |configuration, rung| {
                    if finished_jobs.contains(&(configuration, rung)) {
                        Known::Value(value(&values, configuration, rung))
                    } else {
                        Known::Open
                    }
                };
                let timeline = simulate(&course, outcome);
                prop_assert!(timeline.starts.starts_with(&last_starts), "a start was taken back");
                // Every configuration starts at the first rung in any case.
                let first_jobs = (0..values.len()).map(|configuration| (configuration, 0));
                let started_jobs = timeline.starts.iter().map(|start| (start.configuration, start.rung));
                let open_jobs: Vec<(usize, usize)> =
                    first_jobs.chain(started_jobs).filter(|job| !finished_jobs.contains(job)).collect();
                if open_jobs.is_empty() {
                    prop_assert_eq!(timeline, full_timeline);
                    break;
                }
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                finished_jobs.insert(open_jobs[(state >> 33) as usize % open_jobs.len()]);
                last_starts = timeline.starts;
            }
        }

        /// No more than the workers are busy at any time, and nothing starts twice.
        #[test]
        fn workers_do_one_thing_at_a_time(
            values in prop::collection::vec(prop::option::weighted(0.9, 0.0..10.0_f64), 1..40),
            workers in 1..12_usize,
        ) {
            let course = course(values.len(), workers);
            let timeline = simulate(&course, |configuration, rung| Known::Value(value(&values, configuration, rung)));
            let starts: BTreeSet<(usize, usize)> =
                timeline.starts.iter().map(|start| (start.configuration, start.rung)).collect();
            prop_assert_eq!(starts.len(), timeline.starts.len());
            for start in &timeline.starts {
                let overlapping_starts = timeline.starts.iter().filter(|other| {
                    other.at <= start.at && start.at < other.at + course.costs[other.rung]
                });
                prop_assert!(overlapping_starts.count() <= workers);
                prop_assert!(start.rung == 0 || starts.contains(&(start.configuration, start.rung - 1)));
            }
        }
    }
}

//! Races: configurations get seed after seed, and leave when they are worse than the best one, or than a baseline.
//!
//! After each seed, every configuration is compared with the best mean so far by its differences at the same seeds. The
//! levels of all looks at one pair share the error of that pair ([`extension_level`]), and all pairs of a
//! configuration share the error of the race (Bonferroni). So the probability that the truly best configuration ever
//! leaves is at most 5 %, whichever configuration was the best so far.

use super::{mean, ranking};
use crate::stats::{Better, Estimate, LEVEL, Sample, extension_level};

/// The version of this rule; raised when the same values would give another result.
pub const VERSION: u32 = 1;

/// Rules of a race.
#[derive(Debug, Clone, PartialEq)]
pub struct Race {
    /// Number of configurations.
    pub configurations: usize,
    /// Number of seeds before the first look, at least 2.
    pub least: usize,
    /// Number of seeds of a configuration that does not leave.
    pub most: usize,
    /// The better direction.
    pub better: Better,
    /// The configuration that the others are compared with; `None` for the best so far.
    pub baseline: Option<usize>,
}

/// Knowledge about a configuration at a seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Known {
    /// Its job has not ended.
    Open,
    /// Its value; `None` if it failed or diverged.
    Value(Option<f64>),
}

/// Reason why a configuration leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Exit {
    /// One of its jobs failed or diverged.
    Failed,
    /// It is worse than another one.
    Worse {
        /// The other one.
        than: usize,
        /// The mean difference to it, positive if worse, with the interval at the level of the look.
        by: Estimate,
    },
}

/// The state of a race after some seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Number of seeds of each configuration that was in the race.
    pub seeds: usize,
    /// Those that were compared, in ascending order.
    pub among: Vec<usize>,
    /// Those that leave, in ascending order, each with the reason.
    pub left: Vec<(usize, Exit)>,
}

/// The course of a race, as far as the values are known.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The looks at which all values were known.
    pub looks: Vec<Look>,
    /// For every configuration, the number of seeds that it is to have by now.
    pub seeds: Vec<usize>,
}

impl Race {
    /// The confidence level of the interval at each look.
    pub fn level(&self) -> f64 {
        let others = self.configurations.saturating_sub(1).max(1);
        // An interval of a level errs on the harmful side half of the time.
        let spend = 2.0 * (1.0 - LEVEL) / others as f64;
        let sizes: Vec<usize> = self.sizes().collect();
        extension_level(&[], &sizes, spend)
    }

    /// The numbers of seeds at which there is a look. Nothing is saved by one at the last seed.
    fn sizes(&self) -> std::ops::Range<usize> {
        self.least.max(2)..self.most
    }

    /// Follows the race. `known` answers for a configuration and a seed, from 0.
    pub fn run(&self, known: impl Fn(usize, usize) -> Known) -> Course {
        let first = self.least.max(2).min(self.most);
        let mut course = Course { looks: Vec::new(), seeds: vec![first; self.configurations] };
        let mut among: Vec<usize> = (0..self.configurations).collect();
        let level = self.level();
        for seeds in self.sizes() {
            let values = |configuration: usize| -> Option<Vec<Option<f64>>> {
                (0..seeds)
                    .map(|seed| match known(configuration, seed) {
                        Known::Open => None,
                        Known::Value(value) => Some(value.filter(|value| value.is_finite())),
                    })
                    .collect()
            };
            let Some(values) = among.iter().map(|runner| values(*runner)).collect::<Option<Vec<_>>>() else {
                return course;
            };
            let left = self.leaving(&among, &values, level);
            let stay = |runner: &usize| !left.iter().any(|(gone, _)| gone == runner);
            let next: Vec<usize> = among.iter().copied().filter(stay).collect();
            course.looks.push(Look { seeds, among, left });
            among = next;
            // Without a rival, nothing is left to decide.
            let over = among.len() < 2;
            for runner in &among {
                course.seeds[*runner] = if over { self.most } else { seeds + 1 };
            }
            if over {
                break;
            }
        }
        course
    }

    /// The configurations that leave at a look, from the values of those in the race.
    fn leaving(&self, among: &[usize], values: &[Vec<Option<f64>>], level: f64) -> Vec<(usize, Exit)> {
        let means: Vec<Option<f64>> = values.iter().map(|values| mean(values)).collect();
        let reference = match self.baseline {
            Some(baseline) => among.iter().position(|runner| *runner == baseline),
            None => ranking(&means, self.better).first().copied(),
        };
        // Without a measured reference nothing is known to be worse, and a baseline that failed leaves no one behind.
        let reference = reference.filter(|place| means[*place].is_some());
        let mut left = Vec::new();
        for (place, runner) in among.iter().copied().enumerate() {
            if Some(runner) == self.baseline || Some(place) == reference {
                continue;
            }
            if means[place].is_none() {
                left.push((runner, Exit::Failed));
            } else if let Some(reference) = reference
                && let Some(by) = worse(&values[place], &values[reference], self.better, level)
            {
                left.push((runner, Exit::Worse { than: among[reference], by }));
            }
        }
        left
    }
}

/// The mean difference to the values of another configuration at the same seeds, if the interval excludes that it is
/// as good. Differences that are all equal say nothing about their spread.
fn worse(own: &[Option<f64>], other: &[Option<f64>], better: Better, level: f64) -> Option<Estimate> {
    let sign = if better == Better::Less { 1.0 } else { -1.0 };
    let pairs = own.iter().zip(other).map(|(own, other)| Some(sign * ((*own)? - (*other)?)));
    let sample = Sample::new(&pairs.collect::<Option<Vec<f64>>>()?)?;
    sample.sd.filter(|sd| *sd > 0.0 && sd.is_finite())?;
    let estimate = sample.estimate_at(level);
    estimate.low.is_some_and(|low| low > 0.0).then_some(estimate)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::stats::Draws;

    fn race(configurations: usize, least: usize, most: usize) -> Race {
        Race { configurations, least, most, better: Better::Less, baseline: None }
    }

    fn values(means: &[f64], spread: f64, seeds: usize, seed: u64) -> Vec<Vec<f64>> {
        let mut draws = Draws::new(seed);
        means.iter().map(|mean| (0..seeds).map(|_| mean + spread * draws.normal()).collect()).collect()
    }

    fn run(race: &Race, values: &[Vec<f64>]) -> Course {
        race.run(|configuration, seed| Known::Value(Some(values[configuration][seed])))
    }

    #[test]
    fn the_clearly_worse_leave_and_the_best_gets_all_seeds() {
        let race = race(4, 3, 20);
        let course = run(&race, &values(&[0.0, 0.1, 5.0, 6.0], 1.0, 20, 1));
        assert_eq!(course.seeds[0], 20);
        assert!(course.seeds[2] < 10 && course.seeds[3] < 10, "{:?}", course.seeds);
        let exits: Vec<&(usize, Exit)> = course.looks.iter().flat_map(|look| &look.left).collect();
        assert!(
            exits.iter().any(|(runner, exit)| *runner == 3 && matches!(exit, Exit::Worse { by, .. } if by.value > 3.0))
        );
        let more = Race { better: Better::More, ..race };
        let course = run(&more, &values(&[0.0, 0.1, 5.0, 6.0], 1.0, 20, 1));
        assert!(course.seeds[0] < 20 && course.seeds[3] == 20, "{:?}", course.seeds);
    }

    #[test]
    fn what_failed_leaves_and_a_failed_baseline_ends_nothing() {
        let race = race(3, 2, 4);
        let known = |configuration: usize, seed: usize| match (configuration, seed) {
            (1, 1) => Known::Value(Some(f64::NAN)),
            (_, seed) => Known::Value(Some([0.0, 0.0, 0.01][configuration] + seed as f64)),
        };
        let course = race.run(known);
        assert_eq!(course.looks[0].left, [(1, Exit::Failed)]);
        assert_eq!(course.seeds, [4, 2, 4], "equal differences have no spread that is known");
        let against = Race { baseline: Some(1), ..race.clone() }.run(known);
        assert_eq!(against.seeds, [4, 4, 4]);
        let all_failed = race.run(|_, _| Known::Value(None));
        assert_eq!(all_failed.seeds, [2, 2, 2]);
    }

    #[test]
    fn a_look_waits_for_all_values() {
        let race = race(2, 2, 5);
        let course = race.run(|configuration, seed| match (configuration, seed) {
            (1, 1) => Known::Open,
            _ => Known::Value(Some(seed as f64)),
        });
        assert_eq!((course.looks.len(), course.seeds), (0, vec![2, 2]));
        let fewer = Race { most: 2, least: 2, ..race };
        assert_eq!(fewer.run(|_, _| Known::Value(Some(1.0))).seeds, [2, 2], "no look where nothing can be saved");
    }

    /// Among equal configurations each is a best one, so none may leave more often than in 5 % of the races.
    #[test]
    fn the_best_leaves_in_at_most_one_race_of_twenty() {
        for baseline in [None, Some(4)] {
            let race = Race { baseline, ..race(5, 3, 15) };
            let races = 3000;
            let mut left = [0_usize; 5];
            for seed in 0..races {
                let course = run(&race, &values(&[0.0; 5], 1.0, 15, seed));
                for (runner, _) in course.looks.iter().flat_map(|look| &look.left) {
                    left[*runner] += 1;
                }
            }
            // Three standard errors above 5 % of the races.
            let most = 0.05 * races as f64 + 3.0 * (races as f64 * 0.05 * 0.95).sqrt();
            assert!(left.iter().all(|count| (*count as f64) < most), "{left:?} of {races}");
            let total: usize = left.iter().sum();
            assert!(total > 0, "the levels are not so strict that nothing ever leaves");
            assert!(baseline.is_none() || left[4] == 0);
        }
    }

    proptest! {
        /// Values that become known in any order lead to the same race, and no seed is taken back.
        #[test]
        fn the_order_of_arrival_decides_nothing(
            means in prop::collection::vec(0.0..3.0_f64, 1..8),
            broken in prop::collection::btree_set((0..8_usize, 0..8_usize), 0..3),
            order in any::<u64>(),
        ) {
            let race = race(means.len(), 2, 8);
            let all = values(&means, 1.0, 8, order);
            let value = |configuration: usize, seed: usize| {
                (!broken.contains(&(configuration, seed))).then_some(all[configuration][seed])
            };
            let whole = race.run(|configuration, seed| Known::Value(value(configuration, seed)));
            let (mut arrived, mut state) = (BTreeSet::new(), order);
            let mut last = vec![0; means.len()];
            loop {
                let now = race.run(|configuration, seed| match arrived.contains(&(configuration, seed)) {
                    true => Known::Value(value(configuration, seed)),
                    false => Known::Open,
                });
                prop_assert!(now.seeds.iter().zip(&last).all(|(now, last)| now >= last));
                prop_assert!(whole.looks.starts_with(&now.looks));
                let wanted = now.seeds.iter().enumerate().flat_map(|(at, seeds)| (0..*seeds).map(move |seed| (at, seed)));
                let open: Vec<(usize, usize)> = wanted.filter(|job| !arrived.contains(job)).collect();
                if open.is_empty() {
                    prop_assert_eq!(now, whole);
                    break;
                }
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                arrived.insert(open[(state >> 33) as usize % open.len()]);
                last = now.seeds;
            }
        }
    }
}

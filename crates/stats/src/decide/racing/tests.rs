//! Races: chosen, simulated, and in random orders of arrival.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{
    decide,
    stats::{self, Draws, tests::rates::situation},
};

#[path = "../../../../engine/benches/common/races.rs"]
mod simulated;

use self::{simulated::races, situation::Promise};

fn race(configurations: usize, min_seeds: usize, max_seeds: usize) -> Race {
    Race { configurations, least: min_seeds, most: max_seeds, better: Better::Less, baseline: None }
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
    let maximized = Race { better: Better::More, ..race };
    let course = run(&maximized, &values(&[0.0, 0.1, 5.0, 6.0], 1.0, 20, 1));
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
    let against_baseline = Race { baseline: Some(1), ..race.clone() }.run(known);
    assert_eq!(against_baseline.seeds, [4, 4, 4]);
    let failures_only = race.run(|_, _| Known::Value(None));
    assert_eq!(failures_only.seeds, [2, 2, 2]);
}

#[test]
fn a_look_waits_for_all_values() {
    let race = race(2, 2, 5);
    let course = race.run(|configuration, seed| match (configuration, seed) {
        (1, 1) => Known::Open,
        _ => Known::Value(Some(seed as f64)),
    });
    assert_eq!((course.looks.len(), course.seeds), (0, vec![2, 2]));
    let short_race = Race { most: 2, least: 2, ..race };
    assert_eq!(short_race.run(|_, _| Known::Value(Some(1.0))).seeds, [2, 2], "no look where nothing can be saved");
}

/// The situations of the benchmark, with fewer replications.
#[test]
fn error_rates_are_as_promised() {
    let replications = 1_500;
    let mut bad_practices = 0;
    for situation in races() {
        let rate = situation.simulate(replications);
        assert!(situation.is_kept(rate, replications), "{}: {rate:?}", situation.name);
        bad_practices += usize::from(situation.promise == Promise::Nothing && rate.share > 2.0 * situation.nominal);
    }
    assert_eq!(bad_practices, 1, "the simulation tells a bad practice from a good one");
}

proptest! {
    /// Values that become known in any order lead to the same race, and no released seed is revoked.
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
        let full_course = race.run(|configuration, seed| Known::Value(value(configuration, seed)));
        let (mut finished_jobs, mut state) = (BTreeSet::new(), order);
        let mut last_seeds = vec![0; means.len()];
        loop {
            let course = race.run(|configuration, seed| {
                if finished_jobs.contains(&(configuration, seed)) {
                    Known::Value(value(configuration, seed))
                } else {
                    Known::Open
                }
            });
            prop_assert!(course.seeds.iter().zip(&last_seeds).all(|(seeds, last)| seeds >= last));
            prop_assert!(full_course.looks.starts_with(&course.looks));
            let planned_jobs =
                course.seeds.iter().enumerate().flat_map(|(at, seeds)| (0..*seeds).map(move |seed| (at, seed)));
            let open_jobs: Vec<(usize, usize)> = planned_jobs.filter(|job| !finished_jobs.contains(job)).collect();
            if open_jobs.is_empty() {
                prop_assert_eq!(course, full_course);
                break;
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            finished_jobs.insert(open_jobs[(state >> 33) as usize % open_jobs.len()]);
            last_seeds = course.seeds;
        }
    }
}

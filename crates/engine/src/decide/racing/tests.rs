//! Races: chosen, simulated, and in random orders of arrival.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{
    decide,
    stats::{self, Draws, tests::rates::situation},
};

#[path = "../../../benches/common/races.rs"]
mod simulated;

use self::{simulated::races, situation::Promise};

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

/// The situations of the benchmark, with fewer replications.
#[test]
fn error_rates_are_as_promised() {
    let replications = 1_500;
    let mut avoided = 0;
    for situation in races() {
        let rate = situation.simulate(replications);
        assert!(situation.is_kept(rate, replications), "{}: {rate:?}", situation.name);
        avoided += usize::from(situation.promise == Promise::Nothing && rate.share > 2.0 * situation.nominal);
    }
    assert_eq!(avoided, 1, "the simulation tells a bad practice from a good one");
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
            let now = race.run(|configuration, seed| if arrived.contains(&(configuration, seed)) { Known::Value(value(configuration, seed)) } else { Known::Open });
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

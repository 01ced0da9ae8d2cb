//! Simulated error rates, levels of repeated looks, and intervals that must not exist.

use crate::stats::{self, *};

#[path = "../../../../engine/benches/common/analyses.rs"]
mod analyses;
#[path = "../../../../engine/benches/common/replication.rs"]
mod dependence;
#[path = "../../../../engine/benches/common/items.rs"]
mod items;
#[path = "../../../../engine/benches/common/rates.rs"]
mod simulated;
#[path = "../../../../engine/benches/common/situation.rs"]
pub mod situation;

use self::{
    analyses::of_analyses, dependence::dependent, items::over_items, simulated::situations, situation::Promise,
};

#[test]
fn error_rates_are_as_promised() {
    let replications = 1_500;
    let mut avoided = 0;
    for situation in situations().into_iter().chain(dependent()).chain(over_items()).chain(of_analyses()) {
        let rate = situation.simulate(replications);
        assert!(situation.is_kept(rate, replications), "{}: {rate:?}", situation.name);
        avoided += usize::from(situation.promise == Promise::Nothing && rate.share > 2.0 * situation.nominal);
    }
    assert!(avoided >= 5, "the simulation tells bad practices from good ones: {avoided}");
}

#[test]
fn levels_of_looks_are_between_one_look_and_bonferroni() {
    for sizes in [vec![2, 3], (2..=10).collect(), (3..=10).collect(), vec![3, 5, 10], vec![2, 40], (2..=30).collect()] {
        let level = constant_level(&sizes);
        let bonferroni = 1.0 - (1.0 - LEVEL) / sizes.len() as f64;
        assert!(LEVEL < level && level < bonferroni, "{sizes:?}: {level}");
        let looks: Vec<(usize, f64)> = sizes.iter().map(|size| (*size, level)).collect();
        assert!((error_rate(&looks) - 0.05).abs() < 1e-6, "{sizes:?}: {}", error_rate(&looks));
    }
    // A fixed reference value.
    let sizes: Vec<usize> = (2..=10).collect();
    assert!((constant_level(&sizes) - (1.0 - 0.0098)).abs() < 1e-4);
    // Order, repetition and sizes without a look do not matter.
    assert_eq!(constant_level(&[5, 3, 3, 1, 0]), constant_level(&[3, 5]));
    assert_eq!((constant_level(&[7]), constant_level(&[]), constant_level(&[1])), (LEVEL, LEVEL, LEVEL));
    // Beyond the longest sequence of the recursion, the level is Bonferroni's.
    let long: Vec<usize> = (2..=5_001).collect();
    assert!((constant_level(&long) - (1.0 - 0.05 / 5_000.0)).abs() < 1e-12);
}

#[test]
fn one_look_has_its_own_error_rate() {
    for size in [2, 3, 7, 40, 150, 290] {
        for level in [0.9, 0.95, 0.999] {
            let error = error_rate(&[(size, level)]);
            assert!((error - (1.0 - level)).abs() < 1e-7, "{size} at {level}: {error}");
            // A look that excludes nothing changes nothing.
            let with_open = error_rate(&[(2, 1.0), (size + 3, level), (size + 5, 1.0)]);
            assert!((with_open - (1.0 - level)).abs() < 1e-6, "{size} at {level}: {with_open}");
        }
    }
    assert_eq!(error_rate(&[]), 0.0);
}

#[test]
fn an_extension_adds_what_it_may() {
    let made = [(3, LEVEL)];
    let level = extension_level(&made, &[5], 0.025);
    let both = error_rate(&[(3, LEVEL), (5, level)]);
    assert!((both - 0.075).abs() < 1e-6, "{both}");
    // More looks and a smaller share of the error need a higher level.
    assert!(extension_level(&made, &[5, 10], 0.025) > level);
    assert!(extension_level(&made, &[5], 0.01) > level);
    assert_eq!(extension_level(&made, &[5], 0.0), 1.0);
    assert_eq!(extension_level(&made, &[5], f64::NAN), 1.0);
    // A second look at the same size adds only the error of its lower level. The level is never below 95 %.
    assert_eq!(extension_level(&made, &[3], 0.05), LEVEL);
    assert_eq!(extension_level(&made, &[], 0.05), LEVEL);
}

#[test]
fn a_spread_of_zero_is_certainty_only_for_exact_metrics() {
    let same = Sample::new(&[0.01, 0.01]).unwrap();
    let unknown = same.estimate_with(LEVEL, Precision::Measured);
    assert_eq!((unknown.value, unknown.low, unknown.high, unknown.p), (0.01, None, None, None));
    let exact = same.estimate_with(LEVEL, Precision::Deterministic);
    assert_eq!((exact.low, exact.high, exact.p), (Some(0.01), Some(0.01), Some(0.0)));
    // Two seeds that differ by one item of 100.
    let rounded = same.estimate_with(LEVEL, Precision::Resolution(0.01).scaled(std::f64::consts::SQRT_2));
    assert!(rounded.low.unwrap() < 0.0 && rounded.p.unwrap() > 0.1, "{rounded:?}");
    assert_eq!(Precision::Resolution(0.06).spread(0.1), Some(0.1_f64.hypot(0.06 / 12.0_f64.sqrt())));
    assert_eq!(Precision::Resolution(f64::NAN).spread(0.1), None);
    assert_eq!(Precision::Deterministic.spread(f64::INFINITY), None);
    assert_eq!(Sample::new(&[1.0]).unwrap().estimate_with(LEVEL, Precision::Deterministic).low, None);

    let of = |error: f64| odds(same.mean, ErrorOfMean { error, freedom: 1.0 }, 0.005);
    assert_eq!(of(f64::NAN), None);
    assert_eq!(of(0.0), Some(Odds { less: 0.0, equivalent: 0.0, more: 1.0 }));
    let odds = of(0.01 / 24.0_f64.sqrt()).unwrap();
    assert!((odds.less + odds.equivalent + odds.more - 1.0).abs() < 1e-12 && odds.more < 1.0, "{odds:?}");

    let blocks = Blocks::new(&[vec![1.0, 2.0], vec![1.5, 2.5], vec![1.0, 2.0]]).unwrap();
    assert_eq!(blocks.sd, 0.0);
    assert_eq!(blocks.honest_difference(LEVEL, Precision::Measured), None);
    assert_eq!(blocks.p(1, 0, Precision::Measured), None);
    assert_eq!(
        (blocks.p(1, 0, Precision::Deterministic), blocks.p(2, 0, Precision::Deterministic)),
        (Some(0.0), Some(1.0))
    );
    assert!(blocks.honest_difference(LEVEL, Precision::Resolution(0.1)).unwrap() > 0.0);
}

#[test]
fn incomplete_tables_are_not_compared() {
    let new = |rows: &[&[f64]]| Blocks::new(&rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>());
    assert_eq!((new(&[]), new(&[&[1.0, 2.0]]), new(&[&[1.0], &[2.0]])), (None, None, None));
    assert_eq!((new(&[&[], &[]]), new(&[&[1.0, 2.0], &[1.0]])), (None, None));
    let odd = new(&[&[1.0, 2.0], &[1.0, f64::NAN]]).unwrap();
    assert_eq!(odd.honest_difference(LEVEL, Precision::Resolution(0.1)), None);
    assert!(reach(LEVEL, 13, 1).is_infinite() && reach(LEVEL, 13, 2) > 4.0 && reach(LEVEL, 13, 3) < 4.0);
    let groups = |rows: &[&[f64]]| Groups::new(&rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>());
    assert_eq!((groups(&[]), groups(&[&[1.0, 2.0]])), (None, None));
    assert_eq!((groups(&[&[1.0], &[2.0]]), groups(&[&[1.0, 2.0], &[]])), (None, None));
    assert_eq!(groups(&[&[1.0, 2.0], &[1.0]]).unwrap().honest_difference(0, 2, LEVEL, Precision::Deterministic), None);
}

/// NumPy: the runs of each task repeated to their least common number, and `scipy.stats.trim_mean(x, 0.25)`.
#[test]
fn tasks_weigh_equally_whatever_their_numbers_of_runs() {
    let tasks = |tasks: &[&[f64]]| Tasks::new(tasks.iter().map(|runs| runs.to_vec()).collect()).unwrap();
    let a = tasks(&[&[19.97], &[30.03, 29.97, 29.99], &[25.01], &[26.99, 27.01, 27.03], &[22.97]]);
    let b = tasks(&[&[20.51, 20.53, 20.47], &[30.49], &[25.47, 25.49, 25.51], &[27.53], &[23.51, 23.53, 23.47]]);
    assert!((a.interquartile_mean().value - 24.996_666_666_666_666).abs() < 1e-9);
    assert!((b.interquartile_mean().value - 25.507_777_777_777_78).abs() < 1e-9, "worse on every task");
    assert!(a.is_uneven() && !tasks(&[&[1.0], &[2.0]]).is_uneven());
}

/// Runs that have the levels of two factors in common are not independent: their intervals are wider than the intervals of the same number
/// of independent runs.
#[test]
fn crossed_seeds_are_drawn_by_their_levels() {
    let cell = |cell: usize| (vec![cell / 4, cell % 4], (cell / 4) as f64 + 0.1 * (cell % 4) as f64);
    let runs: Vec<Leveled> = (0..16).map(cell).collect();
    let alone = Tasks::new(vec![runs.iter().map(|(_, value)| *value).collect()]).unwrap().interquartile_mean();
    let crossed = Tasks::crossed(vec![runs]).unwrap().interquartile_mean();
    let width = |of: Estimate| of.high.unwrap() - of.low.unwrap();
    assert_eq!(alone.value, crossed.value);
    assert!(width(crossed) > 1.5 * width(alone), "{crossed:?} {alone:?}");
    assert_eq!(
        Tasks::crossed(vec![vec![(vec![0, 0], 1.0), (vec![0, 1], 2.0)]]).unwrap().interquartile_mean().low,
        None
    );
}

/// The row with the fewest values has ten times the spread: Games and Howell's p for two rows is the p of Student's t in `SciPy`, with the
/// degrees of freedom of the weighted quantile, 2.0006 instead of Welch's 2.0023.
#[test]
fn rows_of_unequal_numbers_have_their_own_spreads() {
    let (a, b) = (vec![3.0, -3.0, 1.5], vec![0.1, -0.1, 0.2, -0.2, 0.05, -0.05, 0.15, -0.15, 0.1, -0.1, 0.2, -0.2]);
    let groups = Groups::new(&[a, b]).unwrap();
    assert!(groups.is_uneven() && !groups.is_balanced());
    assert!((groups.p(0, 1, Precision::Measured).unwrap() - 0.807_597_045_543_018).abs() < 1e-6);
}

#[test]
fn a_bootstrap_without_repeated_runs_has_no_interval() {
    let tasks = |tasks: &[&[f64]]| Tasks::new(tasks.iter().map(|runs| runs.to_vec()).collect());
    assert_eq!((tasks(&[]), tasks(&[&[1.0], &[]])), (None, None));
    let single = tasks(&[&[1.0, 2.0], &[3.0]]).unwrap();
    let mean = single.interquartile_mean();
    // Tasks weigh equally: the middle half of 1, 2, 3, 3.
    assert_eq!((mean.value, mean.low, mean.high), (2.5, None, None));
    let double = tasks(&[&[1.0, 1.0], &[3.0, 4.0]]).unwrap();
    assert_eq!(double.probability_of_improvement(&single).unwrap().low, None);
    assert_eq!(double.probability_of_improvement(&tasks(&[&[1.0]]).unwrap()), None);
    // A tie and a loss on the first task, a tie and a win on the second.
    assert_eq!(double.probability_of_improvement(&single).unwrap().value, f64::midpoint(0.25, 0.75));
    assert_eq!(double.interquartile_mean(), double.interquartile_mean());
    assert_eq!(interquartile_mean(&[]), None);
}

#[test]
fn a_sequence_has_the_power_that_was_published() {
    let sizes: Vec<usize> = (2..=10).collect();
    let calibrated = sequential_power(1.2, &sizes, constant_level(&sizes));
    let bonferroni = sequential_power(1.2, &sizes, 1.0 - 0.05 / 9.0);
    assert!((calibrated.share - 0.75).abs() < 0.01 + 4.0 * calibrated.standard_error, "{calibrated:?}");
    assert!((bonferroni.share - 0.65).abs() < 0.01 + 4.0 * bonferroni.standard_error, "{bonferroni:?}");
    let one = sequential_power(1.2, &[5], LEVEL);
    assert!((one.share - power(1.2, 5, LEVEL)).abs() < 4.0 * one.standard_error, "{one:?}");
    assert_eq!(sequential_power(1.2, &[0, 1], LEVEL).share, 0.0);
}

//! Comparison with numbers that other programs computed; `scripts/statistics-vectors.py` writes them.

use serde_json::Value;

use super::super::*;

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap()
}

fn count(value: &Value, key: &str) -> usize {
    usize::try_from(value[key].as_u64().unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

fn matrix(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}

fn near(ours: f64, theirs: f64, tolerance: f64, of: &Value) {
    assert!((ours - theirs).abs() <= tolerance, "{ours} and {theirs} in {of}");
}

#[test]
fn the_studentized_range_is_scipys() {
    let vectors = read(include_str!("../testdata/range.json"));
    for case in list(&vectors, "quantiles") {
        let (rows, freedom, level) = (count(case, "rows"), number(case, "freedom"), number(case, "level"));
        near(range_sf(number(case, "q"), rows, freedom), number(case, "sf"), 1e-8, case);
        let q = range_quantile(level, rows, freedom);
        near(q / number(case, "q"), 1.0, 1e-6, case);
        near(range_sf(q, rows, freedom), 1.0 - level, 1e-11, case);
    }
    for case in list(&vectors, "tails") {
        let ours = range_sf(number(case, "q"), count(case, "rows"), number(case, "freedom"));
        near(ours, number(case, "sf"), 1e-8, case);
    }
}

#[test]
fn the_range_of_two_is_a_difference() {
    for freedom in [1.0, 4.5, 30.0, f64::INFINITY] {
        let student = student::quantile(freedom, 0.95);
        assert!((range_quantile(0.95, 2, freedom) / (2.0_f64.sqrt() * student) - 1.0).abs() < 1e-9, "{freedom}");
    }
    assert_eq!((range_sf(0.0, 5, 3.0), range_sf(-1.0, 5, 3.0), range_sf(1.0, 1, 3.0)), (1.0, 1.0, 0.0));
    assert_eq!(range_sf(f64::INFINITY, 5, 3.0), 0.0);
    for nothing in [range_sf(f64::NAN, 5, 3.0), range_sf(1.0, 5, 0.0), range_sf(1.0, 5, f64::NAN)] {
        assert!(nothing.is_nan());
    }
    for nothing in [range_quantile(0.95, 1, 3.0), range_quantile(1.0, 5, 3.0), range_quantile(0.95, 5, f64::NAN)] {
        assert!(nothing.is_nan());
    }
}

#[test]
fn dunnetts_distribution_is_the_integral() {
    let vectors = read(include_str!("../testdata/dunnett.json"));
    for case in list(&vectors, "tails") {
        let (comparisons, freedom) = (count(case, "comparisons"), number(case, "freedom"));
        let (t, sf) = (number(case, "t"), number(case, "sf"));
        near(dunnett_sf(t, comparisons, freedom), sf, 1e-8, case);
        if (1e-3..0.5).contains(&sf) {
            near(dunnett_quantile(1.0 - sf, comparisons, freedom), t, 1e-6, case);
        }
    }
    for case in list(&vectors, "examples") {
        let theirs = list(case, "p").iter().zip(list(case, "statistic"));
        for (p, t) in theirs.map(|(p, t)| (p.as_f64().unwrap(), t.as_f64().unwrap())) {
            near(dunnett_sf(t.abs(), 3, number(case, "freedom")), p, 1e-3, case);
        }
    }
}

#[test]
fn dunnetts_test_of_one_comparison_is_the_paired_t_test() {
    for freedom in [1.0, 4.5, 30.0, f64::INFINITY] {
        let student = student::quantile(freedom, 0.95);
        assert!((dunnett_quantile(0.95, 1, freedom) / student - 1.0).abs() < 1e-8, "{freedom}");
    }
    let rows = [vec![1.0, 2.5, 2.0, 4.0], vec![1.5, 2.75, 2.0, 5.5]];
    let found = Blocks::new(&rows).unwrap().against(1, 0, LEVEL, Precision::Measured).unwrap();
    let differences: Vec<f64> = rows[1].iter().zip(&rows[0]).map(|(of, to)| of - to).collect();
    let paired = Sample::new(&differences).unwrap().estimate();
    for (ours, theirs) in [(found.low, paired.low), (found.high, paired.high), (found.p, paired.p)] {
        assert!((ours.unwrap() - theirs.unwrap()).abs() < 1e-8, "{found:?} and {paired:?}");
    }
    assert_eq!((dunnett_sf(0.0, 3, 5.0), dunnett_sf(1.0, 0, 5.0), dunnett_sf(f64::INFINITY, 3, 5.0)), (1.0, 0.0, 0.0));
    for nothing in [dunnett_sf(f64::NAN, 3, 5.0), dunnett_sf(1.0, 3, 0.0), dunnett_quantile(0.95, 0, 5.0)] {
        assert!(nothing.is_nan());
    }
}

#[test]
fn blocks_are_those_of_least_squares() {
    let vectors = read(include_str!("../testdata/blocks.json"));
    for case in list(&vectors, "complete") {
        let rows = matrix(&case["rows"]);
        let blocks = Blocks::new(&rows).unwrap();
        near(blocks.sd / number(case, "sd"), 1.0, 1e-9, case);
        assert_eq!(blocks.freedom, number(case, "freedom"));
        for (level, theirs) in case["honest"].as_object().unwrap() {
            let level: f64 = level.parse().unwrap();
            let ours = blocks.honest_difference(level, Precision::Measured).unwrap();
            near(ours / theirs.as_f64().unwrap(), 1.0, 1e-6, case);
            near(blocks.reach(level) * blocks.sd / ours, 1.0, 1e-12, case);
        }
        let p = blocks.p(0, rows.len() - 1, Precision::Measured).unwrap();
        if blocks.is_uneven() {
            assert!(p >= number(case, "p") - 1e-8, "{case}");
        } else {
            near(p, number(case, "p"), 1e-8, case);
        }
    }
}

#[test]
fn groups_are_those_of_statsmodels() {
    let vectors = read(include_str!("../testdata/blocks.json"));
    for case in list(&vectors, "groups") {
        let groups = Groups::new(&matrix(&case["rows"])).unwrap();
        for pair in list(case, "pairs") {
            let (first, second) = (count(pair, "first"), count(pair, "second"));
            near(groups.means[first] - groups.means[second], number(pair, "difference"), 1e-9, pair);
            let half = groups.honest_difference(first, second, 0.95, Precision::Measured).unwrap();
            near(half / number(pair, "half"), 1.0, 1e-6, pair);
            let p = groups.p(first, second, Precision::Measured).unwrap();
            assert!(groups.is_uneven() || (p - number(pair, "p")).abs() <= 1e-8, "{pair}: {p}");
        }
    }
}

#[test]
fn error_rates_of_looks_are_the_simulated_ones() {
    let vectors = read(include_str!("../testdata/sequential.json"));
    for case in list(&vectors, "cases") {
        let looks: Vec<(usize, f64)> = list(case, "looks")
            .iter()
            .map(|look| (usize::try_from(look[0].as_u64().unwrap()).unwrap(), look[1].as_f64().unwrap()))
            .collect();
        near(error_rate(&looks), number(case, "error"), 4.0 * number(case, "standard_error"), case);
    }
}

#[test]
fn power_is_statsmodels() {
    let vectors = read(include_str!("../testdata/power.json"));
    for case in list(&vectors, "cases") {
        let (effect, n, level) = (number(case, "effect"), count(case, "n"), number(case, "level"));
        near(power(effect, n, level), number(case, "paired"), 1e-9, case);
        near(power_unpaired(effect, n, level), number(case, "unpaired"), 1e-9, case);
    }
    for case in list(&vectors, "needed") {
        let (effect, wanted) = (number(case, "effect"), number(case, "power"));
        assert_eq!(seeds_needed(effect, wanted, 0.95, 10_000), Some(count(case, "paired")), "{case}");
        let unpaired = Some(count(case, "unpaired"));
        assert_eq!(seeds_needed_unpaired(effect, wanted, 0.95, 10_000), unpaired, "{case}");
    }
    assert_eq!(seeds_needed(0.0, 0.8, 0.95, 100_000), None);
    assert_eq!(seeds_needed(1.0, 0.8, 0.95, 9), None);
    assert_eq!((power(1.0, 1, 0.95), power(f64::INFINITY, 2, 0.95)), (0.0, 1.0));
}

#[test]
fn odds_are_scipys_and_baycomps() {
    let vectors = read(include_str!("../testdata/equivalence.json"));
    for case in list(&vectors, "cases") {
        let sample = Sample::new(&numbers(&case["differences"])).unwrap();
        let error = sample.sd.unwrap() / (sample.n as f64).sqrt();
        let error = ErrorOfMean { error, freedom: (sample.n - 1) as f64 };
        let ours = odds(sample.mean, error, number(case, "region")).unwrap();
        near(ours.less, number(case, "less"), 1e-9, case);
        near(ours.equivalent, number(case, "equivalent"), 1e-9, case);
        near(ours.more, number(case, "more"), 1e-9, case);
    }
}

#[test]
fn aggregates_are_rliables() {
    let vectors = read(include_str!("../testdata/aggregate.json"));
    for case in list(&vectors, "cases") {
        let (x, y) = (Tasks::new(matrix(&case["x"])).unwrap(), Tasks::new(matrix(&case["y"])).unwrap());
        let iqm = x.interquartile_mean_with(3, 20_000);
        near(iqm.value, number(case, "iqm"), 1e-12, case);
        let better = x.probability_of_improvement_with(&y, 3, 20_000).unwrap();
        near(better.value, number(case, "better"), 1e-12, case);
        for (ours, key) in [(iqm, "iqm_interval"), (better, "better_interval")] {
            let theirs = numbers(&case[key]);
            let (low, high) = (ours.low.unwrap(), ours.high.unwrap());
            // The standard error of a 2.5 % quantile of 5,000 normal draws is 0.038 of their standard deviation, and
            // an interval is nearly 4 of these wide.
            let tolerance = 4.0 * 0.038 * (theirs[1] - theirs[0]) / 3.9;
            near(low, theirs[0], tolerance, case);
            near(high, theirs[1], tolerance, case);
        }
    }
}

//! Values near the limits of floating-point numbers.

use crate::stats::*;

fn close(ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 1e-12 * theirs.abs(), "{ours:e} {theirs:e}");
}

/// Means, standard deviations and halves of intervals by `NumPy`'s extended precision and `SciPy`.
#[test]
fn means_and_spreads_neither_overflow_nor_vanish() {
    for (values, mean, sd, half) in [
        ([1e308, 1.5e308, 1.7e308], 1.4e308, 3.605_551_275_463_989e307, None),
        ([1e308, -1e308, 1e308], 3.333_333_333_333_333e307, 1.154_700_538_379_251_5e308, None),
        ([1e300, 2e300, 3e300], 2e300, 1e300, Some(2.484_137_711_750_33e300)),
        ([1e-200, 2e-200, 3e-200], 2e-200, 1e-200, Some(2.484_137_711_750_33e-200)),
        ([1e-300, 2e-300, 3e-300], 2e-300, 1e-300, Some(2.484_137_711_750_33e-300)),
        (
            [1e15 + 1.0, 1e15 + 2.0, 1e15 + 4.0],
            1e15 + 2.333_333_333,
            1.527_525_231_651_947,
            Some(3.794_583_034_101_604),
        ),
    ] {
        let sample = Sample::new(&values).unwrap();
        close(sample.mean, mean);
        assert!((sample.sd.unwrap() / sd - 1.0).abs() < 0.05, "{sample:?}: {sd:e}");
        let estimate = sample.estimate();
        match half {
            Some(half) => assert!((sample.half_width().unwrap() / half - 1.0).abs() < 0.05, "{estimate:?} {half:e}"),
            // An end of the interval exceeds the largest number.
            None => assert_eq!((estimate.low, estimate.high, estimate.p), (None, None, None)),
        }
    }
    assert_eq!(Sample::new(&[1e15 + 1.0; 3]).unwrap().sd, Some(0.0));
    assert_eq!(Sample::new(&[0.1 + 0.2, 0.3, 0.3]).unwrap().sd, Some(0.0), "a rounding error is no spread");
    assert!(Sample::new(&[5e-324, 1e-323, 2e-323]).unwrap().sd > Some(0.0));
    close(mean(&[1.5e308, 1.7e308]), 1.6e308);
    close(correlation(&[1e300, 2e300, 3e300], &[1.0, 2.0, 2.5]).unwrap(), 0.981_980_506_061_965_8);
}

/// A power of two changes no statistic but its unit.
#[test]
fn statistics_do_not_depend_on_the_unit() {
    let values = [[1.0, 2.5, 1.7, 3.1], [2.2, 3.9, 2.4, 4.4], [0.3, 1.1, 1.9, 2.0]];
    let cells = |factor: f64, skipped: usize| -> Vec<Leveled> {
        let at = (0..3).flat_map(|unit| (0..4).map(move |seed| vec![unit, seed]));
        at.skip(skipped).map(|at| (at.clone(), factor * values[at[0]][at[1]])).collect()
    };
    let rows = |factor: f64| values.map(|row| row.map(|value| factor * value).to_vec()).to_vec();
    let same = |ours: f64, theirs: f64| assert!((ours / theirs - 1.0).abs() < 1e-9, "{ours:e} {theirs:e}");
    for factor in [2.0_f64.powi(1000), 2.0_f64.powi(-1000)] {
        for skipped in [0, 1] {
            let [one, other] = [1.0, factor].map(|factor| crossed(&[cells(factor, skipped)]).unwrap());
            same(other.error / factor, one.error);
            same(other.freedom, one.freedom);
            let [one, other] = [1.0, factor].map(|factor| shared_seeds(&[cells(factor, skipped)], 1, true).unwrap());
            same(other.error / factor, one.error);
            same(other.freedom, one.freedom);
        }
        let [one, other] = [1.0, factor].map(|factor| Blocks::new(&rows(factor)).unwrap());
        let p = |blocks: &Blocks| blocks.p(0, 1, Precision::Measured).unwrap();
        same(other.sd / factor, one.sd);
        same(p(&other), p(&one));
        let [one, other] = [1.0, factor].map(|factor| Groups::new(&rows(factor)).unwrap());
        same(other.sd / factor, one.sd);
        same(other.p(0, 1, Precision::Measured).unwrap(), one.p(0, 1, Precision::Measured).unwrap());
    }
}

#[test]
fn an_error_without_a_number_has_no_interval() {
    for error in [f64::INFINITY, f64::NAN] {
        let whole = welch([ErrorOfMean { error, freedom: 2.0 }, ErrorOfMean { error: 1.0, freedom: 2.0 }]);
        assert_eq!(estimate(1.0, Some(whole.error), whole.freedom, LEVEL).low, None);
    }
}

//! Independent samples of unequal size, one of which has very few values.

use crate::stats::*;

const MANY: [f64; 8] = [1.0, 2.2, 0.1, 1.6, 3.0, 0.4, 1.9, 2.7];

/// Degrees of freedom by `SciPy`'s `brentq` and `t.ppf`: those at which the quantile is the mean of both samples' quantiles (Cochran and
/// Cox), or its square the mean of their squares (Banerjee). Welch's are 1.87, 3.61 and 3.98.
#[test]
fn few_values_against_many_have_fewer_degrees_of_freedom_than_welchs() {
    for (few, many, half, p) in [
        (&[3.1, 4.3][..], &MANY[..], 7.673_777_024, 0.193_879_883),
        (&[3.1, 4.3, 5.2], &MANY, 2.690_732_649, 0.054_197_466),
        (&[3.1, 4.3, 5.2], &MANY[..4], 2.102_037_789, 0.017_170_568),
    ] {
        let found = Sample::new(few).unwrap().welch_difference(&Sample::new(many).unwrap());
        assert!((found.high.unwrap() - found.value - half).abs() < 1e-4, "{found:?} {half}");
        assert!((found.p.unwrap() - p).abs() < 1e-3, "{found:?} {p}");
    }
    // A side without any error adds nothing that is uncertain.
    let certain = ErrorOfMean { error: 0.0, freedom: 7.0 };
    assert_eq!(welch([ErrorOfMean { error: 1.0, freedom: 1.0 }, certain]).freedom, 1.0);
    assert_eq!(welch([certain, certain]), ErrorOfMean { error: 0.0, freedom: 0.0 });
}

/// With Welch's degrees of freedom, 100,000 replications in `SciPy` gave 9.0, 11.1, 12.3 and 6.8 %.
#[test]
fn few_values_against_many_are_rarely_told_apart_by_chance() {
    const REPLICATIONS: usize = 4000;
    let mut normal = tests::Normal::default();
    for (few, many, spread) in [(2, 8, 1.0), (2, 8, 3.0), (2, 30, 1.0), (3, 8, 3.0)] {
        let mut sample =
            |n: usize, spread: f64| Sample::new(&(0..n).map(|_| spread * normal.draw()).collect::<Vec<f64>>()).unwrap();
        let is_told = |_: &usize| sample(few, spread).welch_difference(&sample(many, 1.0)).p.is_some_and(|p| p < 0.05);
        let told = (0..REPLICATIONS).filter(is_told).count();
        assert!(told <= REPLICATIONS * 6 / 100, "{few} against {many}, {spread} × the spread: {told}");
    }
}

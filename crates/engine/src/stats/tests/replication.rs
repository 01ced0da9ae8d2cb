//! Errors of means over measurements that are not independent, compared with statsmodels and SciPy.

use crate::stats::*;

/// A row of a complete I × J table.
fn table(values: &[&[f64]]) -> Vec<Leveled> {
    let row = |(first, row): (usize, &&[f64])| {
        row.iter().enumerate().map(|(second, value)| (vec![first, second], *value)).collect::<Vec<_>>()
    };
    values.iter().enumerate().flat_map(row).collect()
}

fn near(ours: Option<ErrorOfMean>, error: f64, freedom: f64) {
    let ours = ours.unwrap();
    assert!((ours.error - error).abs() < 1e-9 && (ours.freedom - freedom).abs() < 1e-9, "{ours:?}");
}

/// The mean squares are those of statsmodels' `anova_lm`; the first error is also that of its `mixedlm` by REML, 0.678898.
#[test]
fn crossed_factors_have_the_error_of_their_components() {
    let values = table(&[&[1.0, 2.5, 1.7, 3.1], &[2.2, 3.9, 2.4, 4.4], &[0.3, 1.1, 1.9, 2.0]]);
    near(crossed(&[values.clone()]), 0.678_898_208_701_258_7, 3.713_869_836_034_572_5);
    let rows = [
        table(&[&[1.0, 2.0, 4.0], &[2.0, 2.5, 3.0]]),
        table(&[&[1.5, 2.2, 3.0], &[2.9, 3.3, 5.0]]),
        table(&[&[0.2, 1.9, 2.2], &[1.0, 3.7, 2.6]]),
    ];
    near(crossed(&rows), 0.388_491_860_823_268_5, 2.370_789_030_873_393_4);
    // Two rows are one row of differences, whose variance is twice that of a row.
    let differences: Vec<Leveled> =
        rows[0].iter().zip(&rows[1]).map(|((levels, a), (_, b))| (levels.clone(), a - b)).collect();
    let (two, one) = (crossed(&rows[..2]).unwrap(), crossed(&[differences]).unwrap());
    near(Some(two), one.error / std::f64::consts::SQRT_2, one.freedom);
    // Without a combination, the variances of the means by each factor add up, which is no less.
    let incomplete = crossed(&[values[1..].to_vec()]).unwrap();
    assert!(incomplete.error > 0.6, "{incomplete:?}");
    assert_eq!((crossed(&[]), crossed(&[vec![]]), crossed(&[values[..4].to_vec()])), (None, None, None));
    assert_eq!(crossed(&[values.clone(), values[1..].to_vec()]), None, "rows with other levels");
}

/// t and p of the corrected resampled t-test by NumPy and SciPy.
#[test]
fn folds_have_the_error_of_nadeau_and_bengio() {
    let sample = Sample::new(&[0.021, 0.013, -0.004, 0.017, 0.009]).unwrap();
    let error = sample.sd.unwrap() * variance_of_folds(5).sqrt();
    assert!((sample.mean / error - 1.738_786_682_575_123).abs() < 1e-12);
    assert!((estimate(sample.mean, Some(error), 4.0, LEVEL).p.unwrap() - 0.157_060_623_840_193_6).abs() < 1e-9);
    let blocks = Blocks::new(&[vec![0.021, 0.013, -0.004, 0.017, 0.009], vec![0.0; 5]]).unwrap().of_folds();
    assert!((blocks.p(sample.mean, Precision::Measured).unwrap() - 0.157_060_623_840_193_6).abs() < 1e-7);
}

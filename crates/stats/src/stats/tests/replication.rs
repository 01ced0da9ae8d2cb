//! Errors of means over measurements that are not independent, robust centers, and rows of unequal spread, compared with
//! statsmodels and `SciPy`.

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

/// The mean squares come from statsmodels' `anova_lm`; the first error is also the error of its `mixedlm` by REML, 0.678898.
#[test]
fn crossed_factors_have_the_error_of_their_components() {
    let values = table(&[&[1.0, 2.5, 1.7, 3.1], &[2.2, 3.9, 2.4, 4.4], &[0.3, 1.1, 1.9, 2.0]]);
    // Satterthwaite's degrees of freedom are 3.71; Cochran and Cox's, with the quantiles of `SciPy`, are used.
    near(crossed(std::slice::from_ref(&values)), 0.678_898_208_701_258_7, 2.239_416_531_4);
    let rows = [
        table(&[&[1.0, 2.0, 4.0], &[2.0, 2.5, 3.0]]),
        table(&[&[1.5, 2.2, 3.0], &[2.9, 3.3, 5.0]]),
        table(&[&[0.2, 1.9, 2.2], &[1.0, 3.7, 2.6]]),
    ];
    near(crossed(&rows), 0.388_491_860_823_268_5, 2.370_789_030_873_393_4);
    // Two rows are one row of differences, whose variance is twice the variance of a row.
    let differences: Vec<Leveled> =
        rows[0].iter().zip(&rows[1]).map(|((levels, a), (_, b))| (levels.clone(), a - b)).collect();
    let (two, one) = (crossed(&rows[..2]).unwrap(), crossed(&[differences]).unwrap());
    near(Some(two), one.error / std::f64::consts::SQRT_2, one.freedom);
    // Without a combination, the variances of the means by each factor add up, and the sum is not smaller.
    let incomplete = crossed(&[values[1..].to_vec()]).unwrap();
    assert!(incomplete.error > 0.6, "{incomplete:?}");
    assert_eq!((crossed(&[]), crossed(&[vec![]]), crossed(&[values[..4].to_vec()])), (None, None, None));
    assert_eq!(crossed(&[values.clone(), values[1..].to_vec()]), None, "rows with other levels");
}

/// The square of the quantile is the mean of the squares of the factors' quantiles (Banerjee, 1960), also without a combination. The mean of
/// the quantiles, 6.36 for the complete table, is too small.
#[test]
fn two_levels_have_the_quantile_of_banerjee() {
    let values = table(&[&[1.0, 2.5, 1.7, 3.1, 2.0, 2.2], &[2.2, 3.9, 2.4, 4.4, 3.0, 3.9]]);
    let quantiles = [1.0, 5.0].map(|freedom| quantile(freedom, LEVEL));
    let of = |values: &[Leveled], factor: usize| {
        let mean = |level: usize| {
            let own: Vec<f64> = values.iter().filter(|(at, _)| at[factor] == level).map(|(_, value)| *value).collect();
            own.iter().sum::<f64>() / own.len() as f64
        };
        let whole = values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64;
        let levels = [2, 6][factor];
        let squares: f64 = (0..levels).map(|level| (mean(level) - whole).powi(2)).sum();
        squares / ((levels - 1) * levels) as f64
    };
    for (values, name) in [(values.clone(), "complete"), (values[1..].to_vec(), "incomplete")] {
        let parts = [of(&values, 0), of(&values, 1)];
        let squares: f64 = parts.iter().zip(quantiles).map(|(part, quantile)| part * quantile.powi(2)).sum();
        let wanted = (squares / parts.iter().sum::<f64>()).sqrt();
        let ours = crossed(std::slice::from_ref(&values)).unwrap();
        assert!((quantile(ours.freedom, LEVEL) - wanted).abs() < 1e-4, "{name}: {ours:?}, {wanted}");
    }
}

/// The excess of the variance by NumPy, and the preliminary tests by `SciPy`: F has the probabilities 0.984 and 0.051.
#[test]
fn seeds_that_units_share_add_to_the_error_of_the_units() {
    let values = table(&[&[1.0, 2.5, 1.7, 3.1], &[2.2, 3.9, 2.4, 4.4], &[0.3, 1.1, 1.9, 2.0]]);
    let shared = shared_seeds(std::slice::from_ref(&values), 1, false).unwrap();
    assert!((shared.error.powi(2) - 0.155_625).abs() < 1e-12 && shared.least == 2.0, "{shared:?}");
    assert_eq!(shared.freedom, crossed(std::slice::from_ref(&values)).unwrap().freedom);
    let values = table(&[&[1.0, 1.2, 1.1], &[2.0, 2.1, 2.2], &[0.3, 0.1, 0.0]]);
    assert_eq!(shared_seeds(std::slice::from_ref(&values), 1, false), None);
    let certain = shared_seeds(std::slice::from_ref(&values), 1, true).unwrap();
    assert!(certain.error < 1e-6, "the error is at least that of the units: {certain:?}");
    assert_eq!((shared_seeds(&[], 1, true), shared_seeds(&[values[..3].to_vec()], 1, true)), (None, None));
    // Two rows of blocks have the test of their differences.
    let zeros: Vec<Leveled> = values.iter().map(|(levels, _)| (levels.clone(), 0.0)).collect();
    let means = |row: &[Leveled]| row.chunks(3).map(|seeds| seeds.iter().map(|(_, value)| value / 3.0).sum()).collect();
    let blocks = Blocks::new(&[means(&values), means(&zeros)]).unwrap();
    let rows = shared_seeds(&[values.clone(), zeros], 1, true).unwrap();
    let more = SharedSeeds { error: 0.1, ..rows };
    let wide = blocks.clone().with_seeds(more);
    assert!((wide.sd.powi(2) - blocks.sd.powi(2) - 0.03).abs() < 1e-12, "three blocks: {wide:?}");
    assert_eq!(wide.freedom, rows.freedom);
}

/// The squares by NumPy's `lstsq` of units and seeds, and the roots of the quantiles' mean square by `SciPy`'s `brentq`.
#[test]
fn seeds_of_which_units_lack_some_have_squares_within_units() {
    let values = table(&[&[1.0, 2.5, 1.7, 3.1], &[2.2, 3.9, 2.4, 4.4], &[0.3, 1.1, 1.9, 2.0]]);
    let close = |ours: f64, theirs: f64| assert!((ours - theirs).abs() < 1e-6, "{ours} {theirs}");
    let without = |missing: &[[usize; 2]]| -> Vec<Leveled> {
        values.iter().filter(|(at, _)| !missing.contains(&[at[0], at[1]])).cloned().collect()
    };
    // The residual has five degrees of freedom, and is subtracted.
    let one = shared_seeds(&[without(&[[0, 0]])], 1, false).unwrap();
    close(one.error.powi(2), 0.122_079_861_111_111_08);
    close(one.freedom, 2.189_607_238_638_781);
    assert_eq!(one.least, 2.0);
    // It has two, which say little, so it is left where it is.
    let missing = [[0, 0], [1, 1], [2, 2], [2, 3]];
    let four = shared_seeds(&[without(&missing)], 1, false).unwrap();
    close(four.error.powi(2), 0.152_839_506_172_839_53);
    close(four.freedom, 2.130_338_449_835_014);
    // What units do to all their seeds is no part of them.
    let moved = |by: f64| -> Vec<Leveled> {
        without(&missing).into_iter().map(|(at, value)| (at.clone(), value + by * [0.0, 7.0, -3.0][at[0]])).collect()
    };
    close(shared_seeds(&[moved(1e3)], 1, true).unwrap().error, four.error);
    // Two rows have the test of their differences.
    let zeros: Vec<Leveled> = moved(0.0).into_iter().map(|(at, _)| (at, 0.0)).collect();
    close(shared_seeds(&[moved(0.0), zeros], 1, true).unwrap().error.powi(2) * 2.0, four.error.powi(2));
    // Without a residual, nothing shows that seeds have no part.
    let tree: Vec<Leveled> = values.iter().filter(|(at, _)| at[0] == 0 || at[1] == 0).cloned().collect();
    assert!(shared_seeds(&[tree], 1, false).is_some());
    // Seeds of one unit each add nothing to what the units' means show, however many factors there are.
    let own: Vec<Leveled> = values.iter().zip(0..).map(|((at, value), seed)| (vec![at[0], seed], *value)).collect();
    assert_eq!(shared_seeds(&[own], 1, true), None);
    let crossed: Vec<Leveled> =
        values[1..].iter().map(|(at, value)| (vec![at[0], at[1] / 2, at[1] % 2], *value)).collect();
    let two = shared_seeds(std::slice::from_ref(&crossed), 1, false).unwrap();
    assert!(two.error > 0.0 && two.least == 1.0, "{two:?}");
    let two = shared_seeds(&[crossed], 2, true).unwrap();
    assert!(two.error > 0.0 && two.least == 1.0, "{two:?}");
}

/// t and p of the corrected resampled t-test by NumPy and `SciPy`.
#[test]
fn folds_have_the_error_of_nadeau_and_bengio() {
    let sample = Sample::new(&[0.021, 0.013, -0.004, 0.017, 0.009]).unwrap();
    let error = sample.sd.unwrap() * variance_of_folds(5, 5).sqrt();
    assert!((sample.mean / error - 1.738_786_682_575_123).abs() < 1e-12);
    assert!((estimate(sample.mean, Some(error), 4.0, LEVEL).p.unwrap() - 0.157_060_623_840_193_6).abs() < 1e-9);
    let blocks = Blocks::new(&[vec![0.021, 0.013, -0.004, 0.017, 0.009], vec![0.0; 5]]).unwrap().of_folds(5);
    assert!((blocks.p(0, 1, Precision::Measured).unwrap() - 0.157_060_623_840_193_6).abs() < 1e-7);
}

/// Three folds in each of four repetitions by NumPy and `SciPy`: the corrected repeated k-fold t-test.
#[test]
fn repeated_folds_have_the_error_of_bouckaert_and_frank() {
    assert!((variance_of_folds(12, 3) - (1.0 / 12.0 + 0.5)).abs() < 1e-12);
    let differences = [0.026, 0.074, 0.038, 0.062, 0.062, 0.038, 0.038, 0.05, 0.038, 0.074, 0.038, 0.038];
    let blocks = Blocks::new(&[differences.to_vec(), vec![0.0; 12]]).unwrap().of_folds(3);
    let sample = Sample::new(&differences).unwrap();
    let error = sample.sd.unwrap() * variance_of_folds(12, 3).sqrt();
    let alone = estimate(sample.mean, Some(error), 11.0, LEVEL);
    assert!((alone.low.unwrap() - 0.021_027_214_835_206_96).abs() < 1e-9, "{alone:?}");
    assert!((alone.high.unwrap() - 0.074_972_785_164_793_05).abs() < 1e-9, "{alone:?}");
    assert!((blocks.p(0, 1, Precision::Measured).unwrap() - alone.p.unwrap()).abs() < 1e-7);
}

/// `SciPy`'s `quantile_test` with its interval, `ttest_ind(trim=0.25, equal_var=False)`, `trim_mean`, and NumPy's `corrcoef`.
#[test]
fn medians_and_middle_means_are_scipys() {
    let a = [1.2, 0.4, 2.2, 30.0, 1.1, 0.9, 1.6, 0.7];
    let b = [0.2, 0.1, 1.4, 0.6, 0.5, -0.3, 0.8, 1.0];
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let close = |ours: f64, theirs: f64| assert!((ours - theirs).abs() < 1e-9, "{ours} {theirs}");
    let found = quantile_of(&differences, 0.5, LEVEL).unwrap();
    close(found.value, 0.8);
    close(found.low.unwrap(), -0.3);
    close(found.high.unwrap(), 29.4);
    close(sign_test(&differences, 0.5, 0.0).unwrap(), 0.070_312_5);
    assert_eq!((sign_test(&[1.0, 1.0], 0.5, 1.0), quantile_of(&[], 0.5, LEVEL)), (None, None));
    // Five values cannot reach 95 %: 2/2⁵ = 6.25 %.
    assert_eq!(quantile_of(&differences[..5], 0.5, LEVEL).unwrap().low, None);
    assert!(quantile_of(&differences[..6], 0.5, LEVEL).unwrap().low.is_some());

    let [(first, one), (second, two)] = [&a, &b].map(|values| middle_mean(values).unwrap());
    close(first, 1.2);
    let error = welch([one.unwrap(), two.unwrap()]);
    let found = estimate(first - second, Some(error.error), error.freedom, LEVEL);
    close(error.freedom, 5.853_507_480_221_043);
    close(found.low.unwrap(), -0.136_456_257_831_049_75);
    close(found.p.unwrap(), 0.087_676_929_632_360_36);
    let (center, error) = middle_mean(&differences).unwrap();
    close(center, 0.8);
    close(error.unwrap().error, 0.141_421_356_237_309_4);
    close(correlation(&a, &b).unwrap(), 0.081_421_970_642_550_63);
    assert_eq!((correlation(&[1.0, 1.0], &[1.0, 2.0]), middle_mean(&[])), (None, None));
    assert!(is_carried_by_one(&a) && !is_carried_by_one(&b) && !is_carried_by_one(&[0.1, -0.2, 30.0]));
}

/// `SciPy`'s `tukey_hsd(equal_var=False)`, which is Games and Howell's test, and `studentized_range` for blocks.
#[test]
fn rows_of_unequal_spread_also_have_their_own() {
    let rows =
        [vec![1.0, 1.2, 0.9, 1.1], vec![1.4, 1.5, 1.3, 1.45], vec![0.2, 9.0, -6.0, 4.0], vec![1.05, 0.95, 1.1, 1.0]];
    let groups = Groups::new(&rows).unwrap();
    assert!(groups.is_uneven());
    let p = |first, second| groups.p(first, second, Precision::Measured).unwrap();
    // The pooled p is the larger one, except beside the row with the large spread.
    assert!((p(1, 0) - 0.998_399_42).abs() < 1e-6, "{}", p(1, 0));
    assert!((p(1, 2) - 0.999_198_29).abs() < 1e-6, "{}", p(1, 2));
    let blocks = Blocks::new(&[
        vec![1.0, 2.0, 3.0, 4.0],
        vec![1.5, 2.6, 3.4, 4.5],
        vec![0.0, 7.0, -3.0, 9.0],
        vec![1.1, 2.2, 3.0, 4.1],
        vec![0.9, 1.8, 3.1, 4.2],
    ])
    .unwrap();
    assert!(blocks.is_uneven());
    let pooled = blocks.p(1, 0, Precision::Measured).unwrap();
    assert!((pooled - 0.998_008_567_769_698).abs() < 1e-6, "own 0.0047: {pooled}");
    let even = Blocks::new(&rows[..2]).unwrap();
    assert!(!even.is_uneven(), "two rows have the same residuals");
}

//! Means over items in clusters, shares of runs, and quantiles, compared with statsmodels 0.15 and `SciPy` 1.17.

use crate::stats::*;

fn close(ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() < 1e-9, "{ours} {theirs}");
}

/// Differences of two methods with 24 items and 3 runs.
fn differences() -> Runs {
    let score = |method: usize, item: usize, run: usize| {
        let drawn = item * item * 7 + item * 3 * method + run * 5 * method + run * item;
        f64::from(u8::from(drawn % 11 < 4 + 2 * method))
    };
    let run = |run: usize| (0..24).map(|item| score(1, item, run) - score(0, item, run)).collect();
    (0..3).map(run).collect()
}

/// `cov_cluster` and the parts of `cov_cluster_2groups` of statsmodels for a regression on a constant.
#[test]
fn clusters_have_the_error_of_statsmodels() {
    let runs = differences();
    let clusters: Vec<usize> = (0..24).map(|item| item / 3).collect();
    let parts = |sides: &[Runs], clusters: &[usize]| {
        let (mean, error) = clustered(sides, clusters).unwrap();
        (mean, error.unwrap())
    };
    let (mean, error) = parts(&[vec![runs[0].clone()]], &clusters);
    close(mean, 1.0 / 3.0);
    assert_eq!(error.parts.len(), 1);
    close(error.parts[0].error, 0.062_994_078_834_871_24);
    close(error.parts[0].freedom, 7.0);
    // One part is Student's t with 7 degrees of freedom.
    close(error.half(LEVEL), 2.364_624_251_592_784 * 0.062_994_078_834_871_24);
    close(error.p(error.half(LEVEL)), 0.05);
    let uneven = [vec![0; 8], vec![1; 5], vec![2; 4], vec![3; 3], vec![4; 2], vec![5], vec![6]].concat();
    close(parts(&[vec![runs[0].clone()]], &uneven).1.parts[0].error, 0.090_010_287_477_887);
    // The variances with clusters by items and by runs of statsmodels' two-way clustering.
    let (mean, error) = parts(std::slice::from_ref(&runs), &clusters);
    close(mean, 0.347_222_222_222_222_2);
    close(error.parts[0].error, 0.032_783_158_019_560_15);
    close(error.parts[1].error, 0.108_475_689_943_147_84);
    close(error.parts[1].freedom, 2.0);
    let squares = (2.364_624_251_592_784 * 0.032_783_158_019_560_15_f64).powi(2)
        + (4.302_652_729_749_462 * 0.108_475_689_943_147_84_f64).powi(2);
    close(error.half(LEVEL), squares.sqrt());
    // Sides that do not pair, of which one is zero, have the same mean and error.
    let apart = parts(&[runs.clone(), vec![vec![0.0; 24]]], &clusters);
    close(apart.0, mean);
    close(apart.1.half(LEVEL), error.half(LEVEL));
    assert_eq!(clustered(std::slice::from_ref(&runs), &[0; 24]).unwrap().1, None, "one cluster");
    assert_eq!(
        (clustered(&[runs], &[0, 1]), clustered(&[vec![]], &clusters), clustered(&[vec![]], &[])),
        (None, None, None)
    );
}

/// `permutation_test` with `permutation_type="samples"`, which here tries all 128 assignments of signs.
#[test]
fn few_clusters_have_the_exact_test_of_their_signs() {
    let clusters = [vec![0; 8], vec![1; 5], vec![2; 4], vec![3; 3], vec![4; 2], vec![5], vec![6]].concat();
    close(Signs::new(&differences()[0], &clusters).unwrap().p(0.0), 0.125);
    let plain = [0.3, 0.5, 0.1, 0.7, 0.4, 0.6, 0.2];
    let each: Vec<usize> = (0..7).collect();
    let signs = Signs::new(&plain, &each).unwrap();
    close(signs.p(0.0), 2.0 / 128.0);
    let [low, high] = signs.interval(LEVEL);
    assert!(low.unwrap() > 0.0 && high.unwrap() < 0.8 && low.unwrap() < 0.4, "{low:?} {high:?}");
    for (end, inside) in [(low.unwrap(), 0.01), (high.unwrap(), -0.01)] {
        assert!(signs.p(end - inside) <= 0.05 && signs.p(end + inside) > 0.05);
    }
    let five = Signs::new(&plain[..5], &each[..5]).unwrap();
    assert_eq!(five.interval(LEVEL), [None, None], "32 assignments exclude nothing");
    assert!(Signs::new(&[0.0; 13], &(0..13).collect::<Vec<_>>()).is_none(), "13 equal clusters");
}

/// Twelve clusters of two items and one of a hundred: of all 8192 assignments of signs, 63.67 % are at least as far from zero (NumPy); the
/// test draws 4999 assignments. Student's t with 12 degrees of freedom has p = 0.00062 (`SciPy`).
#[test]
fn one_large_cluster_among_many_has_the_test_of_signs() {
    let clusters: Vec<usize> = (0..12).flat_map(|cluster| [cluster; 2]).chain([12; 100]).collect();
    let values: Vec<f64> =
        clusters.iter().map(|cluster| if *cluster == 12 { 1.0 } else { (*cluster % 3) as f64 - 1.0 }).collect();
    let p = Signs::new(&values, &clusters).unwrap().p(0.0);
    assert!((p - 0.636_718_75).abs() < 0.03, "{p}");
    let error = clustered(&[vec![values]], &clusters).unwrap().1.unwrap();
    assert!((error.p(100.0 / 124.0) - 0.000_619_827_716_205).abs() < 1e-9);
}

/// `binomtest(...).proportion_ci(method="exact")`, `binomtest` of the discordant pairs, and `fisher_exact`.
#[test]
fn shares_have_exact_intervals_and_tests() {
    let of = |events, runs| Rates::One { events, runs }.estimate(LEVEL);
    close(of(3, 10).low.unwrap(), 0.066_739_511_177_734_47);
    close(of(3, 10).high.unwrap(), 0.652_452_850_060_008);
    close(of(0, 7).high.unwrap(), 0.409_616_397_225_048_7);
    assert_eq!((of(0, 7).low, of(7, 7).high), (Some(0.0), Some(1.0)));
    close(Rates::Paired { first: 1, second: 7, pairs: 20 }.p_at(0.0), 0.070_312_5);
    let fisher = Rates::Independent { first: [5, 8], second: [0, 8] };
    close(fisher.p_at(0.0), 0.025_641_025_641_025_633);
    let found = fisher.estimate(LEVEL);
    assert!(
        found.low.unwrap() > 0.0 && found.value == 0.625,
        "the interval excludes zero, as the test does: {found:?}"
    );
    let open = Rates::Paired { first: 1, second: 7, pairs: 20 }.estimate(LEVEL);
    assert!(open.low.unwrap() < 0.0 && open.high.unwrap() > 0.0);
    // The p-value of a bound is the level at which the interval ends there.
    let p = Rates::One { events: 3, runs: 10 }.p_at(0.066_739_511_177_734_47);
    assert!((p - 0.05).abs() < 1e-6, "{p}");
}

/// NumPy's `quantile`, and `quantile_test` with its interval.
#[test]
fn quantiles_are_scipys() {
    let values = [
        3.1, 0.2, 5.5, 2.2, 9.1, 4.4, 1.7, 8.8, 6.0, 7.3, 2.9, 3.3, 5.1, 0.9, 4.8, 6.6, 7.7, 1.1, 2.4, 3.9, 5.9, 6.2,
        8.1, 9.9, 0.5, 4.1, 3.6, 2.7, 7.0, 5.3, 1.4, 6.9, 8.4, 9.3, 2.0, 4.6, 0.7, 5.7, 3.0, 8.0,
    ];
    let found = quantile_of(&values, 0.9, LEVEL).unwrap();
    close(found.value, 8.44);
    assert_eq!((found.low, found.high), (Some(7.3), Some(9.9)));
    let found = quantile_of(&values, 0.75, LEVEL).unwrap();
    assert_eq!((found.low, found.high), (Some(5.5), Some(8.4)));
    close(sign_test(&values, 0.9, 9.2).unwrap(), 0.445_616_248_678_806_17);
    close(sign_test(&values, 0.75, 5.0).unwrap(), 0.003_416_730_907_904_129);
    assert_eq!(quantile_of(&values[..35], 0.9, LEVEL).unwrap().low, None, "35 values do not reach above it");
    assert!(quantile_of(&values, 1.0, LEVEL).is_none() && quantile_of(&[], 0.9, LEVEL).is_none());
}

/// Twenty clusters of 1 to 39 items have 57 % of effective clusters, and twenty of 8 to 12 items 96 %.
#[test]
fn clusters_of_unequal_sizes_have_the_test_of_their_signs() {
    let groups = |size: &dyn Fn(usize) -> usize| -> Vec<usize> {
        (0..20).flat_map(|cluster| vec![cluster; size(cluster)]).collect()
    };
    let signs = |groups: &[usize]| Signs::new(&vec![1.0; groups.len()], groups);
    assert!(signs(&groups(&|cluster| 1 + 2 * cluster)).is_some());
    assert!(signs(&groups(&|cluster| 8 + cluster % 5)).is_none());
}

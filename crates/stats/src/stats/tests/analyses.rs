//! Times to a target, power laws, rankings and components of variance, compared with lifelines 0.30.3, statsmodels 0.15.0,
//! `SciPy` 1.17.1 and `NumPy` 2.4.6.

use crate::stats::*;

fn near(ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 1e-8 * theirs.abs().max(1.0), "{ours} {theirs}");
}

fn runs(all: &[(f64, bool)]) -> Vec<TimeToEvent> {
    all.iter().map(|(time, reached)| TimeToEvent { time: *time, reached: *reached }).collect()
}

fn two() -> [Vec<TimeToEvent>; 2] {
    [
        runs(&[(120.0, true), (150.0, true), (150.0, true), (300.0, false), (90.0, true), (200.0, false)]),
        runs(&[(180.0, true), (260.0, true), (300.0, false), (300.0, false), (140.0, false), (220.0, true)]),
    ]
}

/// `KaplanMeierFitter`, its median, and `restricted_mean_survival_time`; the contributions are jackknives of the latter.
#[test]
fn times_to_a_target_are_those_of_lifelines() {
    let [a, b] = two();
    let shares: Vec<f64> = survival(&a).into_iter().map(|(_, share)| share).collect();
    for (ours, theirs) in shares.iter().zip([5.0 / 6.0, 4.0 / 6.0, 2.0 / 6.0]) {
        near(*ours, theirs);
    }
    assert_eq!((median_time(&a), median_time(&b)), (Some(150.0), Some(260.0)));
    for (group, horizon, mean) in
        [(&a, 250.0, 168.333_333_333_333_31), (&a, 300.0, 185.0), (&b, 250.0, 230.0), (&b, 300.0, 252.0)]
    {
        near(restricted_mean(group, horizon), mean);
    }
    for (ours, theirs) in pseudo_times(&b, 300.0).into_iter().zip([162.0, 262.0, 312.0, 312.0, 252.0, 212.0]) {
        near(ours, theirs);
    }
    let late = runs(&[(3.0, true), (8.0, false), (9.0, true)]);
    assert_eq!(pseudo_times(&late, 8.0), [3.0, 8.0, 8.0], "no run ends before the horizon");
    // Like R's `survfit`, if the share is one half over a span of time.
    let [even, half] =
        [true, false].map(|reached| runs(&[(10.0, true), (12.0, true), (15.0, reached), (19.0, reached)]));
    assert_eq!((median_time(&even), median_time(&half)), (Some(13.5), None));
    assert_eq!((median_time(&late[1..2]), restricted_mean(&[], 5.0), pseudo_times(&[], 5.0)), (None, 5.0, Vec::new()));
}

/// The statistic of `logrank_test`; the probability follows from all 924 assignments, enumerated with `itertools`.
#[test]
fn two_groups_have_the_log_rank_statistic_of_lifelines() {
    let [a, b] = two();
    let found = log_rank(&a, &b).unwrap();
    near(found.statistic, 1.362_580_424_645_762_2);
    near(found.p, 252.0 / 924.0);
    near(log_rank(&b, &a).unwrap().p, found.p);
    assert_eq!((log_rank(&a, &[]), log_rank(&a[3..4], &b[2..3])), (None, None), "no runs, no events");
    // For 40 runs, assignments are drawn; for 120, the distribution is chi-squared, as in lifelines.
    let many = |count: u32, shift: f64| -> Vec<TimeToEvent> {
        runs(&(0..count).map(|index| (f64::from(index) + shift, index % 3 != 0)).collect::<Vec<_>>())
    };
    let [drawn, large] = [20, 60].map(|count| log_rank(&many(count, 0.0), &many(count, 6.5)).unwrap());
    near(drawn.statistic, 7.252_542_687_883_996);
    assert!((drawn.p - 0.007_080_068_877_529_045).abs() < 0.006, "{drawn:?}");
    near(large.statistic, 4.120_874_918_089_587);
    near(large.p, 0.042_357_164_251_096_77);
}

/// `OLS` of the logarithms with `get_prediction(...).summary_frame`.
#[test]
fn a_power_law_predicts_as_statsmodels() {
    let points = [(1e6, 4.1), (3e6, 3.62), (1e7, 3.15), (3e7, 2.81), (1e8, 2.47)];
    let law = PowerLaw::new(&points, false).unwrap();
    near(law.exponent(LEVEL).value, -0.110_034_401_143_684_73);
    near(law.exponent(LEVEL).low.unwrap(), -0.114_238_172_959_549_73);
    near(law.exponent(LEVEL).high.unwrap(), -0.105_830_629_327_819_74);
    let next = law.predict(1e9, LEVEL);
    near(next.value, 1.910_581_063_356_884_5);
    near(next.low.unwrap(), 1.862_145_566_094_962_6);
    near(next.high.unwrap(), 1.960_276_396_248_242_1);
    let refused = [&points[..2], &[(1.0, 1.0), (2.0, -1.0), (3.0, 2.0)], &[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]];
    assert!(refused.into_iter().all(|points| PowerLaw::new(points, false).is_none()));
    let exact = PowerLaw::new(&[(1.0, 8.0), (2.0, 4.0), (4.0, 2.0)], false).unwrap().predict(8.0, LEVEL);
    assert!((exact.value - 1.0).abs() < 1e-12, "{exact:?}");
}

/// `scipy.optimize.least_squares` with the constant, the factor and the exponent as its variables, and `brentq` on its cost.
#[test]
fn a_power_law_with_a_constant_has_the_profiles_of_scipys_least_squares() {
    let close = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-5, "{found} is not {wanted}");
    let points = [(1e6, 5.41), (3e6, 4.23), (1e7, 3.385), (3e7, 2.84), (1e8, 2.461), (3e8, 2.225)];
    let law = PowerLaw::new(&points, true).unwrap();
    close(law.constant().unwrap(), 1.716_567_1);
    let exponent = law.exponent(LEVEL);
    close(exponent.value, -0.347_890_96);
    close(exponent.low.unwrap(), -0.362_357_796);
    close(exponent.high.unwrap(), -0.333_531_356);
    let next = law.predict(1e10, LEVEL);
    close(next.value, 1.866_445_4);
    close(next.low.unwrap(), 1.825_523_4);
    close(next.high.unwrap(), 1.906_583_6);
    close(law.p_at(LawNumber::Exponent, -0.5).unwrap(), 6.707_072_6e-5);
    close(law.p_at(LawNumber::RatioAt { x: 1e10, y: 1.8 }, 0.0).unwrap(), 0.014_310_234);
    // A time with a fixed part.
    let times = [(1.0, 0.52), (2.0, 0.61), (4.0, 0.85), (8.0, 1.28), (16.0, 2.11)];
    let law = PowerLaw::new(&times, true).unwrap();
    close(law.constant().unwrap(), 0.400_795_93);
    close(law.exponent(LEVEL).high.unwrap(), 1.206_046_137);
    close(law.predict(64.0, LEVEL).low.unwrap(), 5.168_248_34);
    // A score that rises to the constant, exactly; three sizes; a straight line, whose constant is zero.
    let scores: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0].map(|x: f64| (x, 0.9 - 0.5 * x.powf(-0.7))).to_vec();
    let law = PowerLaw::new(&scores, true).unwrap();
    close(law.constant().unwrap(), 0.9);
    close(law.predict(1e3, LEVEL).high.unwrap(), 0.9 - 0.5 * 1e3_f64.powf(-0.7));
    assert_eq!(PowerLaw::new(&scores[..3], true), None);
    let line = [1.0, 2.0, 4.0, 8.0, 16.0].map(|x: f64| (x, 8.0 * x.powf(-0.5)));
    let law = PowerLaw::new(&line, true).unwrap();
    assert!(law.constant().unwrap() < 1e-3, "{law:?}");
    close(law.predict(64.0, LEVEL).value, 1.0);
}

/// `scipy.stats.kendalltau`, exact and asymptotic.
#[test]
fn rankings_agree_as_kendalls_tau_of_scipy() {
    let found = agreement(&[3.1, 2.9, 2.5, 2.7, 2.2], &[1.9, 2.0, 1.2, 1.6, 1.4]).unwrap();
    assert_eq!((found.concordant, found.discordant), (8, 2));
    near(found.tau, 0.6);
    near(found.p, 0.233_333_333_333_333_34);
    let of: Vec<f64> = (0..10).map(f64::from).collect();
    let found = agreement(&of, &[0.0, 2.0, 1.0, 3.0, 4.0, 7.0, 5.0, 6.0, 9.0, 8.0]).unwrap();
    near(found.tau, 0.822_222_222_222_222_1);
    near(found.p, 0.000_357_694_003_527_336_9);
    assert_eq!((agreement(&[1.0], &[1.0]), agreement(&of, &of[1..])), (None, None));
}

/// Mean squares of statsmodels' `anova_lm`; intervals by the formulas of Ting and others with `scipy.stats.f` and `chi2`.
#[test]
fn components_of_variance_are_those_of_the_mean_squares() {
    let table = [[1.0, 2.5, 1.7, 3.1], [2.2, 3.9, 2.4, 4.4], [0.3, 1.1, 1.9, 2.0]];
    let of_row = |(first, row): (usize, &[f64; 4])| -> Vec<Leveled> {
        row.iter().enumerate().map(|(second, value)| (vec![first, second], *value)).collect()
    };
    let values: Vec<Leveled> = table.iter().enumerate().flat_map(of_row).collect();
    let found = components(&values).unwrap();
    let wanted = [
        (0.849_722_222_222_222_7, 0.156_831_997_061_992_47, 36.095_565_622_101_546),
        (0.622_499_999_999_999_3, 0.061_861_531_943_724_9, 9.779_396_101_132_768),
        (0.264_444_444_444_444_4, 0.109_808_668_529_370_77, 1.282_316_277_029_351_7),
    ];
    for (ours, (value, low, high)) in found.factors.iter().chain(&found.rest).zip(wanted) {
        near(ours.value, value);
        near(ours.low.unwrap(), low);
        near(ours.high.unwrap(), high);
    }
    assert_eq!(components(&values[1..]), None, "a combination is missing");
    assert_eq!(components(&[]), None);
    assert_eq!(components(&values[..4]), None, "one level");
    let single: Vec<Leveled> =
        values.iter().filter(|(levels, _)| levels[0] == 0).map(|(levels, value)| (vec![levels[1]], *value)).collect();
    let alone = variance_of(&table[0]).unwrap();
    assert_eq!(components(&single), Some(Components { factors: vec![alone], rest: None }));
    assert_eq!(variance_of(&[1.0]), None);
}

/// Three sources of which two interact: mean squares by NumPy, intervals by the formulas of Ting and others and Satterthwaite's degrees
/// of freedom with `scipy.stats`.
#[test]
fn interactions_of_other_sources_hide_none_and_are_in_the_rest() {
    let table = [
        -0.15, -0.7, -1.35, -1.1, -0.95, -1.31, -1.74, -1.68, 0.3, -0.17, -0.68, -0.49, 0.99, 0.34, 0.02, 0.03, 1.61,
        1.09, 0.77, 0.84, 0.57, 0.09, -0.3, -0.29, -0.2, -0.45, -1.03, -0.72, -0.22, -0.9, -1.13, -1.18, 1.24, 0.83,
        0.18, 0.44,
    ];
    let leveled = |(cell, value): (usize, &f64)| (vec![cell / 12, cell / 4 % 3, cell % 4], *value);
    let values: Vec<Leveled> = table.iter().enumerate().map(leveled).collect();
    let found = components(&values).unwrap();
    let wanted = [
        (0.263_787_037_037_037_1, 0.0, 16.960_959_012_345_96),
        (0.0, 0.0, 3.415_312_482_878_108),
        (0.175_087_500_000_000_06, 0.055_536_920_389_230_11, 2.445_821_002_905_558),
        (0.518_779_629_629_629_4, 0.187_653_389_648_525_96, 4.150_159_017_324_994),
    ];
    for (ours, (value, low, high)) in found.factors.iter().chain(&found.rest).zip(wanted) {
        let close = |ours: f64, theirs: f64| assert!((ours - theirs).abs() < 1e-6, "{ours} {theirs}");
        close(ours.value, value);
        close(ours.low.unwrap(), low);
        close(ours.high.unwrap(), high);
    }
}

/// `scipy.stats.median_abs_deviation(x, scale='normal')` is 0.2224 for the first values: three of them are 0.67.
#[test]
fn outliers_are_far_from_the_median() {
    assert_eq!(without_outliers(&[1.0, 1.1, 1.2, 1.3, 1.6, -3.0]), [1.0, 1.1, 1.2, 1.3, 1.6]);
    assert_eq!(without_outliers(&[1.0, 1.0, 1.0, 1.0, 9.0]).len(), 5, "more than half are equal");
    assert_eq!(without_outliers(&[1.0, 2.0, 90.0]).len(), 3, "too few to tell");
}

/// The interval of a source without a main effect contains zero, also if the two other sources interact with it and with each other.
#[test]
fn interactions_are_no_part_of_a_source() {
    let mut draws = Draws::new(7);
    // The sum of twelve uniform numbers is nearly normal.
    let mut normal = || (0..12).map(|_| draws.uniform()).sum::<f64>() - 6.0;
    let (mut excluded, tables) = (0, 400);
    for _ in 0..tables {
        let of_pair: Vec<f64> = (0..16).map(|_| normal()).collect();
        let cell = |cell: usize| (vec![cell / 12, cell / 3 % 4, cell % 3], cell / 3);
        let values: Vec<Leveled> =
            (0..48).map(cell).map(|(levels, pair)| (levels, of_pair[pair] + 0.05 * normal())).collect();
        let found = components(&values).unwrap();
        excluded += usize::from(found.factors[0].low > Some(0.0));
    }
    assert!(excluded * 20 <= tables + tables / 2, "{excluded} of {tables}, of which chance gives one in forty");
}

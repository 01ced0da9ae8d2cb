//! Simulated situations in which measurements are not independent, not equal in spread, or not normal. The benchmark
//! `error_rates` and a unit test run them.

use super::{
    situation::{Promise, Situation},
    stats::{
        Blocks, Draws, ErrorOfMean, Estimate, LEVEL, Leveled, Precision, Sample, constant_level, crossed,
        extension_level, odds, quantile_of, shared_seeds, variance_of_folds,
    },
};

/// The probability of a wrong decision that all rules are made for.
const ERROR: f64 = 0.05;

/// All situations.
pub(crate) fn dependent() -> Vec<Situation> {
    [
        data_sets(),
        equal_seeds(),
        crossed_seeds(),
        folds(),
        after_looks(),
        rows_after_looks(),
        marks_after_looks(),
        families(),
        uneven(),
        diverging(),
        unrelated(),
        lopsided(),
        fixed(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn normals(draws: &mut Draws, count: usize) -> Vec<f64> {
    (0..count).map(|_| draws.normal()).collect()
}

fn excludes(estimate: Estimate, value: f64) -> bool {
    estimate.low.is_some_and(|low| low > value) || estimate.high.is_some_and(|high| high < value)
}

fn mean_excludes(values: &[f64], value: f64, level: f64) -> bool {
    Sample::new(values).is_some_and(|sample| excludes(sample.estimate_at(level), value))
}

/// True if an estimate of zero mean with this error is told apart from zero: the probability of one sign is beyond 97.5 %.
fn is_told(mean: f64, error: ErrorOfMean) -> bool {
    odds(mean, error, 0.0).is_some_and(|odds| odds.less.max(odds.more) > f64::midpoint(1.0, LEVEL))
}

/// Differences of two methods on 4 data sets with 5 folds each; the data sets differ as much as the folds.
fn data_sets() -> Vec<Situation> {
    let differences = |draws: &mut Draws| -> Vec<Vec<f64>> {
        let of_set = |_| {
            let effect = draws.normal();
            normals(draws, 5).iter().map(|noise| effect + noise).collect()
        };
        (0..4).map(of_set).collect()
    };
    let name = "4 data sets × 5 folds, equal methods";
    vec![
        Situation::new(format!("{name}, data sets as units"), Promise::AtMost, ERROR, move |draws| {
            let means: Vec<f64> = differences(draws).iter().map(|folds| folds.iter().sum::<f64>() / 5.0).collect();
            mean_excludes(&means, 0.0, LEVEL)
        }),
        Situation::new(format!("{name}, 20 units"), Promise::Nothing, ERROR, move |draws| {
            mean_excludes(&differences(draws).concat(), 0.0, LEVEL)
        }),
    ]
}

/// The mean difference of two methods on data sets with equal seeds, with its error: that of the data sets, to which seeds that have a
/// part in all data sets add.
fn over_data_sets(cells: &[Leveled], certain: bool) -> Option<(f64, ErrorOfMean)> {
    let means: Vec<f64> = cells.chunk_by(|(one, _), (other, _)| one[0] == other[0]).map(mean_of).collect();
    let Sample { n, mean, sd } = Sample::new(&means)?;
    let (error, own) = (sd? / (n as f64).sqrt(), (n - 1) as f64);
    let shared = shared_seeds(&[cells.to_vec()], 1, certain);
    let whole = shared.map_or(ErrorOfMean { error, freedom: own }, |shared| ErrorOfMean {
        error: error.hypot(shared.error),
        freedom: shared.freedom,
    });
    Some((mean, whole))
}

fn mean_of(values: &[Leveled]) -> f64 {
    values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64
}

/// Values of data sets with equal seeds.
fn cells(draws: &mut Draws, [sets, seeds]: [usize; 2], spread: f64, effect: f64) -> Vec<Leveled> {
    let (of_sets, of_seeds) = (normals(draws, sets), normals(draws, seeds));
    let at = (0..sets).flat_map(|set| (0..seeds).map(move |seed| vec![set, seed]));
    at.map(|at| {
        let value = effect + 0.5 * of_sets[at[0]] + spread * of_seeds[at[1]] + draws.normal();
        (at, value)
    })
    .collect()
}

fn name(sets: usize, seeds: usize, spread: f64) -> String {
    format!("{sets} data sets × {seeds} equal seeds, seeds have {spread} × the noise in all data sets")
}

/// Which of the jobs of data sets with equal seeds there are.
type Present = fn(usize, usize) -> bool;

const BUT_ONE: (Present, &str) = (|set, seed| set + seed > 0, "one job missing");
const BUT_A_FIFTH: (Present, &str) = (|set, seed| !(set + seed).is_multiple_of(5), "a fifth of the jobs missing");
const HALF: (Present, &str) = (|set, seed| (set + seed).is_multiple_of(2), "every other job missing");
const PAIRS: (Present, &str) = (|set, seed| [set % 5, (set + 1) % 5].contains(&seed), "two of them on each data set");
const ONE_WITH_ALL: (Present, &str) =
    (|set, seed| set == 0 || seed == 0, "all of them on one data set, and one on the others");

/// Equal seeds of which some data sets have only some.
fn incomplete_seeds() -> Vec<Situation> {
    let is_found = |draws: &mut Draws, counts: [usize; 2], present: Present, spread: f64, effect: f64| {
        let mut values = cells(draws, counts, spread, effect);
        values.retain(|(at, _)| present(at[0], at[1]));
        over_data_sets(&values, false).is_some_and(|(mean, error)| is_told(mean, error))
    };
    let mut all = Vec::new();
    for ([sets, seeds], (present, missing), spread) in [
        ([4, 5], BUT_ONE, 0.0),
        ([4, 5], BUT_ONE, 1.0),
        ([20, 2], BUT_ONE, 1.0),
        ([4, 5], BUT_A_FIFTH, 0.0),
        ([4, 5], BUT_A_FIFTH, 1.0),
        ([10, 3], BUT_A_FIFTH, 1.0),
        ([20, 3], HALF, 1.0),
        ([6, 4], HALF, 1.0),
        ([10, 5], PAIRS, 0.5),
        ([10, 5], PAIRS, 3.0),
        ([5, 5], ONE_WITH_ALL, 1.0),
    ] {
        // Means of data sets that have few of the seeds in common are not independent if seeds have much more than the noise.
        let nominal = if spread > 1.0 { 0.06 } else { ERROR };
        let name = format!("{}, {missing}, equal methods", name(sets, seeds, spread));
        all.push(Situation::new(name, Promise::AtMost, nominal, move |draws| {
            is_found(draws, [sets, seeds], present, spread, 0.0)
        }));
    }
    let (present, missing) = BUT_ONE;
    let name = format!("{}, {missing}, 1.2 × the noise found", name(5, 5, 0.0));
    all.push(Situation::new(name, Promise::AtLeast, 0.7, move |draws| is_found(draws, [5, 5], present, 0.0, 1.2)));
    all
}

/// Equal seeds on several data sets, whose effects are half as large as the noise. The seeds have a part in all data sets or none.
fn equal_seeds() -> Vec<Situation> {
    let mut all = Vec::new();
    for (sets, seeds, spread) in [
        (4, 5, 0.0),
        (4, 5, 0.5),
        (4, 5, 1.0),
        (4, 5, 3.0),
        (3, 3, 1.0),
        (10, 3, 1.0),
        (3, 10, 1.0),
        (10, 10, 1.0),
        (4, 2, 0.0),
        (4, 2, 1.0),
        (10, 2, 1.0),
    ] {
        let name = format!("{}, equal methods", name(sets, seeds, spread));
        all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| {
            let found = over_data_sets(&cells(draws, [sets, seeds], spread, 0.0), false);
            found.is_some_and(|(mean, error)| is_told(mean, error))
        }));
    }
    all.extend(incomplete_seeds());
    for (spread, seeds) in [(1.0, 2), (1.0, 5)] {
        let name = format!("{}, equal methods, from one training", name(4, seeds, spread));
        all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| {
            let found = over_data_sets(&cells(draws, [4, seeds], spread, 0.0), true);
            found.is_some_and(|(mean, error)| is_told(mean, error))
        }));
    }
    let averaged = |cells: &[Leveled], seeds: usize| {
        let means: Vec<f64> = cells.chunks(seeds).map(mean_of).collect();
        mean_excludes(&means, 0.0, LEVEL)
    };
    for (sets, seeds) in [(4, 5), (10, 3)] {
        let name = format!("{}, equal methods, seeds averaged", name(sets, seeds, 1.0));
        all.push(Situation::new(name, Promise::Nothing, ERROR, move |draws| {
            averaged(&cells(draws, [sets, seeds], 1.0, 0.0), seeds)
        }));
    }
    for (seeds, found) in [(3, 0.5), (5, 0.8)] {
        let effect = format!("{}, 1.2 × the noise found", name(5, seeds, 0.0));
        all.push(Situation::new(effect.clone(), Promise::AtLeast, found, move |draws| {
            let found = over_data_sets(&cells(draws, [5, seeds], 0.0, 1.2), false);
            found.is_some_and(|(mean, error)| is_told(mean, error))
        }));
        all.push(Situation::new(format!("{effect}, seeds averaged"), Promise::Nothing, ERROR, move |draws| {
            averaged(&cells(draws, [5, seeds], 0.0, 1.2), seeds)
        }));
    }
    all
}

/// Values at two crossed seeds, whose effects have these spreads in units of the noise.
fn at_crossed(draws: &mut Draws, [first, second]: [usize; 2], [of_first, of_second]: [f64; 2]) -> Vec<Leveled> {
    let (rows, columns) = (normals(draws, first), normals(draws, second));
    let cells = (0..first).flat_map(|row| (0..second).map(move |column| vec![row, column]));
    cells
        .map(|at| {
            let value = of_first * rows[at[0]] + of_second * columns[at[1]] + draws.normal();
            (at, value)
        })
        .collect()
}

/// True if the mean of values at crossed seeds is told apart from zero.
fn is_told_crossed(values: &[Leveled]) -> bool {
    crossed(&[values.to_vec()]).is_some_and(|error| is_told(mean_of(values), error))
}

/// Crossed seeds of which combinations are missing.
fn incomplete_crossing() -> Vec<Situation> {
    let mut all = Vec::new();
    for (counts, spreads, missing) in [
        ([5, 5], [0.0, 0.0], 0.1),
        ([5, 5], [1.0, 1.0], 0.1),
        ([5, 5], [1.0, 1.0], 0.3),
        ([5, 5], [3.0, 0.0], 0.3),
        ([10, 10], [3.0, 1.0], 0.3),
        ([3, 10], [3.0, 1.0], 0.2),
        ([2, 10], [3.0, 1.0], 0.1),
        ([2, 10], [3.0, 0.0], 0.3),
        ([2, 20], [3.0, 1.5], 0.3),
    ] {
        let ([first, second], [of_first, of_second]) = (counts, spreads);
        let name = format!(
            "{first} × {second} crossed seeds with {of_first} and {of_second} × the noise, {} % of the combinations missing",
            100.0 * missing
        );
        all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| {
            let mut values = at_crossed(draws, counts, spreads);
            values.retain(|_| draws.uniform() >= missing);
            is_told_crossed(&values)
        }));
    }
    for spread in [0.0, 1.0, 3.0] {
        let name =
            format!("5 × 5 crossed seeds, each with {spread} × the noise, one value of the first with one combination");
        all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| {
            let mut values = at_crossed(draws, [5, 5], [spread; 2]);
            values.retain(|(at, _)| at[0] > 0 || at[1] == 0);
            is_told_crossed(&values)
        }));
    }
    all
}

fn crossed_seeds() -> Vec<Situation> {
    let mut all = Vec::new();
    for (first, second, spreads) in [
        (5, 5, [0.0; 2]),
        (5, 5, [1.0; 2]),
        (4, 5, [1.0; 2]),
        (3, 5, [1.0; 2]),
        (2, 10, [3.0; 2]),
        (3, 10, [3.0; 2]),
        (2, 20, [3.0, 1.5]),
    ] {
        let spread = if spreads[0] == spreads[1] {
            format!("each with {} × the noise", spreads[0])
        } else {
            format!("with {} and {} × the noise", spreads[0], spreads[1])
        };
        let name = format!("{first} × {second} crossed seeds, {spread}, both random");
        all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| {
            is_told_crossed(&at_crossed(draws, [first, second], spreads))
        }));
    }
    all.extend(incomplete_crossing());
    all.push(Situation::new(
        "5 × 5 crossed seeds, each with 1 × the noise, averaged over one of them",
        Promise::Nothing,
        ERROR,
        move |draws| {
            let values = at_crossed(draws, [5, 5], [1.0; 2]);
            let means: Vec<f64> = values.chunks(5).map(mean_of).collect();
            mean_excludes(&means, 0.0, LEVEL)
        },
    ));
    all
}

/// Differences on five folds, in one cross-validation or in several with other partitions, all of which correlate by 1/5 because training
/// sets overlap.
fn folds() -> Vec<Situation> {
    let differences = |draws: &mut Draws, count: usize| -> Vec<f64> {
        let common = 0.2_f64.sqrt() * draws.normal();
        normals(draws, count).iter().map(|noise| common + 0.8_f64.sqrt() * noise).collect()
    };
    let mut all = Vec::new();
    for (repetitions, name) in
        [(1, "5 folds of a cross-validation"), (3, "5 folds × 3 partitions"), (10, "5 folds × 10 partitions")]
    {
        let count = 5 * repetitions;
        all.push(Situation::new(format!("{name}, corrected"), Promise::AtMost, ERROR, move |draws| {
            let Some(Sample { mean, sd: Some(sd), .. }) = Sample::new(&differences(draws, count)) else { return false };
            let error = sd * variance_of_folds(count, 5).sqrt();
            is_told(mean, ErrorOfMean { error, freedom: (count - 1) as f64 })
        }));
        all.push(Situation::new(format!("{name}, as if independent"), Promise::Nothing, ERROR, move |draws| {
            mean_excludes(&differences(draws, count), 0.0, LEVEL)
        }));
    }
    all
}

/// Two equal rows after seeds were added until their difference is decided, 3 to 10.
fn adaptive_rows(draws: &mut Draws, level: f64) -> [Vec<f64>; 2] {
    let mut rows = [const { Vec::new() }; 2];
    for seeds in 3..=10 {
        while rows[0].len() < seeds {
            let effect = draws.normal();
            for row in &mut rows {
                row.push(effect + draws.normal());
            }
        }
        let differences: Vec<f64> = rows[0].iter().zip(&rows[1]).map(|(of, to)| of - to).collect();
        if mean_excludes(&differences, 0.0, level) {
            break;
        }
    }
    rows
}

/// A row after seeds were added until its mean is decided, 3 to 10.
fn adaptive_row(draws: &mut Draws, level: f64) -> Vec<f64> {
    let mut row = normals(draws, 2);
    while row.len() < 10 {
        row.push(draws.normal());
        if mean_excludes(&row, 0.0, level) {
            break;
        }
    }
    row
}

fn after_looks() -> Vec<Situation> {
    let level = constant_level(&(3..=10).collect::<Vec<_>>());
    let mut all = Vec::new();
    for (how, own, promise) in [("of all looks", level, Promise::AtMost), ("of one look", LEVEL, Promise::Nothing)] {
        let name = format!("marks after 3 to 10 adaptive seeds, 2 equal rows, at the level {how}: told apart");
        all.push(Situation::new(name, promise, ERROR, move |draws| {
            let Some(blocks) = Blocks::new(&adaptive_rows(draws, level)) else { return false };
            let difference = (blocks.means[0] - blocks.means[1]).abs();
            blocks.honest_difference(own, Precision::Measured).is_some_and(|least| difference > least)
        }));
        let name = format!("interval of a row after 3 to 10 adaptive seeds, at the level {how}: excludes the mean");
        all.push(Situation::new(name, promise, ERROR, move |draws| {
            mean_excludes(&adaptive_row(draws, level), 0.0, own)
        }));
    }
    all
}

/// A row after seeds were added, `least` to `most`, until its mean is told apart from a bound at this distance from the true mean.
fn row_with_bound(draws: &mut Draws, [least, most]: [usize; 2], bound: f64, level: f64) -> Vec<f64> {
    let mut row = normals(draws, least);
    while row.len() < most && !mean_excludes(&row, bound, level) {
        row.push(draws.normal());
    }
    row
}

/// Intervals of rows whose seeds another claim decided. A level allows for the looks up to the seeds that were run, and at least for three
/// seeds.
fn rows_after_looks() -> Vec<Situation> {
    let mut all = Vec::new();
    for ([least, most], bound) in
        [([3, 10], 1.0), ([3, 10], 3.0), ([3, 30], 4.0), ([2, 5], 4.0), ([2, 10], 1.0), ([2, 10], 5.0), ([2, 30], 5.0)]
    {
        let of = |most: usize| constant_level(&(least..=most).collect::<Vec<_>>());
        let levels = |at_least: usize| -> Vec<f64> { (0..=most).map(|seeds| of(seeds.max(at_least))).collect() };
        let (planned, own) = (of(most), levels(3));
        let name = format!(
            "interval of a row after {least} to {most} seeds until {bound} sd is excluded, at the level of the looks so far, and of three \
             seeds at least"
        );
        let excludes = move |draws: &mut Draws, levels: &[f64]| {
            let row = row_with_bound(draws, [least, most], bound, planned);
            mean_excludes(&row, 0.0, levels[row.len()])
        };
        all.push(Situation::new(format!("{name}: excludes the mean"), Promise::AtMost, ERROR, move |draws| {
            excludes(draws, &own)
        }));
        if least == 2 && bound > 3.0 {
            let name = name.replace(", and of three seeds at least", "");
            let own = levels(2);
            all.push(Situation::new(format!("{name}: excludes the mean"), Promise::Nothing, ERROR, move |draws| {
                excludes(draws, &own)
            }));
        }
    }
    all
}

/// Equal rows, of which each gets seeds until its difference from the first one is decided, told apart by the seeds that all of them have.
fn marks_after_looks() -> Vec<Situation> {
    let mut all = Vec::new();
    for (rows, [least, most]) in [(3, [3, 10]), (5, [3, 10]), (5, [2, 10]), (13, [3, 10])] {
        let level = constant_level(&(least..=most).collect::<Vec<_>>());
        let name = format!(
            "marks, {rows} equal rows, {least} to {most} seeds until each difference from the first is decided, at the level of all looks: \
             any told apart"
        );
        all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| {
            let effects = normals(draws, most);
            let row = |_| effects.iter().map(|effect| 2.0 * effect + draws.normal()).collect::<Vec<f64>>();
            let all: Vec<Vec<f64>> = (0..rows).map(row).collect();
            let seeds_of = |row: &Vec<f64>| {
                let differences: Vec<f64> = row.iter().zip(&all[0]).map(|(of, to)| of - to).collect();
                (least..most).find(|seeds| mean_excludes(&differences[..*seeds], 0.0, level)).unwrap_or(most)
            };
            let common = all[1..].iter().map(seeds_of).min().unwrap_or(most);
            let used: Vec<Vec<f64>> = all.iter().map(|row| row[..common].to_vec()).collect();
            let Some(blocks) = Blocks::new(&used) else { return false };
            let by_mean = |a: &usize, b: &usize| blocks.means[*a].total_cmp(&blocks.means[*b]);
            let ends = (0..rows).min_by(by_mean).zip((0..rows).max_by(by_mean));
            let p = ends.and_then(|(least, most)| blocks.p(most, least, Precision::Measured));
            p.is_some_and(|p| p < 1.0 - level)
        }));
    }
    all
}

/// Thirty claims at their bounds with 3 to 10 adaptive seeds, of which any is decided after Holm's correction.
fn families() -> Vec<Situation> {
    const CLAIMS: usize = 30;
    let sizes: Vec<usize> = (3..=10).collect();
    let share = ERROR / CLAIMS as f64;
    let exact = extension_level(&[], &sizes, share);
    let proportional = 1.0 - share * (1.0 - constant_level(&sizes)) / ERROR;
    let situation = |name: &str, promise, level: f64| {
        let name = format!("30 claims, family: holm, 3 to 10 adaptive seeds, {name}: any decided");
        Situation::new(name, promise, ERROR, move |draws| {
            (0..CLAIMS).any(|_| {
                let values = normals(draws, 10);
                (3..=10).any(|seeds| mean_excludes(&values[..seeds], 0.0, level))
            })
        })
    };
    vec![
        situation("p of all looks", Promise::AtMost, exact),
        situation("p in proportion to that at 5 %", Promise::Nothing, proportional),
    ]
}

/// Thirteen equal rows with 3 seeds, one of which has another spread.
fn uneven() -> Vec<Situation> {
    let blocks = |draws: &mut Draws, spread: f64| {
        let effects: Vec<f64> = normals(draws, 3).iter().map(|effect| 3.0 * effect).collect();
        let row = |row: usize| {
            let own = if row == 0 { spread } else { 1.0 };
            effects.iter().map(|effect| effect + own * draws.normal()).collect()
        };
        Blocks::new(&(0..13).map(row).collect::<Vec<_>>())
    };
    let told = |blocks: &Blocks, guarded: bool| {
        let best = (0..13).min_by(|a, b| blocks.means[*a].total_cmp(&blocks.means[*b])).unwrap_or(0);
        let least = blocks.honest_difference(LEVEL, Precision::Measured).unwrap_or(f64::INFINITY);
        let beyond = (0..13).filter(|row| blocks.means[*row] - blocks.means[best] > least);
        beyond.into_iter().any(|row| !guarded || blocks.p(row, best, Precision::Measured).is_some_and(|p| p < ERROR))
    };
    let mut all = Vec::new();
    for (spread, guarded, promise) in
        [(1.0, true, Promise::AtMost), (10.0, true, Promise::AtMost), (10.0, false, Promise::Nothing)]
    {
        let how = if guarded { "Tukey, and Games and Howell if spreads differ" } else { "Tukey alone" };
        let name = format!("marks, 13 equal rows, 3 seeds, one row with {spread} × the spread, {how}: any told apart");
        all.push(Situation::new(name, promise, ERROR, move |draws| {
            blocks(draws, spread).is_some_and(|blocks| told(&blocks, guarded))
        }));
    }
    all
}

/// The median of a mixture of 93 % standard normal values and 7 % that are far larger: 0.93 Φ(x) = 0.5.
const MEDIAN: f64 = 0.094_476;

/// Values of which 7 % are 30 standard deviations larger.
fn diverging() -> Vec<Situation> {
    let values = |draws: &mut Draws, seeds: usize| -> Vec<f64> {
        let value = |_| if draws.uniform() < 0.07 { 30.0 + draws.normal() } else { draws.normal() };
        (0..seeds).map(value).collect()
    };
    let mut all = Vec::new();
    for seeds in [3, 5, 10] {
        let name = format!("7 % of {seeds} seeds diverge by 30 sd: the interval excludes the mean");
        all.push(Situation::new(name, Promise::Nothing, ERROR, move |draws| {
            mean_excludes(&values(draws, seeds), 2.1, LEVEL)
        }));
    }
    all.push(Situation::new(
        "7 % of 10 seeds diverge by 30 sd: the interval excludes the median",
        Promise::AtMost,
        ERROR,
        move |draws| quantile_of(&values(draws, 10), 0.5, LEVEL).is_some_and(|found| excludes(found, MEDIAN)),
    ));
    all
}

/// Two methods whose seeds have nothing in common, 3 seeds.
fn unrelated() -> Vec<Situation> {
    let welch = |draws: &mut Draws, effect: f64| {
        let [of, to] = [(); 2].map(|()| Sample::new(&normals(draws, 3)));
        let of = of.map(|of| Sample { mean: of.mean + effect, ..of });
        of.zip(to).is_some_and(|(of, to)| excludes(of.welch_difference(&to), 0.0))
    };
    let paired = |draws: &mut Draws, effect: f64| {
        let differences: Vec<f64> = (0..3).map(|_| effect + draws.normal() - draws.normal()).collect();
        mean_excludes(&differences, 0.0, LEVEL)
    };
    vec![
        Situation::new(
            "unrelated seeds, 3, equal methods, independent (Welch)",
            Promise::AtMost,
            ERROR,
            move |draws| welch(draws, 0.0),
        ),
        Situation::new("unrelated seeds, 3, 3 sd found, independent (Welch)", Promise::AtLeast, 0.66, move |draws| {
            welch(draws, 3.0)
        }),
        Situation::new("unrelated seeds, 3, 3 sd found, in pairs", Promise::Nothing, 0.66, move |draws| {
            paired(draws, 3.0)
        }),
    ]
}

/// Independent sides with different numbers of values, with this many times the spread on the first side.
fn lopsided() -> Vec<Situation> {
    let sizes = [([2, 8], 1.0), ([2, 8], 3.0), ([2, 30], 1.0), ([3, 8], 3.0), ([3, 30], 1.0), ([4, 30], 1.0)];
    let situation = |([few, many], spread): ([usize; 2], f64)| {
        let name = format!("{few} against {many} values, {spread} × the spread, equal methods, independent");
        Situation::new(name, Promise::AtMost, ERROR, move |draws| {
            let few: Vec<f64> = normals(draws, few).iter().map(|value| spread * value).collect();
            let sides = Sample::new(&few).zip(Sample::new(&normals(draws, many)));
            sides.is_some_and(|(few, many)| excludes(few.welch_difference(&many), 0.0))
        })
    };
    sizes.into_iter().map(situation).collect()
}

/// Rows on which the seed has no effect beside as many rows on which it has one, all with the same mean. Tests by own spreads of several
/// pairs keep the level only approximately.
fn fixed() -> Vec<Situation> {
    let told = |rows: &[Vec<f64>], [first, second]: [usize; 2], among: usize| {
        let blocks = Blocks::new(rows).map(|blocks| blocks.among(among));
        blocks.and_then(|blocks| blocks.p(first, second, Precision::Measured)).is_some_and(|p| p < ERROR)
    };
    let mut all = Vec::new();
    for (each, seeds) in [(2, 3), (3, 4)] {
        for (how, promise) in [("by their own spread", Promise::AtMost), ("by the common error", Promise::Nothing)] {
            let name = format!(
                "marks, {each} rows without an effect of the seed and {each} with one, {seeds} seeds, {how}: any told apart"
            );
            let is_own = promise == Promise::AtMost;
            all.push(Situation::new(name, promise, 1.2 * ERROR, move |draws| {
                let moving: Vec<Vec<f64>> = (0..each).map(|_| normals(draws, seeds)).collect();
                let fixed = vec![0.0; seeds];
                let whole: Vec<Vec<f64>> = moving.iter().cloned().chain(vec![fixed.clone(); each]).collect();
                let pairs = (0..each).flat_map(|first| (0..first).map(move |second| [first, second]));
                let of_moving = |pair: [usize; 2]| told(if is_own { &moving } else { &whole }, pair, 2 * each);
                let to_fixed = |row: usize| {
                    if is_own {
                        told(&[moving[row].clone(), fixed.clone()], [0, 1], 2 * each)
                    } else {
                        told(&whole, [row, each], 2 * each)
                    }
                };
                pairs.into_iter().any(of_moving) || (0..each).any(to_fixed)
            }));
        }
    }
    all
}

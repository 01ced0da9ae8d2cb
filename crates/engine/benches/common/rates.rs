//! Simulated situations in which the truth is known, judged by the engine's own functions. The benchmark `error_rates`
//! and a unit test run them.

use super::{
    situation::{Promise, Situation},
    stats::{Blocks, Draws, Estimate, LEVEL, Precision, RAISE, Sample, constant_level, extension_level},
};

/// All situations.
pub(crate) fn situations() -> Vec<Situation> {
    [fixed_seeds(), repeated_looks(), extensions(), marks(), baselines(), items(), levels(), drift(), power(), ties()]
        .into_iter()
        .flatten()
        .collect()
}

/// The probability of a wrong decision that all rules are made for.
const ERROR: f64 = 0.05;

fn excludes_zero(estimate: Estimate) -> bool {
    estimate.low.is_some_and(|low| low > 0.0) || estimate.high.is_some_and(|high| high < 0.0)
}

fn normals(draws: &mut Draws, count: usize) -> Vec<f64> {
    (0..count).map(|_| draws.normal()).collect()
}

/// True if the interval of these differences excludes zero.
fn decided(differences: &[f64], level: f64, precision: Precision) -> bool {
    Sample::new(differences).is_some_and(|sample| excludes_zero(sample.estimate_with(level, precision)))
}

fn fixed_seeds() -> Vec<Situation> {
    let fixed = |seeds: usize| {
        Situation::new(format!("fixed seeds, {seeds}"), Promise::AtMost, ERROR, move |draws| {
            decided(&normals(draws, seeds), LEVEL, Precision::Measured)
        })
    };
    vec![fixed(2), fixed(3), fixed(5)]
}

/// A sequence of looks at a growing sample, each at its level, that stops at the first decision.
fn first_decision(draws: &mut Draws, effect: f64, looks: &[(usize, f64)]) -> bool {
    let mut values = Vec::new();
    looks.iter().any(|(size, level)| {
        values.resize_with(*size, || effect + draws.normal());
        decided(&values, *level, Precision::Measured)
    })
}

fn at(level: f64, sizes: impl IntoIterator<Item = usize>) -> Vec<(usize, f64)> {
    sizes.into_iter().map(|size| (size, level)).collect()
}

fn repeated_looks() -> Vec<Situation> {
    let mut all = Vec::new();
    for (min, max) in [(2, 5), (2, 10), (2, 30), (3, 5), (3, 10), (3, 30)] {
        let sizes: Vec<usize> = (min..=max).collect();
        let looks = at(constant_level(&sizes), min..=max);
        all.push(Situation::new(
            format!("until decided, {min} to {max} seeds"),
            Promise::AtMost,
            ERROR,
            move |draws| first_decision(draws, 0.0, &looks),
        ));
    }
    let naive = at(LEVEL, 2..=10);
    let name = "until decided, 2 to 10 seeds, every look at 95 %";
    all.push(Situation::new(name, Promise::Nothing, ERROR, move |draws| first_decision(draws, 0.0, &naive)));
    all
}

/// The end of a sequence of looks for a claim that expects less than zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The interval is below zero or above it.
    Decided,
    /// The interval contains zero and is within the negligible distance.
    Tied,
    /// The looks are over.
    Open,
}

/// A sequence of looks that stops at the first decision or tie. `effect` and `negligible` are in standard deviations.
fn first_end(draws: &mut Draws, effect: f64, negligible: f64, looks: &[(usize, f64)]) -> End {
    let mut values = Vec::new();
    for (size, level) in looks {
        values.resize_with(*size, || effect + draws.normal());
        let Some(sample) = Sample::new(&values) else { continue };
        let estimate = sample.estimate_with(*level, Precision::Measured);
        if excludes_zero(estimate) {
            return End::Decided;
        }
        if estimate.low.is_some_and(|low| low >= -negligible) && estimate.high.is_some_and(|high| high <= negligible) {
            return End::Tied;
        }
    }
    End::Open
}

fn ties() -> Vec<Situation> {
    let looks = |max: usize| at(constant_level(&(3..=max).collect::<Vec<_>>()), 3..=max);
    let situation = |name: &str, promise, nominal, effect: f64, max: usize, event: End| {
        let looks = looks(max);
        let name = format!("{name}, 3 to {max} seeds");
        Situation::new(name, promise, nominal, move |draws| first_end(draws, effect, 1.0, &looks) == event)
    };
    // The smallest effect that is not negligible, and no effect.
    vec![
        situation("an effect just beyond what is negligible (1 sd): tied", Promise::AtMost, ERROR, 1.0, 10, End::Tied),
        situation("an effect just beyond what is negligible (1 sd): tied", Promise::AtMost, ERROR, 1.0, 30, End::Tied),
        situation("no effect, 1 sd is negligible: decided", Promise::AtMost, ERROR, 0.0, 30, End::Decided),
        situation("no effect, 1 sd is negligible: tied", Promise::AtLeast, 0.9, 0.0, 30, End::Tied),
    ]
}

fn extensions() -> Vec<Situation> {
    let mut by_hand = vec![(3, LEVEL)];
    for (seeds, spend) in [(5, RAISE), (10, RAISE / 2.0)] {
        by_hand.push((seeds, extension_level(&by_hand, &[seeds], spend)));
    }
    let sizes: Vec<usize> = (2..=5).collect();
    let mut adaptive = at(constant_level(&sizes), 2..=5);
    let planned: Vec<usize> = (6..=20).collect();
    let level = extension_level(&adaptive, &planned, RAISE);
    adaptive.extend(at(level, 6..=20));
    let naive = at(LEVEL, [3, 5, 10]);
    vec![
        Situation::new("seeds raised 3, 5, 10", Promise::AtMost, ERROR + 1.5 * RAISE, move |draws| {
            first_decision(draws, 0.0, &by_hand)
        }),
        Situation::new("seeds raised 3, 5, 10, every look at 95 %", Promise::Nothing, ERROR, move |draws| {
            first_decision(draws, 0.0, &naive)
        }),
        Situation::new("until decided, 2 to 5 raised to 20", Promise::AtMost, ERROR + RAISE, move |draws| {
            first_decision(draws, 0.0, &adaptive)
        }),
    ]
}

fn marks() -> Vec<Situation> {
    let mut all = Vec::new();
    for (rows, seeds) in [(5, 2), (5, 3), (5, 5), (13, 2), (13, 3), (13, 5)] {
        let name = format!("marks, {rows} equal rows, {seeds} seeds: any row told apart");
        all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| {
            // Seeds differ more than measurements do.
            let effects: Vec<f64> = normals(draws, seeds).iter().map(|effect| 3.0 * effect).collect();
            let row = |_| effects.iter().map(|effect| effect + draws.normal()).collect();
            let Some(blocks) = Blocks::new(&(0..rows).map(row).collect::<Vec<_>>()) else { return false };
            let best = blocks.means.iter().copied().fold(f64::INFINITY, f64::min);
            let worst = blocks.means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            blocks.honest_difference(LEVEL, Precision::Measured).is_some_and(|least| worst - best > least)
        }));
    }
    all
}

fn baselines() -> Vec<Situation> {
    let situation = |(others, seeds): (usize, usize)| {
        let name = format!("a baseline and {others} equal to it, {seeds} seeds: any told apart (Dunnett)");
        Situation::new(name, Promise::AtMost, ERROR, move |draws| {
            let effects: Vec<f64> = normals(draws, seeds).iter().map(|effect| 3.0 * effect).collect();
            let row = |_| effects.iter().map(|effect| effect + draws.normal()).collect();
            let Some(blocks) = Blocks::new(&(0..=others).map(row).collect::<Vec<_>>()) else { return false };
            let farthest = blocks.means.iter().map(|mean| (mean - blocks.means[0]).abs()).fold(0.0, f64::max);
            let least = blocks.honest_difference_from_one(LEVEL, Precision::Measured);
            least.is_some_and(|least| farthest > least)
        })
    };
    [(1, 3), (4, 2), (4, 5), (12, 3)].map(situation).into()
}

/// The difference of two accuracies on 100 items, of which the models disagree on 2 % on average.
fn of_accuracies(draws: &mut Draws) -> f64 {
    let wins = (0..100).map(|_| match draws.uniform() {
        chance if chance < 0.01 => 1.0,
        chance if chance < 0.02 => -1.0,
        _ => 0.0,
    });
    wins.sum::<f64>() / 100.0
}

fn items() -> Vec<Situation> {
    let mut all = Vec::new();
    for (seeds, precision, name, promise) in [
        (2, Precision::Resolution(0.01).scaled(std::f64::consts::SQRT_2), "resolution 0.01", Promise::AtMost),
        (3, Precision::Resolution(0.01).scaled(std::f64::consts::SQRT_2), "resolution 0.01", Promise::AtMost),
        (2, Precision::Deterministic, "as if exact", Promise::Nothing),
    ] {
        let name = format!("accuracy on 100 items, {seeds} seeds, {name}");
        all.push(Situation::new(name, promise, ERROR, move |draws| {
            let differences: Vec<f64> = (0..seeds).map(|_| of_accuracies(draws)).collect();
            decided(&differences, LEVEL, precision)
        }));
    }
    all
}

fn levels() -> Vec<Situation> {
    let mut all = Vec::new();
    for (spread, pooled) in [(1.0, false), (2.0, false), (1.0, true), (2.0, true)] {
        let (how, promise) =
            if pooled { ("pooled", Promise::Nothing) } else { ("averaged within levels", Promise::AtMost) };
        let name = format!("2 levels × 3 seeds, levels differ by {spread} × the noise, {how}");
        all.push(Situation::new(name, promise, ERROR, move |draws| {
            let levels: Vec<Vec<f64>> = (0..2)
                .map(|_| {
                    let of_level = spread * draws.normal();
                    normals(draws, 3).iter().map(|noise| of_level + noise).collect()
                })
                .collect();
            let differences: Vec<f64> = if pooled {
                levels.into_iter().flatten().collect()
            } else {
                levels.iter().map(|seeds| seeds.iter().sum::<f64>() / seeds.len() as f64).collect()
            };
            decided(&differences, LEVEL, Precision::Measured)
        }));
    }
    all
}

/// Consecutive measurements on a machine whose speed drifts: an autoregressive process with correlation 0.8.
fn drifting(draws: &mut Draws, count: usize) -> Vec<f64> {
    let mut state = draws.normal();
    let step = |_| {
        let now = state;
        state = 0.8 * state + 0.6 * draws.normal();
        now
    };
    (0..count).map(step).collect()
}

fn drift() -> Vec<Situation> {
    let mut all = Vec::new();
    for seeds in [3, 5, 10] {
        let name = format!("drift, {seeds} rounds, drawn order");
        all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| {
            let times = drifting(draws, 2 * seeds);
            let pair = |pair: &[f64]| if draws.uniform() < 0.5 { pair[0] - pair[1] } else { pair[1] - pair[0] };
            decided(&times.chunks(2).map(pair).collect::<Vec<_>>(), LEVEL, Precision::Measured)
        }));
        let name = format!("drift, {seeds} seeds, one side after the other");
        all.push(Situation::new(name, Promise::Nothing, ERROR, move |draws| {
            let times = drifting(draws, 2 * seeds);
            let (first, second) = times.split_at(seeds);
            let differences: Vec<f64> = first.iter().zip(second).map(|(of, to)| of - to).collect();
            decided(&differences, LEVEL, Precision::Measured)
        }));
    }
    all
}

fn power() -> Vec<Situation> {
    let sizes: Vec<usize> = (2..=10).collect();
    let calibrated = at(constant_level(&sizes), 2..=10);
    let divided = at(1.0 - ERROR / 9.0, 2..=10);
    vec![
        Situation::new("effect of 1.2 sd found, 2 to 10 seeds", Promise::AtLeast, 0.75, move |draws| {
            first_decision(draws, 1.2, &calibrated)
        }),
        Situation::new("effect of 1.2 sd found, 2 to 10 seeds, Bonferroni", Promise::Nothing, 0.75, move |draws| {
            first_decision(draws, 1.2, &divided)
        }),
        Situation::new("5 sd found in one row of 13, 3 seeds", Promise::AtLeast, 0.98, move |draws| {
            let effects = normals(draws, 3);
            let row = |row| {
                let apart = if row == 0 { 5.0 } else { 0.0 };
                effects.iter().map(|effect| effect + draws.normal() + apart).collect()
            };
            let Some(blocks) = Blocks::new(&(0..13).map(row).collect::<Vec<_>>()) else { return false };
            let difference = blocks.means[0] - blocks.means[1];
            blocks.honest_difference(LEVEL, Precision::Measured).is_some_and(|least| difference > least)
        }),
    ]
}

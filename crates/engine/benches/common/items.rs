//! Simulated situations in which methods are compared over the items of a test set. The benchmark `error_rates` and a unit test run
//! them.

use super::{
    situation::{Promise, Situation},
    stats::{Draws, LEVEL, Rates, Runs, Sample, Signs, clustered, quantile_of},
};

/// The probability of a wrong decision that all rules are made for.
const ERROR: f64 = 0.05;

/// All situations.
pub(crate) fn over_items() -> Vec<Situation> {
    [clusters(), power(), few_clusters(), unequal_clusters(), failures(), quantiles()].into_iter().flatten().collect()
}

/// A test set: its clusters and their items, and the distributions of a method's scores.
#[derive(Clone, Copy)]
struct TestSet {
    clusters: usize,
    items: usize,
    runs: usize,
    /// Spread of the difficulty of items, which both methods share, in units of the noise of a run.
    difficulty: f64,
    /// Spread of a cluster's effect on a method.
    cluster: f64,
    /// Spread of a seed's effect on a method.
    seed: f64,
}

impl TestSet {
    /// Right or wrong answers of two methods, of which the second is better by an effect.
    fn scores(self, draws: &mut Draws, effect: f64) -> [Runs; 2] {
        let items: Vec<f64> = (0..self.clusters * self.items).map(|_| self.difficulty * draws.normal()).collect();
        [0.0, effect].map(|better| {
            let clusters: Vec<f64> = (0..self.clusters).map(|_| self.cluster * draws.normal()).collect();
            let mut run = || {
                let seed = self.seed * draws.normal();
                let score = |(item, difficulty): (usize, &f64)| {
                    let latent = better + difficulty + clusters[item / self.items] + seed + draws.normal();
                    f64::from(u8::from(latent > 0.0))
                };
                items.iter().enumerate().map(score).collect::<Vec<f64>>()
            };
            (0..self.runs).map(|_| run()).collect()
        })
    }

    /// The differences of the second method from the first, by run and item.
    fn differences(self, draws: &mut Draws, effect: f64) -> Runs {
        let [first, second] = self.scores(draws, effect);
        let run = |(first, second): (&Vec<f64>, &Vec<f64>)| first.iter().zip(second).map(|(a, b)| b - a).collect();
        first.iter().zip(&second).map(run).collect()
    }

    fn groups(self) -> Vec<usize> {
        (0..self.clusters * self.items).map(|item| item / self.items).collect()
    }
}

/// True if a mean with this error is told apart from zero.
fn is_told(sides: &[Runs], clusters: &[usize]) -> bool {
    let Some((mean, Some(error))) = clustered(sides, clusters) else { return false };
    !error.is_zero() && error.half(LEVEL) < mean.abs()
}

fn average(runs: &Runs) -> Vec<f64> {
    (0..runs[0].len()).map(|item| runs.iter().map(|run| run[item]).sum::<f64>() / runs.len() as f64).collect()
}

/// Equal methods, 50 clusters of 10 items.
fn clusters() -> Vec<Situation> {
    let mut all = Vec::new();
    for runs in [1, 3] {
        let set = TestSet { clusters: 50, items: 10, runs, difficulty: 1.0, cluster: 1.15, seed: 0.0 };
        let seeds = if runs == 1 { "1 seed".to_owned() } else { format!("{runs} seeds") };
        let name = format!("50 clusters × 10 items, {seeds}, equal methods");
        let groups = set.groups();
        all.push(Situation::new(format!("{name}, by clusters"), Promise::AtMost, ERROR, move |draws| {
            is_told(&[set.differences(draws, 0.0)], &groups)
        }));
        all.push(Situation::new(
            format!("{name}, items paired as if independent"),
            Promise::Nothing,
            ERROR,
            move |draws| {
                Sample::new(&average(&set.differences(draws, 0.0)))
                    .is_some_and(|sample| sample.estimate().p.is_some_and(|p| p < ERROR))
            },
        ));
    }
    let set = TestSet { clusters: 500, items: 1, runs: 3, difficulty: 1.0, cluster: 0.0, seed: 0.0 };
    let groups = set.groups();
    all.push(Situation::new("500 independent items, 3 seeds, equal methods", Promise::AtMost, ERROR, move |draws| {
        is_told(&[set.differences(draws, 0.0)], &groups)
    }));
    for runs in [2, 3, 5] {
        let set = TestSet { clusters: 50, items: 10, runs, difficulty: 1.0, cluster: 0.5, seed: 0.5 };
        let groups = set.groups();
        let name = format!("50 clusters × 10 items, {runs} seeds with an effect of their own, equal methods");
        all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| {
            is_told(&[set.differences(draws, 0.0)], &groups)
        }));
    }
    all
}

/// A method that is better on hard items, which both find equally hard.
fn power() -> Vec<Situation> {
    let set = TestSet { clusters: 50, items: 10, runs: 1, difficulty: 4.0, cluster: 0.2, seed: 0.0 };
    let groups = set.groups();
    let name = "50 clusters × 10 items, 1 seed, better by half the noise of a run";
    vec![
        Situation::new(format!("{name}: found over items"), Promise::AtLeast, 0.84, move |draws| {
            is_told(&[set.differences(draws, 0.5)], &groups)
        }),
        Situation::new(
            format!("{name}: found by two accuracies of 500 items (z)"),
            Promise::Nothing,
            0.84,
            move |draws| {
                let [first, second] = set.scores(draws, 0.5).map(|runs| runs[0].iter().sum::<f64>() / 500.0);
                let share = f64::midpoint(first, second);
                (second - first).abs() > 1.96 * (2.0 * share * (1.0 - share) / 500.0).sqrt()
            },
        ),
    ]
}

/// Equal methods on few clusters of very different sizes.
fn few_clusters() -> Vec<Situation> {
    const SIZES: [usize; 8] = [40, 20, 10, 5, 5, 4, 3, 3];
    let groups: Vec<usize> = SIZES.iter().enumerate().flat_map(|(cluster, size)| vec![cluster; *size]).collect();
    let differences = |draws: &mut Draws| -> Vec<f64> {
        let of_cluster = |size: &usize| {
            let effect = 2.0 * draws.normal();
            (0..*size).map(|_| effect + draws.normal()).collect::<Vec<f64>>()
        };
        SIZES.iter().flat_map(of_cluster).collect()
    };
    let own = groups.clone();
    let name = "8 clusters of 3 to 40 items, equal methods";
    vec![
        Situation::new(format!("{name}, by clusters and their signs"), Promise::AtMost, ERROR, move |draws| {
            let differences = differences(draws);
            let signs = Signs::new(&differences, &groups).is_some_and(|signs| signs.p(0.0) <= ERROR);
            signs && is_told(&[vec![differences]], &groups)
        }),
        Situation::new(format!("{name}, by clusters alone"), Promise::Nothing, ERROR, move |draws| {
            is_told(&[vec![differences(draws)]], &own)
        }),
    ]
}

/// Equal methods on clusters of unequal sizes: any size from 1 to 40, or a few large ones.
fn unequal_clusters() -> Vec<Situation> {
    let is_any = |draws: &mut Draws, count: usize| -> Vec<usize> { (0..count).map(|_| 1 + draws.below(40)).collect() };
    let differences = |draws: &mut Draws, sizes: &[usize]| -> (Vec<f64>, Vec<usize>) {
        let of_cluster = |(cluster, size): (usize, &usize)| {
            let effect = 2.0 * draws.normal();
            (0..*size).map(|_| (effect + draws.normal(), cluster)).collect::<Vec<_>>()
        };
        sizes.iter().enumerate().flat_map(of_cluster).unzip()
    };
    let by_signs = move |draws: &mut Draws, sizes: &[usize]| {
        let (values, groups) = differences(draws, sizes);
        // Most decisions are negative, and the signs take longer.
        is_told(&[vec![values.clone()]], &groups)
            && Signs::new(&values, &groups).is_none_or(|signs| signs.p(0.0) <= ERROR)
    };
    let mut all = Vec::new();
    for count in [13, 20, 50] {
        let name = format!("{count} clusters of 1 to 40 items, equal methods, by clusters and their signs");
        all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| {
            let sizes = is_any(draws, count);
            by_signs(draws, &sizes)
        }));
    }
    let name = "20 clusters of 1 to 40 items, equal methods, by clusters alone";
    all.push(Situation::new(name, Promise::Nothing, ERROR, move |draws| {
        let sizes = is_any(draws, 20);
        let (values, groups) = differences(draws, &sizes);
        is_told(&[vec![values]], &groups)
    }));
    let few_large = [vec![5; 48], vec![200; 2]].concat();
    let name = "48 clusters of 5 items and 2 of 200, equal methods, by clusters and their signs";
    all.push(Situation::new(name, Promise::AtMost, ERROR, move |draws| by_signs(draws, &few_large)));
    all
}

/// Two methods that fail equally often, 10 seeds.
fn failures() -> Vec<Situation> {
    let fails = |draws: &mut Draws| draws.uniform() < 0.2;
    let excludes = |rates: Rates| {
        let found = rates.estimate(LEVEL);
        found.low.is_some_and(|low| low > 0.0) || found.high.is_some_and(|high| high < 0.0)
    };
    vec![
        Situation::new("10 seeds, both fail in 20 %, paired: told apart", Promise::AtMost, ERROR, move |draws| {
            let pairs: Vec<[bool; 2]> = (0..10).map(|_| [fails(draws), fails(draws)]).collect();
            let only = |wanted: [bool; 2]| pairs.iter().filter(|pair| **pair == wanted).count();
            excludes(Rates::Paired { first: only([true, false]), second: only([false, true]), pairs: 10 })
        }),
        Situation::new("10 seeds, both fail in 20 %, not paired: told apart", Promise::AtMost, ERROR, move |draws| {
            let mut events = || (0..10).filter(|_| fails(draws)).count();
            excludes(Rates::Independent { first: [events(), 10], second: [events(), 10] })
        }),
    ]
}

/// The quantile at 0.9 of an exponential distribution, 40 seeds.
fn quantiles() -> Vec<Situation> {
    let truth = 10.0_f64.ln();
    vec![Situation::new(
        "40 seeds, skewed: the interval excludes the quantile at 0.9",
        Promise::AtMost,
        ERROR,
        move |draws| {
            let values: Vec<f64> = (0..40).map(|_| -draws.uniform().max(1e-300).ln()).collect();
            quantile_of(&values, 0.9, LEVEL).is_some_and(|found| {
                found.low.is_some_and(|low| low > truth) || found.high.is_some_and(|high| high < truth)
            })
        },
    )]
}

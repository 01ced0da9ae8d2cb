//! Simulated situations of aggregates over tasks. The benchmark `error_rates` runs them.

use super::{
    situation::{Promise, Situation},
    stats::{Draws, Estimate, Leveled, Tasks},
};

/// The part of intervals that exclude the truth, if they are as they say.
const ERROR: f64 = 0.05;

fn excludes(estimate: Estimate, value: f64) -> bool {
    estimate.low.is_some_and(|low| low > value) || estimate.high.is_some_and(|high| high < value)
}

/// Scores of six tasks whose means lie symmetrically around zero, which is the mean of the middle half. Seeds have `spread` times the noise in
/// all tasks.
fn scores(draws: &mut Draws, runs: usize, spread: f64) -> Vec<Vec<Leveled>> {
    let seeds: Vec<f64> = (0..runs).map(|_| spread * draws.normal()).collect();
    let task =
        |mean: f64| seeds.iter().enumerate().map(|(seed, part)| (vec![seed], mean + part + draws.normal())).collect();
    [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5].map(task).into()
}

/// Aggregates over tasks with a fifth of the usual draws.
pub(crate) fn over_tasks() -> Vec<Situation> {
    const DRAWS: usize = 400;
    let mut all = Vec::new();
    for runs in [3, 5, 10] {
        let name = format!("6 tasks × {runs} runs");
        all.push(Situation::new(
            format!("{name}: the interval excludes the interquartile mean"),
            Promise::Nothing,
            ERROR,
            move |draws| {
                let tasks = Tasks::crossed(scores(draws, runs, 0.0));
                tasks.is_some_and(|tasks| excludes(tasks.interquartile_mean_with(1, DRAWS), 0.0))
            },
        ));
        all.push(Situation::new(
            format!("{name}, equal methods: the interval excludes a probability of improvement of ½"),
            Promise::Nothing,
            ERROR,
            move |draws| {
                let [a, b] = [(); 2].map(|()| Tasks::crossed(scores(draws, runs, 0.0)));
                let better = a.zip(b).and_then(|(a, b)| a.probability_of_improvement_with(&b, 1, DRAWS));
                better.is_some_and(|better| excludes(better, 0.5))
            },
        ));
    }
    for (is_shared, how) in [(true, "drawn for all tasks at once"), (false, "drawn within tasks")] {
        let name = format!("6 tasks × 10 equal seeds, seeds have 1 × the noise in all tasks, {how}");
        all.push(Situation::new(
            format!("{name}: the interval excludes the interquartile mean"),
            Promise::Nothing,
            ERROR,
            move |draws| {
                let scores = scores(draws, 10, 1.0);
                let tasks = if is_shared { Tasks::sharing(scores) } else { Tasks::crossed(scores) };
                tasks.is_some_and(|tasks| excludes(tasks.interquartile_mean_with(1, DRAWS), 0.0))
            },
        ));
    }
    all
}

//! The tree-structured Parzen estimator (Bergstra et al. 2011), with all axes together (Falkner et al. 2018).
//!
//! The best tenth of the history, at most 25, gives a density of good configurations, the rest a density of other configurations. Of 24
//! candidates drawn from the first, the candidate with the greatest ratio of the densities is next. The configurations of the same batch,
//! which have no values yet, count among the others, so that a batch spreads out (a constant liar). These are the rule and the constants of
//! Optuna's `TPESampler(multivariate=True, constant_liar=True)`.
//!
//! Crates such as `tpe` or `optimizer` are not used, because they use the elementary functions of the system's library, so that their
//! answers can differ between machines. Here an answer depends only on the history and a seed.

use super::{Outcome, Point, Question, Random, Sampler, parzen::Parzen, random::fresh};
use crate::stats::Draws;

/// The tree-structured Parzen estimator.
#[derive(Debug, Clone, Copy)]
pub struct Tpe;

/// Number of configurations that are drawn at random at the beginning.
const RANDOM: usize = 10;
/// Number of candidates, of which the best is taken.
const CANDIDATES: usize = 24;
/// The largest number of good configurations.
const MAX_GOOD: usize = 25;

impl Sampler for Tpe {
    const VERSION: u32 = 1;

    fn suggest(question: &Question<'_>) -> Vec<Point> {
        let Question { space, history, n, seed, .. } = *question;
        let trial_count = history.trials.len();
        let random = RANDOM.saturating_sub(trial_count).min(n);
        let mut points = if random > 0 { Random::suggest(&Question { n: random, ..*question }) } else { Vec::new() };
        let (good_points, other_points) = split(question);
        let density = Parzen::new(space, &good_points);
        // A different stream than the stream of the random configurations.
        let mut draws = Draws::new(seed ^ 0x7470_6531);
        while points.len() < n {
            let is_new =
                |point: &Point| !points.contains(point) && history.trials.iter().all(|trial| trial.point != *point);
            let comparison_points: Vec<&Point> = other_points.iter().copied().chain(&points).collect();
            let comparison = Parzen::new(space, &comparison_points);
            let mut best: Option<(f64, Point)> = None;
            for candidate in (0..CANDIDATES).map(|_| density.draw(&mut draws)) {
                let score = density.log_density(&candidate) - comparison.log_density(&candidate);
                if best.as_ref().is_none_or(|(best_score, _)| score > *best_score) && is_new(&candidate) {
                    best = Some((score, candidate));
                }
            }
            let next_point = best.map(|(_, point)| point).or_else(|| fresh(space, &mut draws, is_new));
            let Some(next_point) = next_point else { break };
            points.push(next_point);
        }
        points
    }
}

/// The good configurations and the others, both in the order of the search.
fn split<'a>(question: &Question<'a>) -> (Vec<&'a Point>, Vec<&'a Point>) {
    let history = question.history;
    let trial_count = history.trials.len();
    let count = trial_count.div_ceil(10).min(MAX_GOOD).min(history.measured());
    let ranking = history.ranked();
    let best_indices = &ranking[..count];
    debug_assert!(best_indices.iter().all(|index| history.trials[*index].outcome != Outcome::Failed));
    let trials = history.trials.iter().enumerate();
    let (good_trials, other_trials): (Vec<_>, Vec<_>) = trials.partition(|(index, _)| best_indices.contains(index));
    let points = |part: Vec<(usize, &'a super::Trial)>| part.into_iter().map(|(_, trial)| &trial.point).collect();
    (points(good_trials), points(other_trials))
}

#[cfg(test)]
mod tests {
    use sweep_job::Value;

    use super::*;
    use crate::{
        stats::Better,
        suggest::{Domain, History, Space, Trial, seed_of, space::Axis},
    };

    fn space() -> Space {
        let axis = |name: &str, domain| Axis { name: name.into(), domain };
        Space {
            axes: vec![
                axis("x", Domain::Float { low: 1e-6, high: 1.0, log: true, step: None }),
                axis("k", Domain::Int { low: 1, high: 16, log: false, step: 1 }),
                axis("kind", Domain::Choice { values: ["a", "b", "c"].map(|word| Value::Text(word.into())).to_vec() }),
            ],
        }
    }

    /// Best at x = 1e-3, k = 5, kind = b.
    fn loss(point: &Point) -> f64 {
        let (x, k) = (point[0].as_f64().unwrap(), point[1].as_f64().unwrap());
        (x.log10() + 3.0).powi(2) + (k - 5.0).powi(2) / 20.0 + f64::from(point[2].as_text() != Some("b"))
    }

    fn search(batch: usize, batches: usize, seed: &str) -> History {
        let space = space();
        let mut history = History::new(Better::Less);
        for number in 0..batches {
            let seed = seed_of(&["test", seed, &number.to_string()]);
            let question =
                Question { space: &space, history: &history, n: batch, seed, study_seed: 0, batch: number, rungs: 1 };
            let points = Tpe::suggest(&question);
            assert_eq!(points, Tpe::suggest(&question), "a pure function");
            assert_eq!(points.len(), batch);
            let trial = |point: Point| {
                // A failed job now and then is part of the history.
                let value = loss(&point);
                let is_failure = value > 9.0;
                let outcome = if is_failure { Outcome::Failed } else { Outcome::Measured { rung: 0, value } };
                Trial { point, batch: number, outcome }
            };
            let trials: Vec<Trial> = points.into_iter().map(trial).collect();
            history.trials.extend(trials);
        }
        history
    }

    fn best(history: &History) -> f64 {
        loss(&history.trials[history.ranked()[0]].point)
    }

    #[test]
    fn it_finds_better_configurations_than_random_draws() {
        let seeds: Vec<String> = (0..20).map(|seed: u32| seed.to_string()).collect();
        let mean = |losses: Vec<f64>| losses.iter().sum::<f64>() / losses.len() as f64;
        let tpe = mean(seeds.iter().map(|seed| best(&search(5, 12, seed))).collect());
        let space = space();
        let random = mean(
            (0..20)
                .map(|seed| {
                    let history = History::new(Better::Less);
                    let question =
                        Question { space: &space, history: &history, n: 60, seed, study_seed: 0, batch: 0, rungs: 1 };
                    Random::suggest(&question).iter().map(loss).fold(f64::INFINITY, f64::min)
                })
                .collect(),
        );
        assert!(tpe < random / 2.0, "TPE {tpe}, random {random}");
    }

    #[test]
    fn all_failed_and_empty_histories_are_accepted() {
        let space = space();
        let mut history = History::new(Better::More);
        for index in 0..30 {
            let question =
                Question { space: &space, history: &history, n: 3, seed: index, study_seed: 0, batch: 0, rungs: 1 };
            let points = Tpe::suggest(&question);
            assert_eq!(points.len(), 3);
            history.trials.extend(points.into_iter().map(|point| Trial { point, batch: 0, outcome: Outcome::Failed }));
        }
    }

    #[test]
    fn a_space_of_one_value_ends() {
        let axis = Axis { name: "x".into(), domain: Domain::Float { low: 2.0, high: 2.0, log: false, step: None } };
        let space = Space { axes: vec![axis] };
        let mut history = History::new(Better::Less);
        let suggest = |history: &History| {
            Tpe::suggest(&Question { space: &space, history, n: 20, seed: 0, study_seed: 0, batch: 0, rungs: 1 })
        };
        assert_eq!(suggest(&history), [vec![Value::Int(2)]]);
        history.trials.push(Trial { point: vec![Value::Int(2)], batch: 0, outcome: Outcome::Failed });
        assert!(suggest(&history).is_empty());
    }
}

//! Independent draws from a space.

use super::{Point, Question, Sampler, Space};
use crate::stats::Draws;

/// Independent draws: uniform on every axis, or log-uniform where the axis is logarithmic.
#[derive(Debug, Clone, Copy)]
pub struct Random;

/// Fruitless draws after which a space counts as used up.
const MAX_FRUITLESS_DRAWS: usize = 1000;

impl Sampler for Random {
    const VERSION: u32 = 1;

    fn suggest(question: &Question<'_>) -> Vec<Point> {
        let mut draws = Draws::new(question.seed);
        let mut known_points: Vec<&Point> = Vec::new();
        known_points.extend(question.history.trials.iter().map(|trial| &trial.point));
        let mut points: Vec<Point> = Vec::with_capacity(question.n);
        while points.len() < question.n {
            let is_new = |point: &Point| !known_points.contains(&point) && !points.contains(point);
            let Some(point) = fresh(question.space, &mut draws, is_new) else { break };
            points.push(point);
        }
        points
    }
}

/// A random configuration that is new; `None` if there seems to be none.
pub(super) fn fresh(space: &Space, draws: &mut Draws, is_new: impl Fn(&Point) -> bool) -> Option<Point> {
    for _ in 0..MAX_FRUITLESS_DRAWS {
        let point = draw(space, draws);
        if is_new(&point) {
            return Some(point);
        }
    }
    // Few are left of a small space, or none: the first of them, in the order of the axes.
    let count = space.count().filter(|count| *count <= 100_000)?;
    (0..count).map(|index| nth(space, index)).find(is_new)
}

/// Draws a random configuration.
fn draw(space: &Space, draws: &mut Draws) -> Point {
    let axes = space.axes.iter().map(|axis| &axis.domain);
    axes.map(|domain| match domain.line() {
        Some(line) => {
            let at = draws.uniform();
            domain.value(line.low + at * (line.high - line.low))
        }
        None => {
            let super::Domain::Choice { values } = domain else { return sweep_job::Value::Null };
            domain.value(draws.below(values.len()) as f64)
        }
    })
    .collect()
}

/// The configuration of this index in a finite space.
fn nth(space: &Space, mut index: u64) -> Point {
    let mut point = Vec::with_capacity(space.axes.len());
    for axis in &space.axes {
        let count = axis.domain.count().unwrap_or(1).max(1);
        point.push(axis.domain.nth(index % count));
        index /= count;
    }
    point
}

#[cfg(test)]
mod tests {
    use sweep_job::Value;

    use super::*;
    use crate::{
        stats::Better,
        suggest::{Domain, History, Outcome, Trial, space::Axis},
    };

    fn small() -> Space {
        let axis = |name: &str, domain| Axis { name: name.into(), domain };
        Space {
            axes: vec![
                axis("a", Domain::Int { low: 1, high: 3, log: true, step: 1 }),
                axis("b", Domain::Float { low: 0.0, high: 1.0, log: false, step: Some(0.5) }),
                axis("c", Domain::Choice { values: vec![Value::Bool(true), Value::Bool(false)] }),
            ],
        }
    }

    #[test]
    fn a_small_space_is_used_up_without_repetition() {
        let space = small();
        let mut history = History::new(Better::Less);
        for batch in 0.. {
            let question =
                Question { space: &space, history: &history, n: 5, seed: batch, study_seed: 0, batch: 0, rungs: 1 };
            let points = Random::suggest(&question);
            assert_eq!(points, Random::suggest(&question), "a pure function");
            if points.is_empty() {
                break;
            }
            let trial = |point| Trial { point, batch: 0, outcome: Outcome::Failed };
            history.trials.extend(points.into_iter().map(trial));
        }
        assert_eq!(history.trials.len(), 18);
        for (index, trial) in history.trials.iter().enumerate() {
            assert!(history.trials[..index].iter().all(|other| other.point != trial.point));
        }
    }
}

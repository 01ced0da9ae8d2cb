//! The history of a search.

use std::cmp::Ordering;

use super::Point;
use crate::stats::Better;

/// All earlier configurations of a search, in its order: by batch, and by the place in the batch.
#[derive(Debug, Clone)]
pub struct History {
    /// The better direction of the values.
    pub better: Better,
    /// The configurations.
    pub trials: Vec<Trial>,
}

/// A configuration that was tried.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Its values.
    pub point: Point,
    /// The number of its batch, from 0.
    pub batch: usize,
    /// The result.
    pub outcome: Outcome,
}

/// Result of a configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// A finite value, at the last rung that it reached; 0 where there are no rungs.
    Measured {
        /// The rung, from 0. A configuration that came further was better than the others at every earlier rung.
        rung: usize,
        /// The mean over the configuration's jobs.
        value: f64,
    },
    /// A job failed, or its value is not finite.
    Failed,
}

impl History {
    /// A history without configurations.
    pub fn new(better: Better) -> Self {
        Self { better, trials: Vec::new() }
    }

    /// The indices of the trials, the best first: by rung, then by value, then in the order of the search. Failed ones
    /// come last.
    pub fn ranked(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.trials.len()).collect();
        order.sort_by(|a, b| self.compare(self.trials[*a].outcome, self.trials[*b].outcome));
        order
    }

    fn compare(&self, a: Outcome, b: Outcome) -> Ordering {
        match (a, b) {
            (Outcome::Failed, Outcome::Failed) => Ordering::Equal,
            (Outcome::Failed, Outcome::Measured { .. }) => Ordering::Greater,
            (Outcome::Measured { .. }, Outcome::Failed) => Ordering::Less,
            (Outcome::Measured { rung: own_rung, value: a }, Outcome::Measured { rung: other_rung, value: b }) => {
                let by_value = match self.better {
                    Better::Less => a.total_cmp(&b),
                    Better::More => b.total_cmp(&a),
                };
                other_rung.cmp(&own_rung).then(by_value)
            }
        }
    }

    /// The number of trials that have a value.
    pub(super) fn measured(&self) -> usize {
        self.trials.iter().filter(|trial| trial.outcome != Outcome::Failed).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_rank_before_values_and_failures_last() {
        let measurement = |rung, value| Outcome::Measured { rung, value };
        let outcomes = [
            Outcome::Failed,
            measurement(0, 0.1),
            measurement(2, 0.9),
            measurement(2, 0.5),
            measurement(0, 0.1),
            measurement(1, 7.0),
        ];
        let trials = outcomes.map(|outcome| Trial { point: Vec::new(), batch: 0, outcome }).to_vec();
        let mut history = History { better: Better::Less, trials };
        assert_eq!(history.ranked(), [3, 2, 5, 1, 4, 0]);
        history.better = Better::More;
        assert_eq!(history.ranked(), [2, 3, 5, 1, 4, 0]);
        assert_eq!(history.measured(), 5);
    }
}

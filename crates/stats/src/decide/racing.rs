//! Races: configurations get seed after seed, and leave when they are worse than the best one, or than a baseline.
//!
//! After each seed, every configuration is compared with the best mean so far by its differences at the same seeds. The
//! levels of all looks at one pair share the error of that pair ([`extension_level`]), and all pairs of a configuration
//! share the error of the race (Bonferroni). The probability that the truly best configuration ever leaves is therefore
//! at most 5 %, for any sequence of best configurations.

use super::{mean, ranking};
use crate::stats::{Better, Estimate, LEVEL, Sample, extension_level};

/// The version of this rule; raised when the rule changes the result for the same values.
pub const VERSION: u32 = 1;

/// Rules of a race.
#[derive(Debug, Clone, PartialEq)]
pub struct Race {
    /// Number of configurations.
    pub configurations: usize,
    /// Number of seeds before the first look, at least 2.
    pub least: usize,
    /// Number of seeds of a configuration that does not leave.
    pub most: usize,
    /// The better direction.
    pub better: Better,
    /// The configuration that the others are compared with; `None` for the best so far.
    pub baseline: Option<usize>,
}

/// Knowledge about a configuration at a seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Known {
    /// Its job has not ended.
    Open,
    /// Its value; `None` if it failed or diverged.
    Value(Option<f64>),
}

/// Reason why a configuration leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Exit {
    /// A job of the configuration failed or diverged.
    Failed,
    /// The configuration is worse than another configuration.
    Worse {
        /// The other configuration.
        than: usize,
        /// The mean difference to it, positive if worse, with the interval at the level of the look.
        by: Estimate,
    },
}

/// The state of a race after some seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Number of seeds of each configuration that was in the race.
    pub seeds: usize,
    /// The compared configurations, in ascending order.
    pub among: Vec<usize>,
    /// The configurations that leave, in ascending order, each with the reason.
    pub left: Vec<(usize, Exit)>,
}

/// The course of a race up to the first unknown value.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The looks at which all values were known.
    pub looks: Vec<Look>,
    /// For every configuration, the number of seeds that the race requires so far.
    pub seeds: Vec<usize>,
}

impl Race {
    /// The confidence level of the interval at each look.
    pub fn level(&self) -> f64 {
        let rivals = self.configurations.saturating_sub(1).max(1);
        // An interval of a level errs on the harmful side half of the time.
        let spend = 2.0 * (1.0 - LEVEL) / rivals as f64;
        let sizes: Vec<usize> = self.sizes().collect();
        extension_level(&[], &sizes, spend)
    }

    /// The numbers of seeds at which there is a look. A look at the last seed would save nothing.
    fn sizes(&self) -> std::ops::Range<usize> {
        self.least.max(2)..self.most
    }

    /// Follows the race. `known` returns the knowledge about a configuration and a seed, from 0.
    pub fn run(&self, known: impl Fn(usize, usize) -> Known) -> Course {
        let min_seeds = self.least.max(2).min(self.most);
        let mut course = Course { looks: Vec::new(), seeds: vec![min_seeds; self.configurations] };
        let mut among: Vec<usize> = (0..self.configurations).collect();
        let level = self.level();
        for seeds in self.sizes() {
            let values = |configuration: usize| -> Option<Vec<Option<f64>>> {
                (0..seeds)
                    .map(|seed| match known(configuration, seed) {
                        Known::Open => None,
                        Known::Value(value) => Some(value.filter(|value| value.is_finite())),
                    })
                    .collect()
            };
            let Some(values) = among.iter().map(|runner| values(*runner)).collect::<Option<Vec<_>>>() else {
                return course;
            };
            let exits = self.leaving(&among, &values, level);
            let stays = |runner: &usize| !exits.iter().any(|(other, _)| other == runner);
            let remaining: Vec<usize> = among.iter().copied().filter(stays).collect();
            course.looks.push(Look { seeds, among, left: exits });
            among = remaining;
            // Without a rival, nothing is left to decide.
            let is_decided = among.len() < 2;
            for runner in &among {
                course.seeds[*runner] = if is_decided { self.most } else { seeds + 1 };
            }
            if is_decided {
                break;
            }
        }
        course
    }

    /// The configurations that leave at a look, from the values of the configurations in the race.
    fn leaving(&self, among: &[usize], values: &[Vec<Option<f64>>], level: f64) -> Vec<(usize, Exit)> {
        let means: Vec<Option<f64>> = values.iter().map(|values| mean(values)).collect();
        let reference = match self.baseline {
            Some(baseline) => among.iter().position(|runner| *runner == baseline),
            None => ranking(&means, self.better).first().copied(),
        };
        // Without a measured reference nothing is known to be worse, and a baseline that failed leaves no one behind.
        let reference = reference.filter(|place| means[*place].is_some());
        let mut exits = Vec::new();
        for (place, runner) in among.iter().copied().enumerate() {
            if Some(runner) == self.baseline || Some(place) == reference {
                continue;
            }
            if means[place].is_none() {
                exits.push((runner, Exit::Failed));
            } else if let Some(reference) = reference
                && let Some(by) = worse(&values[place], &values[reference], self.better, level)
            {
                exits.push((runner, Exit::Worse { than: among[reference], by }));
            }
        }
        exits
    }
}

/// The mean difference to the values of another configuration at the same seeds, if the interval shows that it is
/// worse. Also `None` if all differences are equal, because their spread is then unknown.
fn worse(values: &[Option<f64>], other: &[Option<f64>], better: Better, level: f64) -> Option<Estimate> {
    let sign = if better == Better::Less { 1.0 } else { -1.0 };
    let pairs = values.iter().zip(other).map(|(value, other)| Some(sign * ((*value)? - (*other)?)));
    let sample = Sample::new(&pairs.collect::<Option<Vec<f64>>>()?)?;
    sample.sd.filter(|sd| *sd > 0.0 && sd.is_finite())?;
    let estimate = sample.estimate_at(level);
    estimate.low.is_some_and(|low| low > 0.0).then_some(estimate)
}

#[cfg(test)]
mod tests;

//! Aggregates over several tasks with several runs each, and their bootstrap intervals.

use super::{Draws, Estimate, sample::percentile, student::LEVEL};

/// Number of bootstrap draws.
const DRAWS: usize = 2_000;

/// Mean of the middle half of the values: a quarter of their number, rounded down, is left out at each end. `None`
/// without values.
pub fn interquartile_mean(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    trimmed_mean(&mut sorted)
}

fn trimmed_mean(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let cut = values.len() / 4;
    let middle = values.get(cut..values.len() - cut).filter(|middle| !middle.is_empty())?;
    Some(middle.iter().sum::<f64>() / middle.len() as f64)
}

/// Scores of one method: the runs of each task. Tasks may have different numbers of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Tasks(Vec<Vec<f64>>);

impl Tasks {
    /// Scores of the runs of each task; `None` without tasks, or if a task has no run.
    pub fn new(tasks: Vec<Vec<f64>>) -> Option<Self> {
        (!tasks.is_empty() && tasks.iter().all(|runs| !runs.is_empty())).then_some(Self(tasks))
    }

    /// The interquartile mean of all runs of all tasks, with the 95 % percentile interval of a stratified bootstrap:
    /// runs are drawn with replacement within each task. There is no interval if a task has a single run, because the
    /// spread of its runs is unknown.
    pub fn interquartile_mean(&self) -> Estimate {
        self.interquartile_mean_with(1, DRAWS)
    }

    /// Like [`interquartile_mean`](Self::interquartile_mean), with this seed and this number of draws.
    pub fn interquartile_mean_with(&self, seed: u64, draws: usize) -> Estimate {
        let all_values: Vec<f64> = self.0.iter().flatten().copied().collect();
        let value = interquartile_mean(&all_values).unwrap_or(f64::NAN);
        let mut random = Draws::new(seed);
        let mut drawn = Vec::with_capacity(all_values.len());
        let resampled = || {
            drawn.clear();
            for runs in &self.0 {
                drawn.extend(runs.iter().map(|_| runs[random.below(runs.len())]));
            }
            trimmed_mean(&mut drawn).unwrap_or(f64::NAN)
        };
        interval(value, self.is_replicated(), draws, resampled)
    }

    /// Probability that a run of this method has a larger value than a run of the other one on the same task, averaged
    /// over the tasks, with ties counted as one half (the Mann–Whitney statistic), and its 95 % percentile interval as
    /// for [`interquartile_mean`](Self::interquartile_mean); the runs of the two methods are drawn independently.
    /// `None` if the methods have different numbers of tasks.
    pub fn probability_of_improvement(&self, other: &Self) -> Option<Estimate> {
        self.probability_of_improvement_with(other, 1, DRAWS)
    }

    /// Like [`probability_of_improvement`](Self::probability_of_improvement), with this seed and this number of draws.
    pub fn probability_of_improvement_with(&self, other: &Self, seed: u64, draws: usize) -> Option<Estimate> {
        if self.0.len() != other.0.len() {
            return None;
        }
        let wins: Vec<Wins> = self.0.iter().zip(&other.0).map(|(ours, theirs)| Wins::new(ours, theirs)).collect();
        let value = wins.iter().map(Wins::share).sum::<f64>() / wins.len() as f64;
        let mut random = Draws::new(seed);
        let resampled = || wins.iter().map(|wins| wins.drawn(&mut random)).sum::<f64>() / wins.len() as f64;
        Some(interval(value, self.is_replicated() && other.is_replicated(), draws, resampled))
    }

    fn is_replicated(&self) -> bool {
        self.0.iter().all(|runs| runs.len() > 1)
    }
}

/// Comparisons of each run of one method with each run of another method on one task: 1 for a win, ½ for a tie, 0 for a
/// loss.
struct Wins(Vec<Vec<f64>>);

impl Wins {
    fn new(ours: &[f64], theirs: &[f64]) -> Self {
        let against = |our: f64, their: f64| match our.total_cmp(&their) {
            _ if our == their => 0.5,
            std::cmp::Ordering::Greater => 1.0,
            _ => 0.0,
        };
        Self(ours.iter().map(|our| theirs.iter().map(|their| against(*our, *their)).collect()).collect())
    }

    fn share(&self) -> f64 {
        let number: usize = self.0.iter().map(Vec::len).sum();
        self.0.iter().flatten().sum::<f64>() / number as f64
    }

    fn drawn(&self, random: &mut Draws) -> f64 {
        let theirs = self.0.first().map_or(0, Vec::len);
        let columns: Vec<usize> = (0..theirs).map(|_| random.below(theirs)).collect();
        let sum: f64 = self
            .0
            .iter()
            .map(|_| &self.0[random.below(self.0.len())])
            .map(|row| columns.iter().map(|column| row[*column]).sum::<f64>())
            .sum();
        sum / (self.0.len() * theirs) as f64
    }
}

/// `value` with the percentile interval of `draws` resampled values; without an interval unless `replicated`.
fn interval(value: f64, replicated: bool, draws: usize, mut resampled: impl FnMut() -> f64) -> Estimate {
    let without = Estimate { value, low: None, high: None, p: None };
    if !replicated || draws == 0 || value.is_nan() {
        return without;
    }
    let mut means: Vec<f64> = (0..draws).map(|_| resampled()).collect();
    means.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - LEVEL) / 2.0;
    Estimate { low: percentile(&means, tail), high: percentile(&means, 1.0 - tail), ..without }
}

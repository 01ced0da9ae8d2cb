//! Aggregates over several tasks with several runs each, and their bootstrap intervals.

use super::{Draws, Estimate, Leveled, sample::percentile, student::LEVEL};

/// Number of bootstrap draws.
const DRAWS: usize = 2_000;

/// Maximum of the common number of runs to which tasks with different numbers of runs are scaled exactly.
const MAX_COMMON: usize = 1 << 30;

/// Mean of the middle half of the values: a quarter of them, rounded down, is left out at each end. `None` without values.
pub fn interquartile_mean(values: &[f64]) -> Option<f64> {
    trimmed_mean(&mut values.iter().map(|value| (*value, 1.0)).collect::<Vec<_>>())
}

/// The interquartile mean of values with weights: a weight counts as a number of equal values.
fn trimmed_mean(weighted: &mut [(f64, f64)]) -> Option<f64> {
    weighted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let whole: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    let cut = (whole / 4.0).floor();
    let (mut before, mut sum, mut kept) = (0.0, 0.0, 0.0);
    for (value, weight) in weighted.iter() {
        let after: f64 = before + weight;
        let middle = after.min(whole - cut) - f64::max(before, cut);
        if middle > 0.0 {
            sum += middle * value;
            kept += middle;
        }
        before = after;
    }
    (kept > 0.0).then(|| sum / kept)
}

/// Scores of one method: the runs of each task. Tasks may have different numbers of runs, and weigh equally.
#[derive(Debug, Clone, PartialEq)]
pub struct Tasks {
    tasks: Vec<Task>,
    /// The number of levels of each factor that all tasks share; empty if every task has its own levels.
    common: Vec<usize>,
}

/// The runs of a task, at the levels of one factor or of several crossed ones.
#[derive(Debug, Clone, PartialEq)]
struct Task {
    runs: Vec<Leveled>,
    /// The number of levels of each factor.
    levels: Vec<usize>,
}

impl Task {
    /// `None` without runs, or if they do not have levels of the same factors.
    fn new(runs: Vec<Leveled>) -> Option<Self> {
        let factors = runs.first()?.0.len();
        if factors == 0 || runs.iter().any(|(levels, _)| levels.len() != factors) {
            return None;
        }
        let most = |factor: usize| runs.iter().map(|(levels, _)| levels[factor]).max();
        let levels = (0..factors).filter_map(most).map(|most| most + 1).collect();
        Some(Self { runs, levels })
    }

    /// True if its runs have several levels of every factor. Of those that tasks share, a task may have some only.
    fn is_replicated(&self) -> bool {
        let Some((first, _)) = self.runs.first() else { return false };
        (0..first.len()).all(|factor| self.runs.iter().any(|(levels, _)| levels[factor] != first[factor]))
    }

    /// The number of times that a bootstrap draws each run, given the number of times that it draws each level of the factors.
    fn weights(&self, times: &[Vec<f64>]) -> Vec<f64> {
        let of_run = |(levels, _): &Leveled| levels.iter().zip(times).map(|(level, times)| times[*level]).product();
        self.runs.iter().map(of_run).collect()
    }

    /// Every run once.
    fn all(&self) -> Vec<f64> {
        vec![1.0; self.runs.len()]
    }
}

/// The number of times that a bootstrap draws each level of each factor. Levels of each factor are drawn with replacement (Owen, 2007):
/// runs with a common level are not independent.
fn drawn_levels(counts: &[usize], random: &mut Draws) -> Vec<Vec<f64>> {
    let of_factor = |count: &usize| {
        let mut times = vec![0.0; *count];
        (0..*count).for_each(|_| times[random.below(*count)] += 1.0);
        times
    };
    counts.iter().map(of_factor).collect()
}

impl Tasks {
    /// The independent runs of each task; `None` if there is no task, or a task without a run.
    pub fn new(tasks: Vec<Vec<f64>>) -> Option<Self> {
        let leveled = |runs: Vec<f64>| runs.into_iter().enumerate().map(|(run, value)| (vec![run], value)).collect();
        Self::crossed(tasks.into_iter().map(leveled).collect())
    }

    /// The scores of runs at levels of random factors, such as the seeds of the data and of the initialization.
    pub fn crossed(tasks: Vec<Vec<Leveled>>) -> Option<Self> {
        let tasks = tasks.into_iter().map(Task::new).collect::<Option<Vec<Task>>>()?;
        (!tasks.is_empty()).then_some(Self { tasks, common: Vec::new() })
    }

    /// The scores of runs at levels that affect all tasks, such as the seed of a training whose result several tasks evaluate: a bootstrap
    /// draws these levels once for all tasks.
    pub fn sharing(tasks: Vec<Vec<Leveled>>) -> Option<Self> {
        let all = Self::crossed(tasks)?;
        let factors = all.tasks[0].levels.len();
        let most = |factor: usize| all.tasks.iter().filter_map(|task| task.levels.get(factor)).max().copied();
        let common: Vec<usize> = (0..factors).filter_map(most).collect();
        all.tasks.iter().all(|task| task.levels.len() == factors).then_some(Self { common, ..all })
    }

    /// The number of times that a bootstrap draws each run of each task.
    fn drawn(&self, random: &mut Draws) -> Vec<Vec<f64>> {
        /// Number of attempts to draw at least one run, if not all combinations have a run.
        const TRIES: usize = 100;
        let has_any = |drawn: &Vec<f64>| drawn.iter().any(|times| *times > 0.0);
        if self.common.is_empty() {
            let of_task = |task: &Task| {
                let tries = (0..TRIES).map(|_| task.weights(&drawn_levels(&task.levels, random)));
                { tries }.find(has_any).unwrap_or_else(|| task.all())
            };
            return self.tasks.iter().map(of_task).collect();
        }
        let mut tries = (0..TRIES).map(|_| {
            let times = drawn_levels(&self.common, random);
            self.tasks.iter().map(|task| task.weights(&times)).collect::<Vec<_>>()
        });
        tries.find(|drawn| drawn.iter().all(has_any)).unwrap_or_else(|| self.all())
    }

    /// Every run once.
    fn all(&self) -> Vec<Vec<f64>> {
        self.tasks.iter().map(Task::all).collect()
    }

    /// True if the tasks have different numbers of runs.
    pub fn is_uneven(&self) -> bool {
        self.tasks.iter().any(|task| task.runs.len() != self.tasks[0].runs.len())
    }

    /// The interquartile mean of all runs of all tasks, each task with the same weight, with the 95 % percentile interval of a
    /// stratified bootstrap: runs are drawn with replacement within each task. No interval if a task has a single run, because
    /// its spread is unknown.
    pub fn interquartile_mean(&self) -> Estimate {
        self.interquartile_mean_with(1, DRAWS)
    }

    /// Like [`interquartile_mean`](Self::interquartile_mean), with this seed and this number of draws.
    pub fn interquartile_mean_with(&self, seed: u64, draws: usize) -> Estimate {
        // Scales every task to this number of runs, in which each of its runs has the same weight.
        let common = self.tasks.iter().fold(1, |common, task| least_multiple(common, task.runs.len())) as f64;
        let of_times = |times: Vec<Vec<f64>>| {
            let mut weighted: Vec<(f64, f64)> = Vec::new();
            for (task, times) in self.tasks.iter().zip(times) {
                let weight = common / times.iter().sum::<f64>();
                let runs = task.runs.iter().zip(times).filter(|(_, times)| *times > 0.0);
                weighted.extend(runs.map(|((_, value), times)| (*value, times * weight)));
            }
            trimmed_mean(&mut weighted).unwrap_or(f64::NAN)
        };
        let value = of_times(self.all());
        let mut random = Draws::new(seed);
        let resampled = || of_times(self.drawn(&mut random));
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
        if self.tasks.len() != other.tasks.len() {
            return None;
        }
        let wins: Vec<Wins> =
            self.tasks.iter().zip(&other.tasks).map(|(ours, theirs)| Wins::new(ours, theirs)).collect();
        let share = |ours: &[Vec<f64>], theirs: &[Vec<f64>]| {
            let sum: f64 =
                wins.iter().zip(ours.iter().zip(theirs)).map(|(wins, (ours, theirs))| wins.share(ours, theirs)).sum();
            sum / wins.len() as f64
        };
        let value = share(&self.all(), &other.all());
        let mut random = Draws::new(seed);
        let resampled = || {
            let theirs = other.drawn(&mut random);
            share(&self.drawn(&mut random), &theirs)
        };
        Some(interval(value, self.is_replicated() && other.is_replicated(), draws, resampled))
    }

    fn is_replicated(&self) -> bool {
        self.tasks.iter().all(Task::is_replicated)
    }
}

/// The least common multiple, or the largest number for which weights are exact.
fn least_multiple(first: usize, second: usize) -> usize {
    let (mut a, mut b) = (first, second);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (first / a.max(1)).saturating_mul(second).min(MAX_COMMON)
}

/// Comparisons of each run of one method with each run of another one on one task: 1, ½ or 0.
struct Wins(Vec<Vec<f64>>);

impl Wins {
    fn new(ours: &Task, theirs: &Task) -> Self {
        let against = |our: f64, their: f64| match our.total_cmp(&their) {
            _ if our == their => 0.5,
            std::cmp::Ordering::Greater => 1.0,
            _ => 0.0,
        };
        let row = |(_, our): &Leveled| theirs.runs.iter().map(|(_, their)| against(*our, *their)).collect();
        Self(ours.runs.iter().map(row).collect())
    }

    /// The share of wins if each run counts this number of times.
    fn share(&self, ours: &[f64], theirs: &[f64]) -> f64 {
        let of_row = |row: &Vec<f64>| row.iter().zip(theirs).map(|(win, times)| win * times).sum::<f64>();
        let sum: f64 =
            self.0.iter().zip(ours).filter(|(_, times)| **times > 0.0).map(|(row, times)| times * of_row(row)).sum();
        sum / (ours.iter().sum::<f64>() * theirs.iter().sum::<f64>())
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

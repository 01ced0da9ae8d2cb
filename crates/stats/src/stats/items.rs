//! Means over items of a test set: the error of a mean whose items come in clusters and were scored by several runs.
//!
//! An influence is what an item of a run adds to the estimate: its score, the difference of its scores on two sides, or that on
//! logarithms. Items of a cluster may depend on each other in any way, and so may the items of a run.

use super::{ErrorOfMean, student::quantile};

/// Most clusters for which all signs are tried.
const MAX_EXACT: usize = 12;

/// Influences of the items: a row for each run, and in it one number for each item.
pub type Runs = Vec<Vec<f64>>;

/// The error of a mean over items: independent parts, by clusters of items and by runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemError {
    /// The parts, that of clusters first.
    pub parts: Vec<ErrorOfMean>,
}

impl ItemError {
    /// Half of an interval of this level. The squares of the halves by each part, with its own degrees of freedom, add up (Graybill
    /// and Wang, 1980): few runs are not made up for by many items.
    pub fn half(&self, level: f64) -> f64 {
        let squares = self.parts.iter().map(|part| (quantile(part.freedom, level) * part.error).powi(2));
        squares.sum::<f64>().sqrt()
    }

    /// Two-sided p-value of the hypothesis that the mean is at this distance: the level at which the interval ends there.
    pub fn p(&self, distance: f64) -> f64 {
        let (mut low, mut high) = (0.0_f64, 1.0_f64);
        for _ in 0..60 {
            let p = f64::midpoint(low, high);
            if self.half(1.0 - p) > distance.abs() { low = p } else { high = p }
        }
        high
    }

    /// True if all items agree.
    pub fn is_zero(&self) -> bool {
        self.parts.iter().all(|part| part.error == 0.0)
    }
}

/// The mean of influences over items and runs, and its error, given the cluster of each item.
///
/// The variance by clusters of items is that of a regression on a constant with clusters, with the factor G/(G − 1) for G clusters and
/// G − 1 degrees of freedom, of the influences averaged over runs. With several runs on a side, the variance of the mean by
/// runs is another part. Sides whose runs do not pair are given apart, and each has its own.
///
/// The error is `None` with a single cluster. `None` without items, or if the sides differ in their number of items.
pub fn clustered(sides: &[Runs], clusters: &[usize]) -> Option<(f64, Option<ItemError>)> {
    let items = clusters.len();
    if items == 0 || sides.iter().any(|runs| runs.is_empty() || runs.iter().any(|run| run.len() != items)) {
        return None;
    }
    let count = clusters.iter().max().map_or(0, |last| last + 1);
    let mut mean = 0.0;
    let mut by_item = vec![0.0; items];
    let mut by_runs = Vec::new();
    for runs in sides {
        let run_mean = mean_of(runs.iter().map(|run| mean_of(run.iter().copied())));
        mean += run_mean;
        for (item, sum) in by_item.iter_mut().enumerate() {
            *sum += mean_of(runs.iter().map(|run| run[item])) - run_mean;
        }
        if runs.len() > 1 {
            let shares = runs.iter().map(|run| (mean_of(run.iter().copied()) - run_mean) / runs.len() as f64);
            by_runs.push(of_sums(&shares.collect::<Vec<_>>()));
        }
    }
    if count < 2 {
        return Some((mean, None));
    }
    let of_clusters = of_sums(&sums(&by_item, clusters, count));
    Some((mean, Some(ItemError { parts: std::iter::once(of_clusters).chain(by_runs).collect() })))
}

fn mean_of(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// The sums of the clusters of some residuals, divided by the number of items.
fn sums(residuals: &[f64], clusters: &[usize], count: usize) -> Vec<f64> {
    let mut sums = vec![0.0; count];
    for (residual, cluster) in residuals.iter().zip(clusters) {
        sums[*cluster] += residual / residuals.len() as f64;
    }
    sums
}

/// The error of a mean from the sums of its clusters.
fn of_sums(sums: &[f64]) -> ErrorOfMean {
    let freedom = (sums.len() as f64 - 1.0).max(1.0);
    let squares: f64 = sums.iter().map(|sum| sum * sum).sum();
    ErrorOfMean { error: (squares * (freedom + 1.0) / freedom).sqrt(), freedom }
}

/// The two-sided p-value of the hypothesis that the mean of differences is `bound`, by the signs of the clusters: the share of all
/// assignments of signs to the clusters' sums that are at least as far from zero. It is exact for any number of clusters whose sums are
/// symmetric around the bound. `differences` has a number for each item. `None` for more than 12 clusters.
pub fn sign_flips(differences: &[f64], clusters: &[usize], bound: f64) -> Option<f64> {
    let count = clusters.iter().max().map_or(0, |last| last + 1);
    if count == 0 || count > MAX_EXACT {
        return None;
    }
    let shifted: Vec<f64> = differences.iter().map(|value| value - bound).collect();
    let sums = sums(&shifted, clusters, count);
    let size = |signs: usize| -> f64 {
        let signed = sums.iter().enumerate().map(|(cluster, sum)| if signs >> cluster & 1 == 1 { -sum } else { *sum });
        signed.sum::<f64>().abs()
    };
    // A rounding error makes no assignment less extreme.
    let observed = size(0) * (1.0 - 1e-9);
    let assignments = 1_usize << count;
    let extreme = (0..assignments).filter(|signs| size(*signs) >= observed).count();
    Some(extreme as f64 / assignments as f64)
}

/// The interval of this level by the signs of the clusters: the bounds that are not rejected around the mean. An end is `None` if no
/// number is rejected, as with fewer than six clusters at 95 %. `None` for more than 12 clusters.
pub fn sign_flip_interval(differences: &[f64], clusters: &[usize], level: f64) -> Option<[Option<f64>; 2]> {
    let mean = mean_of(differences.iter().copied());
    sign_flips(differences, clusters, mean)?;
    let spread = differences.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
    let is_inside = |bound: f64| sign_flips(differences, clusters, bound).is_some_and(|p| p > 1.0 - level);
    let end = |direction: f64| {
        let (mut inside, mut outside) = (mean, mean + direction * 4.0 * spread.max(f64::MIN_POSITIVE));
        if is_inside(outside) {
            return None;
        }
        for _ in 0..60 {
            let middle = f64::midpoint(inside, outside);
            if is_inside(middle) { inside = middle } else { outside = middle }
        }
        Some(outside)
    };
    Some([end(-1.0), end(1.0)])
}

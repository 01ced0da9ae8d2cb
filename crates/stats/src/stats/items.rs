//! Means over items of a test set: the error of a mean whose items come in clusters and were scored by several runs.
//!
//! An influence is the contribution of an item of a run to the estimate: its score, or the difference of its scores on two sides, possibly
//! of logarithms. Items of a cluster may depend on each other in any way, and so may the items of a run.

use super::{Draws, ErrorOfMean, student::quantile};

/// Maximum number of clusters for which all signs are tried.
const MAX_EXACT: usize = 12;
/// Effective number of clusters, as a share of their number, from which on Student's t holds for their sums.
const EVEN: f64 = 0.8;
/// Number of assignments of signs that are drawn for more clusters.
const DRAWN: usize = 4_999;

/// Influences of the items: a row for each run, and in it one number for each item.
pub type Runs = Vec<Vec<f64>>;

/// The error of a mean over items: independent parts, by clusters of items and by runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemError {
    /// The parts; the part of clusters comes first.
    pub parts: Vec<ErrorOfMean>,
}

impl ItemError {
    /// Half of an interval of this level. The squares of the halves by each part, with its own degrees of freedom, add up (Graybill and
    /// Wang, 1980): many items do not compensate for few runs.
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
/// The variance by clusters of items is the cluster-robust variance of a regression on a constant, with the factor G/(G − 1) for G clusters
/// and G − 1 degrees of freedom, of the influences averaged over runs. With several runs on a side, the variance of the mean by runs is
/// another part. Sides whose runs are not paired are separate elements of `sides`, and each adds its own part.
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

/// The sums of residuals in each cluster, divided by the number of items.
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

/// The test of a mean by the signs of clusters: the share of all assignments of signs to the clusters' sums with which the mean is at
/// least as far from a bound. It is exact for any number of clusters whose sums are symmetric around the bound. Of more than 12
/// clusters, assignments are drawn.
#[derive(Debug, Clone)]
pub struct Signs {
    /// For each assignment, the first of which changes no sign, the sum of the clusters' values and the sum of their weights.
    sums: Vec<(f64, f64)>,
    /// The largest distance of a value from the mean.
    spread: f64,
}

impl Signs {
    /// The test of values of items in clusters. `None` for more than 12 clusters, unless their sizes are so unequal that Student's t does
    /// not hold for their sums: if the effective number of clusters (Carter, Schnepel and Steigerwald, 2017) is less than 80 % of their
    /// number. Twenty clusters of 1 to 40 items have 56 %.
    pub fn new(values: &[f64], clusters: &[usize]) -> Option<Self> {
        let count = clusters.iter().max().map_or(0, |last| last + 1);
        let weights = sums(&vec![1.0; values.len()], clusters, count);
        let powers = |power: i32| weights.iter().map(|weight| weight.powi(power)).sum::<f64>();
        let effective = powers(2).powi(2) / powers(4);
        if count == 0 || count > MAX_EXACT && effective >= EVEN * count as f64 {
            return None;
        }
        let mean = mean_of(values.iter().copied());
        let spread = values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
        let own = sums(values, clusters, count);
        let signed = |is_changed: &mut dyn FnMut(usize) -> bool| {
            let parts = own.iter().zip(&weights).enumerate();
            parts.fold((0.0, 0.0), |(sum, whole), (cluster, (value, weight))| {
                let sign = if is_changed(cluster) { -1.0 } else { 1.0 };
                (sum + sign * value, whole + sign * weight)
            })
        };
        let sums = if count <= MAX_EXACT {
            (0..1_usize << count).map(|signs| signed(&mut |cluster| signs >> cluster & 1 == 1)).collect()
        } else {
            let mut random = Draws::new(1);
            let drawn = (0..DRAWN).map(|_| signed(&mut |_| random.below(2) == 1));
            std::iter::once(signed(&mut |_| false)).chain(drawn.collect::<Vec<_>>()).collect()
        };
        Some(Self { sums, spread })
    }

    /// The two-sided p-value of the hypothesis that the mean is `bound`.
    pub fn p(&self, bound: f64) -> f64 {
        let size = |(sum, whole): &(f64, f64)| (sum - bound * whole).abs();
        // Rounding errors must not make an assignment less extreme.
        let observed = self.sums.first().map_or(0.0, size) * (1.0 - 1e-9);
        let extreme = self.sums.iter().filter(|of| size(of) >= observed).count();
        extreme as f64 / self.sums.len() as f64
    }

    /// The interval of this level: the bounds around the mean that are not rejected. An end is `None` if no number is rejected, as with
    /// fewer than six clusters at 95 %.
    pub fn interval(&self, level: f64) -> [Option<f64>; 2] {
        let mean = self.sums.first().map_or(f64::NAN, |(sum, _)| *sum);
        let is_inside = |bound: f64| self.p(bound) > 1.0 - level;
        let end = |direction: f64| {
            let (mut inside, mut outside) = (mean, mean + direction * 4.0 * self.spread.max(f64::MIN_POSITIVE));
            if is_inside(outside) {
                return None;
            }
            for _ in 0..60 {
                let middle = f64::midpoint(inside, outside);
                if is_inside(middle) { inside = middle } else { outside = middle }
            }
            Some(outside)
        };
        [end(-1.0), end(1.0)]
    }
}

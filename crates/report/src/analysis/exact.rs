//! Intervals and tests that assume no distribution: ranks, counts, and signs of clusters.

use crate::stats::{Estimate, ItemError, Rates, quantile_of, sign_flip_interval, sign_flips, sign_test};

/// Basis of an interval that assumes no distribution.
#[derive(Debug, Clone)]
pub(super) enum Exact {
    /// The units of a quantile, whose interval follows from their ranks.
    Ranks { values: Vec<f64>, q: f64 },
    /// Counts of jobs that failed.
    Rates(Rates),
    /// The error of a mean over items, and the differences of items with their clusters: the interval contains that of the signs
    /// of few clusters.
    Items { error: ItemError, signs: Option<(Vec<f64>, Vec<usize>)> },
}

impl Exact {
    /// The estimate with its interval of a level, given the usual one.
    pub(super) fn estimate(&self, usual: Estimate, level: f64) -> Estimate {
        match self {
            Self::Ranks { values, q } => quantile_of(values, *q, level).unwrap_or(usual),
            Self::Rates(rates) => rates.estimate(level),
            Self::Items { error, signs } => {
                let (value, half) = (usual.value, error.half(level));
                let [own_low, own_high] = [value - half, value + half];
                let signs = signs.as_ref().and_then(|(values, clusters)| sign_flip_interval(values, clusters, level));
                let [low, high] = signs.unwrap_or([Some(own_low), Some(own_high)]);
                let (low, high) = (low.map(|low| low.min(own_low)), high.map(|high| high.max(own_high)));
                Estimate { low, high, p: self.p_at(0.0, Some(error.p(value))), ..usual }
            }
        }
    }

    /// The usual two-sided p-value of a mean over items at this distance from it; `None` for other bases.
    pub(super) fn usual_p(&self, distance: f64) -> Option<f64> {
        match self {
            Self::Items { error, .. } => Some(error.p(distance)),
            Self::Ranks { .. } | Self::Rates(_) => None,
        }
    }

    /// The two-sided p-value of the hypothesis that the true number is `bound`, given the usual one.
    pub(super) fn p_at(&self, bound: f64, usual: Option<f64>) -> Option<f64> {
        match self {
            Self::Ranks { values, q } => sign_test(values, *q, bound),
            Self::Rates(rates) => Some(rates.p_at(bound)),
            Self::Items { signs, .. } => {
                let signs = signs.as_ref().and_then(|(values, clusters)| sign_flips(values, clusters, bound));
                signs.into_iter().chain(usual).reduce(f64::max)
            }
        }
    }
}

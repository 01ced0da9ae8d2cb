//! Intervals and tests that assume no distribution: ranks, counts, and signs of clusters.

use crate::stats::{Estimate, Rates, quantile_of, sign_flip_interval, sign_flips, sign_test};

/// Basis of an interval that assumes no distribution.
#[derive(Debug, Clone)]
pub(super) enum Exact {
    /// The units of a quantile, whose interval follows from their ranks.
    Ranks { values: Vec<f64>, q: f64 },
    /// Counts of jobs that failed.
    Rates(Rates),
    /// The differences of items and their clusters: the interval contains that of the signs of the clusters.
    Signs { differences: Vec<f64>, clusters: Vec<usize> },
}

impl Exact {
    /// The estimate with its interval of a level, given the usual one.
    pub(super) fn estimate(&self, usual: Estimate, level: f64) -> Estimate {
        match self {
            Self::Ranks { values, q } => quantile_of(values, *q, level).unwrap_or(usual),
            Self::Rates(rates) => rates.estimate(level),
            Self::Signs { differences, clusters } => {
                let Some([low, high]) = sign_flip_interval(differences, clusters, level) else { return usual };
                let low = usual.low.zip(low).map(|(own, other)| own.min(other));
                let high = usual.high.zip(high).map(|(own, other)| own.max(other));
                Estimate { low, high, p: self.p_at(0.0, usual.p), ..usual }
            }
        }
    }

    /// The two-sided p-value of the hypothesis that the true number is `bound`, given the usual one.
    pub(super) fn p_at(&self, bound: f64, usual: Option<f64>) -> Option<f64> {
        match self {
            Self::Ranks { values, q } => sign_test(values, *q, bound),
            Self::Rates(rates) => Some(rates.p_at(bound)),
            Self::Signs { differences, clusters } => {
                sign_flips(differences, clusters, bound).into_iter().chain(usual).reduce(f64::max)
            }
        }
    }
}

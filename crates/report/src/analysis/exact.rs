//! Intervals and tests that follow from more than a standard error: ranks, counts, signs of clusters, and laws over sizes.

use crate::stats::{Estimate, ItemError, LawNumber, PowerLaw, Rates, Signs, quantile_of, sign_test};

/// Basis of an interval that is not, or not only, a standard error.
#[derive(Debug, Clone)]
pub(super) enum Exact {
    /// The units of a quantile, whose interval follows from their ranks.
    Ranks { values: Vec<f64>, q: f64 },
    /// Counts of jobs that failed.
    Rates(Rates),
    /// The error of a mean over items, and the test by the signs of few or unequal clusters: the interval contains the interval by signs.
    Items { error: ItemError, signs: Option<Signs> },
    /// A law over sizes, and its number that is estimated.
    Law(PowerLaw, LawNumber),
}

impl Exact {
    /// The estimate with its interval of a level, given the usual one.
    pub(super) fn estimate(&self, usual: Estimate, level: f64) -> Estimate {
        match self {
            Self::Ranks { values, q } => quantile_of(values, *q, level).unwrap_or(usual),
            Self::Rates(rates) => rates.estimate(level),
            Self::Law(law, number) => law.estimate(*number, level),
            Self::Items { error, signs } => {
                let (value, half) = (usual.value, error.half(level));
                let [own_low, own_high] = [value - half, value + half];
                let signs = signs.as_ref().map(|signs| signs.interval(level));
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
            Self::Ranks { .. } | Self::Rates(_) | Self::Law(..) => None,
        }
    }

    /// The two-sided p-value of the hypothesis that the true number is `bound`, given the usual one.
    pub(super) fn p_at(&self, bound: f64, usual: Option<f64>) -> Option<f64> {
        match self {
            Self::Ranks { values, q } => sign_test(values, *q, bound),
            Self::Rates(rates) => Some(rates.p_at(bound)),
            Self::Law(law, number) => law.p_at(*number, bound),
            Self::Items { signs, .. } => {
                let signs = signs.as_ref().map(|signs| signs.p(bound));
                signs.into_iter().chain(usual).reduce(f64::max)
            }
        }
    }
}

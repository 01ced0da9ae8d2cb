//! `statistic`, `q` and `pair` of a claim: the number that represents a sample, and the comparison of two samples.

use super::Lower;
use crate::recipe::keys::Given;

/// The number that represents the independent units of a side, or their differences.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Statistic {
    /// The mean.
    #[default]
    Mean,
    /// The quantile at this share of the units; 0.5 for the median.
    Quantile(f64),
    /// The mean of the middle half.
    Iqm,
    /// The mean without outliers, which no recipe can claim: it is for the comparison with other choices.
    WithoutOutliers,
    /// The share of jobs that failed or diverged.
    FailureRate,
}

impl Statistic {
    /// The words in recipes. A quantile has its share in `q`.
    pub(super) const WORDS: &'static [(&'static str, Self)] = &[
        ("mean", Self::Mean),
        ("median", Self::Quantile(0.5)),
        ("quantile", Self::Quantile(f64::NAN)),
        ("iqm", Self::Iqm),
        ("failure_rate", Self::FailureRate),
    ];

    /// The share of a quantile.
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::Quantile(q) => Some(q),
            Self::Mean | Self::Iqm | Self::WithoutOutliers | Self::FailureRate => None,
        }
    }

    /// Returns `units` with the statistic over them; a mean is not mentioned.
    pub fn of(self, units: &str) -> String {
        match self {
            Self::Mean => units.to_owned(),
            Self::Quantile(0.5) => format!("median of {units}"),
            Self::Quantile(q) => format!("quantile at {q} of {units}"),
            Self::Iqm => format!("interquartile mean of {units}"),
            Self::WithoutOutliers => format!("mean without outliers of {units}"),
            Self::FailureRate => format!("failure rate of {units}"),
        }
    }
}

impl Lower<'_> {
    /// Checks that `pair`, `statistic` and `q` have an effect on a statement of this kind; returns the statistic.
    pub(super) fn check_statistic(
        &mut self,
        kind: &str,
        statistic: &Given<'_, Statistic>,
        q: &Given<'_, f64>,
        pair: &Given<'_, bool>,
    ) -> Statistic {
        if let Some(span) = statistic.span().filter(|_| kind == "order") {
            let help = "remove `statistic`, or claim the `difference` of two values of the axis";
            self.problem(span, "an `order` ranks means", "has no effect", help);
        }
        if let Some(span) = statistic.span().filter(|_| kind == "law") {
            self.problem(span, "a `law` is fitted to means", "has no effect", "remove `statistic`");
        }
        if let Some(span) = pair.span().filter(|_| matches!(kind, "value" | "law")) {
            let message = format!("a `{kind}` has one side, so nothing is paired");
            self.problem(span, message, "has no effect", "remove `pair`");
        }
        let named = statistic.value.unwrap_or_default();
        if let (Statistic::Quantile(_), Some(false), Some(span)) = (named, pair.value, statistic.span()) {
            let help = "write `statistic: iqm`, or remove `pair: false`";
            self.problem(span, "a quantile of independent samples has no interval", "needs pairs", help);
        }
        if let (Statistic::FailureRate, "ratio", Some(span)) = (named, kind, statistic.span()) {
            let help = "claim the `difference` of the rates, or the rate of one side as a `value`";
            self.problem(span, "a failure rate may be zero, so it has no ratio", "not here", help);
        }
        let is_open = matches!(named, Statistic::Quantile(q) if q.is_nan());
        match (is_open, q.value, q.span()) {
            (true, Some(q), _) if 0.0 < q && q < 1.0 => Statistic::Quantile(q),
            (true, _, span) => {
                if let Some(span) = span.or_else(|| statistic.span()) {
                    let help = "write the fraction of the values below the quantile, for example `q: 0.9`";
                    self.problem(span, "a quantile needs `q`, above 0 and below 1", "which quantile?", help);
                }
                Statistic::Quantile(0.5)
            }
            (false, _, Some(span)) => {
                let help = "write `statistic: quantile`, or remove `q`";
                self.problem(span, "`q` requires `statistic: quantile`", "has no effect", help);
                named
            }
            (false, _, None) => named,
        }
    }
}

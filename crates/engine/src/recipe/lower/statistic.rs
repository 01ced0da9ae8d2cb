//! `statistic` and `pair` of a claim: the number that stands for a sample, and how two samples are compared.

use super::Lower;
use crate::recipe::keys::Given;

/// The number that stands for the independent units of a side, or for their differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Statistic {
    /// The mean.
    #[default]
    Mean,
    /// The median.
    Median,
    /// The mean of the middle half.
    Iqm,
}

impl Statistic {
    /// The words in recipes.
    pub(super) const WORDS: &'static [(&'static str, Self)] =
        &[("mean", Self::Mean), ("median", Self::Median), ("iqm", Self::Iqm)];

    /// Returns `units` with the statistic over them; a mean is not mentioned.
    pub(crate) fn of(self, units: &str) -> String {
        match self {
            Self::Mean => units.to_owned(),
            Self::Median => format!("median of {units}"),
            Self::Iqm => format!("mean of the middle half of {units}"),
        }
    }
}

impl Lower<'_> {
    /// Checks that `pair` and `statistic` have an effect on a statement of this kind.
    pub(super) fn check_statistic(&mut self, kind: &str, statistic: &Given<'_, Statistic>, pair: &Given<'_, bool>) {
        if let Some(span) = statistic.span().filter(|_| kind == "order") {
            let help = "remove `statistic`, or claim the `difference` of two values of the axis";
            self.problem(span, "an `order` ranks means", "has no effect", help);
        }
        if let Some(span) = pair.span().filter(|_| kind == "value") {
            self.problem(span, "a `value` has one side, so nothing is paired", "has no effect", "remove `pair`");
        }
        if let (Some(Statistic::Median), Some(false), Some(span)) = (statistic.value, pair.value, statistic.span()) {
            let help = "write `statistic: iqm`, or remove `pair: false`";
            self.problem(span, "a median of independent samples has no interval", "needs pairs", help);
        }
    }
}

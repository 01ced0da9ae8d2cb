//! The better direction of a metric.

use sweep_job::Unit;

/// The better direction of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Smaller values are better.
    Less,
    /// Larger values are better.
    More,
}

impl Better {
    /// The words in recipes.
    pub(crate) const WORDS: &'static [(&'static str, Option<Self>)] =
        &[("min", Some(Self::Less)), ("max", Some(Self::More)), ("none", None)];

    /// The better direction that the unit of a metric implies.
    pub(crate) fn of(unit: Unit) -> Option<Self> {
        match unit.base() {
            Unit::Nats | Unit::Seconds | Unit::Bytes => Some(Self::Less),
            rate if rate.is_rate() => Some(Self::More),
            _ => None,
        }
    }
}

//! Comparison of the conditions of measurements.

use crate::store::Measured;

/// The result.
pub(crate) struct Comparable {
    /// Reason.
    pub(crate) reason: Option<String>,
    /// Footnotes.
    pub(crate) notes: Vec<String>,
}

/// Compares.
pub(crate) fn comparable(_sides: &[&[&Measured]]) -> Comparable {
    Comparable { reason: None, notes: Vec::new() }
}

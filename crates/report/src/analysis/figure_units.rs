//! Means in figures, over the same independent units as in tables and claims.

use super::{kinds::Kinds, units::mean_over};
use crate::{
    charts::MeanOf,
    plan::{Point, Study},
};

/// The kinds of replication of the step that a figure shows.
pub(crate) struct FigureUnits(Kinds);

impl FigureUnits {
    pub(crate) fn new(study: &Study, step: usize) -> Self {
        Self(Kinds::of(study, &[step]))
    }

    /// The mean of values at these points.
    pub(crate) fn mean_over<'p>(&'p self, points: Vec<&'p Point>) -> MeanOf<'p> {
        mean_over(points, &self.0)
    }
}

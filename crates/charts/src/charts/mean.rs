//! Means of results with their intervals. The caller of a chart computes them, because charts do not know the
//! independent units of results.

use std::fmt;

/// A mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval; `None` if the spread is unknown.
    pub half: Option<f64>,
}

impl Mean {
    /// A single value.
    pub(super) const fn of_one(value: f64) -> Self {
        Self { mean: value, half: None }
    }
}

/// The mean of values of the same jobs in the same order; `None` without values.
pub type MeanOf<'a> = Box<dyn Fn(&[f64]) -> Option<Mean> + 'a>;

type MeansOf<'a> = dyn Fn(&[usize]) -> MeanOf<'a> + 'a;

/// The means of the values of jobs.
pub struct Means<'a>(Box<MeansOf<'a>>);

impl<'a> Means<'a> {
    /// Means by a function that is called with the numbers of the jobs.
    pub fn new(of_jobs: impl Fn(&[usize]) -> MeanOf<'a> + 'a) -> Self {
        Self(Box::new(of_jobs))
    }

    /// The mean of values of these jobs.
    pub(super) fn of(&self, jobs: &[usize]) -> MeanOf<'a> {
        self.0(jobs)
    }
}

impl fmt::Debug for Means<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Means")
    }
}

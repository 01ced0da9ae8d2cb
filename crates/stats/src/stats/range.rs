//! The distribution of the studentized range, on which Tukey's test of all pairs is based.

use std::{cell::RefCell, collections::HashMap};

use statrs::function::erf::erfc;

use super::{chi, solve::root};

/// Step and end of the grid over the largest value, in standard deviations.
const STEP: f64 = 0.125;
const END: f64 = 8.5;

/// P(Q > q): the probability that the range of `rows` standard normal values, divided by an independent standard
/// deviation with this number of degrees of freedom, exceeds `q`. NaN for a NaN, and for degrees of freedom not above
/// zero.
///
/// The absolute error is below 1e-9 for 2 to 200 rows.
pub fn range_sf(q: f64, rows: usize, freedom: f64) -> f64 {
    if q.is_nan() || freedom.is_nan() || freedom <= 0.0 {
        return f64::NAN;
    }
    if q <= 0.0 {
        return 1.0;
    }
    if rows < 2 || q.is_infinite() {
        return 0.0;
    }
    sf(q, &Range::new(rows), freedom)
}

/// The number that a studentized range exceeds with probability 1 − `level`; NaN for a level outside of (0, 1), for
/// fewer than two rows, and for degrees of freedom not above zero.
pub fn range_quantile(level: f64, rows: usize, freedom: f64) -> f64 {
    thread_local!(static KNOWN: Known = Known::default());
    let valid = level > 0.0 && level < 1.0 && rows >= 2 && freedom > 0.0;
    if !valid {
        return f64::NAN;
    }
    KNOWN.with(|known| {
        known.find(level, rows, freedom, || {
            let range = Range::new(rows);
            quantile_of(level, |q| sf(q, &range, freedom))
        })
    })
}

/// Quantiles by level, number of rows and degrees of freedom. They are kept, because the columns of a table have few
/// distinct ones.
#[derive(Default)]
pub(super) struct Known(RefCell<HashMap<(u64, usize, u64), f64>>);

impl Known {
    /// The quantile, computed if it is not known.
    pub(super) fn find(&self, level: f64, rows: usize, freedom: f64, compute: impl FnOnce() -> f64) -> f64 {
        let asked = (level.to_bits(), rows, freedom.to_bits());
        *self.0.borrow_mut().entry(asked).or_insert_with(compute)
    }
}

/// The number that a positive variable exceeds with probability 1 − `level`, given its decreasing survival function.
pub(super) fn quantile_of(level: f64, sf: impl Fn(f64) -> f64) -> f64 {
    let target = 1.0 - level;
    // Nearly linear in the logarithms.
    let miss = |log_q: f64| (sf(log_q.exp()).max(f64::MIN_POSITIVE) / target).ln();
    let (mut low, mut high) = (0.0, 2.0);
    while miss(low) < 0.0 && low > -50.0 {
        (low, high) = (low - 2.0, low);
    }
    while miss(high) > 0.0 && high < 50.0 {
        (low, high) = (high, high + 2.0);
    }
    root(miss, low, high, 1e-11).exp()
}

fn sf(q: f64, range: &Range, freedom: f64) -> f64 {
    chi::expectation(freedom, 10.0, |s| 1.0 - range.cdf(q * s)).clamp(0.0, 1.0)
}

/// The distribution of the range of some standard normal values.
struct Range {
    /// One less than the number of values.
    others: i32,
    /// Grid of the largest value: where it is, its weight, and the probability that another value is below it.
    grid: Vec<(f64, f64, f64)>,
}

/// Places and weights of the trapezoidal rule for an expectation over a standard normal value. It is exact to rounding
/// for an analytic function.
pub(super) fn normal_grid() -> impl Iterator<Item = (f64, f64)> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a constant")]
    let points = (2.0 * END / STEP) as usize + 1;
    (0..points).map(|point| {
        let z = point as f64 * STEP - END;
        (z, STEP * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt())
    })
}

impl Range {
    fn new(rows: usize) -> Self {
        let grid = normal_grid().map(|(z, weight)| (z, rows as f64 * weight, below(z)));
        Self { others: i32::try_from(rows - 1).unwrap_or(i32::MAX), grid: grid.collect() }
    }

    /// P(range ≤ w): the other values are within `w` below the largest one.
    fn cdf(&self, w: f64) -> f64 {
        if w > 2.0 * END {
            return 1.0;
        }
        // No density exceeds 0.4.
        let bound = (0.4 * w).powi(self.others) * f64::from(self.others);
        if bound < 1e-17 {
            return 0.0;
        }
        let parts = self.grid.iter().map(|(z, weight, all)| weight * (all - below(z - w)).powi(self.others));
        parts.sum::<f64>().min(1.0)
    }
}

/// The standard normal distribution function.
pub(super) fn below(z: f64) -> f64 {
    0.5 * erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

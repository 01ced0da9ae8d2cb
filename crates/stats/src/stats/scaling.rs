//! Scaling: a power law with prediction intervals, and the agreement of two rankings.

use super::{ErrorOfMean, Estimate, Sample, estimate};

/// Most numbers whose orders are all compared.
const MAX_PERMUTED: usize = 7;

/// A power law y = factor · x^exponent, fitted to logarithms by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerLaw {
    /// The exponent with its 95 % confidence interval.
    pub exponent: Estimate,
    /// Mean of the logarithms of x.
    center: f64,
    /// Fitted logarithm of y at `center`.
    level: f64,
    /// Sum of the squared distances of the logarithms of x from `center`.
    squares: f64,
    /// Standard deviation of the residuals.
    residual: f64,
    points: usize,
}

impl PowerLaw {
    /// Fits the law to points; `None` with fewer than three points or distinct x, or if a number is not above zero.
    pub fn new(points: &[(f64, f64)], level: f64) -> Option<Self> {
        if points.len() < 3 || points.iter().any(|(x, y)| !(x.is_finite() && y.is_finite() && *x > 0.0 && *y > 0.0)) {
            return None;
        }
        let (x, y): (Vec<f64>, Vec<f64>) = points.iter().map(|(x, y)| (x.ln(), y.ln())).unzip();
        let (center, mean) = (Sample::new(&x)?.mean, Sample::new(&y)?.mean);
        let squares: f64 = x.iter().map(|x| (x - center).powi(2)).sum();
        let distinct = x.iter().filter(|value| (**value - x[0]).abs() > 1e-9).count();
        if distinct == 0 || squares <= 0.0 {
            return None;
        }
        let slope = x.iter().zip(&y).map(|(x, y)| (x - center) * (y - mean)).sum::<f64>() / squares;
        let freedom = points.len() as f64 - 2.0;
        let squared_residuals: f64 = x.iter().zip(&y).map(|(x, y)| (y - mean - slope * (x - center)).powi(2)).sum();
        let residual = (squared_residuals / freedom).sqrt();
        let exponent = estimate(slope, Some(residual / squares.sqrt()), freedom, level);
        Some(Self { exponent, center, level: mean, squares, residual, points: points.len() })
    }

    /// The y of one further point at `x` with its prediction interval of a level. Its noise is that of the fitted points.
    pub fn predict(&self, x: f64, level: f64) -> Estimate {
        let (logarithm, ErrorOfMean { error, freedom }) = self.logarithm(x);
        Estimate { p: None, ..estimate(logarithm, Some(error), freedom, level).exp() }
    }

    /// The logarithm of the y of one further point at `x`, with the standard error of its prediction.
    pub fn logarithm(&self, x: f64) -> (f64, ErrorOfMean) {
        let (distance, points) = (x.ln() - self.center, self.points as f64);
        let error = self.residual * (1.0 + 1.0 / points + distance * distance / self.squares).sqrt();
        (self.level + self.exponent.value * distance, ErrorOfMean { error, freedom: points - 2.0 })
    }

    /// The standard error of the exponent.
    pub fn error_of_exponent(&self) -> ErrorOfMean {
        ErrorOfMean { error: self.residual / self.squares.sqrt(), freedom: self.points as f64 - 2.0 }
    }
}

/// Agreement of two rankings: Kendall's τ, from −1 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Pairs in the same order.
    pub concordant: usize,
    /// Pairs in the opposite order.
    pub discordant: usize,
    /// (concordant − discordant) / pairs; pairs that are equal in one of the rankings count as neither.
    pub tau: f64,
    /// The probability of a |τ| at least as large if the rankings have nothing to do with each other: over all orders of up to seven
    /// numbers, else by the normal distribution.
    pub p: f64,
}

/// Compares the orders of two lists of equal length; `None` with fewer than two numbers.
pub fn agreement(of: &[f64], to: &[f64]) -> Option<Agreement> {
    let n = of.len();
    if n < 2 || n != to.len() {
        return None;
    }
    let (concordant, discordant) = orders(of, to);
    let pairs = (n * (n - 1) / 2) as f64;
    let tau = (concordant as f64 - discordant as f64) / pairs;
    let p = if n <= MAX_PERMUTED {
        let (mut extreme, mut all) = (0_usize, 0_usize);
        permuted(&mut to.to_vec(), 0, &mut |order| {
            let (with, against) = orders(of, order);
            all += 1;
            extreme += usize::from(with.abs_diff(against) >= concordant.abs_diff(discordant));
        });
        extreme as f64 / all as f64
    } else {
        let n = n as f64;
        let spread = (2.0 * (2.0 * n + 5.0) / (9.0 * n * (n - 1.0))).sqrt();
        (2.0 * super::range::below(-tau.abs() / spread)).min(1.0)
    };
    Some(Agreement { concordant, discordant, tau, p })
}

/// The numbers of pairs in the same and in the opposite order.
fn orders(of: &[f64], to: &[f64]) -> (usize, usize) {
    let (mut same, mut opposite) = (0, 0);
    for first in 0..of.len() {
        for second in first + 1..of.len() {
            let product = (of[first] - of[second]) * (to[first] - to[second]);
            same += usize::from(product > 0.0);
            opposite += usize::from(product < 0.0);
        }
    }
    (same, opposite)
}

fn permuted(values: &mut [f64], from: usize, visit: &mut impl FnMut(&[f64])) {
    if from + 1 >= values.len() {
        return visit(values);
    }
    for index in from..values.len() {
        values.swap(from, index);
        permuted(values, from + 1, visit);
        values.swap(from, index);
    }
}

//! Scaling: a power law with prediction intervals, and the agreement of two rankings.

use super::{
    ErrorOfMean, Estimate, LEVEL, Sample,
    constant::{Constant, ROUNDING},
    estimate,
};

/// Most numbers whose orders are all compared.
const MAX_PERMUTED: usize = 7;

/// A power law `y = factor · x^exponent`, or `y = constant + factor · x^exponent`, fitted to logarithms of y by least squares.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerLaw(Form);

#[derive(Debug, Clone, PartialEq)]
enum Form {
    Line(Line),
    Constant(Constant),
}

/// A straight line through the logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    slope: f64,
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

/// A number of a law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LawNumber {
    /// The exponent.
    Exponent,
    /// The logarithm of the ratio of `y` to the prediction for one more point at `x`.
    RatioAt {
        /// The size.
        x: f64,
        /// The measured number, above zero.
        y: f64,
    },
}

impl PowerLaw {
    /// Fits the law to points; `None` with fewer than three distinct x, or four for a law with a constant, or if a number is not
    /// above zero.
    pub fn new(points: &[(f64, f64)], with_constant: bool) -> Option<Self> {
        if points.iter().any(|(x, y)| !(x.is_finite() && y.is_finite() && *x > 0.0 && *y > 0.0)) {
            return None;
        }
        let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
        let form = if with_constant { Form::Constant(Constant::new(points)?) } else { Form::Line(Line::new(&points)?) };
        Some(Self(form))
    }

    /// The constant; `None` for a law without one.
    pub fn constant(&self) -> Option<f64> {
        match &self.0 {
            Form::Line(_) => None,
            Form::Constant(law) => Some(law.constant()),
        }
    }

    /// The exponent with its confidence interval of a level.
    pub fn exponent(&self, level: f64) -> Estimate {
        self.estimate(LawNumber::Exponent, level)
    }

    /// The y of one further point at `x` with its prediction interval of a level. Its noise equals the noise of the fitted points.
    pub fn predict(&self, x: f64, level: f64) -> Estimate {
        let x = x.ln();
        let logarithm = match &self.0 {
            Form::Line(line) => line.logarithm(x).estimate(level),
            Form::Constant(law) => law.logarithm(x, level),
        };
        Estimate { p: None, ..logarithm.exp() }
    }

    /// A number with its interval of a level. The p-value belongs to the hypothesis that the number is zero.
    pub fn estimate(&self, number: LawNumber, level: f64) -> Estimate {
        let estimate = match (&self.0, number) {
            (Form::Line(line), LawNumber::Exponent) => line.exponent().estimate(level),
            (Form::Constant(law), LawNumber::Exponent) => law.exponent(level),
            (Form::Line(line), LawNumber::RatioAt { x, y }) => line.logarithm(x.ln()).below(y.ln()).estimate(level),
            (Form::Constant(law), LawNumber::RatioAt { x, y }) => {
                let Estimate { value, low, high, .. } = law.logarithm(x.ln(), level);
                let from = |end: f64| y.ln() - end;
                Estimate { value: from(value), low: high.map(from), high: low.map(from), p: None }
            }
        };
        Estimate { p: self.p_at(number, 0.0), ..estimate }
    }

    /// Two-sided p-value of the hypothesis that a number is `bound`.
    pub fn p_at(&self, number: LawNumber, bound: f64) -> Option<f64> {
        let of_t = |law: &Constant, t: f64| estimate(t, Some(1.0), law.freedom(), LEVEL).p;
        match (&self.0, number) {
            (Form::Line(line), LawNumber::Exponent) => line.exponent().below(bound).estimate(LEVEL).p,
            (Form::Line(line), LawNumber::RatioAt { x, y }) => {
                line.logarithm(x.ln()).below(y.ln() - bound).estimate(LEVEL).p
            }
            (Form::Constant(law), LawNumber::Exponent) => of_t(law, law.t_of_exponent(bound)),
            (Form::Constant(law), LawNumber::RatioAt { x, y }) => of_t(law, law.t_of_point(x.ln(), y.ln() - bound)),
        }
    }
}

/// A number with its standard error.
#[derive(Debug, Clone, Copy)]
struct Number(f64, ErrorOfMean);

impl Number {
    fn estimate(self, level: f64) -> Estimate {
        estimate(self.0, Some(self.1.error), self.1.freedom, level)
    }

    /// The distance of another number from it.
    fn below(self, other: f64) -> Self {
        Self(other - self.0, self.1)
    }
}

impl Line {
    fn new(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < 3 {
            return None;
        }
        let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
        let (center, mean) = (Sample::new(&x)?.mean, Sample::new(&y)?.mean);
        let squares: f64 = x.iter().map(|x| (x - center).powi(2)).sum();
        let distinct = x.iter().filter(|value| (**value - x[0]).abs() > 1e-9).count();
        if distinct == 0 || squares <= 0.0 {
            return None;
        }
        let slope = x.iter().zip(&y).map(|(x, y)| (x - center) * (y - mean)).sum::<f64>() / squares;
        let freedom = points.len() as f64 - 2.0;
        let squared_residuals: f64 = x.iter().zip(&y).map(|(x, y)| (y - mean - slope * (x - center)).powi(2)).sum();
        let residual = if squared_residuals <= ROUNDING { 0.0 } else { (squared_residuals / freedom).sqrt() };
        Some(Self { slope, center, level: mean, squares, residual, points: points.len() })
    }

    fn with_error(&self, value: f64, error: f64) -> Number {
        Number(value, ErrorOfMean { error, freedom: self.points as f64 - 2.0 })
    }

    fn exponent(&self) -> Number {
        self.with_error(self.slope, self.residual / self.squares.sqrt())
    }

    /// The logarithm of the y of one further point at the logarithm `x`, with the standard error of its prediction.
    fn logarithm(&self, x: f64) -> Number {
        let (distance, points) = (x - self.center, self.points as f64);
        let error = self.residual * (1.0 + 1.0 / points + distance * distance / self.squares).sqrt();
        self.with_error(self.level + self.slope * distance, error)
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
    /// The probability of a |τ| at least as large if the rankings have nothing to do with each other: over all orders,
    /// or by the normal distribution if more than seven numbers have equal ones among them.
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
    } else if concordant + discordant == n * (n - 1) / 2 {
        distant_orders(n, concordant.abs_diff(discordant))
    } else {
        let n = n as f64;
        let spread = (2.0 * (2.0 * n + 5.0) / (9.0 * n * (n - 1.0))).sqrt();
        (2.0 * super::range::below(-tau.abs() / spread)).min(1.0)
    };
    Some(Agreement { concordant, discordant, tau, p })
}

/// The fraction of all orders of `n` different numbers in which the numbers of pairs in the same and in the opposite order differ by at
/// least `distance`.
fn distant_orders(n: usize, distance: usize) -> f64 {
    // The distribution of the number of inversions: the k-th number has 0 to k − 1 inversions with earlier numbers, with equal
    // probabilities.
    let mut parts = vec![1.0];
    for size in 2..=n {
        let mut next = vec![0.0; size * (size - 1) / 2 + 1];
        let mut sum = 0.0;
        for (inversions, part) in next.iter_mut().enumerate() {
            sum += parts.get(inversions).unwrap_or(&0.0);
            sum -= inversions.checked_sub(size).and_then(|left| parts.get(left)).unwrap_or(&0.0);
            *part = sum / size as f64;
        }
        parts = next;
    }
    let pairs = parts.len() - 1;
    let is_distant = |inversions: usize| (pairs - inversions).abs_diff(inversions) >= distance;
    parts
        .iter()
        .enumerate()
        .filter(|(inversions, _)| is_distant(*inversions))
        .map(|(_, part)| part)
        .sum::<f64>()
        .min(1.0)
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

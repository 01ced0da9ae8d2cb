//! A power law with a constant, `y = constant + factor · x^exponent`, fitted to logarithms of y by least squares.
//!
//! Intervals come from the profile of the squared residuals, with three degrees of freedom less than the number of points (Bates and Watts,
//! 1988, chapter 6); for a straight line, these are Student's intervals. The constant is at least zero, and the law approaches it at one
//! end: a loss that falls to it, a time that grows from it, or a score that rises to it.

use super::{Estimate, quantile, solve::root};

/// The range of `exponent · ln(largest x / smallest x)`, in both directions, and the steps in which it is searched.
const RANGE: f64 = 30.0;
const STEPS: u32 = 60;
/// Distance of predictions from the law, in logarithms, beyond which an interval has no end.
const UNBOUNDED: f64 = 50.0;
/// Steps of searches for a minimum: on a grid, then by golden sections.
const GRID: u32 = 12;
const SECTIONS: usize = 34;
const GOLDEN: f64 = 0.618_033_988_749_894_9;
/// Squared residuals below this are rounding errors.
pub(super) const ROUNDING: f64 = 1e-24;

/// A point: the logarithms of x and y.
type Point = (f64, f64);

/// The law with the least squared residuals of its points.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Constant {
    points: Vec<Point>,
    curve: Curve,
    squares: f64,
}

/// `ln y = level + ln(shape(x))`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Curve {
    exponent: f64,
    /// Logarithm of the x at which the power of x is counted as 1.
    origin: f64,
    level: f64,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// The constant is zero.
    Power,
    /// The power of x and this number.
    Above(f64),
    /// One without this share of the power of x.
    Below(f64),
}

impl Shape {
    fn ln(self, power: f64) -> f64 {
        match self {
            Self::Power => power,
            Self::Above(rest) => (power.exp() + rest).ln(),
            Self::Below(share) => (-share * power.exp()).ln_1p(),
        }
    }
}

impl Curve {
    /// The logarithm of y; not a number where y would be below zero.
    fn at(&self, x: f64) -> f64 {
        self.level + self.shape.ln(self.exponent * (x - self.origin))
    }
}

/// The smallest value of a function and its place: on a grid, then by golden sections around the best place.
fn least(function: impl Fn(f64) -> f64, low: f64, high: f64, steps: u32) -> (f64, f64) {
    let width = (high - low) / f64::from(steps);
    let place = |step: u32| low + width * f64::from(step);
    let best = (0..=steps).map(|step| (function(place(step)), place(step))).min_by(|a, b| a.0.total_cmp(&b.0));
    let Some((value, at)) = best else { return (f64::INFINITY, low) };
    let (mut from, mut to) = ((at - width).max(low), (at + width).min(high));
    let (mut left, mut right) = (to - GOLDEN * (to - from), from + GOLDEN * (to - from));
    let (mut at_left, mut at_right) = (function(left), function(right));
    for _ in 0..SECTIONS {
        if at_left <= at_right {
            (to, right, at_right) = (right, left, at_left);
            left = to - GOLDEN * (to - from);
            at_left = function(left);
        } else {
            (from, left, at_left) = (left, right, at_right);
            right = from + GOLDEN * (to - from);
            at_right = function(right);
        }
    }
    [(value, at), (at_left, left), (at_right, right)]
        .into_iter()
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap_or((value, at))
}

/// The curve of an exponent with the least squared residuals, and these.
fn curve_of(points: &[Point], exponent: f64) -> (f64, Curve) {
    let towards = |(x, _): &Point| exponent * x;
    let origin = points.iter().max_by(|a, b| towards(a).total_cmp(&towards(b))).map_or(0.0, |(x, _)| *x);
    let fit = |shape: Shape| {
        let rest = |(x, y): &Point| y - shape.ln(exponent * (x - origin));
        let level = points.iter().map(rest).sum::<f64>() / points.len() as f64;
        let squares = points.iter().map(|point| (rest(point) - level).powi(2)).sum::<f64>();
        (if squares.is_finite() { squares } else { f64::INFINITY }, Curve { exponent, origin, level, shape })
    };
    let lowest = points.iter().map(|(x, _)| exponent * (x - origin)).fold(0.0, f64::min);
    let above = |rest: f64| Shape::Above(rest.exp());
    let (_, rest) = least(|rest| fit(above(rest)).0, lowest - 12.0, 8.0, GRID);
    let mut found = [
        fit(Shape::Power),
        fit(above(rest)),
        (f64::INFINITY, Curve { exponent, origin, level: 0.0, shape: Shape::Power }),
    ];
    // A score that rises to the constant.
    if exponent < 0.0 {
        let below = |rest: f64| Shape::Below(-(-rest).exp_m1());
        let (_, rest) = least(|rest| fit(below(rest)).0, 0.0, 16.0, GRID);
        found[2] = fit(below(rest));
    }
    found.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or(found[0])
}

/// The largest exponent that is considered.
fn largest_exponent(points: &[Point]) -> f64 {
    let ends = |(low, high): (f64, f64), (x, _): &Point| (low.min(*x), high.max(*x));
    let (low, high) = points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), ends);
    RANGE / (high - low)
}

/// The curve with the least squared residuals, and these.
fn best(points: &[Point]) -> (f64, Curve) {
    let largest = largest_exponent(points);
    let squares = |exponent: f64| curve_of(points, exponent).0;
    // Between the signs of the exponent the curves change.
    let halves = [(-largest, -1e-3 * largest), (1e-3 * largest, largest)];
    let found = halves.map(|(low, high)| least(squares, low, high, STEPS / 2));
    let (_, exponent) = if found[0].0 <= found[1].0 { found[0] } else { found[1] };
    curve_of(points, exponent)
}

impl Constant {
    /// Fits the law to logarithms of points; `None` with fewer than four distinct x.
    pub(super) fn new(points: Vec<Point>) -> Option<Self> {
        let mut distinct: Vec<f64> = points.iter().map(|(x, _)| *x).collect();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup_by(|a, b| (*a - *b).abs() <= 1e-9);
        if distinct.len() < 4 {
            return None;
        }
        let (squares, curve) = best(&points);
        squares.is_finite().then_some(Self { points, curve, squares })
    }

    /// The constant of the law.
    pub(super) fn constant(&self) -> f64 {
        let Curve { level, shape, .. } = self.curve;
        match shape {
            Shape::Power => 0.0,
            Shape::Above(rest) => rest * level.exp(),
            Shape::Below(_) => level.exp(),
        }
    }

    pub(super) fn freedom(&self) -> f64 {
        self.points.len() as f64 - 3.0
    }

    fn is_exact(&self) -> bool {
        self.squares <= ROUNDING
    }

    /// The growth of the squared residuals that an interval of this level allows.
    fn allowance(&self, level: f64) -> f64 {
        quantile(self.freedom(), level).powi(2) * self.squares / self.freedom()
    }

    /// Student's t of a growth of the squared residuals.
    fn t(&self, growth: f64) -> f64 {
        if self.is_exact() {
            return if growth <= ROUNDING { 0.0 } else { f64::INFINITY };
        }
        (growth.max(0.0) / (self.squares / self.freedom())).sqrt()
    }

    /// The exponent with its interval of a level, which has no end where the points do not bound it.
    pub(super) fn exponent(&self, level: f64) -> Estimate {
        let value = self.curve.exponent;
        if self.is_exact() {
            return Estimate { value, low: Some(value), high: Some(value), p: None };
        }
        let limit = self.squares + self.allowance(level);
        let largest = largest_exponent(&self.points);
        let over = |exponent: f64| curve_of(&self.points, exponent).0 - limit;
        let end = |sign: f64| {
            let step = largest / f64::from(STEPS);
            let mut inside = value;
            while inside.abs() <= largest {
                let next = inside + sign * step;
                if over(next) > 0.0 {
                    return Some(root(over, inside, next, 1e-9 * largest));
                }
                inside = next;
            }
            None
        };
        Estimate { value, low: end(-1.0), high: end(1.0), p: None }
    }

    /// Student's t of the hypothesis that this is the exponent.
    pub(super) fn t_of_exponent(&self, exponent: f64) -> f64 {
        self.t(curve_of(&self.points, exponent).0 - self.squares)
    }

    /// The growth of the squared residuals if one more point has these logarithms.
    fn growth(&self, x: f64, y: f64) -> f64 {
        let points: Vec<Point> = self.points.iter().copied().chain([(x, y)]).collect();
        best(&points).0 - self.squares
    }

    /// The logarithm of the y of one further point with the same noise, with its prediction interval.
    pub(super) fn logarithm(&self, x: f64, level: f64) -> Estimate {
        let value = self.curve.at(x);
        if self.is_exact() || !value.is_finite() {
            let end = Some(value).filter(|value| value.is_finite());
            return Estimate { value, low: end, high: end, p: None };
        }
        let allowance = self.allowance(level);
        let over = |y: f64| self.growth(x, y) - allowance;
        let end = |sign: f64| {
            let (mut inside, mut step) = (value, allowance.sqrt());
            while (inside - value).abs() <= UNBOUNDED {
                let next = inside + sign * step;
                if over(next) > 0.0 {
                    return Some(root(over, inside, next, 1e-7 * step));
                }
                (inside, step) = (next, 2.0 * step);
            }
            None
        };
        Estimate { value, low: end(-1.0), high: end(1.0), p: None }
    }

    /// Student's t of the hypothesis that one more point has these logarithms.
    pub(super) fn t_of_point(&self, x: f64, y: f64) -> f64 {
        self.t(self.growth(x, y))
    }
}

//! Means of samples with their intervals.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use sweep_job::Precision;

use super::{
    ErrorOfMean,
    replication::{MANY, few_levels},
    student::{LEVEL, quantile},
};

/// Mean and spread of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Number of measurements.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, with n − 1 in the denominator; `None` for a single number.
    pub sd: Option<f64>,
}

/// The quartiles of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quartiles {
    /// The first quartile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub high: f64,
}

/// An estimated number with its 95 % confidence interval (Student's t).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Lower end; `None` for a single measurement.
    pub low: Option<f64>,
    /// Upper end; `None` for a single measurement.
    pub high: Option<f64>,
    /// The two-sided p-value of the difference from zero.
    pub p: Option<f64>,
}

impl Sample {
    /// Summarizes these numbers; `None` without numbers.
    pub fn new(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let scale = scale_of(values);
        if scale != 1.0 {
            let of = Self::new(&values.iter().map(|value| value / scale).collect::<Vec<f64>>())?;
            return Some(Self { mean: of.mean * scale, sd: of.sd.map(|sd| sd * scale), ..of });
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
        Some(Self { n, mean, sd: sd.map(|sd| without_rounding(sd, mean.abs(), values)) })
    }

    /// The mean as an estimate.
    pub fn estimate(&self) -> Estimate {
        self.estimate_at(LEVEL)
    }

    /// The mean as an estimate with an interval of this level.
    pub fn estimate_at(&self, level: f64) -> Estimate {
        let error = self.sd.map(|sd| sd / (self.n as f64).sqrt());
        estimate(self.mean, error, self.n.saturating_sub(1) as f64, level)
    }

    /// The mean as an estimate with an interval of this level, given the metric's precision; without an interval if the
    /// spread is zero and the precision does not explain it. For a sample of differences, `precision` is the precision
    /// of a difference.
    pub fn estimate_with(&self, level: f64, precision: Precision) -> Estimate {
        Self { sd: self.sd.and_then(|sd| precision.spread(sd)), ..*self }.estimate_at(level)
    }

    /// Half the width of the mean's confidence interval.
    pub fn half_width(&self) -> Option<f64> {
        Some(self.estimate().high? - self.mean)
    }

    /// The difference of the means of two independent samples (Welch).
    pub fn welch_difference(&self, other: &Self) -> Estimate {
        let error = |sample: &Self| {
            let n = sample.n as f64;
            Some(ErrorOfMean { error: sample.sd? / n.sqrt(), freedom: n - 1.0 })
        };
        let both = error(self).zip(error(other)).map(|(one, two)| welch([one, two]));
        let freedom = both.map_or(0.0, |both| both.freedom);
        estimate(self.mean - other.mean, both.map(|both| both.error), freedom, LEVEL)
    }
}

impl Quartiles {
    /// The quartiles of these numbers, interpolated between neighbors as in `NumPy`; `None` without numbers.
    pub fn new(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            low: percentile(&sorted, 0.25)?,
            median: percentile(&sorted, 0.5)?,
            high: percentile(&sorted, 0.75)?,
        })
    }
}

/// The value below which this share of the sorted numbers lies, interpolated between neighbors as `NumPy` does.
pub(super) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share * last as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the last index")]
    let below = place.floor() as usize;
    let (low, high) = (sorted.get(below)?, sorted.get((below + 1).min(last))?);
    Some(low + (high - low) * (place - below as f64))
}

impl Estimate {
    /// The exponential of the estimate and its interval.
    pub fn exp(self) -> Self {
        Self { value: self.value.exp(), low: self.low.map(f64::exp), high: self.high.map(f64::exp), p: self.p }
    }
}

/// The mean of numbers, of which the sum may exceed the largest floating-point number; NaN without numbers.
pub fn mean(values: &[f64]) -> f64 {
    let (sum, n) = (values.iter().sum::<f64>(), values.len() as f64);
    if sum.is_finite() { sum / n } else { values.iter().map(|value| value / n).sum() }
}

/// A power of two by which numbers are divided before they are squared, so that the squares neither overflow nor vanish; 1 for ordinary
/// numbers.
pub(super) fn scale_of<'v>(values: impl IntoIterator<Item = &'v f64>) -> f64 {
    /// The least and the largest number whose square, and the square of it, is exact enough.
    const ORDINARY: std::ops::Range<f64> = 1e-70..1e70;
    let largest = values.into_iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    if largest == 0.0 || !largest.is_finite() || ORDINARY.contains(&largest) {
        return 1.0;
    }
    // The largest number is below 2^1024, and 2^-1022 is the least normal one.
    largest.log2().floor().clamp(-1022.0, 1022.0).exp2()
}

/// A standard deviation of values of this size, or 0 if it is only the rounding error of equal numbers.
pub(super) fn without_rounding<'v>(sd: f64, size: f64, values: impl IntoIterator<Item = &'v f64> + Clone) -> f64 {
    /// Whole numbers up to this one are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_exact = |value: &f64| value.fract() == 0.0 && value.abs() <= EXACT;
    let mut others = values.clone().into_iter();
    let first = others.next();
    let are_distinct = values.into_iter().all(is_exact) && others.any(|value| Some(value) != first);
    if sd <= 1e-12 * size && !are_distinct { 0.0 } else { sd }
}

/// Pearson's correlation of two lists of equal length; `None` if one of them has no spread.
pub fn correlation(of: &[f64], to: &[f64]) -> Option<f64> {
    let (first, second) = (Sample::new(of)?, Sample::new(to)?);
    let (sd, other_sd) = (first.sd.filter(|sd| *sd > 0.0)?, second.sd.filter(|sd| *sd > 0.0)?);
    // Divided first, because a product may overflow.
    let products = of.iter().zip(to).map(|(of, to)| (of - first.mean) / sd * ((to - second.mean) / other_sd));
    Some(products.sum::<f64>() / (first.n - 1) as f64)
}

/// The error of a difference of two independent means, from the error of each, with Welch's degrees of freedom.
///
/// They are too many if one mean has few degrees of freedom, fewer than those of five values, and the other at least twice as many: two
/// values with the larger spread against eight decide a null hypothesis in 11 % of the cases instead of 5 %. Student's quantile is then the
/// mean of the quantiles of both means, weighted by their variances (Cochran and Cox, 1950); with two values, its square is the mean of
/// their squares (Banerjee, 1960). This is the rule for crossed factors with few levels.
pub fn welch([a, b]: [ErrorOfMean; 2]) -> ErrorOfMean {
    let error = a.error.hypot(b.error);
    if error == 0.0 {
        return ErrorOfMean { error: 0.0, freedom: 0.0 };
    }
    let shares = [a, b].map(|of| ((of.error / error).powi(2), of.freedom.max(1.0)));
    let parts: f64 = shares.iter().map(|(share, freedom)| share * share / freedom).sum();
    let (least, most) = (shares[0].1.min(shares[1].1), shares[0].1.max(shares[1].1));
    let is_lopsided = least < MANY && most >= 2.0 * least && a.error > 0.0 && b.error > 0.0;
    let freedom = if is_lopsided { few_levels(1.0, parts, &shares) } else { parts.recip() };
    ErrorOfMean { error, freedom }
}

/// An estimate with an interval of this level, from its standard error; without one if the error is unknown, or if an end exceeds the
/// largest number.
pub fn estimate(value: f64, error: Option<f64>, freedom: f64, level: f64) -> Estimate {
    match error {
        None => Estimate { value, low: None, high: None, p: None },
        // All measurements are equal.
        Some(0.0) => {
            let p = if value == 0.0 { 1.0 } else { 0.0 };
            Estimate { value, low: Some(value), high: Some(value), p: Some(p) }
        }
        Some(error) => {
            let Ok(student) = StudentsT::new(0.0, 1.0, freedom) else {
                return Estimate { value, low: None, high: None, p: None };
            };
            let half = quantile(freedom, level) * error;
            let [low, high] = [value - half, value + half];
            if !(low.is_finite() && high.is_finite()) {
                return Estimate { value, low: None, high: None, p: None };
            }
            let p = 2.0 * student.sf((value / error).abs());
            Estimate { value, low: Some(low), high: Some(high), p: Some(p) }
        }
    }
}

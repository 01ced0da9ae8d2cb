//! Means of samples with their intervals.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use sweep_job::Precision;

use super::{
    ErrorOfMean,
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
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
        // Equal numbers differ from their mean by a rounding error, which is not a spread.
        let sd = sd.map(|sd| if sd <= 1e-12 * mean.abs() { 0.0 } else { sd });
        Some(Self { n, mean, sd })
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

/// Pearson's correlation of two lists of equal length; `None` if one of them has no spread.
pub fn correlation(of: &[f64], to: &[f64]) -> Option<f64> {
    let (first, second) = (Sample::new(of)?, Sample::new(to)?);
    let spread = first.sd.filter(|sd| *sd > 0.0)? * second.sd.filter(|sd| *sd > 0.0)?;
    let products: f64 = of.iter().zip(to).map(|(of, to)| (of - first.mean) * (to - second.mean)).sum();
    Some(products / (spread * (first.n - 1) as f64))
}

/// The error of a difference of two independent means (Welch), from the error of each.
pub fn welch([a, b]: [ErrorOfMean; 2]) -> ErrorOfMean {
    let squared = a.error * a.error + b.error * b.error;
    if squared == 0.0 {
        return ErrorOfMean { error: 0.0, freedom: 0.0 };
    }
    let part = |of: ErrorOfMean| if of.error > 0.0 { of.error.powi(4) / of.freedom.max(1.0) } else { 0.0 };
    ErrorOfMean { error: squared.sqrt(), freedom: squared * squared / (part(a) + part(b)) }
}

/// An estimate with an interval of this level, from its standard error; without one if the error is unknown.
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
            let p = 2.0 * student.sf((value / error).abs());
            Estimate { value, low: Some(value - half), high: Some(value + half), p: Some(p) }
        }
    }
}

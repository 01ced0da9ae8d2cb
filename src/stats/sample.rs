//! Means of samples with their intervals.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::student::{LEVEL, quantile};

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

/// Knowledge about a metric's spread that its measurements need not show. A zero spread is certainty only for a metric
/// that is known to be exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Precision {
    /// Nothing is known: equal measurements do not tell the spread.
    Unknown,
    /// Measurements are multiples of this number, in the metric's unit, so each has an error of at least its standard
    /// deviation of rounding, resolution / √12.
    Resolution(f64),
    /// The same job always has the same value, so equal measurements have no spread.
    Exact,
}

impl Precision {
    /// The precision of differences of two such measurements.
    pub fn of_difference(self) -> Self {
        match self {
            Self::Resolution(resolution) => Self::Resolution(resolution * std::f64::consts::SQRT_2),
            other => other,
        }
    }

    /// The standard deviation of a measurement of which `sd` was observed; `None` if that is zero and nothing explains
    /// it, or if it is not a finite number.
    pub fn spread(self, sd: f64) -> Option<f64> {
        let spread = match self {
            Self::Resolution(resolution) => sd.hypot(resolution / 12.0_f64.sqrt()),
            Self::Exact | Self::Unknown => sd,
        };
        (spread.is_finite() && (spread > 0.0 || self == Self::Exact)).then_some(spread)
    }
}

impl Sample {
    /// Summarizes these numbers; `None` if there are none.
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
    /// spread is zero and the precision does not explain it. For a sample of differences, `precision` is
    /// [that of a difference](Precision::of_difference).
    pub fn estimate_with(&self, level: f64, precision: Precision) -> Estimate {
        Self { sd: self.sd.and_then(|sd| precision.spread(sd)), ..*self }.estimate_at(level)
    }

    /// Half the width of the mean's confidence interval.
    pub fn half_width(&self) -> Option<f64> {
        Some(self.estimate().high? - self.mean)
    }

    /// The difference of the means of two independent samples (Welch).
    pub fn welch_difference(&self, other: &Self) -> Estimate {
        self.less_at(other, LEVEL)
    }

    /// The difference of the means with an interval of this level (Welch).
    pub fn less_at(&self, other: &Self, level: f64) -> Estimate {
        let squared = |sample: &Self| sample.sd.map(|sd| sd * sd / sample.n as f64);
        let errors = squared(self).zip(squared(other));
        let freedom = errors.map_or(0.0, |(a, b)| {
            let part = |squared: f64, n: usize| squared * squared / (n as f64 - 1.0);
            (a + b).powi(2) / (part(a, self.n) + part(b, other.n))
        });
        estimate(self.mean - other.mean, errors.map(|(a, b)| (a + b).sqrt()), freedom, level)
    }

    /// The difference of the means with an interval of this level (Welch), given the metric's precision; without an
    /// interval if both spreads are zero and the precision does not explain them.
    pub fn less_with(&self, other: &Self, level: f64, precision: Precision) -> Estimate {
        let unexplained = precision == Precision::Unknown && self.sd == Some(0.0) && other.sd == Some(0.0);
        let spread = |sample: &Self| match precision {
            _ if unexplained => None,
            Precision::Resolution(_) => sample.sd.and_then(|sd| precision.spread(sd)),
            Precision::Unknown | Precision::Exact => sample.sd,
        };
        let with = |sample: &Self| Self { sd: spread(sample), ..*sample };
        with(self).less_at(&with(other), level)
    }
}

impl Quartiles {
    /// The quartiles of these numbers, interpolated between neighbors as `NumPy` does; `None` if there are none.
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

fn estimate(value: f64, error: Option<f64>, freedom: f64, level: f64) -> Estimate {
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

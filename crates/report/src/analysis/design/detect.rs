//! Differences to detect, as they are written on the command line.

use sweep_job::{
    Metric, Unit, same_metric,
    units::{parse_bytes, parse_quantity, parse_seconds},
};

use super::DesignError;

/// A difference of a metric to detect, whose unit is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detect {
    /// The metric.
    pub metric: String,
    /// The difference, as it was written.
    pub difference: String,
}

/// The size of a difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Size {
    /// In the metric's unit.
    Absolute(f64),
    /// As a fraction.
    Relative(f64),
}

impl Detect {
    /// Reads `METRIC=DIFFERENCE`.
    pub fn parse(text: &str) -> Result<Self, DesignError> {
        match text.split_once('=') {
            Some((metric, difference)) if !metric.trim().is_empty() && !difference.trim().is_empty() => {
                Ok(Self { metric: metric.trim().to_owned(), difference: difference.trim().to_owned() })
            }
            _ => Err(DesignError::NotWritten(text.to_owned())),
        }
    }

    /// True if a metric is meant, by its current or an earlier name.
    pub(super) fn is_about(&self, metric: &str) -> bool {
        same_metric(&self.metric, metric)
    }

    /// The size, given the metric's unit.
    pub(super) fn size(&self, unit: Unit) -> Result<Size, DesignError> {
        let text = self.difference.as_str();
        let no_number = || DesignError::NoNumber { text: self.text(), accepted: accepted(unit) };
        let (size, value) = if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| no_number())?;
            if unit.base() == Unit::Fraction {
                return Err(DesignError::PercentOfFraction(self.text()));
            }
            (Size::Relative(percent / 100.0), percent)
        } else {
            let number = parse_quantity(text).ok().and_then(|(value, text_unit)| match text_unit {
                None => Some(value),
                Some(text_unit) => Metric { value, unit: text_unit }.value_in(unit),
            });
            let long = || match unit.base() {
                Unit::Seconds => Some(Unit::Seconds.convert(parse_seconds(text).ok()?, unit)),
                Unit::Bytes => Some(Unit::Bytes.convert(parse_bytes(text).ok()? as f64, unit)),
                _ => None,
            };
            let value = number.or_else(long).ok_or_else(no_number)?;
            (Size::Absolute(value), value)
        };
        if value.is_nan() || value.is_infinite() {
            return Err(no_number());
        }
        if value <= 0.0 {
            return Err(DesignError::NotPositive(self.text()));
        }
        Ok(size)
    }

    /// The argument as it was written.
    pub(super) fn text(&self) -> String {
        format!("{}={}", self.metric, self.difference)
    }
}

/// Accepted differences of a metric with this unit.
fn accepted(unit: Unit) -> &'static str {
    match unit {
        multiple if multiple != multiple.base() => {
            "a number in the metric's unit, a number with its unit such as `5 ms`, or a percentage such as `2%`"
        }
        Unit::Seconds => "seconds, a span of time such as `5ms`, or a percentage such as `2%`",
        Unit::Bytes => "bytes, a size such as `10MiB`, or a percentage such as `2%`",
        Unit::Fraction => "a number from 0 to 1 such as `0.01`, which is one percentage point",
        _ => "a number such as `0.01`, or a percentage such as `2%`",
    }
}

//! Declaring a metric once: name, unit and documentation come from one place, and a task that measures it names the
//! declaration.

use crate::Unit;

/// A metric's declaration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricInfo {
    /// Name in records and tables.
    pub name: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// Meaning, and conditions under which it is measured.
    pub doc: &'static str,
    /// Precision of its values.
    pub precision: Precision,
}

/// Precision of the values of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Precision {
    /// A measurement, whose uncertainty only its spread shows.
    Measured,
    /// A measurement in multiples of this number, in the metric's unit.
    Resolution(f64),
    /// Counted or calculated: the same job always gives the same value.
    Deterministic,
}

impl Precision {
    /// The precision of a metric that declares no other: counts are deterministic.
    pub const fn of(unit: Unit) -> Self {
        match unit {
            Unit::Count => Self::Deterministic,
            _ => Self::Measured,
        }
    }

    /// The precision of values that are multiplied by `factor`; the precision of a difference is √2 times the precision
    /// of a measurement.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        match self {
            Self::Resolution(resolution) => Self::Resolution(resolution * factor),
            other => other,
        }
    }

    /// The standard deviation of a measurement with the observed value `sd`: at least the standard deviation of
    /// rounding to the resolution, resolution / √12. `None` if it is zero for an unknown reason, or not finite.
    pub fn spread(self, sd: f64) -> Option<f64> {
        let spread = match self {
            Self::Resolution(resolution) => sd.hypot(resolution / 12.0_f64.sqrt()),
            Self::Measured | Self::Deterministic => sd,
        };
        (spread.is_finite() && (spread > 0.0 || self == Self::Deterministic)).then_some(spread)
    }

    /// The declared resolution.
    pub const fn resolution(self) -> Option<f64> {
        match self {
            Self::Resolution(resolution) => Some(resolution),
            Self::Measured | Self::Deterministic => None,
        }
    }
}

/// Declares metrics as constants of a type, and the list `DECLARED` of them. A precision may follow the name:
/// `SPARSITY: Fraction = "sparsity", Deterministic;`.
#[macro_export]
macro_rules! metrics {
    (
        impl $group:ident {
            $( $(#[doc = $doc:literal])+ $metric:ident: $unit:ident = $name:literal $(, $word:ident $(($number:literal))?)?; )+
        }
    ) => {
        impl $group {
            $(
                $(#[doc = $doc])+
                pub const $metric: $crate::MetricInfo = $crate::MetricInfo {
                    name: $name,
                    unit: $crate::Unit::$unit,
                    doc: concat!($($doc),+).trim_ascii(),
                    precision: $crate::metrics!(@precision $unit $($word $(($number))?)?),
                };
            )+

            /// The metrics declared here, in order.
            pub(crate) const DECLARED: &'static [$crate::MetricInfo] = &[$(Self::$metric),+];
        }
    };
    (@precision $unit:ident) => {
        $crate::Precision::of($crate::Unit::$unit)
    };
    (@precision $unit:ident $word:ident $(($number:literal))?) => {
        $crate::Precision::$word $(($number))?
    };
}

pub(crate) use metrics;

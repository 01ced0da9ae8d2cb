//! Declaring a metric once: name, unit and documentation come from one place, and a task that measures it names the
//! declaration.

use crate::Unit;

/// A metric's declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricInfo {
    /// Name in records and tables.
    pub name: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// Meaning, and conditions under which it is measured.
    pub doc: &'static str,
}

/// Declares metrics as constants of a type, and the list `DECLARED` of them.
macro_rules! metrics {
    (
        impl $group:ident {
            $( $(#[doc = $doc:literal])+ $metric:ident: $unit:ident = $name:literal; )+
        }
    ) => {
        impl $group {
            $(
                $(#[doc = $doc])+
                pub const $metric: $crate::MetricInfo = $crate::MetricInfo {
                    name: $name,
                    unit: $crate::Unit::$unit,
                    doc: concat!($($doc),+).trim_ascii(),
                };
            )+

            /// The metrics declared here, in order.
            pub(crate) const DECLARED: &'static [$crate::MetricInfo] = &[$(Self::$metric),+];
        }
    };
}

pub(crate) use metrics;

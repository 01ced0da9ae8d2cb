//! The source of a program's metrics.

use std::collections::BTreeMap;

use crate::{
    Kind, Metric, ParamType, Value,
    params::{Inside, choice},
};

choice! {
    /// The value of a series that becomes its metric.
    pub enum Collect {
        /// The newest value.
        Last = "last",
        /// The first value.
        First = "first",
        /// The smallest value.
        Min = "min",
        /// The largest value.
        Max = "max",
        /// The mean of all values.
        Mean = "mean",
        /// The newest finite value, also of a series that diverged.
        LastFinite = "last-finite",
        /// The smallest finite value, also of a series that diverged.
        MinFinite = "min-finite",
        /// The largest finite value, also of a series that diverged.
        MaxFinite = "max-finite",
        /// The mean of all finite values, also of a series that diverged.
        MeanFinite = "mean-finite",
    }
}

impl Collect {
    /// True if a series whose newest value is not finite has this value nevertheless.
    pub fn ignores_divergence(self) -> bool {
        matches!(self, Self::First | Self::LastFinite | Self::MinFinite | Self::MaxFinite | Self::MeanFinite)
    }

    /// True if the step of the value is a metric, too: `NAME.step`.
    pub fn has_step(self) -> bool {
        matches!(self, Self::Min | Self::Max | Self::MinFinite | Self::MaxFinite)
    }

    /// Removes the metric of the series `name`, and the metric of its step.
    pub fn remove(self, name: &str, from: &mut BTreeMap<String, Metric>) {
        from.remove(name);
        if self.has_step() {
            from.remove(&format!("{name}.step"));
        }
    }
}

/// The parameter `metrics` of `command`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsFrom {
    /// A JSON file that the program writes.
    File(Inside),
    /// Values of reported series; a series that is not named gives its newest value.
    Series(BTreeMap<String, Collect>),
}

impl MetricsFrom {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&Inside> {
        match self {
            Self::File(file) => Some(file),
            Self::Series(_) => None,
        }
    }

    /// The named series.
    pub fn series(&self) -> Option<&BTreeMap<String, Collect>> {
        match self {
            Self::File(_) => None,
            Self::Series(series) => Some(series),
        }
    }
}

impl ParamType for MetricsFrom {
    const KIND: Kind = Kind::Either(&Inside::KIND, &<BTreeMap<String, Collect> as ParamType>::KIND);

    fn to_value(&self) -> Value {
        match self {
            Self::File(file) => file.to_value(),
            Self::Series(series) => series.to_value(),
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Map(_) => ParamType::from_value(value).map(Self::Series),
            _ => Inside::from_value(value).map(Self::File),
        }
    }
}

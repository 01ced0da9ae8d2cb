//! The outcome of a finished job: metrics with units, curves, artifacts.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{MetricInfo, Metrics, Reported};

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Numbers by name.
    pub metrics: Metrics,
    /// Series by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub curves: BTreeMap<String, Curve>,
    /// Files and folders by name, relative to the job's folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, String>,
    /// Facts that are not metrics, by name, such as the assertions that held.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// The reports of a program, from which its metrics can be taken again. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Box<Reported>>,
}

/// A measured number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The number; finite.
    pub value: f64,
    /// Unit of the value.
    pub unit: Unit,
}

/// A series of numbers over the iterations of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Unit of the values.
    pub unit: Unit,
    /// Iterations done when each value was taken; ascending.
    pub at: Vec<u64>,
    /// The values, as many as `at`.
    pub values: Vec<f64>,
}

/// The unit of a metric. Only base units: reports scale to MiB or ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Natural-logarithm units of information: the cross-entropy loss.
    #[serde(rename = "nats")]
    Nats,
    /// A pure number.
    #[serde(rename = "1")]
    One,
    /// A fraction of a whole, from 0 to 1.
    #[serde(rename = "fraction")]
    Fraction,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Tokens per second.
    #[serde(rename = "tokens/s")]
    TokensPerSecond,
    /// Sequences per second.
    #[serde(rename = "sequences/s")]
    SequencesPerSecond,
    /// Optimizer steps per second.
    #[serde(rename = "steps/s")]
    StepsPerSecond,
    /// Floating-point operations per second.
    #[serde(rename = "FLOP/s")]
    FlopsPerSecond,
    /// Bytes per second.
    #[serde(rename = "B/s")]
    BytesPerSecond,
    /// Any other rate per second, of which the name says more.
    #[serde(rename = "1/s")]
    PerSecond,
    /// A number of things.
    #[serde(rename = "count")]
    Count,
}

impl Outcome {
    /// Adds a declared metric. A value that is not finite is no measurement and is dropped.
    pub fn set(&mut self, metric: &MetricInfo, value: f64) {
        self.set_open(metric.name, value, metric.unit);
    }

    /// The value of a declared metric, if it was measured.
    pub fn value(&self, metric: &MetricInfo) -> Option<f64> {
        self.metrics.get(metric.name).map(|found| found.value)
    }

    /// Adds a metric that the task does not declare.
    pub fn set_open(&mut self, name: &str, value: f64, unit: Unit) {
        if value.is_finite() {
            self.metrics.insert(name.to_owned(), Metric { value, unit });
        }
    }
}

impl Unit {
    /// True for rates per second, of which more is better.
    pub const fn is_rate(self) -> bool {
        match self {
            Self::TokensPerSecond
            | Self::SequencesPerSecond
            | Self::StepsPerSecond
            | Self::FlopsPerSecond
            | Self::BytesPerSecond
            | Self::PerSecond => true,
            Self::Nats | Self::One | Self::Fraction | Self::Seconds | Self::Bytes | Self::Count => false,
        }
    }

    /// True for times and rates, which depend on what else the machine does.
    pub const fn is_timing(self) -> bool {
        matches!(self, Self::Seconds) || self.is_rate()
    }

    /// The symbol as printed behind a number; empty for pure numbers.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::One | Self::Count => "",
            Self::Fraction => "fraction",
            Self::Seconds => "s",
            Self::Bytes => "B",
            Self::TokensPerSecond => "tokens/s",
            Self::SequencesPerSecond => "sequences/s",
            Self::StepsPerSecond => "steps/s",
            Self::FlopsPerSecond => "FLOP/s",
            Self::BytesPerSecond => "B/s",
            Self::PerSecond => "/s",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

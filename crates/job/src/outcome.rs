//! The outcome of a finished job: metrics with units, curves, artifacts.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::Metrics;

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
    /// Facts that are not numbers, by name: which assertions held, how many parameters of which group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
}

/// A measured number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The number; finite.
    pub value: f64,
    /// What it counts.
    pub unit: Unit,
}

/// A series of numbers over the iterations of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// What the values count.
    pub unit: Unit,
    /// Iterations done when each value was taken; ascending.
    pub at: Vec<u64>,
    /// The values, as many as `at`.
    pub values: Vec<f64>,
}

/// What a metric counts. Base units only; scaling to MiB or ms is the reporter's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Natural-logarithm units of information: the cross-entropy loss.
    #[serde(rename = "nats")]
    Nats,
    /// A pure number.
    #[serde(rename = "1")]
    One,
    /// A part of a whole, from 0 to 1.
    #[serde(rename = "fraction")]
    Fraction,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Tokens a second.
    #[serde(rename = "tokens/s")]
    TokensPerSecond,
    /// Sequences a second.
    #[serde(rename = "sequences/s")]
    SequencesPerSecond,
    /// Optimizer steps a second.
    #[serde(rename = "steps/s")]
    StepsPerSecond,
    /// Floating-point operations a second.
    #[serde(rename = "FLOP/s")]
    FlopsPerSecond,
    /// Bytes a second.
    #[serde(rename = "B/s")]
    BytesPerSecond,
    /// Things counted.
    #[serde(rename = "count")]
    Count,
}

impl Outcome {
    /// Adds a metric. A number that is not finite is no measurement and is left out.
    pub fn metric(&mut self, name: &str, value: f64, unit: Unit) {
        if value.is_finite() {
            self.metrics.insert(name.to_owned(), Metric { value, unit });
        }
    }
}

impl Unit {
    /// Whether it counts something in a second, more of which is better.
    pub const fn is_rate(self) -> bool {
        match self {
            Self::TokensPerSecond
            | Self::SequencesPerSecond
            | Self::StepsPerSecond
            | Self::FlopsPerSecond
            | Self::BytesPerSecond => true,
            Self::Nats | Self::One | Self::Fraction | Self::Seconds | Self::Bytes | Self::Count => false,
        }
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
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

//! Units of metrics: their symbols, the names that imply them, and the conversion between units of one kind.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Task, TaskInfo};

/// The unit of a metric: a base unit, or a multiple of one in which a program reports.
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
    /// Hundredths of a whole.
    #[serde(rename = "%")]
    Percent,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Minutes.
    #[serde(rename = "min")]
    Minutes,
    /// Hours.
    #[serde(rename = "h")]
    Hours,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// 1024 bytes.
    #[serde(rename = "KiB")]
    Kibibytes,
    /// 1024 KiB.
    #[serde(rename = "MiB")]
    Mebibytes,
    /// 1024 MiB.
    #[serde(rename = "GiB")]
    Gibibytes,
    /// 1000 bytes.
    #[serde(rename = "kB")]
    Kilobytes,
    /// 1000 kB.
    #[serde(rename = "MB")]
    Megabytes,
    /// 1000 MB.
    #[serde(rename = "GB")]
    Gigabytes,
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
    /// Any other rate per second, which the metric's name specifies.
    #[serde(rename = "1/s")]
    PerSecond,
    /// A number of things.
    #[serde(rename = "count")]
    Count,
}

/// The units with the symbols that recipes and records have.
const SYMBOLS: &[(&str, Unit)] = &[
    ("nats", Unit::Nats),
    ("fraction", Unit::Fraction),
    ("%", Unit::Percent),
    ("s", Unit::Seconds),
    ("ms", Unit::Milliseconds),
    ("us", Unit::Microseconds),
    ("ns", Unit::Nanoseconds),
    ("min", Unit::Minutes),
    ("h", Unit::Hours),
    ("B", Unit::Bytes),
    ("KiB", Unit::Kibibytes),
    ("MiB", Unit::Mebibytes),
    ("GiB", Unit::Gibibytes),
    ("kB", Unit::Kilobytes),
    ("MB", Unit::Megabytes),
    ("GB", Unit::Gigabytes),
    ("tokens/s", Unit::TokensPerSecond),
    ("sequences/s", Unit::SequencesPerSecond),
    ("steps/s", Unit::StepsPerSecond),
    ("FLOP/s", Unit::FlopsPerSecond),
    ("B/s", Unit::BytesPerSecond),
    ("1/s", Unit::PerSecond),
    ("count", Unit::Count),
    ("1", Unit::One),
];

/// Other symbols of units; pure numbers have none.
const ALIASES: &[(&str, Unit)] = &[
    ("µs", Unit::Microseconds),
    ("μs", Unit::Microseconds),
    ("KB", Unit::Kilobytes),
    ("/s", Unit::PerSecond),
    ("", Unit::One),
];

/// Ends of names in small letters, the longer ones first. An end of one letter is meant in small letters only.
const ENDS: &[(&str, Unit)] = &[
    ("tokens_per_s", Unit::TokensPerSecond),
    ("sequences_per_s", Unit::SequencesPerSecond),
    ("steps_per_s", Unit::StepsPerSecond),
    ("bytes_per_s", Unit::BytesPerSecond),
    ("_per_s", Unit::PerSecond),
    ("tokens_per_sec", Unit::TokensPerSecond),
    ("steps_per_sec", Unit::StepsPerSecond),
    ("_per_sec", Unit::PerSecond),
    ("tokens_per_second", Unit::TokensPerSecond),
    ("steps_per_second", Unit::StepsPerSecond),
    ("_per_second", Unit::PerSecond),
    ("_seconds", Unit::Seconds),
    ("_secs", Unit::Seconds),
    ("_sec", Unit::Seconds),
    ("_s", Unit::Seconds),
    ("_milliseconds", Unit::Milliseconds),
    ("_ms", Unit::Milliseconds),
    ("_microseconds", Unit::Microseconds),
    ("_us", Unit::Microseconds),
    ("_nanoseconds", Unit::Nanoseconds),
    ("_ns", Unit::Nanoseconds),
    ("_minutes", Unit::Minutes),
    ("_hours", Unit::Hours),
    ("_bytes", Unit::Bytes),
    ("_b", Unit::Bytes),
    ("_kib", Unit::Kibibytes),
    ("_mib", Unit::Mebibytes),
    ("_gib", Unit::Gibibytes),
    ("_kb", Unit::Kilobytes),
    ("_mb", Unit::Megabytes),
    ("_gb", Unit::Gigabytes),
    ("_percent", Unit::Percent),
    ("_pct", Unit::Percent),
];

impl Unit {
    /// The units that can be written, with their symbols.
    pub const WRITTEN: &'static [(&'static str, Self)] = SYMBOLS;

    /// The unit with this symbol; an empty one means a pure number.
    pub fn written(symbol: &str) -> Option<Self> {
        SYMBOLS.iter().chain(ALIASES).find(|(known, _)| *known == symbol).map(|(_, unit)| *unit)
    }

    /// Returns the unit that the end of a metric's name implies. One letter behind the name of a loss or of a score, as in `loss_s`, is no
    /// unit.
    pub fn implied(name: &str) -> Option<Self> {
        const QUALITIES: [&str; 6] = ["acc", "accuracy", "error", "f1", "loss", "score"];
        let small = name.to_ascii_lowercase();
        let is_quality = |word: &str| QUALITIES.contains(&word);
        if small.ends_with(['s', 'b'])
            && small.rsplit('_').nth(1).is_some_and(is_quality)
            && small.rsplit('_').next().is_some_and(|last| last.len() == 1)
        {
            return None;
        }
        let says = |end: &str| if end.len() == 2 { name.ends_with(end) } else { small.ends_with(end) };
        ENDS.iter().find(|(end, _)| says(end)).map(|(_, unit)| *unit)
    }

    /// The units that can be written, for a message.
    pub fn known() -> String {
        let symbols = SYMBOLS.iter().filter(|(_, unit)| *unit != Self::One);
        symbols.map(|(symbol, _)| format!("`{symbol}`")).collect::<Vec<_>>().join(", ")
    }

    /// Returns the unit in which a metric of this name is kept: the unit that the name implies, if it measures the same
    /// quantity.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        match Self::implied(name) {
            Some(implied) if self == Self::One || self.is_like(implied) => implied,
            _ => self,
        }
    }

    /// The base unit, and the size of this unit in it as a fraction.
    const fn parts(self) -> (Self, u64, u64) {
        match self {
            Self::Percent => (Self::Fraction, 1, 100),
            Self::Nanoseconds => (Self::Seconds, 1, 1_000_000_000),
            Self::Microseconds => (Self::Seconds, 1, 1_000_000),
            Self::Milliseconds => (Self::Seconds, 1, 1000),
            Self::Minutes => (Self::Seconds, 60, 1),
            Self::Hours => (Self::Seconds, 3600, 1),
            Self::Kibibytes => (Self::Bytes, 1 << 10, 1),
            Self::Mebibytes => (Self::Bytes, 1 << 20, 1),
            Self::Gibibytes => (Self::Bytes, 1 << 30, 1),
            Self::Kilobytes => (Self::Bytes, 1000, 1),
            Self::Megabytes => (Self::Bytes, 1_000_000, 1),
            Self::Gigabytes => (Self::Bytes, 1_000_000_000, 1),
            base => (base, 1, 1),
        }
    }

    /// The base unit of its kind.
    #[must_use]
    pub const fn base(self) -> Self {
        self.parts().0
    }

    /// True if both measure the same kind of quantity.
    pub fn is_like(self, other: Self) -> bool {
        self.base() == other.base()
    }

    /// A value of this unit in another one of its kind. A value that needs no conversion is returned unchanged.
    pub fn convert(self, value: f64, to: Self) -> f64 {
        if self == to || !self.is_like(to) {
            return value;
        }
        let ((_, times, over), (_, to_times, to_over)) = (self.parts(), to.parts());
        // Divisions of decimal fractions by powers of ten would show as 12.600000000000001.
        let (times, over) = ((times * to_over) as f64, (over * to_times) as f64);
        let exact = value * times / over;
        format!("{exact:.14e}").parse().unwrap_or(exact)
    }

    /// True for rates per second, of which more is better.
    pub const fn is_rate(self) -> bool {
        matches!(
            self,
            Self::TokensPerSecond
                | Self::SequencesPerSecond
                | Self::StepsPerSecond
                | Self::FlopsPerSecond
                | Self::BytesPerSecond
                | Self::PerSecond
        )
    }

    /// True for times and rates, which depend on other work of the machine.
    pub const fn is_timing(self) -> bool {
        matches!(self.base(), Self::Seconds) || self.is_rate()
    }

    /// True if numbers of a metric of this name are shown in the multiple of the unit that fits their size. This
    /// applies to metrics that a task declares; metrics of programs are shown in the unit in which they are reported.
    pub fn is_fitted(self, name: &str) -> bool {
        let is_curve = |task: &TaskInfo| Self::implied(name).is_none() && task.curves.contains(&name);
        self == self.base() && Task::all().iter().any(|task| task.metric(name).is_some() || is_curve(task))
    }

    /// The symbol as printed behind a number; empty for pure numbers.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::One | Self::Count => "",
            Self::Fraction => "fraction",
            Self::Percent => "%",
            Self::Seconds => "s",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::Minutes => "min",
            Self::Hours => "h",
            Self::Bytes => "B",
            Self::Kibibytes => "KiB",
            Self::Mebibytes => "MiB",
            Self::Gibibytes => "GiB",
            Self::Kilobytes => "kB",
            Self::Megabytes => "MB",
            Self::Gigabytes => "GB",
            Self::TokensPerSecond => "tokens/s",
            Self::SequencesPerSecond => "sequences/s",
            Self::StepsPerSecond => "steps/s",
            Self::FlopsPerSecond => "FLOP/s",
            Self::BytesPerSecond => "B/s",
            Self::PerSecond => "/s",
        }
    }

    /// The symbol in plain letters, as recipes and records have it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Count => "count",
            Self::PerSecond => "1/s",
            Self::Microseconds => "us",
            _ => self.symbol(),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_symbol_is_understood_and_records_have_the_first_one() {
        for (symbol, unit) in SYMBOLS.iter().chain(ALIASES) {
            assert_eq!(Unit::written(symbol), Some(*unit), "{symbol}");
            assert_eq!(Unit::written(unit.key()), Some(*unit), "{symbol}");
            assert_eq!(serde_json::to_value(unit).unwrap(), unit.key());
        }
        assert_eq!(Unit::written("furlong"), None);
        assert!(Unit::known().starts_with("`nats`, `fraction`, `%`, `s`, `ms`, `us`, `ns`"), "{}", Unit::known());
    }

    #[test]
    fn names_imply_units() {
        for (name, unit) in [
            ("step_ms", Some(Unit::Milliseconds)),
            ("x_us", Some(Unit::Microseconds)),
            ("eval/tokens_per_s", Some(Unit::TokensPerSecond)),
            ("images_per_s", Some(Unit::PerSecond)),
            ("peak_mib", Some(Unit::Mebibytes)),
            ("peak_MiB", Some(Unit::Mebibytes)),
            ("peak_gib", Some(Unit::Gibibytes)),
            ("wall_s", Some(Unit::Seconds)),
            ("model_S", None),
            ("loss", None),
            ("ms", None),
        ] {
            assert_eq!(Unit::implied(name), unit, "{name}");
        }
    }

    #[test]
    fn a_value_is_converted_to_the_unit_of_its_name_and_back_without_a_trace() {
        for value in [12.6, 7.5, 0.1, 1e-9, 123_456.789, -3.0, 0.0] {
            for unit in [Unit::Milliseconds, Unit::Microseconds, Unit::Nanoseconds, Unit::Hours] {
                let seconds = unit.convert(value, Unit::Seconds);
                assert_eq!(Unit::Seconds.convert(seconds, unit), value, "{value} {unit}");
            }
        }
        assert_eq!(Unit::Mebibytes.convert(1.5, Unit::Kibibytes), 1536.0);
        assert_eq!(Unit::Seconds.convert(1.5, Unit::Bytes), 1.5, "of another kind");
        assert_eq!(Unit::One.named("step_ms"), Unit::Milliseconds);
        assert_eq!(Unit::Seconds.named("step_ms"), Unit::Milliseconds);
        assert_eq!(Unit::Bytes.named("step_ms"), Unit::Bytes);
    }

    #[test]
    fn declared_metrics_have_the_units_that_their_names_say() {
        for metric in Task::all().iter().flat_map(TaskInfo::metrics) {
            assert_eq!(metric.unit.named(metric.name), metric.unit, "{}", metric.name);
        }
    }
}

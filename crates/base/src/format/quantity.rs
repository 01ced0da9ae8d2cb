//! Numbers with units, as people write them.

use sweep_job::{Metric, Speeds, Unit};

/// A multiple of a unit in which a number is shown: the number divided by `factor`, followed by `suffix`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Size of the shown multiple in the base unit.
    pub factor: f64,
    /// Its symbol; empty for pure numbers.
    pub suffix: &'static str,
}

impl Scale {
    /// The largest multiple of `unit` that does not exceed `value`, or the smallest one.
    pub fn of(value: f64, unit: Unit) -> Self {
        let size = value.abs();
        let steps: &[(f64, &str)] = match unit {
            Unit::Bytes => &[(1.0, "B"), (1024.0, "KiB"), (1_048_576.0, "MiB"), (1_073_741_824.0, "GiB")],
            Unit::Seconds => &[(1e-6, "µs"), (1e-3, "ms"), (1.0, "s")],
            Unit::TokensPerSecond => &[(1.0, "tok/s"), (1e3, "ktok/s"), (1e6, "Mtok/s")],
            Unit::SequencesPerSecond => &[(1.0, "seq/s"), (1e3, "kseq/s")],
            Unit::StepsPerSecond => &[(1.0, "step/s"), (1e3, "kstep/s")],
            Unit::FlopsPerSecond => &[(1.0, "FLOP/s"), (1e6, "MFLOP/s"), (1e9, "GFLOP/s"), (1e12, "TFLOP/s")],
            Unit::BytesPerSecond => &[(1.0, "B/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")],
            Unit::PerSecond => &[(1.0, "/s")],
            Unit::Fraction => &[(0.01, "%")],
            Unit::Count if size >= 1e6 => &[(1e6, "M")],
            Unit::Count | Unit::One | Unit::Nats => &[(1.0, "")],
            multiple => return Self::same(multiple),
        };
        let fitting = steps.iter().rev().find(|(factor, _)| size >= *factor);
        let (factor, suffix) = *fitting.unwrap_or(&steps[0]);
        Self { factor, suffix }
    }

    /// The scale of a metric's numbers: if a task declares the metric, the multiple that fits `value`, else the unit in
    /// which a program reports the metric.
    pub fn of_metric(name: &str, value: f64, unit: Unit) -> Self {
        if unit.is_fitted(name) { Self::of(value, unit) } else { Self::same(unit) }
    }

    /// Returns the scale of `unit` itself, with factor 1.
    fn same(unit: Unit) -> Self {
        let suffix = if unit == Unit::Nats { "" } else { unit.symbol() };
        Self { factor: 1.0, suffix }
    }

    /// A number in this scale, without the suffix, to at least three significant digits.
    pub fn show(self, value: f64) -> String {
        let scaled = value / self.factor;
        number(scaled, decimals(scaled))
    }
}

/// A number with its unit: `18.4 s`, `512 MiB`, `50.0 %`.
pub fn quantity(value: f64, unit: Unit) -> String {
    in_scale(value, unit, Scale::of(value, unit))
}

/// A metric's number with its unit: `12.6 ms`.
pub fn measured(name: &str, metric: Metric) -> String {
    in_scale(metric.value, metric.unit, Scale::of_metric(name, metric.value, metric.unit))
}

fn in_scale(value: f64, unit: Unit, scale: Scale) -> String {
    if unit == Unit::Count && scale.factor == 1.0 {
        return number(value, 0);
    }
    let separator = if scale.suffix.is_empty() { "" } else { " " };
    format!("{}{separator}{}", scale.show(value), scale.suffix)
}

/// The recent and the mean number of sequences per second: `185 seq/s (mean 152 seq/s)`.
pub fn speeds(Speeds { recent, mean }: Speeds) -> String {
    let unit = Unit::SequencesPerSecond;
    format!("{} (mean {})", quantity(recent, unit), quantity(mean, unit))
}

/// Formats `value` with `decimals` decimals; below 1e-4 and from 1e9 on, in scientific notation with at most three
/// digits.
pub fn number(value: f64, decimals: usize) -> String {
    if value != 0.0 && !(1e-4..1e9).contains(&value.abs()) {
        // Only the digits that `decimals` justifies.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=2")]
        let digits = (decimals as f64 + value.abs().log10().floor()).clamp(0.0, 2.0) as usize;
        return format!("{value:.digits$e}");
    }
    let text = format!("{value:.decimals$}");
    // A number that is rounded to zero has no sign.
    if text.trim_start_matches('-').chars().all(|char| matches!(char, '0' | '.')) {
        return text.trim_start_matches('-').to_owned();
    }
    text
}

/// Number of decimals that show at least three significant digits of `value`.
pub fn decimals(value: f64) -> usize {
    match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.995 || size == 0.0 => 2,
        size if size >= 0.0995 => 3,
        size if size >= 0.00995 => 4,
        size if size >= 1e-4 => 6,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and less than 400")]
        size => (2.0 - size.log10().floor()) as usize,
    }
}

/// Maximum number of leading digits that [`shared_digits`] counts.
const MAX_SHARED: usize = 14;

/// Number of leading digits that all values have in common.
pub fn shared_digits(values: impl IntoIterator<Item = f64>) -> usize {
    let (low, high) = values
        .into_iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let spread = high - low;
    if spread <= 0.0 || !spread.is_finite() {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 0, and saturating")]
    let shared = (low.abs().max(high.abs()) / spread).log10().max(0.0) as usize;
    shared.min(MAX_SHARED)
}

/// A value of a list whose values have `shared` leading digits in common: three significant digits, and more if the values share digits;
/// whole numbers are then exact.
pub fn listed(value: f64, shared: usize) -> String {
    /// Whole numbers up to this size are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if shared == 0 {
        return number(value, decimals(value));
    }
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return format!("{value:.0}");
    }
    let digits = (2 + shared).min(16);
    if !(1e-4..1e9).contains(&value.abs()) {
        return format!("{value:.digits$e}");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 0, and small")]
    let places = (digits as f64 - value.abs().log10().floor()).max(0.0) as usize;
    format!("{value:.places$}")
}

/// A time span: `33 ms`, `0.4 s`, `18.4 s`, `4 min 10 s`, `2 h 5 min`.
pub fn duration(seconds: f64) -> String {
    if seconds < 0.0995 {
        return format!("{:.0} ms", seconds.max(0.0) * 1000.0);
    }
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above 59 s, and saturating")]
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Time of several cores or GPUs, in the unit that fits: `2.0 core-seconds`, `4.1 core-minutes`, `36 GPU-hours`.
///
/// The time is in seconds times devices; `device` is the name of one of them.
pub fn compute(seconds: f64, device: &str) -> String {
    let (scaled, unit) = match seconds {
        short if short < 60.0 => (short, "seconds"),
        middle if middle < 3600.0 => (middle / 60.0, "minutes"),
        long => (long / 3600.0, "hours"),
    };
    let decimals = match scaled {
        large if large >= 9.95 => 0,
        small if small < 0.95 => 2,
        _ => 1,
    };
    format!("{} {device}-{unit}", number(scaled, decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit_the_size() {
        let texts = [
            quantity(18.42, Unit::Seconds),
            quantity(0.046_2, Unit::Seconds),
            quantity(0.0, Unit::Seconds),
            quantity(536_870_912.0, Unit::Bytes),
            quantity(0.5003, Unit::Fraction),
            quantity(11_234.0, Unit::TokensPerSecond),
            speeds(Speeds { recent: 185.3, mean: 1152.1 }),
            quantity(2.306, Unit::Nats),
            quantity(124_475_904.0, Unit::Count),
            quantity(11.0, Unit::Count),
            quantity(-0.000_01, Unit::One),
            quantity(1e300, Unit::One),
            quantity(0.0, Unit::One),
        ];
        let expected = [
            "18.4 s",
            "46.2 ms",
            "0.00 µs",
            "512 MiB",
            "50.0 %",
            "11.2 ktok/s",
            "185 seq/s (mean 1.15 kseq/s)",
            "2.31",
            "124 M",
            "11",
            "-1.00e-5",
            "1.00e300",
            "0.00",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn metrics_of_programs_are_shown_in_their_unit() {
        let text = |name: &str, value, unit| measured(name, Metric { value, unit });
        assert_eq!(text("step_ms", 12.6, Unit::Milliseconds), "12.6 ms");
        assert_eq!(text("step_ms", 0.002, Unit::Milliseconds), "0.002000 ms");
        assert_eq!(text("wall_s", 0.0126, Unit::Seconds), "0.0126 s");
        assert_eq!(text("peak_mib", 2048.0, Unit::Mebibytes), "2048 MiB");
        assert_eq!(text("acc", 0.5, Unit::Fraction), "0.500 fraction");
        assert_eq!(text("tokens_per_s", 11_234.0, Unit::TokensPerSecond), "11234 tokens/s");
        // A task declares the metric.
        assert_eq!(text("memory.peak", 2048.0, Unit::Bytes), "2.00 KiB");
    }

    #[test]
    fn values_of_a_list_have_the_digits_that_tell_them_apart() {
        let list = |values: &[f64]| {
            let shared = shared_digits(values.iter().copied());
            values.iter().map(|value| listed(*value, shared)).collect::<Vec<_>>()
        };
        assert_eq!(list(&[0.5, 1.25, 12.34]), ["0.500", "1.25", "12.3"]);
        assert_eq!(list(&[0.912_345, 0.912_358]), ["0.9123450", "0.9123580"]);
        assert_eq!(list(&[1_000_011.0, 1_000_023.0]), ["1000011", "1000023"]);
        assert_eq!(list(&[1e300, 2e300]), ["1.00e300", "2.00e300"]);
        assert_eq!(list(&[1.234_5e10 + 0.5, 1.234_5e10 + 1.5]), ["1.234500000050e10", "1.234500000150e10"]);
        assert_eq!(list(&[3.0]), ["3.00"]);
        assert_eq!(shared_digits([]), 0);
    }

    #[test]
    fn spans_of_time() {
        let texts = [0.0, 0.0334, 0.0995, 59.96, 250.0, 7500.0].map(duration);
        assert_eq!(texts, ["0 ms", "33 ms", "0.1 s", "1 min 0 s", "4 min 10 s", "2 h 5 min"]);
    }

    #[test]
    fn compute_is_shown_in_the_unit_that_fits() {
        let texts =
            [0.0, 0.56, 2.016, 59.0, 250.0, 3599.0, 7200.0, 3_600_000.0].map(|seconds| compute(seconds, "core"));
        let expected = [
            "0.00 core-seconds",
            "0.56 core-seconds",
            "2.0 core-seconds",
            "59 core-seconds",
            "4.2 core-minutes",
            "60 core-minutes",
            "2.0 core-hours",
            "1000 core-hours",
        ];
        assert_eq!(texts, expected);
        assert_eq!(compute(1800.0, "GPU"), "30 GPU-minutes");
    }
}

//! Units of reported values: written out, or by the end of the name.

use sweep_job::Unit;

/// Written units, and what a value in them is multiplied by.
const SYMBOLS: &[(&str, Unit, f64)] = &[
    ("", Unit::One, 1.0),
    ("1", Unit::One, 1.0),
    ("nats", Unit::Nats, 1.0),
    ("fraction", Unit::Fraction, 1.0),
    ("%", Unit::Fraction, 0.01),
    ("count", Unit::Count, 1.0),
    ("s", Unit::Seconds, 1.0),
    ("ms", Unit::Seconds, 1e-3),
    ("us", Unit::Seconds, 1e-6),
    ("µs", Unit::Seconds, 1e-6),
    ("B", Unit::Bytes, 1.0),
    ("KiB", Unit::Bytes, 1024.0),
    ("MiB", Unit::Bytes, 1_048_576.0),
    ("GiB", Unit::Bytes, 1_073_741_824.0),
    ("kB", Unit::Bytes, 1e3),
    ("MB", Unit::Bytes, 1e6),
    ("GB", Unit::Bytes, 1e9),
    ("tokens/s", Unit::TokensPerSecond, 1.0),
    ("sequences/s", Unit::SequencesPerSecond, 1.0),
    ("steps/s", Unit::StepsPerSecond, 1.0),
    ("FLOP/s", Unit::FlopsPerSecond, 1.0),
    ("B/s", Unit::BytesPerSecond, 1.0),
    ("1/s", Unit::PerSecond, 1.0),
    ("/s", Unit::PerSecond, 1.0),
];

/// Ends of names, the longer ones first.
const ENDS: &[(&str, Unit, f64)] = &[
    ("tokens_per_s", Unit::TokensPerSecond, 1.0),
    ("sequences_per_s", Unit::SequencesPerSecond, 1.0),
    ("steps_per_s", Unit::StepsPerSecond, 1.0),
    ("bytes_per_s", Unit::BytesPerSecond, 1.0),
    ("_per_s", Unit::PerSecond, 1.0),
    ("_seconds", Unit::Seconds, 1.0),
    ("_s", Unit::Seconds, 1.0),
    ("_ms", Unit::Seconds, 1e-3),
    ("_us", Unit::Seconds, 1e-6),
    ("_bytes", Unit::Bytes, 1.0),
    ("_b", Unit::Bytes, 1.0),
    ("_mib", Unit::Bytes, 1_048_576.0),
    ("_gib", Unit::Bytes, 1_073_741_824.0),
    ("_mb", Unit::Bytes, 1e6),
    ("_gb", Unit::Bytes, 1e9),
];

/// The unit that a report writes, and the factor to it.
pub(super) fn written(symbol: &str) -> Option<(Unit, f64)> {
    SYMBOLS.iter().find(|(known, ..)| *known == symbol).map(|(_, unit, factor)| (*unit, *factor))
}

/// A value with a written unit in base units.
pub(in super::super) fn in_base_units(value: f64, unit: Option<&str>) -> Option<(f64, Unit)> {
    written(unit?).map(|(unit, factor)| (value * factor, unit))
}

/// The written unit that is a text after a number.
pub(in super::super) fn symbol(text: &str) -> Option<&'static str> {
    SYMBOLS[2..].iter().find(|(known, ..)| *known == text).map(|(symbol, ..)| *symbol)
}

/// The unit that the end of a name implies, and the factor to it; else a pure number.
pub(super) fn implied(name: &str) -> (Unit, f64) {
    let end = ENDS.iter().find(|(end, ..)| name.ends_with(end));
    end.map_or((Unit::One, 1.0), |(_, unit, factor)| (*unit, *factor))
}

/// The written units, for a message.
pub(super) fn known() -> String {
    SYMBOLS[2..].iter().map(|(symbol, ..)| format!("`{symbol}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_units_are_understood() {
        let units = [
            Unit::Nats,
            Unit::One,
            Unit::Fraction,
            Unit::Seconds,
            Unit::Bytes,
            Unit::TokensPerSecond,
            Unit::SequencesPerSecond,
            Unit::StepsPerSecond,
            Unit::FlopsPerSecond,
            Unit::BytesPerSecond,
            Unit::PerSecond,
        ];
        for unit in units {
            assert_eq!(written(unit.symbol()), Some((unit, 1.0)), "{unit}");
        }
        assert_eq!(written("furlong"), None);
    }

    #[test]
    fn names_imply_units() {
        assert_eq!(implied("step_ms"), (Unit::Seconds, 1e-3));
        assert_eq!(implied("eval/tokens_per_s"), (Unit::TokensPerSecond, 1.0));
        assert_eq!(implied("images_per_s"), (Unit::PerSecond, 1.0));
        assert_eq!(implied("peak_gib"), (Unit::Bytes, 1_073_741_824.0));
        assert_eq!(implied("loss"), (Unit::One, 1.0));
    }
}

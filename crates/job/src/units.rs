//! Sizes and durations with units: `4GiB`, `512MB`, `1h30m`, `90s`; and numbers about metrics: `5 ms`.
//!
//! The unit of sizes and durations is required, because a number such as `timeout: 30` is ambiguous.

use std::fmt;

use crate::Unit;

/// A text that is not a valid size or duration. Displays as a phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitError {
    /// The text does not begin with a number.
    NoNumber,
    /// A number without a unit.
    NoUnit,
    /// An unknown unit.
    Unknown(String),
    /// The value exceeds the limit.
    TooLarge,
}

/// The units of size in bytes: decimal, and binary with an `i`.
const BYTES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];

/// The units of time in seconds.
const SECONDS: &[(&str, f64)] = &[("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0)];

/// The largest size: whole numbers up to here are exact as floats.
const MAX_BYTES: f64 = 9_007_199_254_740_992.0;
/// The longest duration, in seconds: a hundred years.
const MAX_SECONDS: f64 = 3_155_760_000.0;

/// Parses a size to bytes: `4GiB` and `4 GiB` (binary), `512MB` (decimal), `100B`. Fractions of a byte are rounded.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let (number, unit, rest) = part(text)?;
    if !rest.is_empty() {
        return Err(UnitError::Unknown(format!("{unit}{rest}")));
    }
    let bytes = (number * factor(unit, BYTES)?).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 2^53")]
    if bytes <= MAX_BYTES { Ok(bytes as u64) } else { Err(UnitError::TooLarge) }
}

/// Parses a duration to seconds: `90s`, `30m`, `1h30m`, `1.5 h`, `250ms`, `2d`.
pub fn parse_seconds(text: &str) -> Result<f64, UnitError> {
    let mut seconds = 0.0;
    let mut rest = text.trim();
    loop {
        let (number, unit, further) = part(rest)?;
        seconds += number * factor(unit, SECONDS)?;
        if further.is_empty() {
            break;
        }
        rest = further;
    }
    if seconds <= MAX_SECONDS { Ok(seconds) } else { Err(UnitError::TooLarge) }
}

/// Parses a number that may have a unit: `5 ms`, `5ms`, `-1e-3`, `95 %`.
pub fn parse_quantity(text: &str) -> Result<(f64, Option<Unit>), UnitError> {
    let text = text.trim();
    let is_number = |char: char| char.is_ascii_digit() || matches!(char, '+' | '-' | '.' | 'e' | 'E');
    let (number, symbol) = text.split_at(text.find(|char| !is_number(char)).unwrap_or(text.len()));
    let value = number.parse().map_err(|_| UnitError::NoNumber)?;
    match symbol.trim() {
        "" => Ok((value, None)),
        symbol => {
            Unit::written(symbol).map(|unit| (value, Some(unit))).ok_or_else(|| UnitError::Unknown(symbol.to_owned()))
        }
    }
}

/// A number, its unit, and the rest of the text.
fn part(text: &str) -> Result<(f64, &str, &str), UnitError> {
    let text = text.trim();
    let digits = text.find(|char: char| !(char.is_ascii_digit() || char == '.')).unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| UnitError::NoNumber)?;
    let after = text[digits..].trim_start();
    let letters = after.find(|char: char| !char.is_alphabetic()).unwrap_or(after.len());
    if letters == 0 {
        return Err(if after.is_empty() { UnitError::NoUnit } else { UnitError::Unknown(after.to_owned()) });
    }
    Ok((number, &after[..letters], after[letters..].trim()))
}

fn factor(unit: &str, units: &[(&str, f64)]) -> Result<f64, UnitError> {
    let found = units.iter().find(|(name, _)| *name == unit);
    found.map(|(_, factor)| *factor).ok_or_else(|| UnitError::Unknown(unit.to_owned()))
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber => f.write_str("it does not begin with a number"),
            Self::NoUnit => f.write_str("the number has no unit"),
            Self::Unknown(unit) => write!(f, "unknown unit `{}`", unit.escape_debug()),
            Self::TooLarge => f.write_str("it is too large"),
        }
    }
}

impl std::error::Error for UnitError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        assert_eq!(parse_bytes(" 4 GiB "), Ok(4 << 30));
        assert_eq!(parse_bytes("512MB"), Ok(512_000_000));
        assert_eq!(parse_bytes("1.5KiB"), Ok(1536));
        assert_eq!(parse_bytes("0B"), Ok(0));
        assert_eq!(parse_bytes("4"), Err(UnitError::NoUnit));
        assert_eq!(parse_bytes("4G"), Err(UnitError::Unknown("G".into())));
        assert_eq!(parse_bytes("4GiB2"), Err(UnitError::Unknown("GiB2".into())));
        assert_eq!(parse_bytes("-4GiB"), Err(UnitError::NoNumber));
        assert_eq!(parse_bytes("99999999TiB"), Err(UnitError::TooLarge));
        assert_eq!(parse_bytes(""), Err(UnitError::NoNumber));
    }

    #[test]
    fn numbers_about_metrics() {
        assert_eq!(parse_quantity("5 ms"), Ok((5.0, Some(Unit::Milliseconds))));
        assert_eq!(parse_quantity(" -1.5e-3MiB "), Ok((-1.5e-3, Some(Unit::Mebibytes))));
        assert_eq!(parse_quantity("95 %"), Ok((95.0, Some(Unit::Percent))));
        assert_eq!(parse_quantity("3 tokens/s"), Ok((3.0, Some(Unit::TokensPerSecond))));
        assert_eq!(parse_quantity("7"), Ok((7.0, None)));
        assert_eq!(parse_quantity("5 furlongs"), Err(UnitError::Unknown("furlongs".into())));
        assert_eq!(parse_quantity("ms"), Err(UnitError::NoNumber));
        assert_eq!(parse_quantity(""), Err(UnitError::NoNumber));
    }

    #[test]
    fn spans_of_time() {
        assert_eq!(parse_seconds("90s"), Ok(90.0));
        assert_eq!(parse_seconds("30m"), Ok(1800.0));
        assert_eq!(parse_seconds("30min"), Ok(1800.0));
        assert_eq!(parse_seconds("1h30m"), Ok(5400.0));
        assert_eq!(parse_seconds("1 h 30 m"), Ok(5400.0));
        assert_eq!(parse_seconds("1.5h"), Ok(5400.0));
        assert_eq!(parse_seconds("250ms"), Ok(0.25));
        assert_eq!(parse_seconds("2d"), Ok(172_800.0));
        assert_eq!(parse_seconds("1h30"), Err(UnitError::NoUnit));
        assert_eq!(parse_seconds("30 fortnights"), Err(UnitError::Unknown("fortnights".into())));
        assert_eq!(parse_seconds("1.2.3s"), Err(UnitError::NoNumber));
        assert_eq!(parse_seconds("5,s"), Err(UnitError::Unknown(",s".into())));
        assert_eq!(parse_seconds("9999999d"), Err(UnitError::TooLarge));
        assert_eq!(parse_seconds("soon"), Err(UnitError::NoNumber));
    }
}

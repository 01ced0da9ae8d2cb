//! Numbers as programs print them, in the notation of Python, NumPy, C, Fortran, Julia, JavaScript, Go and Rust.

/// A number in a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    /// The value, not finite for `nan` and `inf`.
    pub value: f64,
    /// `%` if it is written in percent.
    pub unit: Option<&'static str>,
}

impl Number {
    /// The number that is all of a text, apart from space around it.
    pub fn parse(text: &str) -> Option<Self> {
        let (value, rest) = leading_number(text.trim())?;
        match rest.trim_start() {
            "" => Some(Self { value, unit: None }),
            "%" => Some(Self::percent(value)),
            _ => None,
        }
    }

    /// `value` with the unit `%`.
    pub(super) fn percent(value: f64) -> Self {
        Self { value, unit: Some("%") }
    }

    /// The number as a step: an integer from 0, also if it is written as `100.0` or `1e3`.
    pub fn step(self) -> Option<u64> {
        /// From here on, not every integer is a float.
        const END: f64 = 9_007_199_254_740_992.0;
        let is_step = self.unit.is_none() && self.value.fract() == 0.0 && (0.0..END).contains(&self.value);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and from 0 to 2^53")]
        is_step.then_some(self.value as u64)
    }
}

/// The longest number with which a text begins, and the rest.
pub fn leading_number(text: &str) -> Option<(f64, &str)> {
    let unsigned = text.strip_prefix(['+', '-', '\u{2212}']).unwrap_or(text);
    let sign = if unsigned.len() < text.len() && !text.starts_with('+') { -1.0 } else { 1.0 };
    word(unsigned).or_else(|| decimal(unsigned)).map(|(value, rest)| (value * sign, rest))
}

/// `nan`, `inf` and `Infinity` in any case; C prints more in parentheses: `nan(ind)`. Older libraries of C print `1.#QNAN` and `1.#INF00`.
fn word(text: &str) -> Option<(f64, &str)> {
    const WORDS: [(&str, f64); 7] = [
        ("infinity", f64::INFINITY),
        ("inf", f64::INFINITY),
        ("nan", f64::NAN),
        ("1.#inf", f64::INFINITY),
        ("1.#ind", f64::NAN),
        ("1.#qnan", f64::NAN),
        ("1.#snan", f64::NAN),
    ];
    let begins = |word: &str| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let (word, value) = WORDS.iter().find(|(word, _)| begins(word))?;
    let rest = &text[word.len()..];
    let rest = if word.contains('#') { rest.trim_start_matches('0') } else { rest };
    let payload = rest.strip_prefix('(').filter(|_| value.is_nan()).and_then(|inner| inner.split_once(')'));
    let is_payload = |inner: &str| inner.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    Some((*value, payload.filter(|(inner, _)| is_payload(inner)).map_or(rest, |(_, rest)| rest)))
}

/// Length of the whole part of a number with commas between its thousands: `1,234.5` and `1,234,567`. `1,234` may be a decimal
/// fraction in some languages.
fn thousands(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = Some(digits(0)).filter(|count| (1..=3).contains(count))?;
    let mut groups = 0;
    while bytes.get(end) == Some(&b',') && digits(end + 1) == 3 {
        end += 4;
        groups += 1;
    }
    let has_fraction = bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
    (bytes[0] != b'0' && (groups > 1 || groups == 1 && has_fraction)).then_some(end)
}

/// Digits with `_` or commas between them, a point and an exponent: `1_000`, `1,234.5`, `.5`, `5.`, `3.33e-06`, Fortran's `1.0D+00`,
/// Julia's `1.0f-5`.
fn decimal(text: &str) -> Option<(f64, &str)> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let run = |mut at: usize| {
        while digit(at) || (bytes.get(at) == Some(&b'_') && at > 0 && digit(at - 1) && digit(at + 1)) {
            at += 1;
        }
        at
    };
    let whole = thousands(bytes).unwrap_or_else(|| run(0));
    let mut end = whole;
    if bytes.get(whole) == Some(&b'.') && (whole > 0 || digit(1)) {
        end = run(whole + 1);
    }
    if end == 0 {
        return None;
    }
    let mut written: String = text[..end].chars().filter(|char| !matches!(char, '_' | ',')).collect();
    if let Some(mark) = bytes.get(end).map(u8::to_ascii_lowercase).filter(|mark| matches!(mark, b'e' | b'd' | b'f')) {
        let signed = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        let digits = end + 1 + usize::from(signed);
        // No language prints numbers as `3f2` or `5d3`.
        if digit(digits) && (signed || mark == b'e') {
            let mut last = digits;
            while digit(last) {
                last += 1;
            }
            written.push('e');
            written.push_str(&text[end + 1..last]);
            end = last;
        }
    }
    Some((written.parse().ok()?, &text[end..]))
}

/// True if a number can end before `rest`: the rest begins with neither a letter nor a digit, and does not continue a date, a time of day,
/// a version or thousands.
pub(super) fn ends_before(rest: &str) -> bool {
    let mut chars = rest.chars();
    let Some(next) = chars.next() else { return true };
    let joins = ".,:-'\u{2019}\u{a0}\u{202f}".contains(next) && chars.next().is_some_and(|char| char.is_ascii_digit());
    !(joins || next.is_alphanumeric() || next == '_' || next == '#')
}

/// True if a number can begin after `before`: not within another number, and not behind its own sign.
pub(super) fn begins_after(before: &str) -> bool {
    let mut chars = before.chars().rev();
    let Some(last) = chars.next() else { return true };
    let (previous, third) = (chars.next(), chars.next());
    let is_digit = |char: Option<char>| char.is_some_and(|char| char.is_ascii_digit());
    match last {
        '.' => previous.is_some() && !is_digit(previous),
        ',' | 'e' | 'E' => !is_digit(previous),
        '+' | '-' | '\u{2212}' => match previous {
            None => false,
            Some('e' | 'E') => !is_digit(third),
            Some(char) => !(char.is_whitespace() || "=:([{,;|\"'".contains(char)),
        },
        last => !last.is_ascii_digit(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_many_languages_are_read() {
        for (text, value) in [
            ("3.33e-06", 3.33e-6),
            ("-0.5", -0.5),
            ("1e-3", 1e-3),
            ("+1.5", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1_000", 1000.0),
            ("1.5e+22", 1.5e22),
            ("\u{2212}0.5", -0.5),
            ("1.0D-03", 1e-3),
            ("1.0f-5", 1e-5),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("+Inf", f64::INFINITY),
            ("-1.#INF00", f64::NEG_INFINITY),
            (" 7 ", 7.0),
            ("1,234.5", 1234.5),
            ("-12,345,678", -12_345_678.0),
        ] {
            assert_eq!(Number::parse(text), Some(Number { value, unit: None }), "{text}");
        }
        for text in ["nan", "NaN", "-nan", "nan(0x8000000000000)", "-nan(ind)", "1.#QNAN", "-1.#IND00"] {
            assert!(Number::parse(text).is_some_and(|number| number.value.is_nan()), "{text}");
        }
        assert_eq!(Number::parse("95%"), Some(Number { value: 95.0, unit: Some("%") }));
        assert_eq!(Number::parse("95.5 %").map(|number| number.value), Some(95.5));
        for text in [
            "",
            "-",
            ".",
            "e5",
            "0,5",
            "1,234",
            "0,123.4",
            "1,2345.6",
            "1,234,56",
            "1_",
            "_1",
            "1__0",
            "5x",
            "1.2.3",
            "2024-01-01",
            "infi",
            "0x10",
            "NA",
            "1.#X",
        ] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }

    #[test]
    fn steps_are_integers_from_0() {
        let step = |text: &str| Number::parse(text).and_then(Number::step);
        assert_eq!((step("100"), step("7.0"), step("1e3")), (Some(100), Some(7), Some(1000)));
        for text in ["7.5", "-1", "nan", "inf", "5%", "1e300"] {
            assert_eq!(step(text), None, "{text}");
        }
    }

    #[test]
    fn parts_of_numbers_are_told_from_whole_ones() {
        for rest in ["", " next", ", next", "/10", ".", "]", "±0.1", ","] {
            assert!(ends_before(rest), "{rest}");
        }
        for rest in ["e", "5", ",5", ".5", ":30", "-01", "k", "'000", "\u{202f}000"] {
            assert!(!ends_before(rest), "{rest}");
        }
        for before in ["", "loss ", "loss=", "step-", "(", "v", "a.", "x-"] {
            assert!(begins_after(before), "{before}");
        }
        for before in ["3", "0.", "1,", "loss -", "loss=-", "-", "1e-", "1e", "."] {
            assert!(!begins_after(before), "{before}");
        }
    }
}

//! Columns that the package `siunitx` aligns at the decimal point.

use super::{escape, with_minus};
use crate::analysis::{Mark, Table, Text};

/// The package, after others.
pub(super) const PACKAGE: &str = ",siunitx";
/// Settings of the numbers of a table: `±` before the uncertainty, bold and signs as they are given.
pub(super) const SETUP: &str =
    "\\sisetup{mode=text,separate-uncertainty=true,detect-weight=true,retain-explicit-plus=true}\n";
/// The sign of values that chance can explain.
const APPROX: &str = "≈ ";

/// A cell that begins with a number: `≈ −4.77`, `3.131 ± 0.078ᵃ`, `40.8 [38.3, 43.5]`.
struct Number<'a> {
    is_noise: bool,
    /// The sign, which may be none, and the digits.
    sign: &'static str,
    value: &'a str,
    /// The uncertainty, with as many decimals as the value.
    half: Option<&'a str>,
    /// The text after the number.
    rest: &'a str,
}

/// The kinds of the columns after the labels, and the rows with their labels.
pub(super) fn columns(table: &Table) -> (Vec<String>, Vec<Vec<String>>) {
    let cells: Vec<Vec<Text>> = table.rows.iter().map(|row| table.cells(row).collect()).collect();
    let kinds: Vec<Option<String>> =
        (0..table.columns.len()).map(|column| kind(cells.iter().map(|row| &row[column]))).collect();
    let rows = table.rows.iter().zip(&cells).map(|(row, cells)| {
        let labels = row.labels.iter().map(|label| escape(label));
        let cells = cells.iter().zip(&kinds).map(|(text, kind)| match kind {
            Some(_) => aligned(text),
            None => text.styled(with_minus, ("\\textbf{", "}"), "$\\approx$"),
        });
        labels.chain(cells).collect()
    });
    let rows = rows.collect();
    (kinds.into_iter().map(|kind| kind.unwrap_or_else(|| "r".to_owned())).collect(), rows)
}

/// The kind of a column of numbers: room for their signs, digits, uncertainties and for the texts around them. `None` if no cell has
/// a number.
fn kind<'a>(texts: impl Iterator<Item = &'a Text>) -> Option<String> {
    let numbers = texts.filter_map(|text| {
        let number = Number::new(&text.numbers)?;
        let after = after(&number, text);
        Some((number, after))
    });
    let numbers: Vec<(Number<'_>, String)> = numbers.collect();
    let most = |of: &dyn Fn(&Number<'_>) -> usize| numbers.iter().map(|(number, _)| of(number)).max();
    let decimals = most(&|number| decimals(number.value))?;
    let digits = most(&|number| number.value.len() - decimals_with_point(number.value))?;
    let uncertain = most(&|number| number.half.map_or(0, |half| digits_at(half, decimals)))?;
    let sign = if numbers.iter().any(|(number, _)| !number.sign.is_empty()) { "+" } else { "" };
    let uncertain = if uncertain > 0 { format!("({uncertain})") } else { String::new() };
    let mut kind = format!("S[table-format={sign}{digits}.{decimals}{uncertain}");
    if numbers.iter().any(|(number, _)| number.is_noise) {
        kind.extend([",table-space-text-pre={", &escape(APPROX), "}"]);
    }
    let longest =
        numbers.iter().map(|(_, after)| after).max_by_key(|after| after.len()).filter(|after| !after.is_empty());
    if let Some(after) = longest {
        kind.extend([",table-space-text-post={", after, "}"]);
    }
    kind.push(']');
    Some(kind)
}

/// A cell of a column of numbers.
fn aligned(text: &Text) -> String {
    let Some(number) = Number::new(&text.numbers) else {
        let text = text.styled(with_minus, ("\\textbf{", "}"), "$\\approx$");
        return if text.is_empty() { text } else { format!("{{{text}}}") };
    };
    let mut cell = String::new();
    if number.is_noise {
        cell.extend(["{", &escape(APPROX), "} "]);
    }
    if text.mark == Some(Mark::Best) {
        cell.push_str("\\bfseries ");
    }
    cell.extend([number.sign, number.value]);
    if let Some(half) = number.half {
        cell.extend([" \\pm ", half]);
    }
    let after = after(&number, text);
    if !after.is_empty() {
        cell.extend([" {", &after, "}"]);
    }
    cell
}

/// The text after the number of a cell, with its marks.
fn after(number: &Number<'_>, text: &Text) -> String {
    let rest = with_minus(number.rest);
    let rest = if text.mark == Some(Mark::Best) && !rest.is_empty() { format!("\\textbf{{{rest}}}") } else { rest };
    let mark = match text.mark {
        Some(Mark::Tied) => " $\\approx$",
        Some(Mark::Unclear) => " ?",
        Some(Mark::Best) | None => "",
    };
    format!("{rest}{}{mark}", escape(&text.letters))
}

impl<'a> Number<'a> {
    fn new(text: &'a str) -> Option<Self> {
        let without_noise = text.strip_prefix(APPROX);
        let signed = without_noise.unwrap_or(text);
        let (sign, text) = match signed.chars().next()? {
            '-' | '−' => ("-", &signed[signed.chars().next()?.len_utf8()..]),
            '+' => ("+", &signed[1..]),
            _ => ("", signed),
        };
        let (value, rest) = text.split_at(text.find(' ').unwrap_or(text.len()));
        let number = Self { is_noise: without_noise.is_some(), sign, value, half: None, rest };
        let is_number =
            is_plain(value) && (rest.is_empty() || [" ± ", " [", " ("].iter().any(|start| rest.starts_with(start)));
        let Some(uncertainty) = rest.strip_prefix(" ± ") else { return is_number.then_some(number) };
        let (half, rest) = uncertainty.split_at(uncertainty.find(' ').unwrap_or(uncertainty.len()));
        // An uncertainty with another number of decimals stays text: `2.00 ± 0`.
        let is_like_value = is_plain(half) && decimals(half) == decimals(value);
        is_number.then_some(if is_like_value { Self { half: Some(half), rest, ..number } } else { number })
    }
}

/// True for digits with at most one point between them.
fn is_plain(text: &str) -> bool {
    let is_digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, decimals)) => is_digits(whole) && is_digits(decimals),
        None => is_digits(text),
    }
}

fn decimals(value: &str) -> usize {
    value.split_once('.').map_or(0, |(_, decimals)| decimals.len())
}

fn decimals_with_point(value: &str) -> usize {
    value.find('.').map_or(0, |point| value.len() - point)
}

/// Number of digits of an uncertainty that is written with `decimals` decimals, without the zeros before the first other one.
fn digits_at(half: &str, max_decimals: usize) -> usize {
    let digits = half.replace('.', "");
    digits.trim_start_matches('0').len().max(1) + max_decimals.saturating_sub(decimals(half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(cells: &[(&str, Option<Mark>, &str)]) -> (Option<String>, Vec<String>) {
        let text = |(numbers, mark, letters): &(&str, _, &str)| Text {
            numbers: (*numbers).to_owned(),
            mark: *mark,
            letters: (*letters).to_owned(),
        };
        let texts: Vec<Text> = cells.iter().map(text).collect();
        (kind(texts.iter()), texts.iter().map(aligned).collect())
    }

    #[test]
    fn numbers_have_room_and_are_aligned() {
        let (kind, cells) = column(&[
            ("3.131 ± 0.078", Some(Mark::Best), ""),
            ("105.00 ± 0.24", None, "ᵃ"),
            ("–", None, "ᵇ"),
            ("", None, ""),
        ]);
        assert_eq!(kind.unwrap(), "S[table-format=3.3(3),table-space-text-post={$^{\\mathrm{a}}$}]");
        assert_eq!(
            cells,
            ["\\bfseries 3.131 \\pm 0.078", "105.00 \\pm 0.24 {$^{\\mathrm{a}}$}", "{--$^{\\mathrm{b}}$}", ""]
        );
    }

    #[test]
    fn signs_and_noise_stand_before_numbers_and_intervals_after_them() {
        let (kind, cells) = column(&[("≈ −0.60", None, ""), ("+2.06 [1.0, -3.1]", None, ""), ("2.00 ± 0", None, "")]);
        assert_eq!(
            kind.unwrap(),
            "S[table-format=+1.2,table-space-text-pre={$\\approx$ },table-space-text-post={ [1.0, $-$3.1]}]"
        );
        assert_eq!(cells, ["{$\\approx$ } -0.60", "+2.06 { [1.0, $-$3.1]}", "2.00 { $\\pm$ 0}"]);
    }

    #[test]
    fn a_column_without_a_plain_number_is_text() {
        assert_eq!(column(&[("1e-5 ± 2e-6", None, ""), ("12 / 85 / 3 %", None, ""), ("–", None, "")]).0, None);
        for text in ["1.2.3", ".5", "5.", "x", "≈ ", "-", "−", ""] {
            assert!(Number::new(text).is_none(), "{text}");
        }
    }
}

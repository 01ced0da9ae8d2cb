//! Filters of jobs, as in the pages of `sweep ui` (`render/page/rows.js`): `lr=0.01` `seed!=2` `loss<2.5` `lr=0.001..0.1`
//! `state=failed|lost` and texts, of which all must hold.

use super::rows::{Cell, Column, Kind, Row, numeric};
use crate::format::{decimals, number};

/// Maximum number of names that a remark lists.
const MAX_NAMES: usize = 12;

/// A filter.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    conditions: Vec<Condition>,
    /// Words that mean nothing for these columns, each with the reason.
    pub(super) remarks: Vec<String>,
}

/// A word of a filter.
#[derive(Debug, Clone)]
enum Condition {
    /// The name, the key or the details of the job contain this text.
    Contains(String),
    /// The value is one of these texts and ranges.
    OneOf { column: Column, wanted: Vec<(String, bool)>, negated: bool },
    /// The value is on one side of a limit.
    Compare { column: Column, operator: &'static str, limit: f64 },
}

/// Operators, longer ones before their prefixes.
const OPERATORS: [&str; 6] = ["<=", ">=", "!=", "<", ">", "="];

impl Filter {
    /// Parses a filter of jobs with these columns.
    pub(super) fn new(text: &str, columns: &[Column]) -> Self {
        let mut filter = Self::default();
        for word in words(text, columns) {
            match condition(&word, columns) {
                Ok(condition) => filter.conditions.push(condition),
                Err((remark, condition)) => {
                    filter.conditions.extend(condition);
                    if !filter.remarks.contains(&remark) {
                        filter.remarks.push(remark);
                    }
                }
            }
        }
        filter
    }

    /// True if all conditions hold for a row.
    pub(super) fn fits(&self, row: &Row) -> bool {
        self.conditions.iter().all(|condition| condition.fits(row))
    }

    /// The remarks in a line, with the names that exist; `None` without remarks.
    pub(super) fn note(&self, columns: &[Column]) -> Option<String> {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).take(MAX_NAMES).collect();
        let more = if columns.len() > MAX_NAMES { ", …" } else { "" };
        (!self.remarks.is_empty()).then(|| format!("{}. Names: {}{more}", self.remarks.join("; "), names.join(", ")))
    }
}

impl Condition {
    fn fits(&self, row: &Row) -> bool {
        match self {
            Self::Contains(text) => {
                row.label.to_lowercase().contains(text)
                    || row.key.starts_with(text)
                    || row.details.to_lowercase().contains(text)
            }
            Self::OneOf { column, wanted, negated } => is_one_of(column.value(row), wanted) != *negated,
            Self::Compare { column, operator, limit } => {
                column.value(row).number().is_some_and(|value| match *operator {
                    "<" => value < *limit,
                    ">" => value > *limit,
                    "<=" => value <= *limit,
                    _ => value >= *limit,
                })
            }
        }
    }
}

/// A text in quotes at the beginning of `text`, with the quotes, if the word or an alternative ends behind it. `\"` in it is a quote.
fn in_quotes(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('"')?;
    let mut is_escaped = false;
    for (at, char) in inner.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => {
                let after = &inner[at + 1..];
                let is_end = after.chars().next().is_none_or(|next| next.is_whitespace() || next == '|');
                return is_end.then(|| &text[..at + 2]);
            }
            _ => {}
        }
    }
    None
}

/// The text that is in quotes.
fn unquoted(quoted: &str) -> String {
    let inner = quoted.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(quoted);
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars().peekable();
    while let Some(char) = chars.next() {
        // Other characters behind a backslash keep it.
        let escaped = chars.next_if(|next| char == '\\' && matches!(next, '"' | '\\'));
        text.push(escaped.unwrap_or(char));
    }
    text
}

/// A word without the quotes around all of it.
fn plain(word: &str) -> String {
    if in_quotes(word) == Some(word) { unquoted(word) } else { word.to_owned() }
}

/// The words of a filter: quotes keep a word, or a value after an operator, with blanks together. Blanks around the operator behind
/// the name of a column belong to its word.
fn words(text: &str, columns: &[Column]) -> Vec<String> {
    let mut raw_words = vec![String::new()];
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let Some(word) = raw_words.last_mut() else { break };
        let may_open = word.is_empty() || word.ends_with(['=', '<', '>', '|']);
        if let Some(quoted) = in_quotes(rest).filter(|_| may_open) {
            word.push_str(quoted);
            rest = &rest[quoted.len()..];
            continue;
        }
        if char.is_whitespace() {
            raw_words.push(String::new());
        } else {
            word.push(char);
        }
        rest = &rest[char.len_utf8()..];
    }
    raw_words.retain(|word| !word.is_empty());
    let is_name = |word: &str| {
        let lower = word.to_lowercase();
        filtered(columns).any(|column| names(column).iter().any(|name| name.to_lowercase() == lower))
    };
    let is_open = |word: &str| {
        let operator = OPERATORS.iter().find_map(|operator| word.strip_suffix(operator));
        operator.is_some_and(|name| is_name(name.strip_suffix(':').unwrap_or(name)))
    };
    let begins_with_operator = |word: &str| {
        let word = word.strip_prefix(':').unwrap_or(word);
        OPERATORS.iter().any(|operator| word.starts_with(operator))
    };
    let mut words: Vec<String> = Vec::new();
    for word in raw_words {
        match words.last_mut() {
            Some(last) if is_open(&plain(last)) || (is_name(&plain(last)) && begins_with_operator(&word)) => {
                *last = plain(last) + &word;
            }
            _ => words.push(word),
        }
    }
    words
}

/// The columns that a filter can name.
fn filtered(columns: &[Column]) -> impl Iterator<Item = &Column> {
    columns.iter().filter(|column| column.kind != Kind::Progress)
}

/// The names by which a filter finds a column: as in queries, as in the order, and its heading with and without the unit.
fn names(column: &Column) -> [String; 4] {
    let bare = column.heading.strip_suffix(')').and_then(|heading| heading.rsplit_once(" ("));
    let bare = bare.map_or(column.heading.as_str(), |(heading, _)| heading).to_owned();
    [column.name.clone(), column.id(), column.heading.clone(), bare]
}

/// The alternatives of a value, each with `true` if it is in quotes and means itself.
fn alternatives(value: &str) -> Vec<(String, bool)> {
    let mut alternatives = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        if let Some(quoted) = in_quotes(rest) {
            alternatives.push((unquoted(quoted), true));
            rest = &rest[quoted.len()..];
        } else {
            let end = rest.find('|').unwrap_or(rest.len());
            if end > 0 {
                alternatives.push((rest[..end].to_owned(), false));
            }
            rest = &rest[end..];
        }
        rest = rest.strip_prefix('|').unwrap_or(rest);
    }
    alternatives
}

/// Parses a word as a condition; otherwise returns the reason why it is not a condition, and the condition that replaces it.
fn condition(raw: &str, columns: &[Column]) -> Result<Condition, (String, Option<Condition>)> {
    let word = &*plain(raw);
    let contains = || Condition::Contains(word.to_lowercase());
    // Of the names that a word begins with, the longest one counts: names may have any letters.
    let mut longest: Option<(usize, &Column, &'static str, &str)> = None;
    for column in filtered(columns) {
        for name in names(column) {
            let Some((operator, wanted)) = after_name(word, &name) else { continue };
            if longest.is_none_or(|(length, ..)| name.len() > length) {
                longest = Some((name.len(), column, operator, wanted));
            }
        }
    }
    let Some((_, column, operator, wanted)) = longest else {
        let end = OPERATORS.iter().filter_map(|operator| word.find(operator)).min().filter(|end| *end > 0);
        let name = end.map(|end| word[..end].trim_end_matches(':'));
        return match name {
            Some(name) if !name.is_empty() && raw == word => {
                Err((format!("{name} is not an axis or metric of these jobs"), Some(contains())))
            }
            _ => Ok(contains()),
        };
    };
    let column = column.clone();
    let parts = alternatives(wanted);
    if parts.is_empty() {
        return Err((format!("a value is missing after {word}"), None));
    }
    match (operator, numeric(wanted)) {
        ("=" | "!=", _) => {
            // A value may have the letters that divide others.
            let wanted = [(wanted.to_owned(), true)].into_iter().chain(parts).collect();
            Ok(Condition::OneOf { column, wanted, negated: operator == "!=" })
        }
        (_, Some(limit)) => Ok(Condition::Compare { column, operator, limit }),
        (_, None) => Err((format!("{word} needs a number after {operator}"), None)),
    }
}

/// The operator and the value after a name with which a word begins.
fn after_name<'a>(word: &'a str, name: &str) -> Option<(&'static str, &'a str)> {
    let begin = word.get(..name.len())?;
    if begin.to_lowercase() != name.to_lowercase() {
        return None;
    }
    let rest = &word[name.len()..];
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    OPERATORS.iter().find_map(|operator| Some((*operator, rest.strip_prefix(operator)?)))
}

/// True if a value is one of the texts and ranges `a|b|1..2`. One end of a range may be open.
fn is_one_of(value: Cell<'_>, wanted: &[(String, bool)]) -> bool {
    let end = |text: &str, open: f64| if text.is_empty() { Some(open) } else { numeric(text) };
    let is_in = |part: &str| {
        let Some((low, high)) = part.split_once("..").filter(|ends| *ends != ("", "")) else { return false };
        let (low, high) = (end(low, f64::NEG_INFINITY), end(high, f64::INFINITY));
        low.zip(high).is_some_and(|(low, high)| value.number().is_some_and(|value| (low..=high).contains(&value)))
    };
    wanted.iter().any(|(part, is_literal)| is_alike(value, part) || (!is_literal && is_in(part)))
}

/// True if a value is equal to a text: as a number, or without regard to case.
fn is_alike(value: Cell<'_>, wanted: &str) -> bool {
    match (value, numeric(wanted)) {
        (Cell::Missing, _) | (Cell::Number(_), None) => false,
        (Cell::Number(value), Some(limit)) => value == limit || number(value, decimals(value)) == wanted,
        (Cell::Text(text), limit) => match (numeric(text), limit) {
            (Some(value), Some(limit)) => value == limit,
            _ => text.to_lowercase() == wanted.to_lowercase(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        render::page::Headings,
        terminal::rows::{axes_of, columns},
    };

    /// The jobs of the test of the pages (`tests/browser/dashboard.rs`): three seeds of four configurations.
    fn jobs() -> (Vec<Row>, Vec<Column>) {
        let mut rows = Vec::new();
        for lr in ["0.01", "0.1"] {
            for note in ["plain", "<b>x</b>"] {
                for seed in ["1", "2", "10"] {
                    let index = rows.len();
                    let point = format!("lr={lr},note={note},seed={seed}");
                    let loss = if lr == "0.01" { [0.11, 0.12, 0.13][index % 3] } else { 0.2 + index as f64 / 100.0 };
                    let state = if index == 7 { "done" } else { "cached" };
                    let (axes, label) = (axes_of(&point, &[]), format!("train/{point}"));
                    let (seconds, cells) = (Some(if index == 7 { 1.0 } else { 12.0 }), vec![Some(loss)]);
                    let (step, key) = ("train".to_owned(), format!("{index:02}abcdef"));
                    rows.push(Row { index, step, label, axes, state, key, seconds, cells, ..Row::default() });
                }
            }
        }
        let headings = Headings { columns: vec![("Loss (nats)".into(), "loss".into(), None)], shown: 1, left: 0 };
        let columns = columns(&rows, &headings);
        (rows, columns)
    }

    #[test]
    fn values_are_compared_as_in_the_pages() {
        let (rows, columns) = jobs();
        for (text, expected) in [
            ("", 12),
            ("seed=1", 4),
            ("seed=10", 4),
            ("lr=1e-2", 6),
            ("lr=0.1", 6),
            ("LR=0.01 seed!=2", 4),
            ("seed=1|10", 8),
            ("seed=2..10", 8),
            ("lr<0.1", 6),
            ("loss:<0.125", 4),
            ("metric:loss:<0.125", 4),
            ("axis:lr=0.1", 6),
            ("loss=0.120", 2),
            ("loss>=0.12", 10),
            ("state=cached", 11),
            ("state=done", 1),
            ("state!=done|failed", 11),
            ("note=<b>x</b> seed=1", 2),
            ("\"note=<b>x</b>\" seed=1", 2),
            ("plain", 6),
            ("07abc", 1),
            ("time>11", 11),
            ("momentum=1", 0),
            // Blanks around an operator, headings, open ranges, and values in quotes.
            ("loss < 0.125", 4),
            ("loss< 0.125 seed = 1", 2),
            ("\"Loss (nats)\" >= 0.12", 10),
            ("seed=2..", 8),
            ("lr=..0.05 seed=1", 2),
            ("note=\"<b>x</b>\"|plain", 12),
            ("note=\"plain|<b>x</b>\"", 0),
            ("note=\"\"", 0),
            ("plain <b>x</b>", 0),
            ("note=\"a \\\"b\\\"\"", 0),
        ] {
            let filter = Filter::new(text, &columns);
            let found = rows.iter().filter(|row| filter.fits(row)).count();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn words_without_a_meaning_have_a_remark() {
        let (rows, columns) = jobs();
        for (text, remark) in [
            ("momentum=1", "momentum is not an axis or metric of these jobs"),
            ("loss<", "a value is missing after loss<"),
            ("loss<x", "loss<x needs a number after <"),
        ] {
            let note = Filter::new(text, &columns).note(&columns).unwrap();
            assert!(
                note.starts_with(remark) && note.contains("Names: state, step, lr, note, seed, time, loss"),
                "{note}"
            );
        }
        assert_eq!(Filter::new("seed=1", &columns).note(&columns), None);
        // A word that is left out restricts nothing.
        assert!(rows.iter().all(|row| Filter::new("loss<", &columns).fits(row)));
        for hostile in ["\"", "=", "!", "::=", "é=1", "lr=", "\"\"", "ſtate=done", "a\u{1b}[2J=1"] {
            let _ = Filter::new(hostile, &columns).note(&columns);
        }
    }
}

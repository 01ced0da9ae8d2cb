//! Filters of jobs, as in the pages of `sweep ui` (`render/page/rows.js`): `lr=0.01` `seed!=2` `loss<2.5` `lr=0.001..0.1`
//! `state=failed|lost` and texts, of which all must hold.

use std::cmp::Ordering;

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
    OneOf { column: Column, wanted: Vec<Wanted>, negated: bool },
    /// The job has one of these tags.
    Tagged { wanted: Vec<Wanted>, negated: bool },
    /// The value is on one side of a limit.
    Compare { column: Column, operator: &'static str, limit: String },
}

/// A value that a filter is about.
#[derive(Debug, Clone)]
struct Wanted {
    text: String,
    /// True if the text was in quotes and means itself.
    is_literal: bool,
    /// True if a job has this value with the same capitals, so that these count.
    is_known: bool,
}

/// Operators, longer ones before their prefixes.
const OPERATORS: [&str; 6] = ["<=", ">=", "!=", "<", ">", "="];

impl Filter {
    /// Parses a filter of jobs with these columns.
    pub(super) fn new(text: &str, columns: &[Column], rows: &[Row]) -> Self {
        let mut filter = Self::default();
        for word in words(text, columns) {
            match condition(&word, columns, rows) {
                Ok(condition) => filter.conditions.push(condition),
                Err(reason) => {
                    let (remark, condition) = *reason;
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
            Self::OneOf { column, wanted, negated } => is_one_of(column, row, wanted) != *negated,
            Self::Tagged { wanted, negated } => {
                let has = |wanted: &Wanted| row.tags.iter().any(|tag| wanted.is(tag));
                wanted.iter().any(has) != *negated
            }
            Self::Compare { column, operator, limit } => {
                ordering(column.value(row), limit).is_some_and(|ordering| match *operator {
                    "<" => ordering.is_lt(),
                    ">" => ordering.is_gt(),
                    "<=" => ordering.is_le(),
                    _ => ordering.is_ge(),
                })
            }
        }
    }
}

/// The order of a value and a number, whole ones exactly; `None` if one is no number.
fn ordering(value: Cell<'_>, number: &str) -> Option<Ordering> {
    let whole = |text: &str| text.parse::<i128>().ok();
    if let Cell::Text(text) = value
        && let (Some(one), Some(other)) = (whole(text), whole(number))
    {
        return Some(one.cmp(&other));
    }
    value.number()?.partial_cmp(&numeric(number)?)
}

/// A text in quotes at the beginning of `text`, with the quotes, if `is_end` is true of what is behind it. `\"` in it is a quote.
fn in_quotes(text: &str, is_end: impl Fn(char) -> bool) -> Option<&str> {
    let inner = text.strip_prefix('"')?;
    let mut is_escaped = false;
    for (at, char) in inner.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return inner[at + 1..].chars().next().is_none_or(&is_end).then(|| &text[..at + 2]),
            _ => {}
        }
    }
    None
}

/// True of the characters at which an alternative of a value ends.
fn ends_value(char: char) -> bool {
    char.is_whitespace() || char == '|'
}

/// True of the characters at which a name ends.
fn ends_name(char: char) -> bool {
    ends_value(char) || matches!(char, ':' | '<' | '>' | '=' | '!')
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

/// A word without the quotes around all of it, or around the name before its operator.
fn plain(word: &str) -> String {
    match in_quotes(word, ends_name) {
        Some(quoted) if quoted == word => unquoted(word),
        Some(quoted) if begins_with_operator(&word[quoted.len()..]) => unquoted(quoted) + &word[quoted.len()..],
        _ => word.to_owned(),
    }
}

/// True if a text begins with an operator, before which a colon may be.
fn begins_with_operator(text: &str) -> bool {
    let text = text.strip_prefix(':').unwrap_or(text);
    OPERATORS.iter().any(|operator| text.starts_with(operator))
}

/// The words of a filter: quotes keep a word, or a value after an operator, with blanks together. Blanks around the operator behind
/// the name of a column belong to its word.
fn words(text: &str, columns: &[Column]) -> Vec<String> {
    let mut raw_words = vec![String::new()];
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let Some(word) = raw_words.last_mut() else { break };
        let quoted = match word.chars().last() {
            None => in_quotes(rest, ends_name),
            Some('=' | '<' | '>' | '|') => in_quotes(rest, ends_value),
            Some(_) => None,
        };
        if let Some(quoted) = quoted {
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

/// The names by which a filter finds a column: as in the order, as in queries, and its heading with and without the unit.
fn names(column: &Column) -> [String; 4] {
    let bare = column.heading.strip_suffix(')').and_then(|heading| heading.rsplit_once(" ("));
    let bare = bare.map_or(column.heading.as_str(), |(heading, _)| heading).to_owned();
    [column.id(), column.name.clone(), column.heading.clone(), bare]
}

/// The alternatives of a value, each with `true` if it is in quotes and means itself.
fn alternatives(value: &str) -> Vec<(String, bool)> {
    let mut alternatives = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        if let Some(quoted) = in_quotes(rest, ends_value) {
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

/// The column that a word is about.
struct Named<'a> {
    column: &'a Column,
    operator: &'static str,
    wanted: &'a str,
    /// The names of other columns that are meant as well as this one.
    others: Vec<&'a str>,
}

/// Finds the column that a word is about. Of the names that it begins with, the longest one counts: names may have any letters. Of several,
/// the one with the same capitals counts, then an identifier, a name and a heading.
fn named<'a>(word: &'a str, columns: &'a [Column]) -> Option<Named<'a>> {
    type Found<'f> = ((usize, bool, usize), String, &'f Column, &'static str, &'f str);
    let mut best: Option<Found<'_>> = None;
    let mut others: Vec<&str> = Vec::new();
    for column in filtered(columns) {
        for (kind, name) in names(column).into_iter().enumerate() {
            let Some((operator, wanted)) = after_name(word, &name) else { continue };
            let is_same = word.starts_with(&name);
            let rank = (name.len(), is_same, if is_same { 2_usize.saturating_sub(kind) } else { 0 });
            match &best {
                Some((known, other_name, other, ..)) if rank == *known => {
                    if *other != column && *other_name != name && !others.contains(&column.name.as_str()) {
                        others.push(&column.name);
                    }
                }
                Some((known, ..)) if rank < *known => {}
                _ => {
                    best = Some((rank, name, column, operator, wanted));
                    others.clear();
                }
            }
        }
    }
    best.map(|(_, _, column, operator, wanted)| Named { column, operator, wanted, others })
}

/// Parses a word as a condition; otherwise returns the reason why it is not a condition, and the condition that replaces it.
fn condition(raw: &str, columns: &[Column], rows: &[Row]) -> Result<Condition, Box<(String, Option<Condition>)>> {
    let word = &*plain(raw);
    let contains = || Condition::Contains(word.to_lowercase());
    let Some(Named { column, operator, wanted, others }) = named(word, columns) else {
        let end = OPERATORS.iter().filter_map(|operator| word.find(operator)).min().filter(|end| *end > 0);
        let name = end.map(|end| word[..end].trim_end_matches(':'));
        return match name {
            Some(name) if !name.is_empty() && raw == word => {
                Err(Box::new((format!("{name} is not an axis or metric of these jobs"), Some(contains()))))
            }
            _ => Ok(contains()),
        };
    };
    if !others.is_empty() {
        let names = [&[column.name.as_str()][..], &others].concat().join(" or ");
        return Err(Box::new((format!("{word} may be about {names}: capitals tell them apart"), None)));
    }
    let is_tag = column.kind == Kind::Tags;
    let is_known = |text: &str| {
        let has = |row: &Row| match column.value(row) {
            _ if is_tag => row.tags.iter().any(|tag| tag == text),
            Cell::Text(value) => value == text,
            _ => false,
        };
        rows.iter().any(has)
    };
    let of = |(text, is_literal): (String, bool)| Wanted { is_known: is_known(&text), text, is_literal };
    let parts = alternatives(wanted);
    if parts.is_empty() {
        return Err(Box::new((format!("a value is missing after {word}"), None)));
    }
    let negated = operator == "!=";
    match (operator, numeric(wanted)) {
        ("=" | "!=", _) if is_tag => Ok(Condition::Tagged { wanted: parts.into_iter().map(of).collect(), negated }),
        ("=" | "!=", _) => {
            // A value may have the letters that divide others.
            let wanted = [(wanted.to_owned(), true)].into_iter().chain(parts).map(of).collect();
            Ok(Condition::OneOf { column: column.clone(), wanted, negated })
        }
        _ if is_tag => Err(Box::new((format!("{} is compared with = or !=", column.name), None))),
        (_, Some(_)) => Ok(Condition::Compare { column: column.clone(), operator, limit: wanted.to_owned() }),
        (_, None) => Err(Box::new((format!("{word} needs a number after {operator}"), None))),
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

/// True if the value of a row is one of the texts and ranges `a|b|1..2`. One end of a range may be open.
fn is_one_of(column: &Column, row: &Row, wanted: &[Wanted]) -> bool {
    let value = column.value(row);
    let is_in = |part: &str| {
        let Some((low, high)) = part.split_once("..").filter(|ends| *ends != ("", "")) else { return false };
        let is_beyond = |end: &str, side: Ordering| {
            end.is_empty() || ordering(value, end).is_some_and(|ordering| ordering == side || ordering.is_eq())
        };
        value.number().is_some() && is_beyond(low, Ordering::Greater) && is_beyond(high, Ordering::Less)
    };
    wanted.iter().any(|part| is_alike(column, row, part) || (!part.is_literal && is_in(&part.text)))
}

impl Wanted {
    /// True if a text is this one; capitals count if a job has the text with the same ones.
    fn is(&self, text: &str) -> bool {
        text == self.text || (!self.is_known && text.to_lowercase() == self.text.to_lowercase())
    }

    /// Number of digits from the first one on that is not zero.
    fn digits(&self) -> usize {
        let mantissa = self.text.split(['e', 'E']).next().unwrap_or_default();
        let digits = mantissa.trim_start_matches(['-', '+', '0', '.']);
        digits.chars().filter(char::is_ascii_digit).count()
    }
}

/// True if a value is equal to a text: as a number, a metric also if it is rounded to the digits of the text, of which there are three at
/// least, or as it is shown.
fn is_alike(column: &Column, row: &Row, wanted: &Wanted) -> bool {
    match (column.value(row), numeric(&wanted.text)) {
        // The sign of tables for a value that a job does not have.
        (Cell::Missing, _) => wanted.text == "–",
        (Cell::Number(_), None) => false,
        (Cell::Number(value), Some(limit)) => {
            let digits = wanted.digits();
            let is_rounded = || digits >= 3 && format!("{value:.*e}", digits.min(100) - 1).parse::<f64>() == Ok(limit);
            value == limit || is_rounded() || [number(value, decimals(value)), column.text(row)].contains(&wanted.text)
        }
        (value @ Cell::Text(text), _) => match ordering(value, &wanted.text) {
            Some(ordering) => ordering.is_eq(),
            None => wanted.is(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        render::page::{Heading, Headings},
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
        let headings =
            Headings { columns: vec![Heading("Loss (nats)".into(), "loss".into(), None, false)], shown: 1, left: 0 };
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
            ("loss=–", 0),
            ("lr!=–", 12),
            // Blanks around an operator, headings, open ranges, and values in quotes.
            ("loss < 0.125", 4),
            ("loss< 0.125 seed = 1", 2),
            ("\"Loss (nats)\" >= 0.12", 10),
            ("\"Loss (nats)\">=0.12", 10),
            ("\"lr\"=0.1", 6),
            ("seed=2..", 8),
            ("lr=..0.05 seed=1", 2),
            ("note=\"<b>x</b>\"|plain", 12),
            ("note=\"plain|<b>x</b>\"", 0),
            ("note=\"\"", 0),
            ("plain <b>x</b>", 0),
            ("note=\"a \\\"b\\\"\"", 0),
        ] {
            let filter = Filter::new(text, &columns, &rows);
            let found = rows.iter().filter(|row| filter.fits(row)).count();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn names_and_values_that_differ_in_capitals_only_are_told_apart() {
        let row = |index: usize, mode: &str, tag: &str| Row {
            index,
            axes: vec![("mode".to_owned(), mode.to_owned())],
            cells: vec![Some(0.912_345 + index as f64 * 1e-6), Some(2.0)],
            state: "done",
            tags: vec![tag.to_owned()],
            ..Row::default()
        };
        let rows = [row(0, "none", "best"), row(1, "None", "Best"), row(2, "9007199254740993", "")];
        let heading = |name: &str| Heading(name.to_owned(), name.to_owned(), None, false);
        let columns = columns(&rows, &Headings { columns: vec![heading("loss"), heading("Loss")], shown: 2, left: 0 });
        for (text, expected) in [
            ("loss<1", 3),
            ("Loss<1", 0),
            ("metric:Loss<3", 3),
            ("mode=none", 1),
            // Whole numbers of any size are compared exactly.
            ("mode=9007199254740993", 1),
            ("mode>9007199254740992", 1),
            ("mode=9007199254740993..", 1),
            ("mode=NONE", 2),
            ("tag=best", 1),
            ("tag!=BEST", 1),
            ("tag=BEST|x", 2),
            ("mode=9007199254740992", 0),
            // A metric is compared with the digits that are given.
            ("loss=0.912", 3),
            ("loss=0.9123", 3),
            ("loss=0.912346", 1),
            ("loss=0.9124", 0),
        ] {
            let filter = Filter::new(text, &columns, &rows);
            assert_eq!(rows.iter().filter(|row| filter.fits(row)).count(), expected, "{text}");
        }
        let texts: Vec<String> = rows.iter().map(|row| columns[4].text(row)).collect();
        assert_eq!(texts, ["0.91234500", "0.91234600", "0.91234700"], "{columns:?}");
        for (text, remark) in [
            ("LOSS<2", "LOSS<2 may be about loss or Loss: capitals tell them apart"),
            ("tag<2", "tag is compared with = or !="),
        ] {
            let note = Filter::new(text, &columns, &rows).note(&columns).unwrap();
            assert!(note.starts_with(remark), "{note}");
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
            let note = Filter::new(text, &columns, &rows).note(&columns).unwrap();
            assert!(
                note.starts_with(remark) && note.contains("Names: state, step, lr, note, seed, time, loss"),
                "{note}"
            );
        }
        assert_eq!(Filter::new("seed=1", &columns, &rows).note(&columns), None);
        // A word that is left out restricts nothing.
        assert!(rows.iter().all(|row| Filter::new("loss<", &columns, &rows).fits(row)));
        for hostile in ["\"", "=", "!", "::=", "é=1", "lr=", "\"\"", "ſtate=done", "a\u{1b}[2J=1"] {
            let _ = Filter::new(hostile, &columns, &rows).note(&columns);
        }
    }
}

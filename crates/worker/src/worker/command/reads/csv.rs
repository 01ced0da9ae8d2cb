//! Follows a CSV file with a header line.

use std::{collections::BTreeMap, io, path::PathBuf};

use sweep_job::tasks::Number;

use super::{
    super::{
        report::{Appended, Follower, Line, Series},
        words::looks_like_number,
    },
    step_column, unread,
};
use crate::format::{fields, separator, shortened};

/// Longest row, in bytes, if it has several lines.
const MAX_ROW_LENGTH: usize = 1 << 20;
/// Longest part of a cell that is quoted, in characters.
const QUOTED: usize = 40;

/// Names of columns with the number of a repetition.
const SUBJECTS: [&str; 9] = ["client", "fold", "repeat", "repetition", "run", "seed", "split", "subject", "trial"];
/// Names of the columns of a table with a row for each metric.
const NAME_COLUMNS: [&str; 2] = ["metric", "measure"];
const VALUE_COLUMNS: [&str; 3] = ["value", "score", "result"];

/// Follower of a file.
pub(super) struct Csv {
    lines: Appended,
    table: Table,
}

/// State of the table.
#[derive(Default)]
struct Table {
    separator: u8,
    /// Names of the columns, each with true once it had a number.
    columns: Vec<(String, bool)>,
    /// The place of the column with the step.
    step: Option<usize>,
    /// True if each row has a metric: `metric,value`.
    has_names: bool,
    /// The latest word in each column of words.
    words: BTreeMap<usize, String>,
    /// Number of rows.
    rows: u64,
    /// Number of numbers in each column.
    counts: BTreeMap<usize, u64>,
    /// The comment before the header.
    comment: Vec<u8>,
    /// A row whose quoted field has not ended.
    begun: Vec<u8>,
}

/// The number in a cell. Where semicolons separate cells, numbers may have a decimal comma.
fn number(cell: &str, separator: u8) -> Option<Number> {
    let is_comma = |text: &str| text.matches(',').count() == 1 && !text.contains('.');
    Number::parse(cell)
        .or_else(|| Number::parse(&cell.replace(',', ".")).filter(|_| separator == b';' && is_comma(cell)))
}

/// Reads a row with the name and the value of a metric.
fn named(cells: &[String], separator: u8, step: u64, sink: &mut Series) {
    let [name, value] = cells else { return };
    match number(value, separator) {
        Some(number) => sink.point(step, name.trim(), number.value, number.unit),
        None => sink.once(&format!("text of {name}"), || {
            let (name, value) = (shortened(name, QUOTED), shortened(value, QUOTED));
            format!(
                "`{}` is `{}` in the CSV file, which is not a number: no value",
                name.escape_debug(),
                value.escape_debug()
            )
        }),
    }
}

impl Csv {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { lines: Appended::new(path), table: Table::default() }
    }
}

impl Follower for Csv {
    fn poll(&mut self, sink: &mut Series) -> io::Result<()> {
        self.lines.read(&mut |line| self.table.line(&line, sink)).map(drop)
    }

    fn finish(&mut self, sink: &mut Series) -> io::Result<()> {
        while self.lines.read(&mut |line| self.table.line(&line, sink))? {}
        self.lines.rest(&mut |line| self.table.line(&line, sink));
        Ok(())
    }

    fn silence(&self, series: &Series) -> Vec<String> {
        unread("csv", &self.lines, series)
    }
}

impl Table {
    fn line(&mut self, line: &Line<'_>, sink: &mut Series) {
        let line = match line {
            Line::Anew => {
                *self = Self::default();
                return sink.restart();
            }
            Line::Whole(line) => line.strip_suffix(b"\r").unwrap_or(line),
            Line::TooLong => return sink.once("line", || "a line of the CSV file is too long: skipped".into()),
        };
        if self.begun.is_empty() {
            self.begun.extend_from_slice(line);
        } else if self.begun.len() + line.len() < MAX_ROW_LENGTH {
            self.begun.push(b'\n');
            self.begun.extend_from_slice(line);
        } else {
            self.begun.clear();
            return sink.once("row", || "a row of the CSV file is too long: skipped".into());
        }
        // After an odd number of quotation marks, the row continues in the next line.
        if self.begun.iter().fold(false, |is_open, byte| is_open != (*byte == b'"')) {
            return;
        }
        let row = std::mem::take(&mut self.begun);
        if !row.trim_ascii().is_empty() {
            self.row(&row, sink);
        }
    }

    fn row(&mut self, row: &[u8], sink: &mut Series) {
        if self.columns.is_empty() {
            if row.starts_with(b"#") {
                self.comment = row.trim_ascii_start()[1..].trim_ascii().to_vec();
                return;
            }
            self.separator = separator(row);
            let cells = fields(row, self.separator);
            if self.comment.is_empty() || cells.iter().any(|cell| Number::parse(cell).is_none()) {
                return self.header(cells, sink);
            }
            // NumPy writes the header as a comment.
            let names = std::mem::take(&mut self.comment);
            self.header(fields(&names, self.separator), sink);
        }
        let cells = fields(row, self.separator);
        // A program that adds a column writes the header again.
        let is_column = |cell: &String| self.columns.iter().any(|(name, _)| name == cell);
        if cells.iter().any(is_column) && cells.iter().all(|cell| Number::parse(cell).is_none()) {
            return self.header(cells, sink);
        }
        self.rows += 1;
        // R writes the names of rows, whose column has no name.
        let has_row_name = row.starts_with(b"\"") || Number::parse(&cells[0]).is_none();
        if self.rows == 1 && cells.len() == self.columns.len() + 1 && has_row_name {
            self.columns.insert(0, (String::new(), false));
            self.step = self.step.map(|place| place + 1);
            self.has_names = false;
        }
        if cells.iter().skip(self.columns.len()).any(|cell| !cell.trim().is_empty()) {
            let (cells, columns, row) = (cells.len(), self.columns.len(), self.rows);
            return sink.once("cells", || {
                format!("row {row} of the CSV file has {cells} cells and its header {columns}: row skipped; a number has a decimal point, no comma")
            });
        }
        let Some(step) = self.step_of(&cells, sink) else { return };
        sink.at(step);
        if self.has_names {
            return named(&cells, self.separator, step, sink);
        }
        self.compare_words(&cells, sink);
        let (row, counts) = (self.rows, &mut self.counts);
        for (place, ((name, is_number), cell)) in self.columns.iter_mut().zip(&cells).enumerate() {
            if Some(place) == self.step || name.is_empty() {
                continue;
            }
            match number(cell, self.separator) {
                Some(number) => {
                    *is_number = true;
                    *counts.entry(place).or_default() += 1;
                    sink.point(step, name, number.value, number.unit);
                }
                // Rows of which each has another empty cell, as some loggers write, have no number in every row before.
                None if cell.trim().is_empty() && counts.get(&place) == Some(&(row - 1)) && row > 1 => {
                    sink.once(&format!("empty {name}"), || {
                        format!("`{name}` is empty in row {row} of the CSV file, after a number in each row before")
                    });
                }
                // Empty cells and texts are not values.
                None if !cell.trim().is_empty() && (*is_number || looks_like_number(cell.trim())) => {
                    sink.once(&format!("text of {name}"), || {
                        let cell = shortened(cell, QUOTED);
                        format!(
                            "`{name}` is `{}` in row {row} of the CSV file, which is not a number: no value",
                            cell.escape_debug()
                        )
                    });
                }
                None => {}
            }
        }
    }

    /// The step of a row; `None`, and a notice, for a row that is skipped.
    fn step_of(&mut self, cells: &[String], sink: &mut Series) -> Option<u64> {
        let Some(cell) = self.step.and_then(|place| cells.get(place)) else { return Some(self.rows) };
        if let Some(step) = Number::parse(cell).and_then(Number::step) {
            return Some(step);
        }
        if self.rows == 1 && Number::parse(cell).is_some() {
            self.step = None;
            sink.once("step", || {
                format!("the step `{}` in the CSV file is not an integer from 0: rows are counted instead", cell.trim())
            });
            return Some(self.rows);
        }
        sink.once("step", || {
            let cell = shortened(cell, QUOTED);
            format!("the step `{}` in the CSV file is not an integer from 0: row skipped", cell.escape_debug())
        });
        None
    }

    /// Reports that rows are about different things, of which only the last one counts.
    fn compare_words(&mut self, cells: &[String], sink: &mut Series) {
        let is_word = |cell: &str| {
            cell.chars().any(char::is_alphabetic)
                && cell.chars().all(|char| char.is_alphanumeric() || "_-".contains(char))
        };
        for (place, ((name, is_number), cell)) in self.columns.iter().zip(cells).enumerate() {
            let cell = cell.trim();
            // A number names a seed or a fold, too.
            let is_subject = SUBJECTS.iter().any(|subject| name.eq_ignore_ascii_case(subject)) && !cell.is_empty();
            let is_text = !*is_number && !name.is_empty() && is_word(cell) && Number::parse(cell).is_none();
            if Some(place) == self.step || !is_text && !is_subject {
                continue;
            }
            let earlier = self.words.insert(place, cell.to_owned());
            if let Some(earlier) = earlier.filter(|earlier| earlier != cell) {
                sink.once(&format!("words of {name}"), || {
                    format!(
                        "rows of the CSV file are about different `{name}` (`{}`, `{}`), and the last one counts: write a file or a column for each",
                        shortened(&earlier, QUOTED),
                        shortened(cell, QUOTED)
                    )
                });
            }
        }
    }

    fn header(&mut self, columns: Vec<String>, sink: &mut Series) {
        let names = columns.into_iter().map(|name| name.trim().trim_start_matches('\u{feff}').to_owned());
        self.columns = names.map(|name| (name, false)).collect();
        if self.columns.iter().all(|(name, _)| number(name, self.separator).is_some()) {
            self.columns.iter_mut().for_each(|(name, _)| name.clear());
            sink.once("header", || "the first line of the CSV file has numbers in place of names of columns".into());
        }
        let is_one = |place: usize, names: &[&str]| {
            self.columns.get(place).is_some_and(|(name, _)| names.iter().any(|known| name.eq_ignore_ascii_case(known)))
        };
        self.has_names = self.columns.len() == 2 && is_one(0, &NAME_COLUMNS) && is_one(1, &VALUE_COLUMNS);
        self.words.clear();
        self.step = step_column(|| self.columns.iter().map(|(name, _)| name.as_str()));
    }
}
